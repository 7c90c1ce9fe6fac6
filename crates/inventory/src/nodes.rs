//! Device nodes, fully specified: type, major from procfs, minor. A runtime then needs no look at the host, and a major that changed with a reload
//! of the module cannot be taken from an old node.
mod drm;
mod make;
mod mig;

pub(crate) use drm::drm;
pub(crate) use make::Makes;
pub(crate) use mig::mig;

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Minor of `/dev/nvidiactl` and `/dev/nvidia-modeset` (NVIDIA's nv.h).
const CTL_MINOR: u32 = 255;
const MODESET_MINOR: u32 = 254;
/// Read and write for all, as the driver makes its nodes.
const FOR_ALL: u32 = 0o666;

/// A character device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path in the container and on the host.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Mode bits in the container.
    pub mode: u32,
    /// The group that may use it on the host, where others may not.
    pub group: Option<u32>,
}

/// The nodes that every container with a GPU needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlNodes {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Optional ones that are not as they should be.
    pub warnings: Vec<String>,
}

/// The majors that the driver's modules registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majors {
    /// `nvidia`, or `nvidia-frontend` before driver 550.40.
    pub nvidia: u32,
    /// `nvidia-uvm`, assigned anew at each load.
    pub uvm: u32,
    /// `nvidia-caps`, the nodes of MIG instances, assigned anew at each load; `None` before driver 450.
    pub caps: Option<u32>,
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
        "the device node {path} is missing (it would be character device {major}:{minor}); run nvidia-modprobe -c 0 -u, or cdi-gen generate with --create-device-nodes"
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
    #[error(
        "{path} is {found}, but the driver registered {major}:{minor}; remove it and run nvidia-modprobe -c 0 -u, or cdi-gen generate with --create-device-nodes"
    )]
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
    /// A node cannot be made.
    #[error("cannot make the device node {path} as character device {major}:{minor}: {source}")]
    Make {
        /// The node.
        path: PathBuf,
        /// Its major.
        major: u32,
        /// Its minor.
        minor: u32,
        /// The cause.
        source: std::io::Error,
    },
    /// procfs tells no minor of a MIG instance's capability.
    #[error(
        "{path} lists no {capability}; the instance may be gone, or the driver too old; list instances with nvidia-smi mig -lci"
    )]
    NoCapability {
        /// The file.
        path: PathBuf,
        /// The capability.
        capability: String,
    },
}

/// The majors as procfs has them, each where its module is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// See [`Majors::nvidia`].
    pub nvidia: Option<u32>,
    /// See [`Majors::uvm`].
    pub uvm: Option<u32>,
    /// See [`Majors::caps`].
    pub caps: Option<u32>,
}

impl Registered {
    /// Reads `<proc_root>/devices`.
    ///
    /// # Errors
    /// [`NodesError::Read`].
    pub fn read(proc_root: &Path) -> Result<Self, NodesError> {
        let path = proc_root.join("devices");
        let text = std::fs::read_to_string(&path).map_err(|source| NodesError::Read { path, source })?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let characters = text.split("Block devices:").next().unwrap_or("");
        let major = |names: &[&str]| {
            let rows = characters.lines().filter_map(|line| line.trim().split_once(' '));
            rows.filter(|(_, name)| names.contains(&name.trim())).find_map(|(major, _)| major.parse().ok())
        };
        Self {
            nvidia: major(&["nvidia", "nvidia-frontend"]),
            uvm: major(&["nvidia-uvm"]),
            caps: major(&["nvidia-caps"]),
        }
    }

    /// The major of a node by its path; `None` where it is none of the driver's, or its module is not loaded.
    #[must_use]
    pub fn of(&self, path: &str) -> Option<u32> {
        let name = path.strip_prefix("/dev/nvidia")?;
        if name.starts_with("-uvm") {
            self.uvm
        } else if name.starts_with("-caps/") {
            self.caps
        } else if name.starts_with("ctl") || name == "-modeset" || name.bytes().all(|c| c.is_ascii_digit()) {
            self.nvidia
        } else {
            None
        }
    }
}

impl Majors {
    /// Reads the majors of the driver's modules from `<proc_root>/devices`.
    ///
    /// # Errors
    /// [`NodesError::Read`], [`NodesError::NoMajor`].
    pub fn read(proc_root: &Path) -> Result<Self, NodesError> {
        Self::known(Registered::read(proc_root)?, &proc_root.join("devices"))
    }

    fn known(registered: Registered, path: &Path) -> Result<Self, NodesError> {
        let missing = |name, module| NodesError::NoMajor { path: path.to_owned(), name, module };
        Ok(Self {
            nvidia: registered.nvidia.ok_or_else(|| missing("nvidia", "nvidia"))?,
            uvm: registered.uvm.ok_or_else(|| missing("nvidia-uvm", "nvidia-uvm"))?,
            caps: registered.caps,
        })
    }
}

