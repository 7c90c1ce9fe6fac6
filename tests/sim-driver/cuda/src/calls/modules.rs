//! Modules. Kernels do not run, so a module that is loaded has none: to look for one, or for a variable, finds nothing.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::system::started;
use crate::context::Handle;
use std::ffi::c_char;

/// `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: u32 = 500;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleUnload(_module: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetFunction(_function: *mut Handle, _module: Handle, _name: *const c_char) -> u32 {
    started().err().unwrap_or(NOT_FOUND)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetGlobal_v2(
    _at: *mut u64,
    _bytes: *mut usize,
    _module: Handle,
    _name: *const c_char,
) -> u32 {
    started().err().unwrap_or(NOT_FOUND)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetTexRef(_texture: *mut Handle, _module: Handle, _name: *const c_char) -> u32 {
    started().err().unwrap_or(NOT_FOUND)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetSurfRef(_surface: *mut Handle, _module: Handle, _name: *const c_char) -> u32 {
    started().err().unwrap_or(NOT_FOUND)
}
