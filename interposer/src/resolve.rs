//! Look-ups of names: [`loader`] those by `dlsym` and `dlvsym`, here those by `cuGetProcAddress`. The real one is always asked first, and its answer is replaced
//! only where it is exactly the driver's export of a hooked name.
//!
//! # Safety
//! Entries are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::real::{self, call};
use crate::table::{HOOKS, Name};
use core::ffi::{c_char, c_int};

mod loader;

/// Replaces the driver's export of a hooked name, at the address where it was returned, by its hook.
///
/// The address tells which version and which stream form was meant; the name asked for does not.
fn replace(entry: *mut *const ()) {
    // SAFETY: the driver has just written there.
    let Some(entry) = (unsafe { entry.as_mut() }) else { return };
    if entry.is_null() {
        return;
    }
    real::find_all();
    for (place, hook) in HOOKS.iter().enumerate() {
        if real::known(place) == *entry {
            *entry = (hook.address)();
            return;
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetProcAddress(
    name: *const c_char,
    entry: *mut *const (),
    version: c_int,
    flags: u64,
) -> CuResult {
    let result = call!(
        real::of(Name::cuGetProcAddress),
        fn(*const c_char, *mut *const (), c_int, u64) -> CuResult,
        (name, entry, version, flags),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS {
        replace(entry);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    entry: *mut *const (),
    version: c_int,
    flags: u64,
    status: *mut u32,
) -> CuResult {
    let result = call!(
        real::of(Name::cuGetProcAddress_v2),
        fn(*const c_char, *mut *const (), c_int, u64, *mut u32) -> CuResult,
        (name, entry, version, flags, status),
        else CuResult::NOT_FOUND
    );
    if result == CuResult::SUCCESS {
        replace(entry);
    }
    result
}
