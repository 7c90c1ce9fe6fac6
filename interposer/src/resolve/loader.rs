//! `dlsym` and `dlvsym`.
//!
//! A library behind us in load order may stand in for the loader too, and what it hands out for the driver's functions is its own. So what it asks is
//! answered with our hooks as well: where it looks for the next `dlsym`, it gets [`dlsym_behind`], which asks the C library.
//!
//! # Safety
//! The functions are naked: they keep the caller's registers and stack, and jump to the loader's function as if the caller had called it, so that `RTLD_NEXT`
//! still means the caller's next object.
#![expect(unsafe_code, reason = "exported under the C names as naked functions")]
use crate::elf::{self, Whose};
use crate::real::{self, call};
use crate::table::{self, HOOKS};
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// The loader's own functions, or [`nothing`].
static DLSYM: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static DLVSYM: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// The C library's, where other libraries behind us have some too.
static DLSYM_OF_LIBC: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static DLVSYM_OF_LIBC: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

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

/// The C library's own function; the loader's, where that is not known.
fn of_libc(slot: &AtomicPtr<()>, name: &CStr) -> *const () {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let mut found = elf::libc::loader(name);
    if found.is_null() {
        found = elf::find(name, Whose::After);
    }
    if found.is_null() {
        found = nothing as *const ();
    }
    slot.store(found.cast_mut(), Ordering::Relaxed);
    found
}

/// `RTLD_NEXT`.
const NEXT: usize = usize::MAX;

/// Program handles of `dlsym`: 0 is `RTLD_DEFAULT`. For both the loader's own search finds us where we are due.
fn is_search(handle: usize) -> bool {
    handle == 0 || handle == NEXT
}

/// What is to be answered in place of the loader, or NULL to let it answer. Also makes sure that its function is known.
extern "C" fn dlsym_hook(handle: usize, name: *const c_char, caller: *const ()) -> *const () {
    by_name(loader(&DLSYM, c"dlsym"), handle, name, caller)
}

extern "C" fn dlsym_hook_behind(handle: usize, name: *const c_char, caller: *const ()) -> *const () {
    by_name(of_libc(&DLSYM_OF_LIBC, c"dlsym"), handle, name, caller)
}

extern "C" fn dlvsym_hook(handle: usize, name: *const c_char, version: *const c_char, caller: *const ()) -> *const () {
    by_version(loader(&DLVSYM, c"dlvsym"), (handle, name, version), caller)
}

extern "C" fn dlvsym_hook_behind(
    handle: usize,
    name: *const c_char,
    version: *const c_char,
    caller: *const (),
) -> *const () {
    by_version(of_libc(&DLVSYM_OF_LIBC, c"dlvsym"), (handle, name, version), caller)
}

fn by_name(dlsym: *const (), handle: usize, name: *const c_char, caller: *const ()) -> *const () {
    hook_of(
        handle,
        name,
        caller,
        || call!(dlsym, fn(usize, *const c_char) -> *const (), (handle, name), else core::ptr::null()),
    )
}

fn by_version(
    dlvsym: *const (),
    (handle, name, version): (usize, *const c_char, *const c_char),
    caller: *const (),
) -> *const () {
    hook_of(handle, name, caller, || {
        call!(
            dlvsym,
            fn(usize, *const c_char, *const c_char) -> *const (),
            (handle, name, version),
            else core::ptr::null()
        )
    })
}

/// For the two names by which we are reached: the loader's function, ours to answer instead, or a program could ask libc itself for them, and ours for
/// who is behind us.
fn our_own(name: &CStr) -> Option<[*const (); 3]> {
    match name.to_bytes() {
        b"dlsym" => Some([loader(&DLSYM, c"dlsym"), dlsym as *const (), dlsym_behind as *const ()]),
        b"dlvsym" => Some([loader(&DLVSYM, c"dlvsym"), dlvsym as *const (), dlvsym_behind as *const ()]),
        _ => None,
    }
}

fn hook_of(handle: usize, name: *const c_char, caller: *const (), ask: impl FnOnce() -> *const ()) -> *const () {
    if name.is_null() {
        return core::ptr::null();
    }
    // SAFETY: a C string, as the loader demands.
    let name = unsafe { CStr::from_ptr(name) };
    let own = our_own(name);
    if is_search(handle) {
        return match own {
            Some([.., behind]) if handle == NEXT && elf::is_behind_us(caller) => behind,
            _ => core::ptr::null(),
        };
    }
    if let Some([real, ours, _]) = own {
        return if ask() == real { ours } else { core::ptr::null() };
    }
    let Some((place, hook)) = table::find(name).and_then(|place| Some((place, HOOKS.get(place)?))) else {
        return core::ptr::null();
    };
    let address = ask();
    // The driver that looks up a name of its own means its own function (it does so where it is one library behind another).
    if address.is_null() || elf::driver_of(address).is_none() || elf::driver_of(caller).is_some() {
        return core::ptr::null();
    }
    real::refresh(place, address);
    (hook.address)()
}

// Functions that answer what their hook says, or jump to the real one with all arguments and the return address in place.

#[cfg(target_arch = "x86_64")]
macro_rules! by_two_arguments {
    ($(#[$attribute:meta])* $name:ident, $hook:ident, $real:ident) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov rdx, [rsp]",
                "push rdi", "push rsi", "sub rsp, 8",
                "call {hook}",
                "add rsp, 8", "pop rsi", "pop rdi",
                "test rax, rax", "jnz 2f",
                "jmp [rip + {real}]",
                "2:", "ret",
                hook = sym $hook, real = sym $real,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! by_three_arguments {
    ($(#[$attribute:meta])* $name:ident, $hook:ident, $real:ident) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov rcx, [rsp]",
                "push rdi", "push rsi", "push rdx",
                "call {hook}",
                "pop rdx", "pop rsi", "pop rdi",
                "test rax, rax", "jnz 2f",
                "jmp [rip + {real}]",
                "2:", "ret",
                hook = sym $hook, real = sym $real,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! by_two_arguments {
    ($(#[$attribute:meta])* $name:ident, $hook:ident, $real:ident) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-32]!", "stp x0, x1, [sp, #16]",
                "mov x2, x30",
                "bl {hook}",
                "mov x9, x0",
                "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #32",
                "cbnz x9, 2f",
                "adrp x9, {real}", "ldr x9, [x9, :lo12:{real}]", "br x9",
                "2:", "mov x0, x9", "ret",
                hook = sym $hook, real = sym $real,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! by_three_arguments {
    ($(#[$attribute:meta])* $name:ident, $hook:ident, $real:ident) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-48]!", "stp x0, x1, [sp, #16]", "str x2, [sp, #32]",
                "mov x3, x30",
                "bl {hook}",
                "mov x9, x0",
                "ldr x2, [sp, #32]", "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #48",
                "cbnz x9, 2f",
                "adrp x9, {real}", "ldr x9, [x9, :lo12:{real}]", "br x9",
                "2:", "mov x0, x9", "ret",
                hook = sym $hook, real = sym $real,
            )
        }
    };
}

by_two_arguments!(
    #[unsafe(no_mangle)]
    dlsym,
    dlsym_hook,
    DLSYM
);
by_three_arguments!(
    #[unsafe(no_mangle)]
    dlvsym,
    dlvsym_hook,
    DLVSYM
);
by_two_arguments!(dlsym_behind, dlsym_hook_behind, DLSYM_OF_LIBC);
by_three_arguments!(dlvsym_behind, dlvsym_hook_behind, DLVSYM_OF_LIBC);
