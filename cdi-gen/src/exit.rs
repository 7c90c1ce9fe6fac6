//! How the program ends, in one place.
use cdi::{Conflict, WriteError};
use inventory::InventoryError;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit codes, as `--help` prints them.
pub const TABLE: &str = "\
Exit codes:
  0  the file says what the node has
  2  a flag is wrong
  3  no NVIDIA driver is installed
  4  the driver is installed but not loaded, or a device node is missing
  5  no usable GPU: the file, if it was ours, is removed
  6  partial: the file is written without the GPUs that are named
  7  another file defines the same devices, or the file to write is somebody else's
  8  a file cannot be read or written
  9  the driver's parts do not fit together";

/// Why there is no file, or not a whole one.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The driver cannot be read.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// No card can be given.
    #[error("no usable GPU on this node{}{}", if *.removed { "; the old file is removed" } else { "" }, list(.bad))]
    NoGpu {
        /// Whether an old file was there.
        removed: bool,
        /// The cards that are bad.
        bad: Vec<String>,
    },
    /// Some cards cannot be given.
    #[error("the file is written without {} of {} GPUs{}", .bad.len(), .bad.len() + .good, list(.bad))]
    Partial {
        /// How many are given.
        good: usize,
        /// The cards that are bad.
        bad: Vec<String>,
    },
    /// Another file defines the same devices, and runtimes would then refuse both.
    #[error("{} defines device {:?} of the same kind, so runtimes would refuse both files; remove it, or choose another --kind", .0.path.display(), .0.device)]
    Conflict(Conflict),
    /// The file to write is there already, and is no CDI file of our kind.
    #[error("{} {what}, so it is not ours to change; remove it, or choose another --output", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// What we would write is not what a runtime would read.
    #[error("the file would be refused by runtimes: {0}")]
    Invalid(String),
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

fn list(bad: &[String]) -> String {
    bad.iter().flat_map(|card| ["\n  ", card.as_str()]).collect()
}

impl Failure {
    /// The exit code; see [`TABLE`].
    #[must_use]
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Inventory(InventoryError::NoDriver { .. }) => 3,
            Self::Inventory(InventoryError::NotLoaded(_) | InventoryError::Nodes(_)) => 4,
            Self::NoGpu { .. } => 5,
            Self::Partial { .. } => 6,
            Self::Conflict(_) | Self::Foreign { .. } => 7,
            Self::Write(_) => 8,
            Self::Inventory(_) | Self::Invalid(_) => 9,
        })
    }
}
