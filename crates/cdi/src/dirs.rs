//! The node's other CDI files: who else defines devices of a kind.
//!
//! Two files in folders of equal rank that define the same device take it away from everyone; so a writer looks first.
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where runtimes look, lowest rank first.
pub const DEFAULT_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// A file that defines devices of the kind that we are about to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other file.
    pub path: PathBuf,
    /// A device that both define.
    pub device: String,
}

/// As much of a file as tells what it defines; a foreign file may hold fields of a later version.
#[derive(Deserialize)]
struct Defines {
    kind: String,
    #[serde(default)]
    devices: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

/// The kind that a file defines devices of; `None` where it cannot be read or is no CDI file. JSON is YAML, so one reader reads both.
#[must_use]
pub fn kind_of(path: &Path) -> Option<String> {
    defines(path).map(|spec| spec.kind)
}

fn defines(path: &Path) -> Option<Defines> {
    // A pipe would never end.
    if !std::fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return None;
    }
    serde_norway::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// The files in `dirs`, other than `own`, that define one of `devices` of `kind`. A folder or file that cannot be read defines nothing for
/// runtimes either.
#[must_use]
pub fn conflicts(dirs: &[PathBuf], own: &Path, kind: &str, devices: &[&str]) -> Vec<Conflict> {
    let own = own.canonicalize().unwrap_or_else(|_| own.to_owned());
    let mut found = Vec::new();
    for dir in dirs {
        let Ok(entries) = std::fs::read_dir(dir) else { continue };
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            let known = path.extension().is_some_and(|end| end == "json" || end == "yaml");
            if !known || path.canonicalize().is_ok_and(|real| real == own) {
                continue;
            }
            let Some(spec) = defines(&path) else { continue };
            let both = spec.devices.iter().find(|device| devices.contains(&device.name.as_str()));
            if let (true, Some(device)) = (spec.kind == kind, both) {
                let conflict = Conflict { path, device: device.name.clone() };
                // /var/run is a link to /run on most systems, so the same file can be met twice.
                if !found.contains(&conflict) {
                    found.push(conflict);
                }
            }
        }
    }
    found
}
