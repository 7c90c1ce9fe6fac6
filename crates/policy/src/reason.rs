//! Why a container is refused, and what is only warned about. Each has a stable code for machines and a sentence for people.
//!
//! Values in the sentences come from whoever wrote the container, so they are escaped and cut short.
use quota::{Bytes, Unit};
use std::fmt;

/// A foreign text in a sentence: quoted, escaped, at most 64 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    const MOST: usize = 64;

    /// Takes as much of `text` as is shown.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut shown: String = text.chars().take(Self::MOST).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self(shown)
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Why a container is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A number that is none, or out of its range.
    #[error(
        "{key} is {value}; it must be a whole number from 1 to {most} ({unit}), which is what a card of this node counts"
    )]
    BadQuota {
        /// The env key.
        key: &'static str,
        /// What was given.
        value: Quoted,
        /// What the largest card counts.
        most: u64,
        /// The node's unit.
        unit: Unit,
    },
    /// A key that must have one value has several.
    #[error(
        "{key} occurs twice with different values ({first}, then {other}); leave only the one that the device plugin sets"
    )]
    Twice {
        /// The env key.
        key: &'static str,
        /// The first value.
        first: Quoted,
        /// The value that differs.
        other: Quoted,
    },
    /// A value that cannot be read.
    #[error("{key} is {value}; it must be {allowed}")]
    BadValue {
        /// Env key, annotation or label.
        key: &'static str,
        /// What was given.
        value: Quoted,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The count of one card is given in another unit than the node's.
    #[error(
        "{key} is {value}, but a card of this node counts {count} in {unit}; give the daemon the node's unit (--unit), or correct the device plugin"
    )]
    UnitMismatch {
        /// The env key or annotation.
        key: &'static str,
        /// What was given.
        value: u64,
        /// What a card counts.
        count: u64,
        /// The node's unit.
        unit: Unit,
    },
    /// The container asks for more than its pod was given.
    #[error("the container asks for {quota} ({container}), but its pod was given {pod} ({key})")]
    AbovePod {
        /// The container's quota.
        quota: u64,
        /// The key of the container's quota.
        container: &'static str,
        /// The pod's total.
        pod: u64,
        /// The annotation's key.
        key: &'static str,
    },
    /// The scheduler or device plugin says that no card was found.
    #[error(
        "the device plugin found no card for this container: {key} is {value}; free GPU memory on this node or schedule the pod elsewhere"
    )]
    AllocationFailed {
        /// The env key or annotation.
        key: &'static str,
        /// What was given.
        value: Quoted,
    },
    /// A card is named that the node does not have.
    #[error("{key} names card {value}, which this node does not have; it has {}", list(.has))]
    UnknownCard {
        /// The env key or annotation.
        key: &'static str,
        /// What was given.
        value: Quoted,
        /// The node's cards.
        has: Vec<u32>,
    },
    /// The share is over several cards and does not divide.
    #[error("a share of {quota} cannot be divided into {count} equal parts ({GPU_COUNT}); ask for a multiple of {count}", GPU_COUNT = crate::contract::GPU_COUNT)]
    DoesNotDivide {
        /// The container's quota.
        quota: u64,
        /// The number of cards.
        count: u64,
    },
    /// More or fewer cards are named than asked.
    #[error("{named} cards are named by {key}, but the share is over {count}")]
    CardCount {
        /// Where they are named.
        key: &'static str,
        /// How many are named.
        named: usize,
        /// How many are asked.
        count: u64,
    },
    /// The allocation of the scheduler does not fit the container.
    #[error("{key} holds no entry of {quota} that is clear for this container; it says {value}")]
    NoAllocation {
        /// The annotation.
        key: &'static str,
        /// The container's quota.
        quota: u64,
        /// What was given.
        value: Quoted,
    },
    /// The share is larger than the card.
    #[error("{key} asks for {asked} of card {index}, which has {memory} and counts {count}")]
    AboveCard {
        /// The env key.
        key: &'static str,
        /// What is asked, in bytes.
        asked: Bytes,
        /// The card.
        index: u32,
        /// Its memory.
        memory: Bytes,
        /// What it counts.
        count: u64,
    },
    /// The share does not fit beside those that are booked.
    #[error(
        "card {index} has {free} free of {memory}, but {asked} is asked; {booked} is booked by other containers of this node"
    )]
    NoRoom {
        /// The card.
        index: u32,
        /// What is free.
        free: Bytes,
        /// Its memory.
        memory: Bytes,
        /// What is asked.
        asked: Bytes,
        /// What is booked.
        booked: Bytes,
    },
    /// Nobody chose a card, and none fits.
    #[error("no card of this node has {asked} free: {cards}")]
    NoCardFits {
        /// What is asked of each card.
        asked: Bytes,
        /// Each card and what is free on it.
        cards: String,
    },
    /// The node has no usable card.
    #[error("a share of a GPU is asked ({key}), but this node has no usable GPU; `cdi-gen generate` says why")]
    NoCards {
        /// The env key.
        key: &'static str,
    },
    /// Something is mounted over a file by which the quota is held.
    #[error(
        "the container mounts something at {path}, where gpu-quota puts {ours}; mount it elsewhere, or ask for no share"
    )]
    MountConflict {
        /// The container's mount.
        path: Quoted,
        /// Our path.
        ours: &'static str,
    },
    /// Somebody else gave the container a GPU already.
    #[error(
        "the container already has {path} from someone else (a CDI device, another runtime or plugin, or privileged mode), so its share could not be held; let only gpu-quota give it the GPU"
    )]
    DeviceConflict {
        /// The device node.
        path: Quoted,
    },
}

