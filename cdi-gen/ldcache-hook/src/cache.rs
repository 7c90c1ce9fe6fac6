//! The container's `/etc/ld.so.cache`: what is in it stays, the libraries are added, and a whole new file takes its place.
use crate::root::{Root, new_file, own_file};
use ldcache::{CacheError, Entry, hwcaps, read, write_with_hwcaps};
use rustix::fs::{AtFlags, Mode, fchmod, renameat, unlinkat};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

const NAME: &str = "ld.so.cache";
/// One name, so that what a killed hook left is found by the next.
const NEW_NAME: &str = ".ld.so.cache.gpu-quota";
/// A cache of some thousand libraries has about 300 KiB. The hook may run in the container's memory cgroup, so this is its memory, too.
const MOST: u64 = 1 << 20;

/// Why the cache was not changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The folder is not there, leads into a volume, or the like.
    #[error("cannot open the image's folder /etc: {0}; it has to be the image's own, not a volume")]
    Folder(io::Error),
    /// The cache is there and cannot be read.
    #[error("cannot read the image's /etc/ld.so.cache: {0}")]
    Read(io::Error),
    /// Larger than any real one.
    #[error("the image's /etc/ld.so.cache has more than {MOST} bytes; make it again with ldconfig")]
    Large,
    /// The cache is not one.
    #[error("the image's /etc/ld.so.cache cannot be used: {0}")]
    Broken(#[from] CacheError),
    /// The new cache cannot be written.
    #[error("cannot write the container's /etc/ld.so.cache: {0}")]
    Write(io::Error),
}

/// Adds the libraries. Entries with the same name and path are replaced; nothing is written where nothing would change.
///
/// Of libraries with the same name the loader takes the first, and those that were there stay first.
///
/// # Errors
/// [`UpdateError`]; the cache is then as it was.
pub fn add(root: &Root, libraries: &[Entry]) -> Result<(), UpdateError> {
    if libraries.is_empty() {
        return Ok(());
    }
    let etc = root.own_folder("etc").map_err(UpdateError::Folder)?;
    let bytes = current(&etc)?;
    let mut entries = if bytes.is_empty() { Vec::new() } else { read(&bytes)? };
    let present: HashSet<&Entry> = entries.iter().collect();
    if libraries.iter().all(|library| present.contains(library)) {
        return Ok(());
    }
    let ours: HashSet<_> = libraries.iter().map(key).collect();
    entries.retain(|entry| !ours.contains(&key(entry)));
    entries.extend_from_slice(libraries);
    replace(&etc, &write_with_hwcaps(&entries, &hwcaps(&bytes))).map_err(UpdateError::Write)
}

/// What makes two entries the same library.
fn key(entry: &Entry) -> (&str, &str) {
    (&entry.name, &entry.path)
}

/// The cache's bytes; none where there is no cache, or an empty one, which some images have.
fn current(etc: &OwnedFd) -> Result<Vec<u8>, UpdateError> {
    let file = match own_file(etc, NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(UpdateError::Read(error)),
    };
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(UpdateError::Read)?;
    if bytes.len() as u64 > MOST { Err(UpdateError::Large) } else { Ok(bytes) }
}

/// Writes a new file beside the cache and renames it over it, so that nobody ever sees half of one.
fn replace(etc: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    match unlinkat(etc, NEW_NAME, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let file = new_file(etc, NEW_NAME)?;
    let done = fill(file, bytes).and_then(|()| Ok(renameat(etc, NEW_NAME, etc, NAME)?));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = unlinkat(etc.as_fd(), NEW_NAME, AtFlags::empty());
    }
    done
}

/// Everyone may read the cache, whatever the umask.
fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    fchmod(&file, Mode::from_raw_mode(0o644))?;
    file.write_all(bytes)
}
