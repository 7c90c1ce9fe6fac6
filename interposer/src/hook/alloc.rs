//! Linear memory: `cuMemAlloc`, pitched, managed, and `cuMemFree`.
//!
//! # Safety
//! Out-pointers are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::card;
use crate::hook::charge::{gone, reserve};
use crate::hook::{context, pool};
use crate::real::{self, call};
use crate::start::share;
use crate::table::Name;
use quota::limits::Managed;

/// Reserves on the current device, allocates, and notes the address. Where it cannot be noted the memory goes back: what is not counted is not given.
///
/// `context` is the context with which the memory ends, 0 for memory that outlives contexts.
pub(super) fn allocate<Address: Copy + Into<u64>>(
    at: *mut Address,
    bytes: u64,
    context: impl FnOnce() -> u64,
    driver: impl FnOnce() -> CuResult,
    free: impl FnOnce(u64) -> CuResult,
) -> CuResult {
    if at.is_null() || bytes == 0 {
        // Nothing would be allocated; the driver says what is wrong.
        return driver();
    }
    let device = match card::current_device() {
        Ok(device) => device,
        Err(error) => return error,
    };
    let charge = match reserve(device, bytes) {
        Ok(charge) => charge,
        Err(error) => return error,
    };
    let result = driver();
    if result != CuResult::SUCCESS {
        return result;
    }
    let context = context();
    // SAFETY: not NULL, and the driver has written the address there.
    let address = unsafe { *at }.into();
    let note = |stored: &mut Option<(u64, u64)>| stored.replace((charge.word(), context));
    let Some(Ok(stale)) = charge.share().allocations().map(|table| table.with(address, note)) else {
        let _ = free(address);
        return CuResult::OUT_OF_MEMORY;
    };
    // The driver freed the address without a call that we see (with its context) and has handed it out again.
    if let Some(stale) = stale {
        gone(&charge.share(), stale);
    }
    charge.settle();
    CuResult::SUCCESS
}

/// Forgets the address, frees, and gives the bytes back: in this order, since the driver may hand the address out again at once. What is not known is
/// the driver's business.
pub(super) fn release(address: u64, driver: impl FnOnce() -> CuResult) -> CuResult {
    let Some(share) = share() else { return driver() };
    let Some((table, stored)) = share.allocations().and_then(|table| Some((table, table.remove(address)?))) else {
        return driver();
    };
    let result = driver();
    if result == CuResult::SUCCESS {
        gone(&share, stored);
    } else {
        let _ = table.insert(address, stored);
    }
    result
}

/// The same for a free that waits for the work before it, after which a pool gives back what it need not keep.
fn release_at_rest(address: u64, driver: impl FnOnce() -> CuResult) -> CuResult {
    let result = release(address, driver);
    pool::settle_all();
    result
}

/// The widest pitch that the driver chooses, in bytes.
const WIDEST: u64 = 512;

fn free(address: u64) -> CuResult {
    call!(real::of(Name::cuMemFree_v2), fn(u64) -> CuResult, (address), else CuResult::NOT_FOUND)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> CuResult {
    let driver =
        || call!(real::of(Name::cuMemAlloc_v2), fn(*mut u64, usize) -> CuResult, (at, bytes), else CuResult::NOT_FOUND);
    allocate(at, bytes as u64, context::current, driver, free)
}

/// The driver chooses the pitch, so a row is reserved at the widest that it takes; what was reserved too much comes back with the memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocPitch_v2(
    at: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CuResult {
    let bytes = (width as u64).checked_next_multiple_of(WIDEST).and_then(|row| row.checked_mul(height as u64));
    let driver = || {
        call!(
            real::of(Name::cuMemAllocPitch_v2),
            fn(*mut u64, *mut usize, usize, usize, u32) -> CuResult,
            (at, pitch, width, height, element),
            else CuResult::NOT_FOUND
        )
    };
    match bytes {
        Some(bytes) => allocate(at, bytes, context::current, driver, free),
        None => CuResult::OUT_OF_MEMORY,
    }
}

/// Managed memory can move to the host; it is counted in full all the same, so that a share cannot be passed with it, unless the node's owner said
/// otherwise.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocManaged(at: *mut u64, bytes: usize, flags: u32) -> CuResult {
    let driver = || {
        call!(
            real::of(Name::cuMemAllocManaged),
            fn(*mut u64, usize, u32) -> CuResult,
            (at, bytes, flags),
            else CuResult::NOT_FOUND
        )
    };
    if share().is_some_and(|share| share.limits.managed() == Managed::Uncounted) {
        return driver();
    }
    allocate(at, bytes as u64, context::current, driver, free)
}

/// The first version, of 32-bit addresses.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc(at: *mut u32, bytes: u32) -> CuResult {
    let driver =
        || call!(real::of(Name::cuMemAlloc), fn(*mut u32, u32) -> CuResult, (at, bytes), else CuResult::NOT_FOUND);
    allocate(at, u64::from(bytes), context::current, driver, free)
}

/// The first version, of 32-bit addresses.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocPitch(
    at: *mut u32,
    pitch: *mut u32,
    width: u32,
    height: u32,
    element: u32,
) -> CuResult {
    let driver = || {
        call!(
            real::of(Name::cuMemAllocPitch),
            fn(*mut u32, *mut u32, u32, u32, u32) -> CuResult,
            (at, pitch, width, height, element),
            else CuResult::NOT_FOUND
        )
    };
    allocate(
        at,
        u64::from(width).next_multiple_of(WIDEST).saturating_mul(u64::from(height)),
        context::current,
        driver,
        free,
    )
}

/// The first version, of 32-bit addresses.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFree(address: u32) -> CuResult {
    let driver = || call!(real::of(Name::cuMemFree), fn(u32) -> CuResult, (address), else CuResult::NOT_FOUND);
    release_at_rest(address.into(), driver)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFree_v2(address: u64) -> CuResult {
    release_at_rest(address, || free(address))
}
