//! A reservation in the ledger: settled when the driver has given the memory, given back by itself otherwise.
use crate::abi::CuResult;
use crate::card;
use crate::hook::pool;
use crate::start::{Share, share};
use core::ffi::c_int;
use quota::Bytes;

/// What the driver's smallest allocation takes is not documented; charges are rounded up to this, which is what it aligns to.
pub(super) const GRAIN: u64 = 512;
/// A card's number takes the low bits of a stored charge; amounts are multiples of the grain, so their low bits are free.
const CARD_MASK: u64 = 15;
/// Marks an allocation of a pool: its pool is charged, not the allocation by itself.
pub(super) const OF_POOL: u64 = 16;
/// Marks an array into which physical memory can be mapped.
pub(super) const SPARSE: u64 = 32;
const MARKS: u64 = GRAIN - 1;

/// A charge as one word, for the tables.
pub(super) fn word(card: usize, bytes: u64, marks: u64) -> u64 {
    (bytes & !MARKS) | (card as u64 & CARD_MASK) | marks
}

/// The card of a stored charge.
pub(super) fn card_of(word: u64) -> usize {
    usize::try_from(word & CARD_MASK).unwrap_or(0)
}

/// The bytes of a stored charge.
pub(super) fn bytes_of(word: u64) -> u64 {
    word & !MARKS
}

/// Bytes of a card that are charged to this process, and not settled yet.
#[must_use]
pub(crate) struct Charge {
    share: Share,
    card: usize,
    slot: usize,
    bytes: Bytes,
}

/// Reserves memory of a device; what dead processes and pools hold without need is looked for before anything is refused.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY`, which makes frameworks give back their caches and try again.
pub(crate) fn reserve(device: c_int, bytes: u64) -> Result<Charge, CuResult> {
    let share = share().ok_or(CuResult::OUT_OF_MEMORY)?;
    let card = card::of_device(&share, device).ok_or(CuResult::OUT_OF_MEMORY)?;
    reserve_on(share, card, bytes)
}

/// The same for a card by its place in the limits.
///
/// # Errors
/// As [`reserve`].
pub(super) fn reserve_on(share: Share, card: usize, bytes: u64) -> Result<Charge, CuResult> {
    let slot = share.slot().ok_or(CuResult::OUT_OF_MEMORY)?;
    let Some(bytes) = bytes.checked_next_multiple_of(GRAIN).map(Bytes) else {
        share.count_refusal(card);
        return Err(CuResult::OUT_OF_MEMORY);
    };
    if !share.charge(card, slot, bytes) {
        make_room(&share, card);
        if !share.charge(card, slot, bytes) {
            share.count_refusal(card);
            return Err(CuResult::OUT_OF_MEMORY);
        }
    }
    Ok(Charge { share, card, slot, bytes })
}

/// Gives back what nobody needs: the charges of dead processes, and of what this process's pools have returned to the driver.
pub(super) fn make_room(share: &Share, card: usize) {
    share.reap();
    pool::settle_card(share, card);
}

impl Charge {
    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// The charge as one word, for the tables.
    pub(crate) fn word(&self) -> u64 {
        word(self.card, self.bytes.0, 0)
    }

    /// The driver has given the memory: the charge stays until [`give_back`].
    pub(crate) fn settle(self) {
        core::mem::forget(self);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.give_back(self.card, self.slot, self.bytes);
    }
}

/// Gives back a settled charge.
pub(crate) fn give_back(share: &Share, word: u64) {
    if let Some(slot) = share.slot() {
        share.give_back(card_of(word), slot, Bytes(bytes_of(word)));
    }
}

/// Gives back what is stored for an allocation that is gone: its charge, or its part of a pool's.
pub(super) fn gone(share: &Share, (word, owner): (u64, u64)) {
    if word & OF_POOL != 0 {
        pool::freed(share, owner, bytes_of(word));
    } else {
        give_back(share, word);
    }
}
