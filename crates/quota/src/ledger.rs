//! The ledger: what every process of a container uses of every card, in a file that all of them map.
//!
//! Fixed layout of 64-bit words in the machine's byte order, [`LEDGER_LEN`] bytes; made by the host, written inside:
//!
//! | word | content |
//! |---|---|
//! | 0 | [`MAGIC`], which names the version |
//! | 1 | hint: one more than the highest slot that was ever taken |
//! | 2 to 15 | zero |
//! | 16 + c | how many allocations were refused on card `c` |
//! | 64 + c * [`SLOTS`] + s | bytes that the process in slot `s` has charged on card `c` |
//!
//! **A slot's words are the whole truth.** No total is kept beside them, since a process killed between two additions would leave it wrong for ever.
//! Who owns a slot is no word in the file either: the owner holds an open-file-description lock on byte [`lock_byte`] of the file, which the
//! kernel releases when the process is gone, whatever its pid namespace. A slot whose lock is free and whose words are not zero is a dead
//! process's; whoever takes the lock clears it.
//!
//! The container can write anything here. Sums saturate, and nothing is used as an index.
use crate::Bytes;
use crate::limits::MAX_CARDS;
use core::sync::atomic::{AtomicU64, Ordering};

pub mod snapshot;

/// The first word; the digit is the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUQLED1");
/// How many processes can hold GPU memory at the same time in one container.
pub const SLOTS: usize = 1024;
const HINT: usize = 1;
const REFUSED: usize = 16;
const COUNTS: usize = 64;
/// The number of 64-bit words in a ledger.
pub const LEDGER_WORDS: usize = COUNTS + MAX_CARDS * SLOTS;
/// The size of a ledger in bytes.
pub const LEDGER_LEN: usize = LEDGER_WORDS * 8;
/// How often a reservation that met another is tried again. Each round ends with at least one party out or served, so few rounds are ever needed.
const ROUNDS: u32 = 64;

/// The first bytes of an empty ledger; zeros follow, up to [`LEDGER_LEN`].
#[must_use]
pub const fn initial_head() -> [u8; 8] {
    MAGIC.to_ne_bytes()
}

/// The byte of the ledger file that the owner of a slot keeps locked. Beyond the content, where no other lock of ours is.
#[must_use]
pub const fn lock_byte(slot: usize) -> u64 {
    (LEDGER_LEN + slot) as u64
}

/// Why an amount was not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverQuota;

/// A ledger as its processes see it.
#[derive(Clone, Copy, Debug)]
pub struct Ledger<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Ledger<'a> {
    /// The ledger in `words`; `None` where that is no ledger of this version.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let known = words.len() == LEDGER_WORDS && words.first()?.load(Ordering::Relaxed) == MAGIC;
        known.then_some(Self { words })
    }

    /// Notes that `slot` is taken, and clears what its last owner left. The caller holds the slot's lock.
    pub fn open_slot(&self, slot: usize) {
        self.clear_slot(slot);
        if let Some(hint) = self.words.get(HINT) {
            hint.fetch_max(slot.saturating_add(1) as u64, Ordering::SeqCst);
        }
    }

    /// Forgets all that `slot` has charged. The caller holds the slot's lock.
    pub fn clear_slot(&self, slot: usize) {
        for card in 0..MAX_CARDS {
            if let Some(word) = self.slot(card, slot) {
                word.store(0, Ordering::SeqCst);
            }
        }
    }

    /// Charges `bytes` to `slot` if the card's use then stays within `quota`.
    ///
    /// Of several processes that race for the last bytes, one that fits is served, and never more than fit.
    ///
    /// # Errors
    /// [`OverQuota`]; nothing is charged then.
    pub fn reserve(&self, card: usize, slot: usize, bytes: Bytes, quota: Bytes) -> Result<(), OverQuota> {
        let Some(own) = self.slot(card, slot) else { return Err(OverQuota) };
        for round in 0..ROUNDS {
            if self.others(card, slot).checked_add(bytes.0).is_none_or(|sum| sum > quota.0) {
                // Without us there is no room already, or there is none beside what we hold ourselves (checked below).
                return Err(OverQuota);
            }
            // Threads of this process share the slot; a word that would overflow belongs to a forged file.
            if own.try_update(Ordering::SeqCst, Ordering::SeqCst, |held| held.checked_add(bytes.0)).is_err() {
                return Err(OverQuota);
            }
            if self.used(card) <= quota {
                return Ok(());
            }
            self.release(card, slot, bytes);
            if self.used(card).0.checked_add(bytes.0).is_none_or(|sum| sum > quota.0) {
                return Err(OverQuota);
            }
            // Another reservation was in the way and is gone again. The lower slot goes first next time.
            for _ in 0..u64::from(round).saturating_mul(slot as u64 % 64) {
                core::hint::spin_loop();
            }
        }
        Err(OverQuota)
    }

    /// Gives back `bytes` that `slot` had reserved. Saturates: a forged word cannot become huge.
    pub fn release(&self, card: usize, slot: usize, bytes: Bytes) {
        if let Some(own) = self.slot(card, slot) {
            let _ = own.try_update(Ordering::SeqCst, Ordering::SeqCst, |held| Some(held.saturating_sub(bytes.0)));
        }
    }

    /// What all processes have charged on a card.
    #[must_use]
    pub fn used(&self, card: usize) -> Bytes {
        Bytes(self.sum(card, usize::MAX))
    }

    /// What one slot has charged on a card.
    #[must_use]
    pub fn held(&self, card: usize, slot: usize) -> Bytes {
        Bytes(self.slot(card, slot).map_or(0, |word| word.load(Ordering::SeqCst)))
    }

    /// The slots other than `own` that have something charged on any card.
    pub fn charged_slots(&self, own: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.slots_in_use())
            .filter(move |slot| *slot != own && (0..MAX_CARDS).any(|card| self.held(card, *slot).0 != 0))
    }

    /// Counts an allocation that was refused, for the host to see.
    pub fn count_refusal(&self, card: usize) {
        if let (true, Some(word)) = (card < MAX_CARDS, self.words.get(REFUSED.saturating_add(card))) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn others(&self, card: usize, slot: usize) -> u64 {
        self.sum(card, slot)
    }

    fn sum(&self, card: usize, without: usize) -> u64 {
        let slots = self.card(card).iter().take(self.slots_in_use()).enumerate();
        slots
            .filter(|(slot, _)| *slot != without)
            .fold(0, |sum, (_, word)| u64::saturating_add(sum, word.load(Ordering::SeqCst)))
    }

    /// One more than the highest slot that was ever taken.
    #[must_use]
    pub fn slots_in_use(&self) -> usize {
        let hint = self.words.get(HINT).map_or(0, |word| word.load(Ordering::SeqCst));
        usize::try_from(hint).unwrap_or(SLOTS).min(SLOTS)
    }

    fn card(&self, card: usize) -> &'a [AtomicU64] {
        let start = COUNTS + card.min(MAX_CARDS) * SLOTS;
        self.words.get(start..start + SLOTS).unwrap_or(&[])
    }

    fn slot(&self, card: usize, slot: usize) -> Option<&'a AtomicU64> {
        self.card(card).get(slot)
    }
}

#[cfg(test)]
mod tests;
