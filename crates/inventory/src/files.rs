//! The driver's files: libraries of exactly the running version, each under its soname, and what else the profile asks for.
//!
//! Nothing is taken because of its name alone: a library must be a 64-bit ELF file of this machine that names a soname.
mod elf;
mod extras;
mod folders;
mod profile;

pub use elf::is_static_program;
pub use extras::Socket;
pub use profile::Profile;

use crate::Sources;
use crate::root::Root;
use folders::Folder;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The multiarch triplet of this machine, as Debian names it.
pub const TRIPLET: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
/// Without these no program computes or counts cards: name without version, soname.
const REQUIRED: [(&str, &str); 2] = [("libcuda", "libcuda.so.1"), ("libnvidia-ml", "libnvidia-ml.so.1")];

/// The files that a container needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverFiles {
    /// Name below a library folder (a soname, a link's name, `vdpau/...`) and the file on the host, sorted.
    pub libraries: BTreeMap<String, PathBuf>,
    /// Path in the container and the file or folder on the host: programs, firmware, configuration.
    pub others: BTreeMap<String, PathBuf>,
    /// Path in the container and the socket on the host.
    pub sockets: BTreeMap<String, PathBuf>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

/// Why the driver's files cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A library that every container needs is not there.
    #[error(
        "no {soname} of driver version {version} below {root}; found versions: {found}; install the matching user-space driver, or name its root (--driver-root) or folder (--library-search-path)"
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
    /// A library that every container needs cannot be loaded without another one of the driver.
    #[error(
        "{library} needs {needs}, and no such library of driver version {version} is below {root}; reinstall the user-space driver"
    )]
    Incomplete {
        /// The library's soname.
        library: String,
        /// What it needs.
        needs: String,
        /// The running driver's version.
        version: String,
        /// The driver root.
        root: PathBuf,
    },
    /// A folder to search is none.
    #[error("{path} is no folder below the driver root {root}; correct --library-search-path")]
    SearchPath {
        /// The folder, as seen within the root.
        path: PathBuf,
        /// The driver root.
        root: PathBuf,
    },
    /// A CDI file can only say text.
    #[error("the path {path:?} is not UTF-8, so no CDI file can name it; use another driver root (--driver-root)")]
    NotText {
        /// The file.
        path: PathBuf,
    },
}

/// A driver root whose folders have been listed, once for a scan.
pub(crate) struct Place {
    root: Root,
    folders: Vec<Folder>,
}

impl Place {
    /// The folders of `root`, which is absolute.
    pub(crate) fn new(root: &Path, search: &[PathBuf]) -> Self {
        let root = Root::new(root);
        let folders = folders::all(&root, search);
        Self { root, folders }
    }

    /// A library of this machine's kind by its file name in any known folder, as a host path without links.
    pub(crate) fn library(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().find_map(|folder| {
            let host = folder.file(&self.root, name)?;
            elf::read(&host).map(|_| host)
        })
    }
}

/// The driver's files of exactly this version.
///
/// # Errors
/// [`FilesError`].
pub(crate) fn find(sources: &Sources, place: &Place, version: &str) -> Result<DriverFiles, FilesError> {
    let Place { root: place, folders } = place;
    let root = place.host(Path::new("/"));
    let root = root.as_path();
    for path in &sources.library_paths {
        if !place.resolve(path).is_some_and(|real| place.host(&real).is_dir()) {
            return Err(FilesError::SearchPath { path: path.clone(), root: root.to_owned() });
        }
    }
    let found = Closure::new(place, folders, version, sources.profile);
    let mut files = DriverFiles::default();
    for (stem, soname) in REQUIRED {
        if found.libraries.get(stem).is_none_or(|library| library.object.soname != soname) {
            let versions = versions(place, folders, stem);
            let versions = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
            return Err(FilesError::Missing {
                soname,
                version: version.to_owned(),
                root: root.to_owned(),
                found: versions,
            });
        }
        if let Some((library, needs)) = found.unmet_of(stem) {
            return Err(FilesError::Incomplete { library, needs, version: version.to_owned(), root: root.to_owned() });
        }
    }
    for (library, needs) in &found.unmet {
        files.warnings.push(format!(
            "{library} needs {needs}, which is not there in version {version}; programs that use it will not start"
        ));
    }
    for (stem, library) in &found.libraries {
        let below = if stem == "libvdpau_nvidia" { "vdpau/" } else { "" };
        files.libraries.insert(format!("{below}{}", library.object.soname), library.host.clone());
        for alias in &library.aliases {
            files.libraries.entry(format!("{below}{alias}")).or_insert_with(|| library.host.clone());
        }
    }
    extras::add(sources, place, folders, version, &mut files);
    let all = files.libraries.values().chain(files.others.values()).chain(files.sockets.values());
    if let Some(path) = all.into_iter().find(|path| path.to_str().is_none()) {
        return Err(FilesError::NotText { path: path.clone() });
    }
    Ok(files)
}

