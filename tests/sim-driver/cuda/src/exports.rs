//! All exports by name, and the answer of those that are not simulated. Made by `build.rs`.
//!
//! # Safety
//! A naked entry only jumps, with all registers and the stack as its caller left them.
#![expect(unsafe_code, reason = "exported under the C names")]

/// The address of an export.
pub(crate) struct Entry(pub(crate) *const ());

// SAFETY: the address of code, which nobody changes.
unsafe impl Sync for Entry {}

/// `CUDA_ERROR_NOT_SUPPORTED`.
extern "C" fn not_supported() -> u32 {
    801
}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// The address of an export; `None` where driver 550 has none of that name.
pub(crate) fn address(name: &str) -> Option<*const ()> {
    let at = EXPORTS.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
    Some(EXPORTS[at].1.0)
}
