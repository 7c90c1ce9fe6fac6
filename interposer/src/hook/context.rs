//! Contexts that end: the driver frees what was allocated in them without a call for each address, so their charges go back here.
//!
//! Memory of pools and of virtual memory management belongs to the device, not to a context, and stays.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::hook::charge::give_back;
use crate::real::{self, Real, call};
use crate::start::share;
use crate::table::Name;
use core::ffi::c_int;

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

/// Gives back all that was charged in a context.
fn ended(context: u64) {
    let Some(share) = share().filter(|_| context != 0) else { return };
    if let Some(table) = share.allocations() {
        table.retain(|_, (charge, of)| {
            if of == context {
                give_back(&share, charge);
            }
            of != context
        });
    }
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
    }
    result
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
