//! Look-ups of names: [`loader`] those by `dlsym` and `dlvsym`, here those by `cuGetProcAddress`. The real one is always asked first, and its answer is replaced
//! only where it is exactly the driver's export of a hooked name.
//!
//! # Safety
//! Entries are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::real::{self, call};
use crate::table::{self, HOOKS, Hook, Name};
use core::ffi::{CStr, c_char, c_int};

mod loader;

/// Replaces the driver's export of a hooked name, at the address where it was returned, by its hook.
///
/// The address tells which version and which stream form was meant; the name asked for does not, but where the driver returned what it does not export.
fn replace(name: *const c_char, entry: *mut *const (), version: c_int, flags: u64) {
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
    if name.is_null() {
        return;
    }
    // SAFETY: a C string, or the driver could not have found anything.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if let Some((place, hook)) = meant(name, version, flags)
        && !is_exported(name, *entry)
    {
        if real::known(place).is_null() {
            real::refresh(place, *entry);
        }
        *entry = (hook.address)();
    }
}

/// The hook that a version of CUDA and flags of `cuGetProcAddress` mean by a name: the latest form that is not later than the version, and the one for
/// per-thread streams where that is wanted and there is one.
fn meant(name: &[u8], version: c_int, flags: u64) -> Option<(usize, &'static Hook)> {
    /// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
    const PER_THREAD: u64 = 2;
    let since = |(place, hook): (usize, &'static Hook)| {
        let form = hook.name.to_bytes().strip_prefix(name)?;
        let (form, per_thread) = form.strip_suffix(b"_ptsz").map_or((form, false), |form| (form, true));
        let since = table::since(form, hook.name)?;
        (since <= version && (!per_thread || flags & PER_THREAD != 0)).then_some(((since, per_thread), (place, hook)))
    };
    HOOKS.iter().enumerate().filter_map(since).max_by_key(|(order, _)| *order).map(|(_, found)| found)
}

/// Whether the driver exports an address under a form of the name that is not hooked: a later version than is known here, with other arguments perhaps.
fn is_exported(name: &[u8], address: *const ()) -> bool {
    const FORMS: [&[u8]; 8] = [b"_v3", b"_v4", b"_v5", b"_v6", b"_v3_ptsz", b"_v4_ptsz", b"_ptds", b"_v2_ptsz"];
    FORMS.iter().any(|form| {
        let mut text = [0_u8; 80];
        let bytes = name.iter().chain(form.iter());
        text.iter_mut().take(79).zip(bytes).for_each(|(place, byte)| *place = *byte);
        CStr::from_bytes_until_nul(&text).is_ok_and(|text| real::exported(text) == address)
    })
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
        replace(name, entry, version, flags);
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
        replace(name, entry, version, flags);
    }
    result
}
