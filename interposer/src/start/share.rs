//! What this process may use, and where it counts.
use super::Page;
use crate::sys;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use quota::Bytes;
use quota::ledger::Ledger;
use quota::limits::{Limits, quota_word};

/// For so long, in [`sys::ticks`], a ledger that was whole is taken to be whole: about a microsecond. To look costs more than to count.
const WHOLE_FOR: u64 = if cfg!(target_arch = "x86_64") { 4096 } else { 64 };

/// What this process may use, and where it counts.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    pub(super) page: &'static Page,
    pub(crate) limits: &'static Limits,
    /// The ledger's words.
    pub(super) words: &'static [AtomicU64],
    /// The limits file's words.
    pub(super) quotas: &'static [AtomicU64],
}

impl Share {
    /// The ledger; `None` once it was seen to be cut short.
    ///
    /// Every process of the container can cut the file short, and who then touches what is gone is ended by SIGBUS. No lock, seal or mode prevents that
    /// for a file that others must be able to write, so the kernel is asked before each use, or a microsecond before.
    pub(super) fn ledger(&self) -> Option<Ledger<'static>> {
        let now = sys::ticks();
        if now.wrapping_sub(self.page.seen.load(Ordering::Relaxed)) > WHOLE_FOR {
            self.whole_ledger()
        } else {
            Some(Ledger::known(self.words))
        }
    }

    /// The same, asked of the kernel right now.
    pub(super) fn whole_ledger(&self) -> Option<Ledger<'static>> {
        let last = self.words.last()?;
        if self.page.lost.load(Ordering::Relaxed) != 0 || !sys::can_read(core::ptr::from_ref(last).cast()) {
            self.page.lost.store(1, Ordering::Relaxed);
            self.page.seen.store(0, Ordering::Relaxed);
            return None;
        }
        self.page.seen.store(sys::ticks(), Ordering::Relaxed);
        Some(Ledger::known(self.words))
    }

    /// What the container may use of a card now; the host may change it at any time. Nothing for a card that it has no share of.
    pub(crate) fn quota(&self, card: usize) -> Bytes {
        let Some(limit) = self.limits.cards().get(card) else { return Bytes(0) };
        let now = self.quotas.get(quota_word(card)).map_or(limit.quota.0, |word| word.load(Ordering::Relaxed));
        Bytes(u64::from_le(now).min(limit.total.0))
    }

    /// Charges `bytes` to this process if the container's use then stays within the quota; `false` changes nothing.
    ///
    /// The process's own sum is looked at too: whatever becomes of the ledger, one process never gets more than the whole quota.
    pub(crate) fn charge(&self, card: usize, slot: usize, bytes: Bytes) -> bool {
        let quota = self.quota(card);
        let Some(held) = self.page.held.get(card) else { return false };
        let add = |held: u64| held.checked_add(bytes.0).filter(|sum| *sum <= quota.0);
        if held.try_update(Ordering::SeqCst, Ordering::SeqCst, add).is_err() {
            return false;
        }
        let charged = self.ledger().is_none_or(|ledger| ledger.reserve(card, slot, bytes, quota).is_ok());
        if !charged {
            held.fetch_sub(bytes.0, Ordering::SeqCst);
        }
        charged
    }

    /// Charges what the driver has taken already, whatever the quota.
    pub(crate) fn charge_anyway(&self, card: usize, slot: usize, bytes: Bytes) {
        if let Some(held) = self.page.held.get(card) {
            let _ = held.try_update(Ordering::SeqCst, Ordering::SeqCst, |held| Some(held.saturating_add(bytes.0)));
        }
        if let Some(ledger) = self.ledger() {
            ledger.reserve_anyway(card, slot, bytes);
        }
    }

    /// Gives back what [`Share::charge`] has charged.
    pub(crate) fn give_back(&self, card: usize, slot: usize, bytes: Bytes) {
        if let Some(ledger) = self.ledger() {
            ledger.release(card, slot, bytes);
        }
        if let Some(held) = self.page.held.get(card) {
            let _ = held.try_update(Ordering::SeqCst, Ordering::SeqCst, |held| Some(held.saturating_sub(bytes.0)));
        }
    }

    /// What the container uses of a card, as far as this process can know.
    pub(crate) fn used(&self, card: usize) -> Bytes {
        let held = self.page.held.get(card).map_or(0, |held| held.load(Ordering::SeqCst));
        Bytes(self.ledger().map_or(0, |ledger| ledger.used(card).0).max(held))
    }

    /// Notes for the host that an allocation was refused.
    pub(crate) fn count_refusal(&self, card: usize) {
        if let Some(ledger) = self.ledger() {
            ledger.count_refusal(card);
        }
    }

    /// Where the card of a CUDA device is remembered.
    pub(crate) fn remembered(&self, device: usize) -> Option<&'static AtomicU32> {
        self.page.cards.get(device)
    }

    /// How many contexts this process has charged on a card.
    pub(crate) fn contexts(&self, card: usize) -> Option<&'static AtomicU64> {
        self.page.contexts.get(card)
    }

    /// Whether a pool may hold more than is live in it.
    pub(crate) fn slack(&self) -> &'static AtomicU32 {
        &self.page.slack
    }
}