/// A library of the driver.
struct Library {
    host: PathBuf,
    object: elf::Object,
    /// Other names that lead to it in a library folder, such as `libcuda.so`.
    aliases: BTreeSet<String>,
}

/// The libraries of a profile and all of the driver that these need, by name without version.
struct Closure {
    libraries: BTreeMap<String, Library>,
    /// A library's soname, and what it needs of the driver and does not get.
    unmet: BTreeSet<(String, String)>,
}

impl Closure {
    fn new(root: &Root, folders: &[Folder], version: &str, profile: Profile) -> Self {
        let end = format!(".so.{version}");
        let mut there: BTreeMap<&str, Vec<&Folder>> = BTreeMap::new();
        for folder in folders {
            for name in &folder.names {
                if let Some(stem) = name.strip_suffix(&end) {
                    there.entry(stem).or_default().push(folder);
                }
            }
        }
        let mut closure = Self { libraries: BTreeMap::new(), unmet: BTreeSet::new() };
        let mut left: Vec<&str> = there.keys().copied().filter(|stem| profile.wants(stem)).collect();
        let mut seen: BTreeSet<&str> = left.iter().copied().collect();
        while let Some(stem) = left.pop() {
            let file = format!("{stem}{end}");
            // Foreign word sizes lie beside ours on multiarch hosts.
            let first = there.get(stem).into_iter().flatten().find_map(|folder| {
                let host = folder.file(root, &file)?;
                elf::read(&host).map(|object| (host, object))
            });
            let Some((host, object)) = first else { continue };
            for needed in object.needed.iter().filter_map(|name| name.split_once(".so")) {
                if let Some((known, _)) = there.get_key_value(needed.0)
                    && seen.insert(known)
                {
                    left.push(known);
                }
            }
            let aliases = aliases(root, folders, stem, &file, &host);
            closure.libraries.insert(stem.to_owned(), Library { host, object, aliases });
        }
        let sonames: BTreeSet<&str> =
            closure.libraries.values().map(|library| library.object.soname.as_str()).collect();
        for library in closure.libraries.values() {
            for needed in library.object.needed.iter().filter(|name| profile::of_driver(name, version)) {
                if !sonames.contains(needed.as_str()) {
                    closure.unmet.insert((library.object.soname.clone(), needed.clone()));
                }
            }
        }
        closure
    }

    /// What a library, or one that it needs, does not get.
    fn unmet_of(&self, stem: &str) -> Option<(String, String)> {
        let (mut left, mut seen) = (vec![stem], BTreeSet::new());
        while let Some(library) = left.pop().and_then(|stem| self.libraries.get(stem)) {
            let soname = library.object.soname.as_str();
            if let Some(unmet) = self.unmet.iter().find(|(of, _)| of == soname) {
                return Some(unmet.clone());
            }
            let needed = library.object.needed.iter().filter_map(|name| Some(name.split_once(".so")?.0));
            left.extend(needed.filter(|stem| self.libraries.contains_key(*stem) && seen.insert(*stem)));
        }
        None
    }
}

/// The names, other than the file's own, under which a library folder leads to a file: `libcuda.so`, `libGLX_indirect.so.0`.
fn aliases(root: &Root, folders: &[Folder], stem: &str, file: &str, host: &Path) -> BTreeSet<String> {
    let mut aliases = BTreeSet::new();
    for folder in folders {
        for name in &folder.names {
            let ours = name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so")) && name != file;
            let indirect = stem == "libGLX_nvidia" && name.starts_with("libGLX_indirect.so");
            if (ours || indirect) && !aliases.contains(name) && folder.file(root, name).as_deref() == Some(host) {
                aliases.insert(name.clone());
            }
        }
    }
    aliases
}

/// The versions of a library that are there, by file name.
fn versions(root: &Root, folders: &[Folder], stem: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    for folder in folders {
        for name in &folder.names {
            let version = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix(".so."));
            if let Some(version) = version.filter(|version| version.contains('.'))
                && folder.file(root, name).is_some_and(|host| elf::read(&host).is_some())
            {
                found.insert(version.to_owned());
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests;
