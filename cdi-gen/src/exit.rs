//! How the program ends, in one place.
use crate::generate::TooNew;
use cdi::{Conflict, ReadError, WriteError};
use inventory::InventoryError;
use std::path::PathBuf;

/// The exit codes, as `--help` prints them.
pub const TABLE: &str = "\
Exit codes:
  0   the file says what the node has
  2   a flag is wrong
  3   no NVIDIA driver is installed
  4   the driver is installed but not loaded, or a device node is missing
  5   no usable GPU: the file, if it was ours, is removed
  6   partial: the file is right, and lacks the GPUs that are named
  7   another file defines the same devices, or the file to write is somebody else's
  8   a file cannot be read or written
  9   the driver's parts do not fit together
  10  the file is stale or missing (check)
  11  a file would be refused by runtimes (validate, check, transform)";

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
    /// A device was asked for by a name that the node does not have.
    #[error("--device {} is not on this node; it has {}", .names.join(", "), if .known.is_empty() { "none".to_owned() } else { .known.join(", ") })]
    NoSuchDevice {
        /// What was asked for.
        names: Vec<String>,
        /// What is there.
        known: Vec<String>,
    },
    /// Flags that do not go together.
    #[error("{0}")]
    Usage(String),
    /// The content needs a higher version than is allowed.
    #[error(transparent)]
    TooNew(#[from] TooNew),
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
    /// The file says what is no longer so.
    #[error("{} is stale{}", path.display(), list(.reasons))]
    Stale {
        /// The file.
        path: PathBuf,
        /// Why, at least one.
        reasons: Vec<String>,
    },
    /// A file that runtimes refuse, or that cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Some of several files are refused.
    #[error("{refused} of {all} files would be refused by runtimes")]
    Refused {
        /// How many.
        refused: usize,
        /// Of how many.
        all: usize,
        /// Whether one of them could not even be read.
        unread: bool,
    },
    /// There is no status to tell.
    #[error("no status at {}: {reason}; run cdi-gen generate first, or name its file (--status-file)", path.display())]
    NoStatus {
        /// The status file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The last run's own end, told again.
    #[error("the last run ended with exit code {0}")]
    Last(u8),
    /// An old file was removed because it was known to be stale.
    #[error("{failure}\nthe old file is removed, since runtimes would act on what is no longer so{}", list(.reasons))]
    AndRemoved {
        /// Why there is no new one.
        failure: Box<Failure>,
        /// What was stale.
        reasons: Vec<String>,
    },
}

fn list(bad: &[String]) -> String {
    bad.iter().flat_map(|card| ["\n  ", card.as_str()]).collect()
}

impl Failure {
    /// The exit code; see [`TABLE`].
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::NoSuchDevice { .. } | Self::Usage(_) => 2,
            Self::Inventory(InventoryError::NoDriver { .. } | InventoryError::Platform { .. }) => 3,
            Self::Inventory(InventoryError::NotLoaded(_) | InventoryError::Nodes(_)) => 4,
            Self::NoGpu { .. } | Self::Inventory(InventoryError::NoHardware { .. }) => 5,
            Self::Partial { .. } => 6,
            Self::Conflict(_) | Self::Foreign { .. } => 7,
            Self::Write(_)
            | Self::NoStatus { .. }
            | Self::Refused { unread: true, .. }
            | Self::Read(ReadError::Io { .. }) => 8,
            Self::Inventory(_) | Self::Invalid(_) | Self::TooNew(_) => 9,
            Self::Stale { .. } => 10,
            Self::Read(_) | Self::Refused { .. } => 11,
            Self::Last(code) => *code,
            Self::AndRemoved { failure, .. } => failure.code(),
        }
    }
}
