//! The container's root, and opening below it: the kernel itself keeps every path inside, whatever links the image has.
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Absolute links and `..` begin and end at the descriptor; `/proc/N/fd` and the like are not followed.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
/// The kernel gives up with EAGAIN when a path changes while it looks; so often is no accident.
const TRIES: usize = 16;

/// Why the root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It cannot be opened.
    #[error("cannot open the container's root {path:?}: {error}")]
    Open {
        /// Where it should be.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// It is the root of the hook's own namespace.
    #[error("the container's root {0:?} is this machine's own; its cache belongs to ldconfig")]
    Own(PathBuf),
}

/// A container's root folder.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
}

impl Root {
    /// Opens the root at a path that the runtime named.
    ///
    /// # Errors
    /// [`RootError`] where it is no folder, or the machine's own root.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let failed = |error: Errno| RootError::Open { path: path.to_owned(), error: error.into() };
        let folder = |path: &Path| openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let fd = folder(path).map_err(failed)?;
        let same = |one: &Stat, other: &Stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
        let own = folder(Path::new("/")).and_then(fstat).map_err(failed)?;
        if same(&own, &fstat(&fd).map_err(failed)?) {
            return Err(RootError::Own(path.to_owned()));
        }
        Ok(Self { fd })
    }

    /// A folder to list, as a process in the container sees it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        open(&self.fd, path, OFlags::RDONLY | OFlags::DIRECTORY, INSIDE)
    }

    /// A folder of the image itself, to change what is in it: one in a volume, which others may share, is refused.
    ///
    /// # Errors
    /// What the kernel says; `CrossesDevices` for one in a volume.
    pub fn own_folder(&self, path: &str) -> io::Result<OwnedFd> {
        open(&self.fd, path, OFlags::PATH | OFlags::DIRECTORY, INSIDE | ResolveFlags::NO_XDEV)
    }

    /// A regular file to read, links followed as a process in the container would.
    ///
    /// # Errors
    /// What the kernel says, or that it is not a regular file.
    pub fn file(&self, path: &str) -> io::Result<File> {
        regular(&self.fd, path, OFlags::empty(), INSIDE)
    }
}

/// A regular file of a folder to read: neither a link nor another file mounted there.
///
/// # Errors
/// What the kernel says, or that it is not a regular file.
pub fn own_file(folder: impl AsFd, name: &str) -> io::Result<File> {
    regular(folder, name, OFlags::NOFOLLOW, INSIDE | ResolveFlags::NO_XDEV)
}

/// A new file of a folder, for the owner to write and for all to read.
///
/// # Errors
/// What the kernel says; also where anything has that name.
pub fn new_file(folder: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat2(folder, name, flags, Mode::from_raw_mode(0o644), INSIDE | ResolveFlags::NO_XDEV)?;
    Ok(File::from(fd))
}

/// Looks what it is before it is opened for reading, since opening a FIFO or a device may wait or do something.
fn regular(from: impl AsFd, path: &str, flags: OFlags, resolve: ResolveFlags) -> io::Result<File> {
    let check = |fd: &OwnedFd| match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(io::Error::other(format!("not a regular file but a {other:?}"))),
    };
    check(&open(&from, path, OFlags::PATH | flags, resolve)?)?;
    // Should it have changed since, nothing waits and nothing becomes our terminal.
    let fd = open(&from, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | flags, resolve)?;
    check(&fd)?;
    Ok(File::from(fd))
}

/// Opens without creating anything.
fn open(from: impl AsFd, path: &str, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let again = || openat2(&from, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
    let mut result = again();
    for _ in 1..TRIES {
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
        result = again();
    }
    Ok(result?)
}
