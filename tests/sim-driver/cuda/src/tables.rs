//! The private tables that cudart up to 11.1 asks `cuGetExportTable` for: the primary context, a place beside each context for cudart's own data, which
//! of its calls a tool listens to (none), and modules. What is in them was seen by running cudart 10.2 and the one that faiss 1.7.2 brings.
//!
//! The table with which cudart 11.2 and later asks whether the driver is the vendor's is not here, and must never be.
//!
//! # Safety
//! Pointers come from cudart, which promises that they are valid for one write of their type, as for the public calls.
#![expect(unsafe_code, reason = "C calls through tables of pointers")]
use crate::context::{self, Handle};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{null, without_provenance};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

type Id = [u8; 16];
type Ids = [(Id, *const c_void); 4];

/// Pointers to code. Most tables have their length in bytes in the first place.
struct Table<const N: usize>([*const (); N]);

// SAFETY: addresses of code and lengths, which nobody changes.
unsafe impl<const N: usize> Sync for Table<N> {}

/// Of these functions cudart calls three; those at the other places are not simulated.
static RUNTIME: Table<10> = Table([
    without_provenance(80),
    not_simulated as *const (),
    primary_context as *const (),
    not_simulated as *const (),
    not_simulated as *const (),
    not_simulated as *const (),
    load_module as *const (),
    unload_module as *const (),
    not_simulated as *const (),
    not_simulated as *const (),
]);

static LISTENERS: Table<7> = Table([
    without_provenance(56),
    not_simulated as *const (),
    calls_listened_to as *const (),
    not_simulated as *const (),
    not_simulated as *const (),
    not_simulated as *const (),
    domains_listened_to as *const (),
]);

/// Only called where a tool listens.
static THREADS: Table<4> = Table([without_provenance(32), null(), null(), null()]);

/// Without a length.
static STORAGE: Table<3> = Table([keep as *const (), drop_kept as *const (), kept as *const ()]);

/// The table of an id; `None` where it is not simulated.
pub(crate) fn table(id: Id) -> Option<*const c_void> {
    let ids: Ids = [
        (0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9_u128.to_be_bytes(), (&raw const RUNTIME).cast()),
        (0xa094_798c_2e74_2e74_93f2_0800_200c_0a66_u128.to_be_bytes(), (&raw const LISTENERS).cast()),
        (0x42d8_5a81_23f6_cb47_8298_f6e7_8a3a_ecdc_u128.to_be_bytes(), (&raw const THREADS).cast()),
        (0xc693_336e_1121_df11_a8c3_68f3_55d8_9593_u128.to_be_bytes(), (&raw const STORAGE).cast()),
    ];
    ids.into_iter().find(|(other, _)| *other == id).map(|(_, table)| table)
}

/// `CUDA_ERROR_NOT_SUPPORTED`.
extern "C" fn not_simulated() -> u32 {
    801
}

/// The handle of a device's primary context, which cudart asks before it makes that with `cuDevicePrimaryCtxRetain`.
extern "C" fn primary_context(handle: *mut Handle, device: i32) -> u32 {
    match context::primary(device) {
        Ok(primary) => {
            // SAFETY: cudart's place for a handle.
            unsafe { handle.write(primary) };
            0
        }
        Err(error) => error,
    }
}

/// Loads a module, without a look at its code: kernels do not run.
extern "C" fn load_module(module: *mut Handle) -> u32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0x70_0000);
    // SAFETY: cudart's place for a handle.
    unsafe { module.write(NEXT.fetch_add(0x10, Ordering::Relaxed)) };
    0
}

extern "C" fn unload_module(_module: Handle) -> u32 {
    0
}

/// A word for each call of the runtime, 0 where nobody listens to it; cudart 10.2 wants more than 335 of them.
static CALLS: [u32; 512] = [0; 512];
static DOMAINS: [u32; 16] = [0; 16];

fn put_words(words: &'static [u32], at: *mut *const u32, count: *mut usize) {
    // SAFETY: cudart's place for an address.
    unsafe { at.write(words.as_ptr()) };
    // SAFETY: cudart's place for a count.
    unsafe { count.write(words.len()) };
}

extern "C" fn calls_listened_to(at: *mut *const u32, count: *mut usize) {
    put_words(&CALLS, at, count);
}

extern "C" fn domains_listened_to(at: *mut *const u32, count: *mut usize) {
    put_words(&DOMAINS, at, count);
}

/// What is kept beside a context, under a key of the keeper's, until the keeper drops it.
static KEPT: LazyLock<Mutex<HashMap<(Handle, usize), usize>>> = LazyLock::new(Mutex::default);

fn all_kept() -> MutexGuard<'static, HashMap<(Handle, usize), usize>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context, where 0 stands for the current one.
fn of(handle: Handle) -> Handle {
    if handle == 0 { context::current() } else { handle }
}

extern "C" fn keep(handle: Handle, key: usize, value: usize) -> u32 {
    all_kept().insert((of(handle), key), value);
    0
}

extern "C" fn drop_kept(handle: Handle, key: usize) -> u32 {
    all_kept().remove(&(of(handle), key));
    0
}

/// What was kept; `CUDA_ERROR_INVALID_HANDLE` where nothing was.
extern "C" fn kept(value: *mut usize, handle: Handle, key: usize) -> u32 {
    match all_kept().get(&(of(handle), key)) {
        Some(kept) => {
            // SAFETY: cudart's place for the value.
            unsafe { value.write(*kept) };
            0
        }
        None => 400,
    }
}
