//! What this node has, and what a container needs to use it: cards, driver files, device nodes.
//!
//! The boot file of `cdi-gen` and the daemon's answers are made of the same [`Inventory`], so they cannot disagree. One bad card costs one card.
//! `unsafe` is in `nvml/raw.rs` alone.

mod edits;
pub mod files;
pub mod nodes;
mod nvml;
pub mod root;

use quota::{Bytes, CardId};
use std::path::PathBuf;

/// Where to look.
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
}

impl Default for Sources {
    fn default() -> Self {
        Self { nvml_path: None, driver_root: "/".into(), dev_root: "/".into(), proc_root: "/proc".into() }
    }
}

/// What the node has.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The running driver's version, such as `550.163.01`.
    pub driver_version: String,
    /// The cards that can be given.
    pub cards: Vec<Card>,
    /// The cards that cannot, and why.
    pub bad: Vec<BadCard>,
    files: files::DriverFiles,
    nodes: nodes::ControlNodes,
}

/// A card that can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// NVML's index.
    pub index: u32,
    /// The card's identity.
    pub id: CardId,
    /// The product's name.
    pub name: String,
    /// PCI address as NVML prints it, such as `00000000:00:1E.0`.
    pub pci_bus_id: String,
    /// The card's whole memory; `None` where NVML does not tell, and then no share of it can be given.
    pub memory: Option<Bytes>,
    /// `/dev/nvidia<minor>`.
    pub node: nodes::Node,
}

/// A card that cannot be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCard {
    /// NVML's index.
    pub index: u32,
    /// PCI address, where it could be found out.
    pub pci_bus_id: Option<String>,
    /// What is wrong.
    pub reason: String,
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

impl Sources {
    /// Looks at the driver, its files and nodes. Takes as long as NVML takes: up to seconds for each card.
    ///
    /// # Errors
    /// [`InventoryError`] where no card of the node could be given; a card that is bad by itself is in [`Inventory::bad`].
    pub fn scan(&self) -> Result<Inventory, InventoryError> {
        let found = nvml::read(self)?;
        if found.cards.is_empty() {
            // Nothing to give, so nothing is needed: a node without a usable card is not told to load more modules.
            let (files, nodes) = (files::DriverFiles::default(), nodes::ControlNodes::default());
            let (driver_version, bad) = (found.driver_version, found.bad);
            return Ok(Inventory { driver_version, cards: Vec::new(), bad, files, nodes });
        }
        // A relative path would mean another folder to the runtime.
        let root = std::path::absolute(&self.driver_root);
        let root = root.map_err(|source| InventoryError::Root { path: self.driver_root.clone(), source })?;
        let files = files::find(&root, &found.driver_version)?;
        let majors = nodes::Majors::read(&self.proc_root)?;
        let nodes = nodes::control(&self.dev_root, &majors)?;
        let (mut cards, mut bad) = (Vec::new(), found.bad);
        for seen in found.cards {
            match nodes::card(&self.dev_root, &majors, seen.minor) {
                Ok(node) => cards.push(Card {
                    index: seen.index,
                    id: seen.id,
                    name: seen.name,
                    pci_bus_id: seen.pci_bus_id,
                    memory: seen.memory,
                    node,
                }),
                Err(error) => bad.push(BadCard {
                    index: seen.index,
                    pci_bus_id: Some(seen.pci_bus_id),
                    reason: error.to_string(),
                }),
            }
        }
        bad.sort_by_key(|card| card.index);
        Ok(Inventory { driver_version: found.driver_version, cards, bad, files, nodes })
    }
}
