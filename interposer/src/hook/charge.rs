//! A reservation in the ledger: settled when the driver has given the memory, given back by itself otherwise.
use crate::abi::CuResult;
use crate::card;
use crate::start::{Share, share};
use core::ffi::c_int;
use quota::Bytes;

/// What the driver's smallest allocation takes is not documented; charges are rounded up to this, which is what it aligns to.
const GRAIN: u64 = 512;
/// A card's number takes the low bits of a stored charge; amounts are multiples of the grain, so their low bits are free.
const CARD_MASK: u64 = 15;

/// Bytes of a card that are charged to this process, and not settled yet.
#[must_use]
pub(crate) struct Charge {
    share: Share,
    card: usize,
    slot: usize,
    bytes: Bytes,
}

/// Reserves memory of a device; dead processes' memory is looked for before anything is refused.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY`, which makes frameworks give back their caches and try again.
pub(crate) fn reserve(device: c_int, bytes: u64) -> Result<Charge, CuResult> {
    let share = share().ok_or(CuResult::OUT_OF_MEMORY)?;
    let card = card::of_device(&share, device).ok_or(CuResult::OUT_OF_MEMORY)?;
    let limit = share.limits.cards().get(card).ok_or(CuResult::OUT_OF_MEMORY)?;
    let slot = share.slot().ok_or(CuResult::OUT_OF_MEMORY)?;
    let bytes = Bytes(bytes.checked_next_multiple_of(GRAIN).ok_or(CuResult::OUT_OF_MEMORY)?);
    let quota = Bytes(limit.quota.0.min(limit.total.0));
    if !share.charge(card, slot, bytes, quota) {
        share.reap();
        if !share.charge(card, slot, bytes, quota) {
            share.ledger.count_refusal(card);
            return Err(CuResult::OUT_OF_MEMORY);
        }
    }
    Ok(Charge { share, card, slot, bytes })
}

impl Charge {
    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// The charge as one word, for the tables.
    pub(crate) fn word(&self) -> u64 {
        self.bytes.0 | (self.card as u64 & CARD_MASK)
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
        let card = usize::try_from(word & CARD_MASK).unwrap_or(0);
        share.give_back(card, slot, Bytes(word & !CARD_MASK));
    }
}
