//! Driver roots of every known layout, made of libraries of a few hundred bytes that hold a soname and nothing else.
use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const VERSION: &str = "550.163.01";
const I386: u16 = 3;

fn machine() -> u16 {
    MACHINE.0
}

/// A 64-bit ELF file with a dynamic section that names `soname`.
fn elf(machine: u16, soname: &str) -> Vec<u8> {
    let strings = [b"\0", soname.as_bytes(), b"\0"].concat();
    let dynamic: Vec<u8> = [14_u64, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let sections = 64 + strings.len() + dynamic.len();
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([3_u16, machine].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(1_u32.to_le_bytes());
    file.extend([0, 0, sections as u64].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    file.extend([64_u16, 0, 0, 64, 3, 1].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(&strings);
    file.extend(&dynamic);
    let mut section = |kind: u32, offset: usize, size: usize, link: u32, entry: u64| {
        file.extend([0, kind].iter().flat_map(|word| word.to_le_bytes()));
        file.extend([0, 0, offset as u64, size as u64].iter().flat_map(|word| word.to_le_bytes()));
        file.extend([link, 0].iter().flat_map(|word| word.to_le_bytes()));
        file.extend([1, entry].iter().flat_map(|word| word.to_le_bytes()));
    };
    section(0, 0, 0, 0, 0);
    section(3, 64, strings.len(), 0, 0);
    section(6, 64 + strings.len(), dynamic.len(), 1, 16);
    file
}

struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    fn put(&self, inside: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn library(&self, folder: &str, name: &str, version: &str) -> PathBuf {
        self.put(&format!("{folder}/lib{name}.so.{version}"), &elf(machine(), &format!("lib{name}.so.1")))
    }

    fn link(&self, inside: &str, target: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn find(&self) -> Result<DriverFiles, FilesError> {
        find(self.0.path(), VERSION)
    }
}

#[test]
fn a_split_layout_with_alternatives_is_found_whole() {
    let tree = Tree::new();
    let (lib, series) = (format!("usr/lib/{TRIPLET}"), format!("usr/lib/{TRIPLET}/nvidia/current"));
    let cuda = tree.library(&series, "cuda", VERSION);
    let ml = tree.library(&series, "nvidia-ml", VERSION);
    let gpucomp = tree.library(&lib, "nvidia-gpucomp", VERSION);
    let smi = tree.put("usr/lib/nvidia/current/nvidia-smi", b"x");
    // Links of Debian are absolute, and absolute within the root.
    tree.link("usr/bin/nvidia-smi", "/etc/alternatives/nvidia-smi");
    tree.link("etc/alternatives/nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi");
    tree.link(&format!("{lib}/libcuda.so.{VERSION}"), "/etc/alternatives/cuda");
    tree.link("etc/alternatives/cuda", &format!("/{series}/libcuda.so.{VERSION}"));
    tree.link("lib", "usr/lib");
    tree.library(&lib, "nvidia-eglcore", VERSION);
    let found = tree.find().unwrap();
    let names: Vec<_> = found.libraries.iter().map(|(soname, path)| (soname.as_str(), path.clone())).collect();
    assert_eq!(
        names,
        [("libcuda.so.1", cuda), ("libnvidia-gpucomp.so.1", gpucomp), ("libnvidia-ml.so.1", ml)],
        "links are followed inside the root, and graphics libraries are not for computing"
    );
    assert_eq!(found.smi, Some(smi));
}

#[test]
fn only_the_running_version_and_only_this_machine_count() {
    let tree = Tree::new();
    let cuda = tree.library("usr/lib64", "cuda", VERSION);
    tree.library("usr/lib64", "nvidia-ml", VERSION);
    tree.library("usr/lib64", "cuda", "470.57.02");
    tree.library("usr/lib64", "nvidia-nvvm", "470.57.02");
    let foreign = elf(I386, "libnvidia-cfg.so.1");
    tree.put(&format!("usr/lib64/libnvidia-cfg.so.{VERSION}"), &foreign);
    let mut narrow = elf(machine(), "libnvidia-opencl.so.1");
    narrow[4] = 1;
    tree.put(&format!("usr/lib64/libnvidia-opencl.so.{VERSION}"), &narrow);
    let found = tree.find().unwrap();
    assert_eq!(found.libraries.keys().collect::<Vec<_>>(), ["libcuda.so.1", "libnvidia-ml.so.1"]);
    assert_eq!(found.libraries["libcuda.so.1"], cuda);
    assert_eq!(found.smi, None);
}

#[test]
fn an_old_series_has_a_folder_of_its_own() {
    let tree = Tree::new();
    let series = format!("usr/lib/{TRIPLET}/nvidia/tesla-550");
    let cuda = tree.library(&series, "cuda", VERSION);
    tree.library(&series, "nvidia-ml", VERSION);
    assert_eq!(tree.find().unwrap().libraries["libcuda.so.1"], cuda);
}

#[test]
fn another_version_is_named() {
    let tree = Tree::new();
    tree.library("usr/lib64", "cuda", "535.261.03");
    tree.library("usr/lib64", "nvidia-ml", VERSION);
    let error = tree.find().unwrap_err().to_string();
    assert!(error.contains("libcuda.so.1") && error.contains(VERSION) && error.contains("535.261.03"), "{error}");
    let error = Tree::new().find().unwrap_err().to_string();
    assert!(error.contains("found versions: none"), "{error}");
}

#[test]
fn a_damaged_library_is_none() {
    let tree = Tree::new();
    tree.library("usr/lib64", "cuda", VERSION);
    let whole = elf(machine(), "libnvidia-ml.so.1");
    let inside = format!("usr/lib64/libnvidia-ml.so.{VERSION}");
    for length in 0..whole.len() {
        tree.put(&inside, &whole[..length]);
        assert!(matches!(tree.find(), Err(FilesError::Missing { .. })), "cut at {length}");
    }
    for soname in ["../../etc/libx.so", "", "lib/../x", "x.so"] {
        tree.put(&inside, &elf(machine(), soname));
        assert!(matches!(tree.find(), Err(FilesError::Missing { .. })), "{soname:?}");
    }
    tree.put(&inside, &whole);
    assert_eq!(tree.find().unwrap().libraries.len(), 2);
}

#[test]
fn a_root_that_no_cdi_file_can_name_is_refused() {
    let tree = Tree::new();
    let root = tree.0.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    for name in ["cuda", "nvidia-ml"] {
        let path = root.join(format!("usr/lib64/lib{name}.so.{VERSION}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, elf(machine(), &format!("lib{name}.so.1"))).unwrap();
    }
    assert!(matches!(find(&root, VERSION), Err(FilesError::NotText { .. })));
}

#[test]
fn nvml_is_not_taken_from_a_folder_of_another_word_size() {
    let tree = Tree::new();
    tree.put("usr/lib64/libnvidia-ml.so.1", &elf(I386, "libnvidia-ml.so.1"));
    let root = Root::new(tree.0.path());
    assert_eq!(library(&root, "libnvidia-ml.so.1"), None);
    let right = tree.put("usr/lib/nvidia/libnvidia-ml.so.1", &elf(machine(), "libnvidia-ml.so.1"));
    assert_eq!(library(&root, "libnvidia-ml.so.1"), Some(right));
}
