//! Stream-ordered memory: allocations from pools, in their legacy and per-thread stream forms. The pools themselves are in [`object`].
//!
//! A pool is charged what it holds, which is more than what is live in it: an allocation that the pool's memory serves costs nothing more, a free gives
//! nothing back, and the difference is settled by the driver's own number when a synchronisation, a trim or a shortage may have changed it. Memory that is
//! allocated while a stream is captured belongs to the graph, and is charged when that is launched.
//!
//! # Safety
//! Out-pointers are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::card;
use crate::hook::charge::{GRAIN, OF_POOL, make_room, word};
use crate::hook::{alloc, graph};
use crate::real::{self, Real, call};
use crate::start::{Share, has_slack, share};
use crate::table::Name;
use account::Pools;
use account::pools::{Known, Refused, Settled};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use quota::Bytes;

pub(crate) mod object;

static CURRENT_POOL: Real = Real::new(c"cuDeviceGetMemPool");
static GET_ATTRIBUTE: Real = Real::new(c"cuMemPoolGetAttribute");
static TRIM: Real = Real::new(c"cuMemPoolTrimTo");
static IS_CAPTURING: Real = Real::new(c"cuStreamIsCapturing");
static IS_CAPTURING_PTSZ: Real = Real::new(c"cuStreamIsCapturing_ptsz");
static STREAM_CONTEXT: Real = Real::new(c"cuStreamGetCtx");
static PUSH: Real = Real::new(c"cuCtxPushCurrent_v2");
static POP: Real = Real::new(c"cuCtxPopCurrent_v2");
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
const RESERVED: u32 = 5;
/// Stream handles up to this are not objects: 0, `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const SPECIAL_STREAMS: usize = 2;

/// What the driver has reserved for a pool.
fn reserved(pool: u64) -> Option<u64> {
    let mut bytes = 0_u64;
    let result = call!(
        GET_ATTRIBUTE.get(),
        fn(u64, u32, *mut u64) -> CuResult,
        (pool, RESERVED, &raw mut bytes),
        else CuResult::NOT_FOUND
    );
    (result == CuResult::SUCCESS).then_some(bytes)
}

/// Whether a stream is being captured into a graph.
fn is_capturing(stream: usize, per_thread: bool) -> bool {
    let ask = if per_thread { &IS_CAPTURING_PTSZ } else { &IS_CAPTURING };
    let mut status = 0_u32;
    let result = call!(
        ask.get(),
        fn(usize, *mut u32) -> CuResult,
        (stream, &raw mut status),
        else CuResult::NOT_FOUND
    );
    result == CuResult::SUCCESS && status != 0
}

/// The device whose pool serves a stream.
fn device_of(stream: usize) -> Result<c_int, CuResult> {
    let mut context = 0_u64;
    if stream > SPECIAL_STREAMS {
        let result = call!(
            STREAM_CONTEXT.get(),
            fn(usize, *mut u64) -> CuResult,
            (stream, &raw mut context),
            else CuResult::NOT_FOUND
        );
        if result == CuResult::SUCCESS && context != super::context::current() {
            let pushed = call!(PUSH.get(), fn(u64) -> CuResult, (context), else CuResult::NOT_FOUND);
            if pushed == CuResult::SUCCESS {
                let device = card::current_device();
                let _ = call!(POP.get(), fn(*mut u64) -> CuResult, (&raw mut context), else CuResult::NOT_FOUND);
                return device;
            }
        }
    }
    card::current_device()
}

/// The pool from which a device allocates now; `None` where the driver knows no pools.
fn current(device: c_int) -> Option<u64> {
    let mut pool = 0_u64;
    let result = call!(
        CURRENT_POOL.get(),
        fn(*mut u64, c_int) -> CuResult,
        (&raw mut pool, device),
        else CuResult::NOT_FOUND
    );
    (result == CuResult::SUCCESS && pool != 0).then_some(pool)
}

