//! The C library's own functions, found without any function of the loader: in the list that the loader keeps for debuggers.
//!
//! Our reference to `dl_iterate_phdr` may be bound to the program's or a sanitizer's, which is not ready while libraries start, or asks `dlsym`, which is
//! ours.
//!
//! # Safety
//! The program's headers and the loader's list are what the kernel and the loader say; the C library is among the first of the list and is never unloaded.
#![expect(unsafe_code, reason = "reads the tables of the kernel and of the loader")]
use super::{Object, ProgramHeader, Visitor, word};
use core::arch::global_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// `struct r_debug` of link.h, up to the list.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const LinkMap,
}

/// `struct link_map` of link.h: the part that debuggers rely on.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const [usize; 2],
    next: *const LinkMap,
}

type Iterate = unsafe extern "C" fn(Visitor, *mut c_void) -> c_int;

// Reached through weak references: a program without a dynamic loader lacks them, and `-z defs` must not ask for them.
#[cfg(target_arch = "x86_64")]
macro_rules! weak {
    ($name:literal) => {
        global_asm!(
            concat!(".weak ", $name),
            concat!(".hidden gpu_quota_", $name),
            concat!(".globl gpu_quota_", $name),
            concat!("gpu_quota_", $name, ":"),
            concat!("mov rax, [rip + ", $name, "@GOTPCREL]"),
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2:",
            "ret",
        );
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! weak {
    ($name:literal) => {
        global_asm!(
            concat!(".weak ", $name),
            concat!(".hidden gpu_quota_", $name),
            concat!(".globl gpu_quota_", $name),
            concat!("gpu_quota_", $name, ":"),
            concat!("adrp x9, :got:", $name),
            concat!("ldr x9, [x9, :got_lo12:", $name, "]"),
            "cbz x9, 2f",
            "br x9",
            "2:",
            "mov x0, #0",
            "ret",
        );
    };
}
weak!("dl_iterate_phdr");
weak!("getauxval");

unsafe extern "C" {
    fn gpu_quota_dl_iterate_phdr(visitor: Visitor, data: *mut c_void) -> c_int;
    /// A number of the kernel's; 0 where there is none.
    safe fn gpu_quota_getauxval(kind: usize) -> usize;
}

/// Walks the loader's list by the C library's own function.
pub(super) fn each_object(visitor: Visitor, data: *mut c_void) {
    static KNOWN: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    let mut known = KNOWN.load(Ordering::Relaxed).cast_const();
    if known.is_null() {
        known = loader(c"dl_iterate_phdr");
        if known.is_null() {
            known = gpu_quota_dl_iterate_phdr as Iterate as *const ();
        }
        KNOWN.store(known.cast_mut(), Ordering::Relaxed);
    }
    // SAFETY: the address of a `dl_iterate_phdr`.
    let walk = unsafe { core::mem::transmute::<*const (), Iterate>(known) };
    // SAFETY: the visitor gets back its own data, which outlives the call.
    let _ = unsafe { walk(visitor, data) };
}

/// A function that the C library has for its loader, NULL where it has none or the list cannot be found: in glibc's own object, before 2.34 beside it, or in
/// musl's loader, which is both.
pub(crate) fn loader(name: &CStr) -> *const () {
    const AT_BASE: usize = 7;
    let interpreter = gpu_quota_getauxval(AT_BASE);
    let mut next = list();
    // SAFETY: a record of the loader's list, or NULL at its end.
    while let Some(map) = unsafe { next.as_ref() } {
        if let Some(object) = Object::tables(map.base, map.dynamic, &[])
            && (map.base == interpreter || object.is_named(b"libc.so.6") || object.is_named(b"libdl.so.2"))
        {
            let found = object.symbol(name);
            if !found.is_null() {
                return found;
            }
        }
        next = map.next;
    }
    ptr::null()
}

/// The loader's list, which `DT_DEBUG` of the program names.
fn list() -> *const LinkMap {
    const AT_PHDR: usize = 3;
    const AT_PHNUM: usize = 5;
    const PT_DYNAMIC: u32 = 2;
    const PT_PHDR: u32 = 6;
    const DT_DEBUG: usize = 21;
    let (headers, count) = (gpu_quota_getauxval(AT_PHDR), gpu_quota_getauxval(AT_PHNUM));
    if headers == 0 {
        return ptr::null();
    }
    // SAFETY: the program's own headers, by the kernel's word.
    let all = unsafe { core::slice::from_raw_parts(headers as *const ProgramHeader, count) };
    let of = |kind| all.iter().find(|header| header.kind == kind).map(|header| word(header.address));
    // Without the first these are not the program's: the loader was started as one.
    let (Some(at), Some(dynamic)) = (of(PT_PHDR), of(PT_DYNAMIC)) else { return ptr::null() };
    let mut entry = headers.wrapping_sub(at).wrapping_add(dynamic) as *const [usize; 2];
    let debug = loop {
        // SAFETY: the dynamic section ends with a null entry.
        match unsafe { *entry } {
            [0, _] => return ptr::null(),
            [DT_DEBUG, value] => break value as *const Debug,
            _ => entry = entry.wrapping_add(1),
        }
    };
    // SAFETY: NULL, or what the loader put there.
    unsafe { debug.as_ref() }.map_or(ptr::null(), |debug| debug.map)
}
