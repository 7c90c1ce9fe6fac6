//! Which libraries are in the folders: by name and by the first bytes of the file. Bounded, however many files there are.
use crate::args::Wanted;
use crate::root::Root;
use ldcache::{Entry, NATIVE};
use rustix::fs::{Dir, fstat};
use std::collections::BTreeSet;
use std::io::{self, Read as _};

/// So many names are looked at in a folder.
const LISTED_MOST: usize = 100_000;
/// So many files of a folder are opened; a driver has some dozens.
const OPENED_MOST: usize = 4096;
/// What the header of an ELF file has to be for this machine; `None` where we serve no such machine.
const MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else {
    None
};

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Entries for the cache, by folder in the order of the arguments, then by name.
    pub libraries: Vec<Entry>,
    /// What was left out, for people.
    pub notes: Vec<String>,
}

/// Looks through the folders; one that the container does not have is nothing to speak of.
#[must_use]
pub fn folders(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    for folder in &wanted.folders {
        match names(root, folder, &wanted.prefixes, &mut seen) {
            Ok(Names { names, cut }) => {
                found.libraries.extend(names.into_iter().filter_map(|name| library(root, folder, name)));
                if cut {
                    found.notes.push(format!("folder {folder} has too many files; some are left out"));
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => found.notes.push(format!("folder {folder} is left out: {error}")),
        }
    }
    found
}

/// The names in a folder that may be libraries, and whether there are more.
#[derive(Default)]
struct Names {
    names: BTreeSet<String>,
    cut: bool,
}

/// Lists a folder; nothing of one that was seen by another path.
fn names(root: &Root, folder: &str, prefixes: &[String], seen: &mut BTreeSet<(u64, u64)>) -> io::Result<Names> {
    let fd = root.folder(folder)?;
    let stat = fstat(&fd)?;
    let mut found = Names::default();
    if !seen.insert((stat.st_dev, stat.st_ino)) {
        return Ok(found);
    }
    for (listed, entry) in Dir::new(fd)?.enumerate() {
        found.cut = listed >= LISTED_MOST || found.names.len() >= OPENED_MOST;
        if found.cut {
            break;
        }
        if let Ok(name) = entry?.file_name().to_str()
            && may_be_library(name, prefixes)
        {
            found.names.insert(name.to_owned());
        }
    }
    Ok(found)
}

/// `lib*.so*` with one of the prefixes. A name with a line break could pass for two in what `ldconfig -p` prints.
fn may_be_library(name: &str, prefixes: &[String]) -> bool {
    let wanted = prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
    wanted && name.strip_prefix("lib").is_some_and(|rest| rest.contains(".so")) && !name.contains(char::is_control)
}

/// The entry for a file, where it is a 64-bit library of this machine. What cannot be read is none.
fn library(root: &Root, folder: &str, name: String) -> Option<Entry> {
    let path = format!("{folder}/{name}");
    let mut header = [0; 20];
    root.file(&path).ok()?.read_exact(&mut header).ok()?;
    is_library(&header).then_some(Entry { name, path, flags: NATIVE, hwcap: 0, os_version: 0 })
}

/// Whether an ELF header's first bytes are those of a 64-bit shared object of this machine.
fn is_library(header: &[u8; 20]) -> bool {
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let [0x7f, b'E', b'L', b'F', 2, byte_order, 1, .., t0, t1, m0, m1] = *header else { return false };
    byte_order == order && u16::from_ne_bytes([t0, t1]) == 3 && MACHINE == Some(u16::from_ne_bytes([m0, m1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libraries() {
        let any = |name| may_be_library(name, &[]);
        assert!(any("libcuda.so.1") && any("libcuda.so") && any("lib.so"));
        assert!(!any("cuda.so") && !any("libcuda.a") && !any("lib") && !any("liba.so\n/etc"));
        let prefixes = ["libcuda".to_owned(), "libnvidia-".to_owned()];
        assert!(may_be_library("libnvidia-ml.so.1", &prefixes));
        assert!(!may_be_library("libc.so.6", &prefixes));
    }

    #[test]
    fn headers_of_libraries() {
        let mut header = [0; 20];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[16..18].copy_from_slice(&3_u16.to_ne_bytes());
        header[18..].copy_from_slice(&MACHINE.unwrap().to_ne_bytes());
        assert!(is_library(&header));
        for (at, wrong) in [(0, 0), (4, 1), (5, 2), (16, 2), (18, 3)] {
            let mut other = header;
            other[at] = wrong;
            assert!(!is_library(&other), "{at}");
        }
    }
}
