//! Contexts: what the driver takes for the first one of a process on a card is charged where the host has measured it, and when one ends, the driver frees
//! what was allocated in it without a call for each address, so its charges go back here.
//!
//! Memory of pools and of virtual memory management belongs to the device, not to a context, and stays until the device is reset.
//!
//! # Safety
//! Out-pointers are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::card;
use crate::hook::charge::{GRAIN, SPARSE, card_of, give_back, gone, reserve_on, word};
use crate::hook::pool;
use crate::real::{self, Real, call};
use crate::start::{Share, share};
use crate::table::Name;
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use quota::Bytes;

static CURRENT: Real = Real::new(c"cuCtxGetCurrent");
static PRIMARY_STATE: Real = Real::new(c"cuDevicePrimaryCtxGetState");
static PRIMARY_RETAIN: Real = Real::new(c"cuDevicePrimaryCtxRetain");
static PRIMARY_RELEASE: Real = Real::new(c"cuDevicePrimaryCtxRelease_v2");

/// The context on top of the thread's stack; 0 where there is none.
pub(super) fn current() -> u64 {
    let mut context = 0_u64;
    let result = call!(CURRENT.get(), fn(*mut u64) -> CuResult, (&raw mut context), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS { context } else { 0 }
}

/// Gives back all that was charged in a context, and for it.
fn ended(context: u64) {
    let Some(share) = share().filter(|_| context != 0) else { return };
    if let Some(table) = share.allocations() {
        table.retain(|key, stored| {
            if stored.1 == context && stored.0 & SPARSE != 0 {
                if let Some(book) = share.physical() {
                    book.array_gone(key, |charge| give_back(&share, charge));
                }
            } else if stored.1 == context {
                gone(&share, stored);
            }
            stored.1 != context
        });
        if let Some((stored, _)) = table.remove(key(context)) {
            one_less(&share, card_of(stored));
        }
    }
}

/// The key of a context's own entry: no address has this bit.
fn key(context: u64) -> u64 {
    context | 1 << 63
}

/// One context less on a card; with the last the charge ends.
fn one_less(share: &Share, card: usize) {
    let Some(count) = share.contexts(card) else { return };
    let before = count.try_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    if before == Ok(1)
        && let (Some(slot), Some(limit)) = (share.slot(), share.limits.cards().get(card))
    {
        share.give_back(card, slot, Bytes(limit.context.0.next_multiple_of(GRAIN)));
    }
}

/// Makes a context on a device. The first one of this process on the card is charged what the host has measured.
fn begin(at: *mut u64, device: c_int, driver: impl FnOnce() -> CuResult) -> CuResult {
    let measured = share().and_then(|share| {
        let card = card::of_device(&share, device)?;
        let bytes = share.limits.cards().get(card)?.context.0;
        (bytes > 0).then_some((share, card, bytes))
    });
    let Some((share, card, bytes)) = measured.filter(|_| !at.is_null()) else { return driver() };
    let Some(count) = share.contexts(card) else { return driver() };
    let charge = if count.fetch_add(1, Ordering::SeqCst) == 0 {
        match reserve_on(share, card, bytes) {
            Ok(charge) => Some(charge),
            Err(error) => {
                count.fetch_sub(1, Ordering::SeqCst);
                return error;
            }
        }
    } else {
        None
    };
    let result = driver();
    // SAFETY: not NULL; the driver has written a handle there where it succeeded, and what is there otherwise is not looked at.
    let context = if result == CuResult::SUCCESS { unsafe { *at } } else { 0 };
    let table = share.allocations().filter(|_| context != 0);
    // A primary context that was noted before counts once, however often it is retained.
    let new = table.and_then(|table| {
        let note = |stored: &mut Option<(u64, u64)>| stored.replace((word(card, 0, 0), 0)).is_none();
        table.with(key(context), note).ok()
    });
    match (new, charge) {
        (Some(true), charge) => charge.into_iter().for_each(super::charge::Charge::settle),
        (_, charge) => {
            count.fetch_sub(1, Ordering::SeqCst);
            drop(charge);
        }
    }
    result
}

fn is_active(device: c_int) -> bool {
    let (mut flags, mut active) = (0_u32, 0);
    let result = call!(
        PRIMARY_STATE.get(),
        fn(c_int, *mut u32, *mut c_int) -> CuResult,
        (device, &raw mut flags, &raw mut active),
        else CuResult::NOT_FOUND
    );
    result == CuResult::SUCCESS && active != 0
}

/// The primary context of a device that is in use; 0 where it is not, since asking would bring it up.
fn primary(device: c_int) -> u64 {
    if !is_active(device) {
        return 0;
    }
    let mut context = 0_u64;
    let result = call!(
        PRIMARY_RETAIN.get(),
        fn(*mut u64, c_int) -> CuResult,
        (&raw mut context, device),
        else CuResult::NOT_FOUND
    );
    if result != CuResult::SUCCESS {
        return 0;
    }
    let _ = call!(PRIMARY_RELEASE.get(), fn(c_int) -> CuResult, (device), else CuResult::NOT_FOUND);
    context
}

fn destroy(name: Name, context: u64) -> CuResult {
    let result = call!(real::of(name), fn(u64) -> CuResult, (context), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS {
        ended(context);
    }
    result
}

/// A reset ends what the primary context holds, a release does so where it was the last.
fn end_primary(name: Name, device: c_int, reset: bool) -> CuResult {
    let context = primary(device);
    let result = call!(real::of(name), fn(c_int) -> CuResult, (device), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS && (reset || !is_active(device)) {
        ended(context);
        if let Some((share, card)) = share().and_then(|share| Some((share, card::of_device(&share, device)?))) {
            pool::device_reset(&share, card);
        }
    }
    result
}

macro_rules! creates {
    ($($name:ident($($argument:ident: $type:ty),*)),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name(at: *mut u64, $($argument: $type,)* device: c_int) -> CuResult {
            let driver = || {
                call!(
                    real::of(Name::$name),
                    fn(*mut u64, $($type,)* c_int) -> CuResult,
                    (at, $($argument,)* device),
                    else CuResult::NOT_FOUND
                )
            };
            begin(at, device, driver)
        }
    )*};
}

creates!(
    cuCtxCreate(flags: c_uint),
    cuCtxCreate_v2(flags: c_uint),
    cuCtxCreate_v3(affinity: usize, count: c_int, flags: c_uint),
    cuCtxCreate_v4(params: usize, flags: c_uint),
    cuDevicePrimaryCtxRetain(),
);

/// One more use of a context, which it takes one more [`cuCtxDetach`] to end.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxAttach(at: *mut u64, flags: c_uint) -> CuResult {
    let result = call!(
        real::of(Name::cuCtxAttach),
        fn(*mut u64, c_uint) -> CuResult,
        (at, flags),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS && !at.is_null() {
        // SAFETY: not NULL, and the driver has written the handle there.
        count_uses(unsafe { *at }, 1);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxDetach(context: u64) -> CuResult {
    let result = call!(real::of(Name::cuCtxDetach), fn(u64) -> CuResult, (context), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS && count_uses(context, -1) == 0 {
        ended(context);
    }
    result
}

/// Adds to the uses of a context beyond its first, and returns all that are left.
fn count_uses(context: u64, more: i64) -> u64 {
    let Some(table) = share().and_then(|share| share.slot().and_then(|_| share.attachments())) else { return 0 };
    let count = |stored: &mut Option<(u64, u64)>| {
        let uses = stored.map_or(1, |(uses, _)| uses).saturating_add_signed(more);
        *stored = (uses > 1).then_some((uses, 0));
        uses
    };
    table.with(context, count).unwrap_or(1)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxDestroy(context: u64) -> CuResult {
    destroy(Name::cuCtxDestroy, context)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxDestroy_v2(context: u64) -> CuResult {
    destroy(Name::cuCtxDestroy_v2, context)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxReset(device: c_int) -> CuResult {
    end_primary(Name::cuDevicePrimaryCtxReset, device, true)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> CuResult {
    end_primary(Name::cuDevicePrimaryCtxReset_v2, device, true)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease(device: c_int) -> CuResult {
    end_primary(Name::cuDevicePrimaryCtxRelease, device, false)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> CuResult {
    end_primary(Name::cuDevicePrimaryCtxRelease_v2, device, false)
}
