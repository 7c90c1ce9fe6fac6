//! The simulated entry points, under their C names and with the signatures of cuda.h 12.4. Each only translates.
//!
//! # Safety
//! Pointers come from C callers, who promise what cuda.h says of them; NULL is refused or allowed as the real driver does.
#![expect(unsafe_code, reason = "C pointers are written and read here, in one place")]

mod arrays;
mod contexts;
mod devices;
mod graphs;
mod memory;
mod modules;
mod pools;
mod streams;
mod system;
mod virtual_memory;

pub(crate) use arrays::*;
pub(crate) use contexts::*;
pub(crate) use devices::*;
pub(crate) use graphs::*;
pub(crate) use memory::*;
pub(crate) use modules::*;
pub(crate) use pools::*;
pub(crate) use streams::*;
pub(crate) use system::*;
pub(crate) use virtual_memory::*;

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: u32 = 1;

/// Writes an answer where the caller wants it; `CUDA_ERROR_INVALID_VALUE` for NULL.
fn put<T>(at: *mut T, value: Result<T, u32>) -> u32 {
    match value {
        Ok(_) if at.is_null() => INVALID_VALUE,
        Ok(value) => {
            // SAFETY: not NULL, and by cuda.h valid for a write of this type.
            unsafe { at.write(value) };
            0
        }
        Err(error) => error,
    }
}

/// As [`put`], where NULL means that the caller does not want the answer.
fn put_if_wanted<T>(at: *mut T, value: T) {
    if !at.is_null() {
        put(at, Ok(value));
    }
}

/// The C code of a result without an answer.
fn code(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(0)
}

/// Writes text and a NUL, cut to the buffer.
fn put_text(at: *mut u8, length: i32, text: &str) -> u32 {
    let Ok(length @ 1..) = usize::try_from(length) else { return INVALID_VALUE };
    if at.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not NULL, and by cuda.h valid for `length` bytes.
    let to = unsafe { std::slice::from_raw_parts_mut(at, length) };
    to.fill(0);
    to.iter_mut().take(length - 1).zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    0
}

/// Reads an argument that the caller passes by pointer.
fn get<T: Copy>(at: *const T) -> Result<T, u32> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not NULL, and by cuda.h valid for a read of this type.
    Ok(unsafe { at.read_unaligned() })
}

/// A C string; `None` for NULL or text that is not UTF-8.
fn text<'a>(at: *const std::ffi::c_char) -> Option<&'a str> {
    if at.is_null() {
        return None;
    }
    // SAFETY: not NULL, and by cuda.h a C string that lives through the call.
    unsafe { std::ffi::CStr::from_ptr(at) }.to_str().ok()
}