/// Allocates from a pool, or from the current one of the stream's device.
fn allocate(
    at: *mut u64,
    bytes: usize,
    (pool, stream, per_thread): (Option<u64>, usize, bool),
    driver: impl FnOnce() -> CuResult,
    free: impl FnOnce(u64) -> CuResult,
) -> CuResult {
    if at.is_null() || bytes == 0 || is_capturing(stream, per_thread) {
        // Nothing is allocated now, or the driver says what is wrong.
        return driver();
    }
    let device = match device_of(stream) {
        Ok(device) => device,
        Err(error) => return error,
    };
    let Some(pool) = pool.or_else(|| current(device)) else { return CuResult::OUT_OF_MEMORY };
    match from_pool(at, bytes as u64, pool, device, driver, free) {
        Ok(result) | Err(result) => result,
    }
}

fn from_pool(
    at: *mut u64,
    bytes: u64,
    pool: u64,
    device: c_int,
    driver: impl FnOnce() -> CuResult,
    free: impl FnOnce(u64) -> CuResult,
) -> Result<CuResult, CuResult> {
    let share = share().ok_or(CuResult::OUT_OF_MEMORY)?;
    let slot = share.slot().ok_or(CuResult::OUT_OF_MEMORY)?;
    let (pools, table) = (share.pools().zip(share.allocations())).ok_or(CuResult::OUT_OF_MEMORY)?;
    if pools.known(pool).is_none() {
        let card = card::of_device(&share, device).ok_or(CuResult::OUT_OF_MEMORY)?;
        pools.add(pool, Some(card)).map_err(|_| CuResult::OUT_OF_MEMORY)?;
    }
    let card = match pools.known(pool) {
        Some(Known::Card(card)) => card,
        Some(Known::Uncharged) => return Ok(driver()),
        None => return Err(CuResult::OUT_OF_MEMORY),
    };
    let bytes = bytes.checked_next_multiple_of(GRAIN).ok_or(CuResult::OUT_OF_MEMORY)?;
    let need = take(&share, pools, pool, (card, slot, bytes)).ok_or(CuResult::OUT_OF_MEMORY)?;
    let result = driver();
    if result != CuResult::SUCCESS {
        let back = pools.freed(pool, bytes, need);
        share.give_back(card, slot, Bytes(back));
        return Ok(result);
    }
    // SAFETY: not NULL, and the driver has written the address there.
    let address = unsafe { *at };
    // Where the pool grew by more than was asked for, the rest counts too, or the memory goes back.
    let short = if need > 0 { settle(&share, pool) } else { Settled::Even };
    let noted = short == Settled::Even && {
        let note = |stored: &mut Option<(u64, u64)>| stored.replace((word(card, bytes, OF_POOL), pool));
        match table.with(address, note) {
            Ok(stale) => {
                if let Some(stale) = stale {
                    super::charge::gone(&share, stale);
                }
                true
            }
            Err(_) => false,
        }
    };
    if noted {
        return Ok(CuResult::SUCCESS);
    }
    let _ = free(address);
    let back = pools.freed(pool, bytes, 0);
    share.give_back(card, slot, Bytes(back));
    // What the pool grew by goes back as well, or counts until the next synchronisation, where the stream has not come to the free yet.
    let _ = call!(TRIM.get(), fn(u64, usize) -> CuResult, (pool, 0), else CuResult::NOT_FOUND);
    let give_back = |bytes| share.give_back(card, slot, Bytes(bytes));
    pools.settle(pool, reserved(pool).unwrap_or(0), give_back, |bytes| {
        share.charge_anyway(card, slot, Bytes(bytes));
        true
    });
    share.slack().store(1, Ordering::Relaxed);
    share.count_refusal(card);
    Err(CuResult::OUT_OF_MEMORY)
}

/// Takes bytes from a pool's charge, and charges what that lacks, which is returned; room is looked for before it is refused.
pub(super) fn take(
    share: &Share,
    pools: Pools<'_>,
    pool: u64,
    (card, slot, bytes): (usize, usize, u64),
) -> Option<u64> {
    let charge = |bytes: u64| share.charge(card, slot, Bytes(bytes));
    let mut taken = pools.take(pool, bytes, charge);
    if taken == Err(Refused::OverQuota) {
        make_room(share, card);
        taken = pools.take(pool, bytes, charge);
    }
    if taken.is_err() {
        share.count_refusal(card);
    }
    taken.ok()
}

