//! Making device nodes that are missing, with the numbers that the driver registered.
use super::{Node, NodesError, checked};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Whether nodes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    /// Nothing is changed.
    Nothing,
    /// What is missing is made, and what is another device is replaced.
    Missing,
}

impl Makes {
    /// The node `name`, made where that is asked for and needed.
    pub(super) fn checked(
        self,
        dev_root: &Path,
        name: &str,
        number: (u32, u32),
        mode: u32,
    ) -> Result<Node, NodesError> {
        match checked(dev_root, name, number, mode) {
            Err(NodesError::Missing { .. } | NodesError::Wrong { .. }) if self == Self::Missing => {
                let path = dev_root.join("dev").join(name);
                let (major, minor) = number;
                make(&path, number, mode).map_err(|source| NodesError::Make { path, major, minor, source })?;
                checked(dev_root, name, number, mode)
            }
            found => found,
        }
    }
}

fn make(path: &Path, (major, minor): (u32, u32), mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(mode), makedev(major, minor)) {
        // nvidia-modprobe or udev was faster; what it made is looked at next.
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // The umask may have taken bits away.
    fs::set_permissions(path, Permissions::from_mode(mode))
}
