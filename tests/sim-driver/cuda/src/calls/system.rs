//! Start, version, errors, and the look-up of entry points.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::{get, put, put_if_wanted, text};
use crate::node::node;
use crate::procaddr::{Found, find};
use crate::tables;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// `CUDA_ERROR_NOT_INITIALIZED` before `cuInit`.
pub(super) fn started() -> Result<(), u32> {
    if STARTED.load(Ordering::Relaxed) { Ok(()) } else { Err(3) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuInit(flags: u32) -> u32 {
    match node() {
        _ if flags != 0 => 1,
        None => 999,
        Some(node) if node.cards.is_empty() => 100,
        Some(_) => {
            STARTED.store(true, Ordering::Relaxed);
            0
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    put(version, node().map(|node| node.scenario.cuda_version).ok_or(999))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorName(error: u32, name: *mut *const c_char) -> u32 {
    put(name, words(error).map(|(name, _)| name.as_ptr()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorString(error: u32, words_at: *mut *const c_char) -> u32 {
    put(words_at, words(error).map(|(_, text)| text.as_ptr()))
}

fn words(error: u32) -> Result<(&'static std::ffi::CStr, &'static std::ffi::CStr), u32> {
    Ok(match error {
        0 => (c"CUDA_SUCCESS", c"no error"),
        1 => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        2 => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        3 => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        100 => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        101 => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        201 => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        400 => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        500 => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        801 => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        999 => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        _ => return Err(1),
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetProcAddress(name: *const c_char, entry: *mut *const (), version: i32, flags: u64) -> u32 {
    let Some(name) = text(name).filter(|_| flags <= 2) else { return 1 };
    match find(name, version, flags) {
        Found::At(address) => put(entry, Ok(address)),
        Found::Unknown | Found::TooNew => 500,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    entry: *mut *const (),
    version: i32,
    flags: u64,
    status: *mut u32,
) -> u32 {
    let Some(name) = text(name).filter(|_| flags <= 2) else { return 1 };
    let (address, said) = match find(name, version, flags) {
        Found::At(address) => (address, 0),
        Found::Unknown => (std::ptr::null(), 1),
        Found::TooNew => (std::ptr::null(), 2),
    };
    put_if_wanted(status, said);
    put(entry, Ok(address))
}

/// Private tables: those of `tables.rs`, and no other.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetExportTable(at: *mut *const c_void, id: *const [u8; 16]) -> u32 {
    match get(id).map(tables::table) {
        Ok(Some(table)) => put(at, Ok(table)),
        Ok(None) => {
            put_if_wanted(at, std::ptr::null());
            500
        }
        Err(error) => error,
    }
}
