//! Virtual memory management: physical memory is charged when it is created, and given back when its last handle and its last mapping are gone.
//!
//! # Safety
//! Pointers are the program's; they are read where cuda.h has the driver read them, and after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::{CuResult, LOCATION_HOST, MemProp};
use crate::hook::charge::{give_back, reserve};
use crate::real::{self, call};
use crate::start::share;
use crate::table::Name;

fn create(handle: *mut u64, bytes: usize, prop: *const MemProp, flags: u64) -> CuResult {
    call!(
        real::of(Name::cuMemCreate),
        fn(*mut u64, usize, *const MemProp, u64) -> CuResult,
        (handle, bytes, prop, flags),
        else CuResult::NOT_FOUND
    )
}

fn release(handle: u64) -> CuResult {
    call!(real::of(Name::cuMemRelease), fn(u64) -> CuResult, (handle), else CuResult::NOT_FOUND)
}

/// Charged to the device of the location, whatever the thread's context; memory of the host is not charged.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemCreate(handle: *mut u64, bytes: usize, prop: *const MemProp, flags: u64) -> CuResult {
    if handle.is_null() || prop.is_null() || bytes == 0 {
        return create(handle, bytes, prop, flags);
    }
    // SAFETY: not NULL, and the program's properties by cuda.h.
    let location = unsafe { prop.read_unaligned() };
    if LOCATION_HOST.contains(&location.location_kind) {
        return create(handle, bytes, prop, flags);
    }
    // The device, or a kind of a later release that is a place on a device too; what is none is refused by the look-up of the card or by the driver.
    let charge = match reserve(location.location_id, bytes as u64) {
        Ok(charge) => charge,
        Err(error) => return error,
    };
    let result = create(handle, bytes, prop, flags);
    if result != CuResult::SUCCESS {
        return result;
    }
    // SAFETY: not NULL, and the driver has written the handle there.
    let created = unsafe { *handle };
    let noted = charge.share().physical().is_some_and(|book| book.created(created, charge.word()).is_ok());
    if !noted {
        let _ = release(created);
        return CuResult::OUT_OF_MEMORY;
    }
    charge.settle();
    CuResult::SUCCESS
}

/// Forgotten before the driver's call, since another thread may get the same handle's value right after it. Where the driver then fails, the bytes stay
/// charged: too much is counted rather than too little.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRelease(handle: u64) -> CuResult {
    let Some(share) = share() else { return release(handle) };
    let charge = share.physical().and_then(|book| book.released(handle));
    let result = release(handle);
    if let (CuResult::SUCCESS, Some(charge)) = (result, charge) {
        give_back(&share, charge);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMap(at: u64, bytes: usize, offset: usize, handle: u64, flags: u64) -> CuResult {
    let driver = || {
        call!(
            real::of(Name::cuMemMap),
            fn(u64, usize, usize, u64, u64) -> CuResult,
            (at, bytes, offset, handle, flags),
            else CuResult::NOT_FOUND
        )
    };
    let Some(share) = share() else { return driver() };
    let Some(book) = share.physical() else { return driver() };
    let result = driver();
    if result == CuResult::SUCCESS && book.mapped(at, bytes as u64, handle).is_err() {
        let _ = unmap(at, bytes);
        return CuResult::OUT_OF_MEMORY;
    }
    result
}

fn unmap(at: u64, bytes: usize) -> CuResult {
    call!(real::of(Name::cuMemUnmap), fn(u64, usize) -> CuResult, (at, bytes), else CuResult::NOT_FOUND)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemUnmap(at: u64, bytes: usize) -> CuResult {
    let result = unmap(at, bytes);
    if result == CuResult::SUCCESS
        && let Some(share) = share()
        && let Some(book) = share.physical()
    {
        book.unmapped(at, bytes as u64, |charge| give_back(&share, charge));
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRetainAllocationHandle(handle: *mut u64, at: u64) -> CuResult {
    let result = call!(
        real::of(Name::cuMemRetainAllocationHandle),
        fn(*mut u64, u64) -> CuResult,
        (handle, at),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS
        && !handle.is_null()
        && let Some(book) = share().and_then(|share| share.physical())
    {
        // SAFETY: not NULL, and the driver has written the handle there.
        book.retained(unsafe { *handle }, at);
    }
    result
}