impl Reason {
    /// A stable word for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadQuota { .. } => "bad-quota",
            Self::Twice { .. } => "key-twice",
            Self::BadValue { .. } => "bad-value",
            Self::UnitMismatch { .. } => "unit-mismatch",
            Self::AbovePod { .. } => "above-pod",
            Self::AllocationFailed { .. } => "allocation-failed",
            Self::UnknownCard { .. } => "unknown-card",
            Self::DoesNotDivide { .. } => "does-not-divide",
            Self::CardCount { .. } => "card-count",
            Self::NoAllocation { .. } => "no-allocation",
            Self::AboveCard { .. } => "above-card",
            Self::NoRoom { .. } => "no-room",
            Self::NoCardFits { .. } => "no-card-fits",
            Self::NoCards { .. } => "no-cards",
            Self::MountConflict { .. } => "mount-conflict",
            Self::DeviceConflict { .. } => "device-conflict",
        }
    }
}

fn list(indexes: &[u32]) -> String {
    let words: Vec<_> = indexes.iter().map(u32::to_string).collect();
    format!("card {}", words.join(", "))
}

/// What the node's owner should know; changes nothing in the decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// `CGPU_DISABLE` is neither yes nor no.
    #[error("{key} is {value}, which is neither true nor false; the container is isolated")]
    UnknownWord {
        /// The env key.
        key: &'static str,
        /// What was given.
        value: Quoted,
    },
    /// `CGPU_DISABLE` occurs with yes and no.
    #[error("{key} occurs with different values; the container is isolated")]
    Contradiction {
        /// The env key.
        key: &'static str,
    },
    /// Two sources name different cards.
    #[error("{believed} names card {card}, {other} says {value}; the first is believed")]
    Differs {
        /// The source that decides.
        believed: &'static str,
        /// The card that it names.
        card: u32,
        /// The source that does not.
        other: &'static str,
        /// What it says.
        value: Quoted,
    },
    /// A value of no consequence that cannot be read.
    #[error("{key} is {value}, which cannot be read; it is not used")]
    Unread {
        /// Annotation or env key.
        key: &'static str,
        /// What was given.
        value: Quoted,
    },
    /// One card is said to count something else than it does.
    #[error("{key} says that a card counts {said}, card {index} counts {count}")]
    OtherCount {
        /// The env key or annotation.
        key: &'static str,
        /// What was given.
        said: u64,
        /// The card.
        index: u32,
        /// What it counts.
        count: u64,
    },
    /// The device plugin has not confirmed the card.
    #[error("{key} is \"false\": the scheduler chose a card, but the device plugin has not handed it over")]
    NotAssigned {
        /// The annotation.
        key: &'static str,
    },
}
