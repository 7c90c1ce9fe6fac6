//! The folders that hold driver libraries: those that were asked for, those of every known layout, and those that the root's `ld.so.cache` names.
use super::TRIPLET;
use crate::root::Root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The loader's cache, as seen within a root.
const CACHE: &str = "/etc/ld.so.cache";
/// More than any distribution's; a damaged or hostile file is not read to its end.
const LONGEST_CACHE: u64 = 64 << 20;

/// A folder that is there, listed once.
#[derive(Debug)]
pub(super) struct Folder {
    /// Where it is within the root, without links.
    real: PathBuf,
    /// The names in it that a driver's file could have, sorted.
    pub(super) names: BTreeSet<String>,
}

impl Folder {
    /// A file of the folder as a host path without links; `None` where it is not there.
    pub(super) fn file(&self, root: &Root, name: &str) -> Option<PathBuf> {
        self.names.contains(name).then(|| root.resolve_in(&self.real, Path::new(name)))?.map(|real| root.host(&real))
    }
}

/// All folders of a root, in the order in which they count.
pub(super) fn all(root: &Root, search: &[PathBuf]) -> Vec<Folder> {
    let (mut folders, mut seen) = (Vec::new(), BTreeSet::new());
    for path in search.iter().cloned().chain(known(root)).chain(cached(root)) {
        let Some(real) = root.resolve(&path) else { continue };
        if seen.contains(&real) {
            continue;
        }
        let Ok(entries) = fs::read_dir(root.host(&real)) else { continue };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| name.starts_with("lib") || name.starts_with("nvidia")).collect();
        seen.insert(real.clone());
        folders.push(Folder { real, names });
    }
    folders
}

/// The layouts of distributions and driver containers. Debian keeps each driver series in a folder of its own below `nvidia/`.
fn known(root: &Root) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib64"), "/lib64".into()];
    for lib in ["/usr/lib", "/lib"] {
        let triplet = Path::new(lib).join(TRIPLET);
        let series = triplet.join("nvidia");
        folders.push(series.join("current"));
        folders.extend(below(root, &series));
        folders.push(triplet);
    }
    folders.extend(["/usr/lib", "/lib", "/usr/lib/nvidia", "/usr/lib64/nvidia"].map(PathBuf::from));
    // Container-Optimized OS, Bottlerocket, Talos, Flatcar.
    let others = [
        "/usr/local/nvidia/lib64",
        "/usr/local/lib",
        "/usr/local/glibc/usr/lib",
        "/var/lib/nvidia/lib64",
        "/opt/lib64",
    ];
    folders.extend(others.map(PathBuf::from));
    let children = |folder: &PathBuf| ["vdpau", "gbm"].map(|child| folder.join(child));
    let children: Vec<PathBuf> = folders.iter().flat_map(children).collect();
    folders.extend(children);
    folders
}

/// The folders of the 64-bit libraries in the root's `ld.so.cache`.
fn cached(root: &Root) -> Vec<PathBuf> {
    let path = root.resolve(Path::new(CACHE)).map(|real| root.host(&real));
    let Some(path) = path.filter(|path| fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= LONGEST_CACHE))
    else {
        return Vec::new();
    };
    let Some(entries) = fs::read(path).ok().and_then(|bytes| ldcache::read(&bytes).ok()) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in entries.iter().filter(|entry| ldcache::is_native(entry.flags)) {
        if let Some(folder) = Path::new(&entry.path).parent()
            && !folders.iter().any(|known| known == folder)
        {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// What a folder holds, sorted; nothing where it cannot be read.
fn below(root: &Root, folder: &Path) -> Vec<PathBuf> {
    let real = root.resolve(folder).map(|real| root.host(&real));
    let Some(Ok(entries)) = real.map(fs::read_dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().map(|entry| folder.join(entry.file_name())).collect();
    names.sort();
    names
}
