//! Look-ups of names: `dlsym`, `dlvsym` and `cuGetProcAddress`. The real one is always asked first, and its answer is replaced only where it is exactly
//! the driver's export of a hooked name.
//!
//! # Safety
//! `dlsym` and `dlvsym` are naked: they keep the caller's registers and stack, and jump to the loader's function as if the caller had called it, so that
//! `RTLD_NEXT` still means the caller's next object.
#![expect(unsafe_code, reason = "exported under the C names, two of them as naked functions")]
use crate::abi::CuResult;
use crate::elf::{self, Whose};
use crate::real::{self, call};
use crate::table::{self, HOOKS, Name};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// The loader's own functions, or [`nothing`].
static DLSYM: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static DLVSYM: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Stands for a loader function that this libc lacks (musl has no `dlvsym`).
extern "C" fn nothing() -> *const c_void {
    core::ptr::null()
}

/// The loader's function. One that is not there is looked for again at the next call: before glibc 2.34 it comes with a library that may be loaded later.
fn loader(slot: &AtomicPtr<()>, name: &CStr) -> *const () {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() && known.cast_const() != nothing as *const () {
        return known;
    }
    let mut found = elf::find(name, Whose::After);
    if found.is_null() {
        found = elf::find(name, Whose::Anyone);
    }
    if found.is_null() {
        found = nothing as *const ();
    }
    slot.store(found.cast_mut(), Ordering::Relaxed);
    found
}

/// Program handles of `dlsym`: 0 is `RTLD_DEFAULT`, -1 is `RTLD_NEXT`. For both the loader's own search finds us where we are due.
fn is_search(handle: usize) -> bool {
    handle == 0 || handle == usize::MAX
}

/// The hook to answer, or NULL to let the loader answer. Also makes sure that the loader's function is known.
extern "C" fn dlsym_hook(handle: usize, name: *const c_char, caller: *const ()) -> *const () {
    let dlsym = loader(&DLSYM, c"dlsym");
    hook_of(
        handle,
        name,
        caller,
        || call!(dlsym, fn(usize, *const c_char) -> *const (), (handle, name), else core::ptr::null()),
    )
}

extern "C" fn dlvsym_hook(handle: usize, name: *const c_char, version: *const c_char, caller: *const ()) -> *const () {
    let dlvsym = loader(&DLVSYM, c"dlvsym");
    hook_of(handle, name, caller, || {
        call!(
            dlvsym,
            fn(usize, *const c_char, *const c_char) -> *const (),
            (handle, name, version),
            else core::ptr::null()
        )
    })
}

/// For the two names by which we are reached: the loader's function, and ours to answer instead, or a program could ask libc itself for them.
fn our_own(name: &CStr) -> Option<(*const (), *const ())> {
    match name.to_bytes() {
        b"dlsym" => Some((loader(&DLSYM, c"dlsym"), dlsym as *const ())),
        b"dlvsym" => Some((loader(&DLVSYM, c"dlvsym"), dlvsym as *const ())),
        _ => None,
    }
}

fn hook_of(handle: usize, name: *const c_char, caller: *const (), ask: impl FnOnce() -> *const ()) -> *const () {
    if is_search(handle) || name.is_null() {
        return core::ptr::null();
    }
    // SAFETY: a C string, as the loader demands.
    let name = unsafe { CStr::from_ptr(name) };
    if let Some((real, ours)) = our_own(name) {
        return if ask() == real { ours } else { core::ptr::null() };
    }
    let Some((place, hook)) = table::find(name).and_then(|place| Some((place, HOOKS.get(place)?))) else {
        return core::ptr::null();
    };
    let address = ask();
    // The driver that looks up a name of its own means its own function (it does so where it is one library behind another).
    if address.is_null() || !elf::is_driver(address) || elf::is_driver(caller) {
        return core::ptr::null();
    }
    real::refresh(place, address);
    (hook.address)()
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn dlsym() {
    core::arch::naked_asm!(
        "mov rdx, [rsp]",
        "push rdi", "push rsi", "sub rsp, 8",
        "call {hook}",
        "add rsp, 8", "pop rsi", "pop rdi",
        "test rax, rax", "jnz 2f",
        "jmp [rip + {real}]",
        "2:", "ret",
        hook = sym dlsym_hook, real = sym DLSYM,
    )
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn dlvsym() {
    core::arch::naked_asm!(
        "mov rcx, [rsp]",
        "push rdi", "push rsi", "push rdx",
        "call {hook}",
        "pop rdx", "pop rsi", "pop rdi",
        "test rax, rax", "jnz 2f",
        "jmp [rip + {real}]",
        "2:", "ret",
        hook = sym dlvsym_hook, real = sym DLVSYM,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn dlsym() {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!", "stp x0, x1, [sp, #16]",
        "mov x2, x30",
        "bl {hook}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #32",
        "cbnz x9, 2f",
        "adrp x9, {real}", "ldr x9, [x9, :lo12:{real}]", "br x9",
        "2:", "mov x0, x9", "ret",
        hook = sym dlsym_hook, real = sym DLSYM,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn dlvsym() {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-48]!", "stp x0, x1, [sp, #16]", "str x2, [sp, #32]",
        "mov x3, x30",
        "bl {hook}",
        "mov x9, x0",
        "ldr x2, [sp, #32]", "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #48",
        "cbnz x9, 2f",
        "adrp x9, {real}", "ldr x9, [x9, :lo12:{real}]", "br x9",
        "2:", "mov x0, x9", "ret",
        hook = sym dlvsym_hook, real = sym DLVSYM,
    )
}

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
