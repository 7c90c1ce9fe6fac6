//! Answers through C pointers.
//!
//! # Safety
//! Pointers come from C callers, who promise what nvml.h says of them; NULL is `NVML_ERROR_INVALID_ARGUMENT`.
#![expect(unsafe_code, reason = "C pointers are written and read here, in one place")]

/// `NVML_ERROR_INVALID_ARGUMENT`.
pub(crate) const INVALID_ARGUMENT: u32 = 2;
/// `NVML_ERROR_NOT_FOUND`.
pub(crate) const NOT_FOUND: u32 = 6;
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
pub(crate) const INSUFFICIENT_SIZE: u32 = 7;

pub(crate) fn put<T>(at: *mut T, value: Result<T, u32>) -> u32 {
    match value {
        Ok(_) if at.is_null() => INVALID_ARGUMENT,
        Ok(value) => {
            // SAFETY: not NULL, and by nvml.h valid for a write of this type.
            unsafe { at.write(value) };
            0
        }
        Err(error) => error,
    }
}

pub(crate) fn get<T: Copy>(at: *const T) -> Result<T, u32> {
    if at.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not NULL, and by nvml.h valid for a read of this type.
    Ok(unsafe { at.read_unaligned() })
}

/// Writes text with its NUL, or says that the buffer is too small.
pub(crate) fn put_text(at: *mut u8, length: u32, text: Result<&str, u32>) -> u32 {
    let text = match text {
        Ok(_) if at.is_null() => return INVALID_ARGUMENT,
        Ok(text) if text.len() >= length as usize => return INSUFFICIENT_SIZE,
        Ok(text) => text,
        Err(error) => return error,
    };
    // SAFETY: not NULL, and by nvml.h valid for `length` bytes, which the text and its NUL fit.
    let to = unsafe { std::slice::from_raw_parts_mut(at, text.len() + 1) };
    to[..text.len()].copy_from_slice(text.as_bytes());
    to[text.len()] = 0;
    0
}

pub(crate) fn text<'a>(at: *const std::ffi::c_char) -> Option<&'a str> {
    if at.is_null() {
        return None;
    }
    // SAFETY: not NULL, and by nvml.h a C string that lives through the call.
    unsafe { std::ffi::CStr::from_ptr(at) }.to_str().ok()
}

/// Text in a fixed field, zeros behind it.
pub(crate) fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    field.iter_mut().take(N - 1).zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    field
}