/// Brings a pool's charge to what the driver has reserved.
fn settle(share: &Share, pool: u64) -> Settled {
    if let Some(device) = graph::device_of(pool) {
        graph::settle(share, device);
        return Settled::Even;
    }
    let (Some(pools), Some(slot)) = (share.pools(), share.slot()) else { return Settled::Even };
    let Some(Known::Card(card)) = pools.known(pool) else { return Settled::Even };
    // A driver that cannot tell is taken to reserve no more than is live.
    let reserved = reserved(pool).unwrap_or(0);
    let give_back = |bytes| share.give_back(card, slot, Bytes(bytes));
    pools.settle(pool, reserved, give_back, |bytes| share.charge(card, slot, Bytes(bytes)))
}

/// The same for all pools of a card that may hold more than is live in them.
pub(super) fn settle_card(share: &Share, card: usize) {
    let Some(pools) = share.pools() else { return };
    let mut found = [0; 32];
    let count = pools.with_slack(card, &mut found);
    for pool in found.into_iter().take(count) {
        settle(share, pool);
    }
}

/// The same for all cards, where anything was freed since the last time: called after what may have made the driver give memory back.
pub(super) fn settle_all() {
    if !has_slack() {
        return;
    }
    let Some(share) = share() else { return };
    share.slack().store(0, Ordering::Relaxed);
    for card in 0..share.limits.cards().len() {
        settle_card(&share, card);
        let mut left = [0; 1];
        if share.pools().is_some_and(|pools| pools.with_slack(card, &mut left) > 0) {
            share.slack().store(1, Ordering::Relaxed);
        }
    }
}

/// Notes that an allocation of a pool is gone.
pub(super) fn freed(share: &Share, pool: u64, bytes: u64) {
    let (Some(pools), Some(slot)) = (share.pools(), share.slot()) else { return };
    let Some(Known::Card(card)) = pools.known(pool) else { return };
    let back = pools.freed(pool, bytes, 0);
    share.give_back(card, slot, Bytes(back));
    share.slack().store(1, Ordering::Relaxed);
}

/// The primary context of a device is gone, and with it what its pools held, unless the driver says otherwise.
pub(super) fn device_reset(share: &Share, card: usize) {
    let (Some(pools), Some(table), Some(slot)) = (share.pools(), share.allocations(), share.slot()) else { return };
    let mut gone = [0; 32];
    let count = pools.of_card(card, &mut gone);
    for pool in gone.into_iter().take(count) {
        let ended = graph::device_of(pool).is_none() && reserved(pool).unwrap_or(0) < pools.held(pool).0;
        if ended {
            table.retain(|_, (word, owner)| word & OF_POOL == 0 || owner != pool);
            share.give_back(card, slot, Bytes(pools.forget(pool)));
        } else {
            settle(share, pool);
        }
    }
}

macro_rules! streams {
    ($per_thread:literal, $alloc:ident, $from_pool:ident, $free:ident) => {
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $alloc(at: *mut u64, bytes: usize, stream: usize) -> CuResult {
            let driver = || {
                call!(
                    real::of(Name::$alloc),
                    fn(*mut u64, usize, usize) -> CuResult,
                    (at, bytes, stream),
                    else CuResult::NOT_FOUND
                )
            };
            allocate(at, bytes, (None, stream, $per_thread), driver, |address| free(Name::$free, address, stream))
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $from_pool(at: *mut u64, bytes: usize, pool: u64, stream: usize) -> CuResult {
            let driver = || {
                call!(
                    real::of(Name::$from_pool),
                    fn(*mut u64, usize, u64, usize) -> CuResult,
                    (at, bytes, pool, stream),
                    else CuResult::NOT_FOUND
                )
            };
            let place = (Some(pool), stream, $per_thread);
            allocate(at, bytes, place, driver, |address| free(Name::$free, address, stream))
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $free(address: u64, stream: usize) -> CuResult {
            alloc::release(address, || free(Name::$free, address, stream))
        }
    };
}

streams!(false, cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync);
streams!(true, cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync_ptsz);

fn free(name: Name, address: u64, stream: usize) -> CuResult {
    call!(real::of(name), fn(u64, usize) -> CuResult, (address, stream), else CuResult::NOT_FOUND)
}
