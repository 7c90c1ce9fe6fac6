//! The driver's files for computing: libraries of exactly the running version, each under its soname, and `nvidia-smi`.
use crate::root::Root;
use object::read::elf::{Dyn, FileHeader, SectionHeader};
use object::{Endianness, ReadCache, elf};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The multiarch triplet of this machine, as Debian names it.
pub const TRIPLET: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
/// The ELF machine of this machine's libraries.
const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
/// The libraries that computing needs, without `lib` and version. A driver ships those of its time; only the first two are in all.
const COMPUTE: [&str; 12] = [
    "cuda",
    "nvidia-ml",
    "nvidia-ptxjitcompiler",
    "nvidia-nvvm",
    "nvidia-compiler",
    "nvidia-gpucomp",
    "cudadebugger",
    "nvidia-cfg",
    "nvidia-opencl",
    "nvidia-allocator",
    "nvidia-pkcs11",
    "nvidia-pkcs11-openssl3",
];
/// Without these no program computes or counts cards.
const REQUIRED: [&str; 2] = ["libcuda.so.1", "libnvidia-ml.so.1"];
/// Where `nvidia-smi` is: as a package or the vendor's installer puts it, in Debian's folder behind its link, on Container-Optimized OS.
const SMI: [&str; 3] = ["/usr/bin/nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi", "/opt/bin/nvidia-smi"];

/// The files that a container needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// A CDI file can only say text.
    #[error("the path {path:?} is not UTF-8, so no CDI file can name it; use another driver root (--driver-root)")]
    NotText {
        /// The file.
        path: PathBuf,
    },
}

/// Folders that hold driver libraries, as seen within a root. Debian keeps each driver series in a folder of its own below `nvidia/`.
fn folders(root: &Root) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib64"), "/lib64".into()];
    for lib in ["/usr/lib", "/lib"] {
        let triplet = Path::new(lib).join(TRIPLET);
        let series = triplet.join("nvidia");
        folders.push(series.join("current"));
        folders.extend(below(root, &series));
        folders.push(triplet);
    }
    folders.extend(["/usr/lib".into(), "/usr/lib/nvidia".into(), "/usr/local/nvidia/lib64".into()]);
    folders
}

/// What a folder holds, sorted; nothing where it cannot be read.
fn below(root: &Root, folder: &Path) -> Vec<PathBuf> {
    let real = root.resolve(folder).map(|real| root.host(&real));
    let Some(Ok(entries)) = real.map(std::fs::read_dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().map(|entry| folder.join(entry.file_name())).collect();
    names.sort();
    names
}

/// A library of this machine's kind by its file name in any known folder, as a host path without links.
#[must_use]
pub fn library(root: &Root, name: &str) -> Option<PathBuf> {
    let mut paths = folders(root).into_iter().filter_map(|folder| Some(root.host(&root.resolve(&folder.join(name))?)));
    paths.find(|path| soname(path).is_some())
}

/// The driver's files of exactly this version.
///
/// # Errors
/// [`FilesError::Missing`] where a required library is not there in that version, [`FilesError::NotText`].
pub fn find(driver_root: &Path, version: &str) -> Result<DriverFiles, FilesError> {
    let root = Root::new(driver_root);
    let mut libraries = BTreeMap::new();
    for folder in folders(&root) {
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
    if let Some(path) = libraries.values().chain(&smi).find(|path| path.to_str().is_none()) {
        return Err(FilesError::NotText { path: path.clone() });
    }
    Ok(DriverFiles { libraries, smi })
}

/// The versions of a library that are there, by file name.
fn versions(root: &Root, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in folders(root).iter().flat_map(|folder| below(root, folder)) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if let Some(version) = name.strip_prefix(prefix).filter(|version| version.contains('.')) {
            found.push(version.to_owned());
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The `DT_SONAME` of a 64-bit library of this machine; `None` for anything else.
fn soname(path: &Path) -> Option<String> {
    // Only the few pages that are needed: a driver's libraries are hundreds of MiB together.
    let data = &ReadCache::new(File::open(path).ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != MACHINE {
        return None;
    }
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.section(link).ok()?;
    let strings = strings.strings(endian, data).ok()?.unwrap_or_default();
    let entry = entries.iter().find(|entry| entry.tag(endian) == elf::DT_SONAME)?;
    let name = strings.get(entry.val32(endian)?).ok()?;
    let name = std::str::from_utf8(name).ok()?;
    // It becomes a path in the container: nothing that could leave the folder.
    let plain = name.starts_with("lib") && !name.contains('/');
    plain.then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
