//! Writes a file so that nobody ever sees half of it: temporary file in the same folder, mode, sync, rename, sync of the folder.
//!
//! Runtimes notice a rename within the folder; a link or a move from elsewhere they miss. The temporary name ends in neither `.json` nor `.yaml`, so no
//! runtime reads it. A file that would not change is not touched, so no runtime reads it again for nothing.
use crate::spec::Spec;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What [`write()`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The file is new or has new content.
    Changed,
    /// The file had this content already and was not touched.
    Same,
}

/// Why a file is not written. The old one is then intact, and no temporary file is left.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Runtimes would not read the file.
    #[error("{path} must end in .json, or runtimes do not read it")]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A spec that JSON cannot say.
    #[error("cannot write {path} as JSON: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A step failed.
    #[error("cannot {step} {path}: {source}")]
    Io {
        /// The step.
        step: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    move |source| WriteError::Io { step, path: path.to_owned(), source }
}

/// Writes `spec` as JSON to `path`, mode 0644, in a folder that is made with mode 0755 where it is missing.
///
/// # Errors
/// [`WriteError`].
pub fn write(spec: &Spec, path: &Path) -> Result<Written, WriteError> {
    if path.extension().is_none_or(|end| end != "json") {
        return Err(WriteError::Name { path: path.to_owned() });
    }
    let mut bytes =
        serde_json::to_vec_pretty(spec).map_err(|source| WriteError::Json { path: path.to_owned(), source })?;
    bytes.push(b'\n');
    if readable(path) && fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(Written::Same);
    }
    let dir = folder(path);
    make(dir)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Two writers in two containers can have the same process id, so the name is random.
    let temporary = dir.join(format!(".{name}.{:016x}.tmp", RandomState::new().build_hasher().finish()));
    let written = fill(&temporary, &bytes)
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("put in place", path)))
        .and_then(|()| sync(dir));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(|()| Written::Changed)
}

/// Whether all may read the file, rootless runtimes among them.
fn readable(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o444 == 0o444)
}

/// Makes a folder and those above it that are missing, all with mode 0755 whatever the umask.
fn make(dir: &Path) -> Result<(), WriteError> {
    if dir.is_dir() {
        return Ok(());
    }
    make(folder(dir))?;
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => {}
        // Somebody else was faster.
        Err(_) if dir.is_dir() => return Ok(()),
        Err(source) => return Err(failed("make the folder", dir)(source)),
    }
    fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(failed("open up the folder", dir))
}

fn fill(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)
        .map_err(failed("make the temporary file", path))?;
    file.set_permissions(Permissions::from_mode(0o644)).map_err(failed("set the mode of", path))?;
    file.write_all(bytes).map_err(failed("write", path))?;
    file.sync_all().map_err(failed("sync", path))
}

fn sync(dir: &Path) -> Result<(), WriteError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("sync the folder", dir))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Removes a file; `false` where there was none.
///
/// # Errors
/// [`WriteError::Io`].
pub fn remove(path: &Path) -> Result<bool, WriteError> {
    match fs::remove_file(path) {
        Ok(()) => sync(folder(path)).map(|()| true),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(failed("remove", path)(source)),
    }
}
