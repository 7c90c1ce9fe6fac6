//! Driver roots of every known layout, made of libraries of a few hundred bytes that hold a soname and nothing else.
use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const VERSION: &str = "550.163.01";
const I386: u16 = 3;

fn machine() -> u16 {
    elf::MACHINE.0
}

/// A 64-bit ELF file with a dynamic section that names `soname`.
fn elf(machine: u16, soname: &str) -> Vec<u8> {
    needing(machine, soname, &[])
}

/// The same, and what it needs.
fn needing(machine: u16, soname: &str, needed: &[&str]) -> Vec<u8> {
    let mut strings = [b"\0", soname.as_bytes(), b"\0"].concat();
    let mut words = vec![14_u64, 1];
    for name in needed {
        words.extend([1, strings.len() as u64]);
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    words.extend([0, 0]);
    let dynamic: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
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

fn find_in(sources: &Sources, root: &Path) -> Result<DriverFiles, FilesError> {
    find(sources, &Place::new(root, &sources.library_paths), VERSION)
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
        self.find_for(Profile::Compute)
    }

    fn find_for(&self, profile: Profile) -> Result<DriverFiles, FilesError> {
        find_in(&self.sources(profile), self.0.path())
    }

    /// Nothing of the machine's own.
    fn sources(&self, profile: Profile) -> Sources {
        let (sys_root, proc_root) = (self.path("sys"), self.path("proc"));
        Sources { driver_root: self.0.path().to_owned(), sys_root, proc_root, profile, ..Sources::default() }
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
    assert_eq!(found.others, BTreeMap::from([("/usr/bin/nvidia-smi".to_owned(), smi)]));
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
    assert_eq!(found.others, BTreeMap::new());
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
    // A library of another word size is no version that could be used.
    tree.put("usr/lib/libcuda.so.390.1", &elf(I386, "libcuda.so.1"));
    assert!(!tree.find().unwrap_err().to_string().contains("390.1"));
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
    let sources = tree.sources(Profile::Compute);
    assert!(matches!(find_in(&sources, &root), Err(FilesError::NotText { .. })));
}

#[test]
fn nvml_is_not_taken_from_a_folder_of_another_word_size() {
    let tree = Tree::new();
    tree.put("usr/lib64/libnvidia-ml.so.1", &elf(I386, "libnvidia-ml.so.1"));
    let library = |tree: &Tree| Place::new(tree.0.path(), &[]).library("libnvidia-ml.so.1");
    assert_eq!(library(&tree), None);
    let right = tree.put("usr/lib/nvidia/libnvidia-ml.so.1", &elf(machine(), "libnvidia-ml.so.1"));
    assert_eq!(library(&tree), Some(right));
}

#[test]
fn what_a_library_needs_of_the_driver_comes_along() {
    let tree = Tree::new();
    tree.library("usr/lib64", "cuda", VERSION);
    tree.library("usr/lib64", "nvidia-ml", VERSION);
    let glsi = format!("libnvidia-glsi.so.{VERSION}");
    // Full sonames, as eglcore and its kin have them; the second in a folder of its own.
    tree.put("usr/lib64/libEGL_nvidia.so.0", b"no library");
    let egl = needing(machine(), "libEGL_nvidia.so.0", &["libc.so.6", &glsi]);
    tree.put(&format!("usr/lib64/libEGL_nvidia.so.{VERSION}"), &egl);
    tree.put(&format!("usr/lib/{TRIPLET}/{glsi}"), &needing(machine(), &glsi, &["libnvidia-newcore.so.2"]));
    tree.put(&format!("usr/lib/libnvidia-newcore.so.{VERSION}"), &elf(machine(), "libnvidia-newcore.so.2"));
    assert_eq!(tree.find().unwrap().libraries.len(), 2, "graphics is not for computing");
    let found = tree.find_for(Profile::Graphics).unwrap();
    for name in ["libEGL_nvidia.so.0", &glsi, "libnvidia-newcore.so.2"] {
        assert!(found.libraries.contains_key(name), "{name}");
    }
    assert_eq!(found.warnings, Vec::<String>::new());
}

#[test]
fn what_is_missing_of_the_driver_is_warned_of_or_refused() {
    let tree = Tree::new();
    tree.library("usr/lib64", "cuda", VERSION);
    tree.library("usr/lib64", "nvidia-ml", VERSION);
    let opencl = needing(machine(), "libnvidia-opencl.so.1", &["libc.so.6", "libnvidia-gpucomp.so.1"]);
    tree.put(&format!("usr/lib64/libnvidia-opencl.so.{VERSION}"), &opencl);
    let found = tree.find().unwrap();
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].contains("libnvidia-opencl.so.1 needs libnvidia-gpucomp.so.1"), "{:?}", found.warnings);
    // CUDA itself, by way of another one.
    let cuda = needing(machine(), "libcuda.so.1", &["libnvidia-opencl.so.1"]);
    tree.put(&format!("usr/lib64/libcuda.so.{VERSION}"), &cuda);
    let error = tree.find().unwrap_err();
    assert!(matches!(&error, FilesError::Incomplete { needs, .. } if needs == "libnvidia-gpucomp.so.1"), "{error}");
}

