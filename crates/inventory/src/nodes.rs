//! Device nodes, fully specified: type, major from procfs, minor. A runtime then needs no look at the host, and a major that changed with a reload
//! of the module cannot be taken from an old node.
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Minor of `/dev/nvidiactl` and `/dev/nvidia-modeset` (NVIDIA's nv.h).
const CTL_MINOR: u32 = 255;
const MODESET_MINOR: u32 = 254;

/// A character device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path in the container and on the host.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The nodes that every container with a GPU needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlNodes(pub Vec<Node>);

/// The majors that the driver's modules registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majors {
    /// `nvidia`, or `nvidia-frontend` before driver 550.40.
    pub nvidia: u32,
    /// `nvidia-uvm`, assigned anew at each load.
    pub uvm: u32,
}

/// Why a node cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// procfs cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A module is not loaded.
    #[error("{path} lists no {name}: the kernel module is not loaded; run modprobe {module}")]
    NoMajor {
        /// The file.
        path: PathBuf,
        /// The driver's name there.
        name: &'static str,
        /// The module that registers it.
        module: &'static str,
    },
    /// A required node is not there.
    #[error(
        "the device node {path} is missing (it would be character device {major}:{minor}); run nvidia-modprobe -c 0 -u, or mknod -m 666 {path} c {major} {minor}"
    )]
    Missing {
        /// The node.
        path: PathBuf,
        /// Its major.
        major: u32,
        /// Its minor.
        minor: u32,
    },
    /// What is there is another device.
    #[error("{path} is {found}, but the driver registered {major}:{minor}; remove it and run nvidia-modprobe -c 0 -u")]
    Wrong {
        /// The node.
        path: PathBuf,
        /// What it is.
        found: String,
        /// The right major.
        major: u32,
        /// The right minor.
        minor: u32,
    },
}

impl Majors {
    /// Reads the majors of the driver's modules from `<proc_root>/devices`.
    ///
    /// # Errors
    /// [`NodesError::Read`], [`NodesError::NoMajor`].
    pub fn read(proc_root: &Path) -> Result<Self, NodesError> {
        let path = proc_root.join("devices");
        let text = std::fs::read_to_string(&path).map_err(|source| NodesError::Read { path: path.clone(), source })?;
        Self::parse(&text, &path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, NodesError> {
        let characters = text.split("Block devices:").next().unwrap_or("");
        let major = |names: &[&str]| {
            let rows = characters.lines().filter_map(|line| line.trim().split_once(' '));
            rows.filter(|(_, name)| names.contains(&name.trim())).find_map(|(major, _)| major.parse().ok())
        };
        let missing = |name, module| NodesError::NoMajor { path: path.to_owned(), name, module };
        Ok(Self {
            nvidia: major(&["nvidia", "nvidia-frontend"]).ok_or_else(|| missing("nvidia", "nvidia"))?,
            uvm: major(&["nvidia-uvm"]).ok_or_else(|| missing("nvidia-uvm", "nvidia-uvm"))?,
        })
    }
}

/// The control nodes: `nvidiactl` and `nvidia-uvm` must be there, `nvidia-uvm-tools` and `nvidia-modeset` may.
///
/// # Errors
/// [`NodesError::Missing`], [`NodesError::Wrong`].
pub fn control(dev_root: &Path, majors: &Majors) -> Result<ControlNodes, NodesError> {
    let mut nodes = vec![
        checked(dev_root, "nvidiactl", majors.nvidia, CTL_MINOR)?,
        checked(dev_root, "nvidia-uvm", majors.uvm, 0)?,
    ];
    for (name, major, minor) in [("nvidia-uvm-tools", majors.uvm, 1), ("nvidia-modeset", majors.nvidia, MODESET_MINOR)]
    {
        match checked(dev_root, name, major, minor) {
            Ok(node) => nodes.push(node),
            Err(NodesError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ControlNodes(nodes))
}

/// A card's node.
///
/// # Errors
/// [`NodesError::Missing`], [`NodesError::Wrong`].
pub fn card(dev_root: &Path, majors: &Majors, minor: u32) -> Result<Node, NodesError> {
    checked(dev_root, &format!("nvidia{minor}"), majors.nvidia, minor)
}

fn checked(dev_root: &Path, name: &str, major: u32, minor: u32) -> Result<Node, NodesError> {
    let path = dev_root.join("dev").join(name);
    let Ok(there) = std::fs::symlink_metadata(&path) else {
        return Err(NodesError::Missing { path, major, minor });
    };
    let found = if there.file_type().is_char_device() {
        let numbers = (rustix::fs::major(there.rdev()), rustix::fs::minor(there.rdev()));
        if numbers == (major, minor) {
            return Ok(Node { path: format!("/dev/{name}"), major, minor });
        }
        format!("character device {}:{}", numbers.0, numbers.1)
    } else {
        "no character device".to_owned()
    };
    Err(NodesError::Wrong { path, found, major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_those_of_character_devices() {
        let text = "Character devices:\n  1 mem\n195 nvidia-frontend\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n";
        let majors = Majors::parse(text, Path::new("devices")).unwrap();
        assert_eq!(majors, Majors { nvidia: 195, uvm: 510 });
        let newer = Majors::parse(&text.replace("-frontend", ""), Path::new("devices")).unwrap();
        assert_eq!(newer, majors);
        let block = "Character devices:\n195 nvidia\n\nBlock devices:\n510 nvidia-uvm\n";
        let error = Majors::parse(block, Path::new("/proc/devices")).unwrap_err().to_string();
        assert!(error.contains("/proc/devices") && error.contains("modprobe nvidia-uvm"), "{error}");
        assert!(Majors::parse("", Path::new("devices")).is_err());
    }

    #[test]
    fn a_node_must_be_the_device_that_the_driver_registered() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        let error = checked(dir.path(), "nvidia-uvm", 510, 0).unwrap_err().to_string();
        assert!(error.contains("dev/nvidia-uvm") && error.contains("510:0"), "{error}");
        std::fs::write(dir.path().join("dev/nvidia-uvm"), "").unwrap();
        assert!(matches!(checked(dir.path(), "nvidia-uvm", 510, 0), Err(NodesError::Wrong { .. })));
        // The machine's own /dev/null is 1:3 everywhere.
        let error = checked(Path::new("/"), "null", 510, 3).unwrap_err().to_string();
        assert!(error.contains("1:3") && error.contains("510:3"), "{error}");
        assert_eq!(checked(Path::new("/"), "null", 1, 3).unwrap().path, "/dev/null");
    }
}
