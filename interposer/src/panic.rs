//! Proves that no panic survives: the handler calls a name that nobody defines, so the link fails as long as any code can reach it.
//!
//! # Safety
//! The declared function is never linked, hence never called.
#![expect(unsafe_code, reason = "a call of a foreign name is unsafe by its nature")]

unsafe extern "C" {
    /// Not defined anywhere. A link error that names it means: some code in this library can panic.
    fn gpu_quota_interposer_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: unreachable, or the library would not link.
    unsafe { gpu_quota_interposer_can_panic() }
}