#[test]
fn names_that_the_driver_ships_come_along() {
    let tree = Tree::new();
    tree.library("usr/lib64", "nvidia-ml", VERSION);
    let cuda = tree.library("usr/lib64", "cuda", VERSION);
    let glx = tree.put(&format!("usr/lib64/libGLX_nvidia.so.{VERSION}"), &elf(machine(), "libGLX_nvidia.so.0"));
    tree.link("usr/lib64/libcuda.so.1", &format!("libcuda.so.{VERSION}"));
    tree.link("usr/lib64/libcuda.so", "libcuda.so.1");
    tree.link("usr/lib64/libGLX_indirect.so.0", &format!("libGLX_nvidia.so.{VERSION}"));
    tree.link("usr/lib64/libnvidia-ml.so", "/usr/lib64/elsewhere");
    let allocator = tree.library("usr/lib64", "nvidia-allocator", VERSION);
    tree.link("usr/lib64/gbm/nvidia-drm_gbm.so", &format!("../libnvidia-allocator.so.{VERSION}"));
    let vdpau =
        tree.put(&format!("usr/lib64/vdpau/libvdpau_nvidia.so.{VERSION}"), &elf(machine(), "libvdpau_nvidia.so.1"));
    let found = tree.find_for(Profile::Graphics).unwrap();
    let of = |name: &str| found.libraries.get(name).cloned();
    assert_eq!((of("libcuda.so"), of("libcuda.so.1")), (Some(cuda.clone()), Some(cuda)));
    assert_eq!(of("libGLX_indirect.so.0"), Some(glx));
    assert_eq!(of("libnvidia-ml.so"), None, "it leads nowhere");
    assert_eq!(of("gbm/nvidia-drm_gbm.so"), Some(allocator));
    assert_eq!(of("vdpau/libvdpau_nvidia.so.1"), Some(vdpau));
}

#[test]
fn folders_come_from_the_search_path_and_from_the_cache_too() {
    let tree = Tree::new();
    let ml = tree.library("nix/store/abc/lib", "nvidia-ml", VERSION);
    let cuda = tree.library("opt/odd", "cuda", VERSION);
    let mut sources = tree.sources(Profile::Compute);
    assert!(matches!(find_in(&sources, tree.0.path()), Err(FilesError::Missing { .. })));
    sources.library_paths = vec!["/opt/odd".into(), "/nix/store/abc/lib".into()];
    let found = find_in(&sources, tree.0.path()).unwrap();
    assert_eq!((&found.libraries["libcuda.so.1"], &found.libraries["libnvidia-ml.so.1"]), (&cuda, &ml));
    sources.library_paths.push("/opt/none".into());
    let error = find_in(&sources, tree.0.path()).unwrap_err();
    assert!(matches!(&error, FilesError::SearchPath { path, .. } if path.ends_with("none")), "{error}");
    sources.library_paths.clear();
    // Nothing that is no cache does harm.
    for bytes in [&b""[..], b"glibc-ld.so.cache1.1", &[0xff; 100]] {
        tree.put("etc/ld.so.cache", bytes);
        assert!(matches!(find_in(&sources, tree.0.path()), Err(FilesError::Missing { .. })));
    }
}

#[test]
fn firmware_is_the_folder_of_the_version() {
    let tree = Tree::new();
    for name in ["cuda", "nvidia-ml"] {
        tree.library("usr/lib64", name, VERSION);
    }
    let folder = format!("lib/firmware/nvidia/{VERSION}");
    tree.put(&format!("{folder}/readme"), b"");
    let firmware = |tree: &Tree| tree.find().unwrap().others.remove(&format!("/{folder}"));
    assert_eq!(firmware(&tree), None);
    tree.put(&format!("{folder}/ucodes_ga10x.bin"), b"");
    assert_eq!(firmware(&tree), Some(tree.path(&folder)));
    // The kernel looks at a folder of its own first, which of a driver container is told with the container's root.
    let custom = tree.put(&format!("fw/nvidia/{VERSION}/gsp_ga10x.bin"), b"");
    tree.put("sys/module/firmware_class/parameters/path", format!("{}/fw\n", tree.0.path().display()).as_bytes());
    assert_eq!(firmware(&tree).as_deref(), custom.parent());
}

#[test]
fn configuration_and_sockets_are_given_when_asked_for() {
    let tree = Tree::new();
    for name in ["cuda", "nvidia-ml"] {
        tree.library("usr/lib64", name, VERSION);
    }
    tree.put("etc/OpenCL/vendors/nvidia.icd", b"");
    tree.put("usr/share/vulkan/icd.d/nvidia_icd.json", b"{}");
    tree.put("usr/share/glvnd/egl_vendor.d/10_nvidia.json", b"{}");
    let socket = tree.put("run/nvidia-persistenced/socket", b"");
    let paths = |files: DriverFiles| files.others.into_keys().collect::<Vec<_>>();
    assert_eq!(paths(tree.find().unwrap()), ["/etc/OpenCL/vendors/nvidia.icd"]);
    let graphics = paths(tree.find_for(Profile::Graphics).unwrap());
    let vulkan = "/etc/vulkan/icd.d/nvidia_icd.json";
    assert_eq!(graphics, ["/etc/OpenCL/vendors/nvidia.icd", vulkan, "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"]);
    let mut sources = tree.sources(Profile::Compute);
    sources.sockets = vec![Socket::Persistenced, Socket::Mps];
    let found = find_in(&sources, tree.0.path()).unwrap();
    assert_eq!(found.sockets, BTreeMap::from([("/run/nvidia-persistenced/socket".to_owned(), socket)]));
    assert!(found.warnings[0].contains("/tmp/nvidia-mps"), "{:?}", found.warnings);
}
