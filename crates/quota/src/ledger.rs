//! The ledger: what every process of a container uses of every card, in a file that all of them map.
//!
//! Fixed layout of 64-bit words in the machine's byte order, [`LEDGER_LEN`] bytes; made by the host, written inside:
//!
//! | word | content |
//! |---|---|
//! | 0 | [`MAGIC`], which names the version |
//! | 1 | hint: one more than the highest slot that was ever taken |
//! | 2 | why the last process that could not start was refused ([`Refusal`]); zero for none |
//! | 3 | how many processes were refused so |
//! | 4 to 15 | zero |
//! | 16 + c | how many allocations were refused on card `c` |
//! | 32 + c | the most bytes that were ever charged on card `c` at one time |
//! | 48 to 63 | zero |
//! | 64 + c * [`SLOTS`] + s | bytes that the process in slot `s` has charged on card `c` |
//! | 16448 + s * 4 | slot `s`: its owner's pid, start time in ticks since boot, and pid namespace's inode, each as the owner sees it; and zero |
//!
//! **A slot's words are the whole truth.** No total is kept beside them, since a process killed between two additions would leave it wrong for ever.
//! Who owns a slot is no word in the file either: the owner holds an open-file-description lock on byte [`lock_byte`] of the file, which the
//! kernel releases when the process is gone, whatever its pid namespace. A slot whose lock is free and whose words are not zero is a dead
//! process's; whoever takes the lock clears it.
//!
//! The container can write anything here. Sums saturate, and nothing is used as an index.
use crate::Bytes;
use crate::limits::MAX_CARDS;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

pub mod snapshot;

/// The first word; the digit is the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUQLED2");
/// How many processes can hold GPU memory at the same time in one container.
pub const SLOTS: usize = 1024;
const HINT: usize = 1;
const REFUSAL: usize = 2;
const REFUSALS: usize = 3;
const REFUSED: usize = 16;
const PEAKS: usize = 32;
const COUNTS: usize = 64;
const OWNERS: usize = COUNTS + MAX_CARDS * SLOTS;
/// Words of an owner.
const OWNER: usize = 4;
/// The number of 64-bit words in a ledger.
pub const LEDGER_WORDS: usize = OWNERS + OWNER * SLOTS;
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

/// Who holds a slot: a pid alone may be another process's by the time it is looked at, or of another namespace. For people and audits only; whether the
/// owner lives is told by its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its pid in its own namespace.
    pub pid: u64,
    /// When it started: field 22 of `/proc/PID/stat`, in clock ticks since boot.
    pub start: u64,
    /// The inode of its pid namespace.
    pub namespace: u64,
}

/// Why a process may not use any GPU memory: what it needs is missing or damaged. Written into the ledger for the host to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Refusal {
    /// There is no limits file.
    LimitsMissing = 1,
    /// The limits file cannot be opened or mapped.
    LimitsUnreadable = 2,
    /// The limits file is of another version.
    LimitsVersion = 3,
    /// The limits file is damaged.
    LimitsDamaged = 4,
    /// The kernel lacks a feature, or memory.
    Kernel = 5,
    /// All slots of the ledger are taken.
    NoSlot = 6,
}

impl Refusal {
    const ALL: [Self; 6] = [
        Self::LimitsMissing,
        Self::LimitsUnreadable,
        Self::LimitsVersion,
        Self::LimitsDamaged,
        Self::Kernel,
        Self::NoSlot,
    ];

    /// The refusal of a code; `None` for any other word.
    #[must_use]
    pub fn of(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u64 == code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LimitsMissing => "the container has no limits file at its place; create the container anew",
            Self::LimitsUnreadable => "the limits file cannot be read inside the container; check its mount and mode",
            Self::LimitsVersion => {
                "the limits file is of another version than the interposer; create the container anew"
            }
            Self::LimitsDamaged => "the limits file is damaged; create the container anew",
            Self::Kernel => {
                "the kernel gives no memory that a fork wipes; the interposer needs Linux 4.14 or later, and memory"
            }
            Self::NoSlot => "as many processes as a ledger has slots hold GPU memory already; end some of them",
        })
    }
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

    /// The ledger in words that [`Ledger::new`] has accepted before; whatever the container has written there since, it is only counts.
    #[must_use]
    pub fn known(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// Notes that `slot` is taken, and clears what its last owner left. The caller holds the slot's lock.
    pub fn open_slot(&self, slot: usize, owner: Owner) {
        self.clear_slot(slot);
        for (at, value) in [owner.pid, owner.start, owner.namespace].into_iter().enumerate() {
            if let Some(word) = self.words.get(OWNERS + slot.min(SLOTS) * OWNER + at).filter(|_| slot < SLOTS) {
                word.store(value, Ordering::Relaxed);
            }
        }
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
            let used = self.used(card);
            if used <= quota {
                self.note_peak(card, used);
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

    /// Charges what the driver has handed out already, whatever the quota: nothing more is granted until it has gone back.
    pub fn reserve_anyway(&self, card: usize, slot: usize, bytes: Bytes) {
        if let Some(own) = self.slot(card, slot) {
            let _ = own.try_update(Ordering::SeqCst, Ordering::SeqCst, |held| Some(held.saturating_add(bytes.0)));
            self.note_peak(card, self.used(card));
        }
    }

    fn note_peak(&self, card: usize, used: Bytes) {
        if let (true, Some(peak)) = (card < MAX_CARDS, self.words.get(PEAKS.saturating_add(card)))
            && peak.load(Ordering::Relaxed) < used.0
        {
            peak.fetch_max(used.0, Ordering::Relaxed);
        }
    }

    /// Notes that a process was refused for good, for the host to see.
    pub fn note_refusal(&self, refusal: Refusal) {
        if let (Some(last), Some(count)) = (self.words.get(REFUSAL), self.words.get(REFUSALS)) {
            last.store(refusal as u64, Ordering::Relaxed);
            count.fetch_add(1, Ordering::Relaxed);
        }
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
        self.words.get(start..(start + SLOTS).min(OWNERS)).unwrap_or(&[])
    }

    fn slot(&self, card: usize, slot: usize) -> Option<&'a AtomicU64> {
        self.card(card).get(slot)
    }
}

#[cfg(test)]
mod tests;
