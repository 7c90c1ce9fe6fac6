//! Files and folders that appear whole or not at all: filled under a hidden name in the same folder, then renamed.
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A step on a file or folder that failed, with its place.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {path}: {source}")]
pub struct FileError {
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// `step` is a verb phrase that fits after "cannot".
    #[must_use]
    pub fn new(step: &'static str, path: &Path, source: io::Error) -> Self {
        Self { step, path: path.to_owned(), source }
    }

    /// Whether the cause is that the file is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// The whole content of a regular file of at most `limit` bytes.
///
/// # Errors
/// [`FileError`] where it cannot be read, is no regular file or is longer.
pub fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let fail = |step| move |source| FileError::new(step, path, source);
    let file = File::open(path).map_err(fail("open"))?;
    if !file.metadata().map_err(fail("look at"))?.is_file() {
        return Err(FileError::new("read", path, io::Error::other("it is no regular file")));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(fail("read"))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::new("read", path, io::Error::other(format!("it is longer than {limit} bytes"))));
    }
    Ok(bytes)
}

/// Makes `dir` and what is missing above it, mode 0755 whatever the umask.
///
/// # Errors
/// [`FileError`] where that fails.
pub fn create_dir(dir: &Path) -> Result<(), FileError> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(dir)
        .and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o755)))
        .map_err(|source| FileError::new("make the folder", dir, source))
}

/// Makes the folder `dir` with `files` (name, content, mode) in it, in one step for whoever looks.
///
/// # Errors
/// [`FileError`] where a part fails; nothing is left then.
pub fn create_filled_dir(dir: &Path, files: &[(&str, &[u8], u32)]) -> Result<(), FileError> {
    let temporary = hidden_beside(dir);
    let made = fill(&temporary, files)
        .and_then(|()| fs::rename(&temporary, dir).map_err(|source| FileError::new("put in place", dir, source)));
    if made.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    made
}

/// Puts `content` in the place of a file, in one step for whoever looks.
///
/// # Errors
/// [`FileError`] where that fails; the file is as it was then.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let temporary = hidden_beside(path);
    let fail = |source| FileError::new("write", path, source);
    let written = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path).map_err(fail));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes over the bytes of a file that others map: in place, all in one call, and never another length.
///
/// # Errors
/// [`FileError`] where the file has another length or cannot be written.
pub fn overwrite(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let fail = |source| FileError::new("change", path, source);
    let file = OpenOptions::new().write(true).open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.len() != content.len() as u64 {
        return Err(fail(io::Error::other(format!("it must have {} bytes", content.len()))));
    }
    match file.write_at(content, 0).map_err(fail)? {
        written if written == content.len() => Ok(()),
        written => Err(fail(io::Error::other(format!("only {written} bytes were written")))),
    }
}

fn hidden_beside(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn fill(dir: &Path, files: &[(&str, &[u8], u32)]) -> Result<(), FileError> {
    remove_dir(dir)?;
    create_dir(dir)?;
    files.iter().try_for_each(|&(name, content, mode)| write_new(&dir.join(name), content, mode))
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let fail = |source| FileError::new("write", path, source);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(fail)?;
    file.write_all(content).map_err(fail)?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(fail)?;
    file.sync_all().map_err(fail)
}

/// Removes a folder with all that is in it; one that is not there is no error.
///
/// # Errors
/// [`FileError`] where that fails.
pub fn remove_dir(dir: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove", dir, source)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("x");
        create_filled_dir(&home, &[("a", b"1", 0o666), ("b", b"2", 0o444)]).unwrap();
        assert_eq!(fs::read(home.join("b")).unwrap(), b"2");
        assert_eq!(fs::metadata(home.join("a")).unwrap().permissions().mode() & 0o777, 0o666);

        let broken = dir.path().join("y");
        let error = create_filled_dir(&broken, &[("a", b"1", 0o666), ("no/such", b"2", 0o666)]).unwrap_err();
        assert!(error.to_string().contains("no/such"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_replaced_whole_or_changed_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"123").unwrap();
        let old = File::open(&path).unwrap();
        overwrite(&path, b"456").unwrap();
        let mut seen = [0; 3];
        old.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(&seen, b"456", "who has it open sees the change");
        assert!(overwrite(&path, b"4567").unwrap_err().to_string().contains("4 bytes"));
        assert!(overwrite(&dir.path().join("none"), b"").unwrap_err().is_not_found());

        replace_file(&path, b"12345", 0o600).unwrap();
        old.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(&seen, b"456", "who has the old one open keeps it");
        assert_eq!(fs::read(&path).unwrap(), b"12345");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(replace_file(&dir.path().join("no/such"), b"", 0o600).is_err());
    }

    #[test]
    fn reading_is_bounded_and_only_of_regular_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_at_most(&path, 5).unwrap(), b"12345");
        assert!(read_at_most(&path, 4).unwrap_err().to_string().contains("longer than 4"));
        assert!(read_at_most(dir.path(), 4).is_err());
        assert!(read_at_most(&dir.path().join("none"), 4).unwrap_err().is_not_found());
    }
}