/// The control nodes: `nvidiactl` and `nvidia-uvm` must be there, `nvidia-uvm-tools` and `nvidia-modeset` may.
///
/// # Errors
/// [`NodesError::Missing`], [`NodesError::Wrong`], [`NodesError::Make`].
pub(crate) fn control(dev_root: &Path, majors: &Majors, makes: Makes) -> Result<ControlNodes, NodesError> {
    let mut control = ControlNodes::default();
    let nodes = [
        ("nvidiactl", majors.nvidia, CTL_MINOR, true),
        ("nvidia-uvm", majors.uvm, 0, true),
        ("nvidia-uvm-tools", majors.uvm, 1, false),
        ("nvidia-modeset", majors.nvidia, MODESET_MINOR, false),
    ];
    for (name, major, minor, required) in nodes {
        match makes.checked(dev_root, name, (major, minor), FOR_ALL) {
            Ok(node) => control.nodes.push(node),
            Err(NodesError::Missing { .. }) if !required => {}
            Err(error) if !required => control.warnings.push(format!("left out: {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok(control)
}

/// A card's node.
///
/// # Errors
/// [`NodesError::Missing`], [`NodesError::Wrong`], [`NodesError::Make`].
pub(crate) fn card(dev_root: &Path, majors: &Majors, minor: u32, makes: Makes) -> Result<Node, NodesError> {
    makes.checked(dev_root, &format!("nvidia{minor}"), (majors.nvidia, minor), FOR_ALL)
}

/// The node `name`, which must be the character device `number`.
fn checked(dev_root: &Path, name: &str, number: (u32, u32), mode: u32) -> Result<Node, NodesError> {
    let (major, minor) = number;
    let path = dev_root.join("dev").join(name);
    let Ok(there) = std::fs::symlink_metadata(&path) else {
        return Err(NodesError::Missing { path, major, minor });
    };
    let found = if there.file_type().is_char_device() {
        let numbers = (rustix::fs::major(there.rdev()), rustix::fs::minor(there.rdev()));
        if numbers == number {
            let open = mode & 0o007;
            let group = Some(there.gid()).filter(|group| there.mode() & open != open && *group != 0);
            return Ok(Node { path: format!("/dev/{name}"), major, minor, mode, group });
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
        let parse = |text: &str, path: &str| Majors::known(Registered::parse(text), Path::new(path));
        let text = "Character devices:\n  1 mem\n195 nvidia-frontend\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n";
        let majors = parse(text, "devices").unwrap();
        assert_eq!(majors, Majors { nvidia: 195, uvm: 510, caps: None });
        let newer = parse(&text.replace("-frontend", ""), "devices").unwrap();
        assert_eq!(newer, majors);
        let block = "Character devices:\n195 nvidia\n\nBlock devices:\n510 nvidia-uvm\n";
        let error = parse(block, "/proc/devices").unwrap_err().to_string();
        assert!(error.contains("/proc/devices") && error.contains("modprobe nvidia-uvm"), "{error}");
        assert!(parse("", "devices").is_err());
    }

    #[test]
    fn a_path_tells_whose_node_it_is() {
        let text = "Character devices:\n195 nvidia\n510 nvidia-uvm\n508 nvidia-caps\n";
        let registered = Registered::parse(text);
        let majors =
            ["nvidia0", "nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/nvidia-cap3"];
        let majors = majors.map(|name| registered.of(&format!("/dev/{name}")));
        assert_eq!(majors, [Some(195), Some(195), Some(195), Some(510), Some(510), Some(508)]);
        assert_eq!((registered.of("/dev/dri/card0"), registered.of("/dev/nvidia-nvswitch0")), (None, None));
    }

    #[test]
    fn a_node_must_be_the_device_that_the_driver_registered() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        let error = checked(dir.path(), "nvidia-uvm", (510, 0), FOR_ALL).unwrap_err().to_string();
        assert!(error.contains("dev/nvidia-uvm") && error.contains("510:0"), "{error}");
        std::fs::write(dir.path().join("dev/nvidia-uvm"), "").unwrap();
        assert!(matches!(checked(dir.path(), "nvidia-uvm", (510, 0), FOR_ALL), Err(NodesError::Wrong { .. })));
        // The machine's own /dev/null is 1:3 everywhere.
        let error = checked(Path::new("/"), "null", (510, 3), FOR_ALL).unwrap_err().to_string();
        assert!(error.contains("1:3") && error.contains("510:3"), "{error}");
        assert_eq!(checked(Path::new("/"), "null", (1, 3), FOR_ALL).unwrap().path, "/dev/null");
    }
}
