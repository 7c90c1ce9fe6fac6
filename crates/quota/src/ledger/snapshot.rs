//! The same ledger read from plain bytes by the host, which trusts nothing in it.
//!
//! The host reads a bounded copy of the file and never maps it: the container can cut the file short at any moment.
use super::{COUNTS, LEDGER_LEN, MAGIC, OWNER, OWNERS, Owner, PEAKS, REFUSAL, REFUSALS, REFUSED, Refusal, SLOTS};
use crate::Bytes;
use crate::limits::MAX_CARDS;
use core::fmt;

/// A ledger at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    bytes: &'a [u8],
}

/// Why bytes are no ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// Not [`LEDGER_LEN`] bytes.
    Length,
    /// Does not begin as a ledger of this version.
    Magic,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the ledger has the wrong length",
            Self::Magic => "the ledger is of another version, or none at all",
        })
    }
}

impl core::error::Error for SnapshotError {}

impl<'a> Snapshot<'a> {
    /// Reads a ledger; any bytes are allowed.
    ///
    /// # Errors
    /// [`SnapshotError`] for bytes of another length or beginning.
    pub fn read(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        if bytes.len() != LEDGER_LEN {
            return Err(SnapshotError::Length);
        }
        let ledger = Self { bytes };
        if ledger.word(0) == MAGIC { Ok(ledger) } else { Err(SnapshotError::Magic) }
    }

    /// What all slots have charged on a card, dead processes' slots included. Saturates.
    #[must_use]
    pub fn used(&self, card: usize) -> Bytes {
        Bytes((0..SLOTS).fold(0, |sum, slot| u64::saturating_add(sum, self.held(card, slot).0)))
    }

    /// What one slot has charged on a card.
    #[must_use]
    pub fn held(&self, card: usize, slot: usize) -> Bytes {
        if card >= MAX_CARDS || slot >= SLOTS { Bytes(0) } else { Bytes(self.word(COUNTS + card * SLOTS + slot)) }
    }

    /// How many slots have something charged on a card.
    #[must_use]
    pub fn processes(&self, card: usize) -> usize {
        (0..SLOTS).filter(|slot| self.held(card, *slot).0 != 0).count()
    }

    /// How many allocations were refused on a card.
    #[must_use]
    pub fn refused(&self, card: usize) -> u64 {
        if card >= MAX_CARDS { 0 } else { self.word(REFUSED + card) }
    }

    /// The most that was ever charged on a card at one time.
    #[must_use]
    pub fn peak(&self, card: usize) -> Bytes {
        Bytes(if card >= MAX_CARDS { 0 } else { self.word(PEAKS + card) })
    }

    /// Why processes were refused for good: the last reason, and how many they were. `None` where none was.
    #[must_use]
    pub fn refusal(&self) -> Option<(Refusal, u64)> {
        Some((Refusal::of(self.word(REFUSAL))?, self.word(REFUSALS)))
    }

    /// Who has or had a slot, as that process said; `None` where nobody ever took it.
    #[must_use]
    pub fn owner(&self, slot: usize) -> Option<Owner> {
        let at = OWNERS + slot.min(SLOTS) * OWNER;
        let owner = Owner { pid: self.word(at), start: self.word(at + 1), namespace: self.word(at + 2) };
        (slot < SLOTS && owner.pid != 0).then_some(owner)
    }

    fn word(&self, at: usize) -> u64 {
        let field = at.checked_mul(8).and_then(|start| self.bytes.get(start..start.checked_add(8)?));
        field.and_then(|field| field.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }
}
