//! Pools as objects: where they come from, and how they end. A pool is noted where the program first sees it, by where its memory is.
//!
//! # Safety
//! Out-pointers are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::settle;
use crate::abi::{CuResult, LOCATION_HOST, Location, PoolProps};
use crate::card;
use crate::real::{self, call};
use crate::start::share;
use crate::table::Name;
use account::pools::Known;
use core::ffi::c_int;
use quota::Bytes;

/// Notes a pool that the driver has just named, by where its memory is.
fn note(pool: *mut u64, location: Location) {
    if pool.is_null() {
        return;
    }
    // SAFETY: not NULL, and the driver has written the handle there.
    let pool = unsafe { *pool };
    let Some(share) = share() else { return };
    let card = if LOCATION_HOST.contains(&location.kind) {
        None
    } else {
        match card::of_device(&share, location.id) {
            Some(card) => Some(card),
            // Not noted: what is allocated from it is charged to the device of the stream, and refused where that has no share.
            None => return,
        }
    };
    if share.slot().is_some()
        && let Some(pools) = share.pools()
    {
        // A table that is full does not know the pool, and an allocation from it is refused.
        let _ = pools.add(pool, card);
    }
}

/// A pool on a card of which the container has no share cannot be made: nothing could be allocated from it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolCreate(pool: *mut u64, props: *const PoolProps) -> CuResult {
    let driver = || {
        call!(
            real::of(Name::cuMemPoolCreate),
            fn(*mut u64, *const PoolProps) -> CuResult,
            (pool, props),
            else CuResult::NOT_FOUND
        )
    };
    if pool.is_null() || props.is_null() {
        return driver();
    }
    // SAFETY: not NULL, and the program's properties by cuda.h.
    let location = unsafe { props.read_unaligned() }.location;
    let on_device = !LOCATION_HOST.contains(&location.kind);
    if on_device && share().is_none_or(|share| card::of_device(&share, location.id).is_none()) {
        return CuResult::OUT_OF_MEMORY;
    }
    let result = driver();
    if result == CuResult::SUCCESS {
        note(pool, location);
    }
    result
}

/// The pool is trimmed first: afterwards nobody can ask any more what it holds for the allocations that are left.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolDestroy(pool: u64) -> CuResult {
    let noted = share().and_then(|share| share.pools()?.known(pool).map(|_| share));
    if let Some(share) = noted {
        let _ = call!(real::of(Name::cuMemPoolTrimTo), fn(u64, usize) -> CuResult, (pool, 0), else CuResult::NOT_FOUND);
        settle(&share, pool);
    }
    let result = call!(real::of(Name::cuMemPoolDestroy), fn(u64) -> CuResult, (pool), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS
        && let Some(share) = share()
        && let Some(pools) = share.pools()
        && let Some(Known::Card(card)) = pools.known(pool)
        && let Some(slot) = share.slot()
    {
        share.give_back(card, slot, Bytes(pools.ended(pool)));
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolTrimTo(pool: u64, keep: usize) -> CuResult {
    let result = call!(
        real::of(Name::cuMemPoolTrimTo),
        fn(u64, usize) -> CuResult,
        (pool, keep),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS
        && let Some(share) = share()
    {
        settle(&share, pool);
    }
    result
}

/// A pool of a device, current or default, is noted where the program first sees it: it may be used with a stream of another device.
fn device_pool(name: Name, pool: *mut u64, device: c_int) -> CuResult {
    let result = call!(
        real::of(name),
        fn(*mut u64, c_int) -> CuResult,
        (pool, device),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS {
        note(pool, Location { kind: 1, id: device });
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: c_int) -> CuResult {
    device_pool(Name::cuDeviceGetDefaultMemPool, pool, device)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetMemPool(pool: *mut u64, device: c_int) -> CuResult {
    device_pool(Name::cuDeviceGetMemPool, pool, device)
}

/// As the pools of a device, of CUDA 13: by location and kind of allocation.
fn location_pool(name: Name, pool: *mut u64, location: *const Location, kind: u32) -> CuResult {
    let result = call!(
        real::of(name),
        fn(*mut u64, *const Location, u32) -> CuResult,
        (pool, location, kind),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS && !location.is_null() {
        // SAFETY: not NULL, and the driver has read it too.
        note(pool, unsafe { location.read_unaligned() });
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetDefaultMemPool(pool: *mut u64, location: *const Location, kind: u32) -> CuResult {
    location_pool(Name::cuMemGetDefaultMemPool, pool, location, kind)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetMemPool(pool: *mut u64, location: *const Location, kind: u32) -> CuResult {
    location_pool(Name::cuMemGetMemPool, pool, location, kind)
}
