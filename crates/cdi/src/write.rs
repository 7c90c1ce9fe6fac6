//! Writes a file so that nobody ever sees half of it: unnamed file, mode, sync, name in the same folder, rename, sync of the folder.
//!
//! Runtimes notice a rename within the folder; a link or a move from elsewhere they miss. The temporary name ends in neither `.json` nor `.yaml`, so no
//! runtime reads it. A file that would not change is not touched, so no runtime reads it again for nothing. Whoever is killed on the way leaves at most a
//! whole file under a temporary name, which the next writer removes: its owner held a lock on it, and the kernel has released that.
use crate::spec::Spec;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, openat};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How a file says a spec. Runtimes go by the ending of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.json`.
    Json,
    /// `.yaml`.
    Yaml,
}

impl Format {
    /// The format of a file by its name; `None` where runtimes would not read it.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// The bytes of a file that says `spec`; the same spec gives the same bytes.
    ///
    /// # Errors
    /// A sentence of the serializer, for a spec that cannot be said.
    pub fn encode(self, spec: &Spec) -> Result<Vec<u8>, String> {
        match self {
            Self::Json => {
                let mut bytes = serde_json::to_vec_pretty(spec).map_err(|error| error.to_string())?;
                bytes.push(b'\n');
                Ok(bytes)
            }
            Self::Yaml => {
                let text = serde_norway::to_string(spec).map_err(|error| error.to_string())?;
                Ok(format!("---\n{text}").into_bytes())
            }
        }
    }
}

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
    #[error("{path} must end in .json or .yaml, or runtimes do not read it")]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A spec that the format cannot say.
    #[error("cannot write {path}: {reason}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
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

/// Writes `spec` to `path` in the format of its ending, mode 0644, in a folder that is made with mode 0755 where it is missing.
///
/// # Errors
/// [`WriteError`].
pub fn write(spec: &Spec, path: &Path) -> Result<Written, WriteError> {
    let format = Format::of(path).ok_or_else(|| WriteError::Name { path: path.to_owned() })?;
    let bytes = format.encode(spec).map_err(|reason| WriteError::Encode { path: path.to_owned(), reason })?;
    write_bytes(&bytes, path)
}

/// The same for any bytes and any name.
///
/// # Errors
/// [`WriteError::Io`].
pub fn write_bytes(bytes: &[u8], path: &Path) -> Result<Written, WriteError> {
    let dir = folder(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if readable(path) && fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(Written::Same);
    }
    make_folder(dir)?;
    sweep(dir, &name);
    // Two writers in two containers can have the same process id, so the name is random.
    let temporary = dir.join(format!(".{name}.{:016x}.tmp", RandomState::new().build_hasher().finish()));
    let written = fill(dir, &temporary, bytes).and_then(|_locked| {
        fs::rename(&temporary, path).map_err(failed("put in place", path))?;
        sync(dir)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(|()| Written::Changed)
}

/// Removes what writers of this file left behind who were killed.
fn sweep(dir: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let ours = found.to_str().and_then(|found| found.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.'));
        let ours = ours.and_then(|rest| rest.strip_suffix(".tmp")).is_some_and(|rest| rest.len() == 16);
        // A living writer holds the lock.
        let dead = || {
            File::open(entry.path()).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
        };
        if ours && entry.file_type().is_ok_and(|kind| kind.is_file()) && dead() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether all may read the file, rootless runtimes among them.
fn readable(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o444 == 0o444)
}

/// Makes a folder and those above it that are missing, all with mode 0755 whatever the umask.
///
/// # Errors
/// [`WriteError::Io`].
pub fn make_folder(dir: &Path) -> Result<(), WriteError> {
    if dir.is_dir() {
        return Ok(());
    }
    make_folder(folder(dir))?;
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => {}
        // Somebody else was faster.
        Err(_) if dir.is_dir() => return Ok(()),
        Err(source) => return Err(failed("make the folder", dir)(source)),
    }
    fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(failed("open up the folder", dir))
}

/// Makes `temporary` with these bytes, whole from the moment it has a name, and returns it locked.
fn fill(dir: &Path, temporary: &Path, bytes: &[u8]) -> Result<File, WriteError> {
    let finish = |mut file: &File| {
        // Whatever the umask.
        file.set_permissions(Permissions::from_mode(0o644)).map_err(failed("set the mode of", temporary))?;
        flock(file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed("lock", temporary)(error.into()))?;
        file.write_all(bytes).map_err(failed("write", temporary))?;
        file.sync_all().map_err(failed("sync", temporary))
    };
    let unnamed = openat(CWD, dir, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
    if let Ok(file) = unnamed {
        let file = File::from(file);
        finish(&file)?;
        let named = linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), CWD, temporary, AtFlags::SYMLINK_FOLLOW);
        if named.is_ok() {
            return Ok(file);
        }
    }
    // A file system without unnamed files, or no procfs.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(temporary);
    let file = made.map_err(failed("make the temporary file", temporary))?;
    finish(&file)?;
    Ok(file)
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
