//! The driver's files for computing: libraries of exactly the running version, each under its soname, and `nvidia-smi`.
use crate::root::Root;
use object::read::elf::{Dyn, ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The multiarch triplet of this machine, as Debian names it.
pub const TRIPLET: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
/// The ELF machine of this machine's libraries.
const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
/// The libraries that computing needs, without `lib` and version. A driver ships those of its time; only the first two are in all.
const COMPUTE: [&str; 11] = [
    "cuda",
    "nvidia-ml",
    "nvidia-ptxjitcompiler",
    "nvidia-nvvm",
    "nvidia-gpucomp",
    "cudadebugger",
    "nvidia-cfg",
    "nvidia-opencl",
    "nvidia-allocator",
    "nvidia-pkcs11",
    "nvidia-pkcs11-openssl3",
];
const REQUIRED: [&str; 2] = ["libcuda.so.1", "libnvidia-ml.so.1"];
const SMI: [&str; 3] = ["/usr/bin/nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi", "/opt/bin/nvidia-smi"];

/// The files that a container needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFiles {
    /// Soname and the file on the host, sorted.
    pub libraries: BTreeMap<String, PathBuf>,
    /// `nvidia-smi` on the host, where it is installed.
    pub smi: Option<PathBuf>,
}

/// Why the driver's files cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A library that every container needs is not there.
    #[error(
        "no {soname} of driver version {version} below {root}; found versions: {found}; install the matching user-space driver, or name its root (--driver-root)"
    )]
    Missing {
        /// The library's soname.
        soname: &'static str,
        /// The running driver's version.
        version: String,
        /// The driver root.
        root: PathBuf,
        /// Other versions of the library that are there.
        found: String,
    },
}

/// Folders that hold driver libraries, as seen within a root.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib64"), "/lib64".into()];
    for lib in ["/usr/lib", "/lib"] {
        let triplet = Path::new(lib).join(TRIPLET);
        folders.push(triplet.join("nvidia/current"));
        folders.push(triplet);
    }
    folders.extend(["/usr/lib".into(), "/usr/lib/nvidia".into(), "/usr/local/nvidia/lib64".into()]);
    folders
}

/// A library by its file name in any known folder, as a host path without links.
#[must_use]
pub fn library(root: &Root, name: &str) -> Option<PathBuf> {
    folders().iter().find_map(|folder| Some(root.host(&root.resolve(&folder.join(name))?)))
}

/// The driver's files of exactly this version.
///
/// # Errors
/// [`FilesError::Missing`] where a required library is not there in that version.
pub fn find(driver_root: &Path, version: &str) -> Result<DriverFiles, FilesError> {
    let root = Root::new(driver_root);
    let mut libraries = BTreeMap::new();
    for folder in folders() {
        for name in COMPUTE {
            let inside = folder.join(format!("lib{name}.so.{version}"));
            let Some(real) = root.resolve(&inside) else { continue };
            let host = root.host(&real);
            // Foreign word sizes lie beside ours on multiarch hosts; a soname that is taken came from an earlier folder.
            if let Some(soname) = soname(&host) {
                libraries.entry(soname).or_insert(host);
            }
        }
    }
    for soname in REQUIRED {
        if !libraries.contains_key(soname) {
            let found = versions(&root, soname.strip_suffix('1').unwrap_or(soname));
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            return Err(FilesError::Missing {
                soname,
                version: version.to_owned(),
                root: driver_root.to_owned(),
                found,
            });
        }
    }
    let smi = SMI.iter().find_map(|path| Some(root.host(&root.resolve(Path::new(path))?)));
    Ok(DriverFiles { libraries, smi })
}

/// The versions of a library that are there, by file name.
fn versions(root: &Root, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for folder in folders() {
        let Ok(entries) = std::fs::read_dir(root.host(&folder)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(version) = name.strip_prefix(prefix).filter(|version| version.contains('.')) {
                found.push(version.to_owned());
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The `DT_SONAME` of a 64-bit library of this machine; `None` for anything else.
fn soname(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let file: ElfFile64<'_, Endianness> = ElfFile64::parse(&*bytes).ok()?;
    let (header, endian) = (file.elf_header(), file.endian());
    if header.e_machine(endian) != MACHINE {
        return None;
    }
    let sections = header.sections(endian, &*bytes).ok()?;
    let (entries, link) = sections.dynamic(endian, &*bytes).ok()??;
    let strings = sections.section(link).ok()?;
    let strings = strings.strings(endian, &*bytes).ok()?.unwrap_or_default();
    let entry = entries.iter().find(|entry| entry.tag(endian) == elf::DT_SONAME)?;
    let name = strings.get(entry.val32(endian)?).ok()?;
    let name = std::str::from_utf8(name).ok()?;
    let plain = !name.is_empty() && !name.contains('/');
    plain.then(|| name.to_owned())
}
