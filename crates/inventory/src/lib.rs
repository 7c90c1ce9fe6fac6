//! What this node has, and what a container needs to use it: cards, MIG instances, driver files, device nodes.
//!
//! The boot file of `cdi-gen` and the daemon's answers are made of the same [`Inventory`], so they cannot disagree. One bad card costs one card.
//! `unsafe` is in `nvml/raw.rs` alone.

mod card;
mod edits;
pub mod files;
pub mod nodes;
mod nvml;
pub mod pci;
pub mod root;
mod scan;
mod usage;
pub mod version;

pub use card::{BadCard, Card, MigSlice};
pub use files::{Profile, Socket, is_static_program};
pub use usage::{CardUse, ProcessUse};

use std::path::PathBuf;

/// Where to look, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// NVML's library file; `None`: `libnvidia-ml.so.1` below the driver root, else the loader's.
    pub nvml_path: Option<PathBuf>,
    /// The root below which the driver's files are: `/`, or that of a driver container.
    pub driver_root: PathBuf,
    /// The root below which `dev/` holds the device nodes.
    pub dev_root: PathBuf,
    /// The host's procfs.
    pub proc_root: PathBuf,
    /// The host's sysfs.
    pub sys_root: PathBuf,
    /// Folders to search for libraries before the known ones, as seen within the driver root.
    pub library_paths: Vec<PathBuf>,
    /// Which of the driver's files to give.
    pub profile: Profile,
    /// The driver's sockets to give.
    pub sockets: Vec<Socket>,
    /// Make device nodes that are missing or wrong.
    pub create_nodes: bool,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            nvml_path: None,
            driver_root: "/".into(),
            dev_root: "/".into(),
            proc_root: "/proc".into(),
            sys_root: "/sys".into(),
            library_paths: Vec::new(),
            profile: Profile::default(),
            sockets: Vec::new(),
            create_nodes: false,
        }
    }
}

/// What the node has.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The running driver's version, such as `550.163.01`.
    pub driver_version: String,
    /// The cards that can be given whole.
    pub cards: Vec<Card>,
    /// The MIG instances that can be given; their cards are not in [`Inventory::cards`].
    pub slices: Vec<MigSlice>,
    /// The cards and instances that cannot, and why.
    pub bad: Vec<BadCard>,
    /// The cards that are left out on purpose, and why: nothing is wrong with them.
    pub left_out: Vec<BadCard>,
    /// What is worth knowing and costs no card.
    pub warnings: Vec<String>,
    files: files::DriverFiles,
    nodes: nodes::ControlNodes,
}

/// Why the node's cards cannot be known or given.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// No NVIDIA driver is installed.
    #[error(
        "no NVIDIA driver: {path} cannot be loaded ({reason}); install the driver, or name its root (--driver-root) or NVML's file (--nvml-path)"
    )]
    NoDriver {
        /// NVML's library.
        path: PathBuf,
        /// The loader's words.
        reason: String,
    },
    /// Neither driver nor card.
    #[error("no NVIDIA GPU on the PCI bus ({path}), and no driver")]
    NoHardware {
        /// Where sysfs lists the bus.
        path: PathBuf,
    },
    /// Not the kind of machine whose GPUs are reached by `/dev/nvidia*`.
    #[error(
        "this is {what}, whose GPUs are not reached by the device nodes that we write; use NVIDIA's own toolkit here"
    )]
    Platform {
        /// The platform.
        what: &'static str,
    },
    /// The driver is installed, and its kernel module is not loaded.
    #[error("the NVIDIA driver is installed but not loaded: {0}; load it (modprobe nvidia) or reboot")]
    NotLoaded(String),
    /// Kernel module and library are of different versions.
    #[error(
        "the NVIDIA kernel module and the driver's libraries are of different versions: {0}; reboot, or reload the module"
    )]
    Mismatch(String),
    /// NVML failed as a whole.
    #[error("NVML failed: {0}")]
    Nvml(String),
    /// A root that is not a folder's name.
    #[error("cannot make {path} an absolute path: {source}")]
    Root {
        /// The root.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The driver's files cannot be given.
    #[error(transparent)]
    Files(#[from] files::FilesError),
    /// The device nodes cannot be given.
    #[error(transparent)]
    Nodes(#[from] nodes::NodesError),
}
