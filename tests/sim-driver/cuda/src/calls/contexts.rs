//! Contexts: the primary ones and others, and each thread's stack of them.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::system::started;
use super::{code, put, put_if_wanted};
use crate::context::{self, Handle};
use std::ffi::c_void;

fn begun<T>(work: impl FnOnce() -> Result<T, u32>) -> Result<T, u32> {
    started()?;
    work()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRetain(handle: *mut Handle, device: i32) -> u32 {
    put(handle, begun(|| context::retain_primary(device)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease(device: i32) -> u32 {
    code(begun(|| context::release_primary(device)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32 {
    cuDevicePrimaryCtxRelease(device)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxReset(device: i32) -> u32 {
    code(begun(|| context::reset_primary(device)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> u32 {
    cuDevicePrimaryCtxReset(device)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) -> u32 {
    code(begun(|| context::set_primary_flags(device, flags)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) -> u32 {
    cuDevicePrimaryCtxSetFlags(device, flags)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) -> u32 {
    let (set, is) = context::primary_state(device);
    put_if_wanted(flags, set);
    put(active, begun(|| Ok(i32::from(is))))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxCreate(handle: *mut Handle, _flags: u32, device: i32) -> u32 {
    put(handle, begun(|| context::create(device)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxCreate_v2(handle: *mut Handle, flags: u32, device: i32) -> u32 {
    cuCtxCreate(handle, flags, device)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxCreate_v3(
    handle: *mut Handle,
    _affinity: *const c_void,
    _count: i32,
    flags: u32,
    device: i32,
) -> u32 {
    cuCtxCreate(handle, flags, device)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxDestroy(handle: Handle) -> u32 {
    code(context::destroy(handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxDestroy_v2(handle: Handle) -> u32 {
    cuCtxDestroy(handle)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxPushCurrent(handle: Handle) -> u32 {
    code(context::push(handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> u32 {
    cuCtxPushCurrent(handle)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxPopCurrent(handle: *mut Handle) -> u32 {
    match context::pop() {
        Ok(popped) => {
            put_if_wanted(handle, popped);
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxPopCurrent_v2(handle: *mut Handle) -> u32 {
    cuCtxPopCurrent(handle)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetCurrent(handle: Handle) -> u32 {
    code(begun(|| context::set_current(handle)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetCurrent(handle: *mut Handle) -> u32 {
    put(handle, begun(|| Ok(context::current())))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetDevice(device: *mut i32) -> u32 {
    put(device, begun(|| context::here().map(|(_, device)| device)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetFlags(flags: *mut u32) -> u32 {
    put(flags, context::here().map(|_| 0))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetApiVersion(handle: Handle, version: *mut u32) -> u32 {
    put(version, context::device_of(handle).map(|_| 3020))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetId(handle: Handle, id: *mut u64) -> u32 {
    put(id, context::device_of(handle).map(|_| if handle == 0 { context::current() } else { handle } as u64))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSynchronize() -> u32 {
    code(context::here().map(|_| crate::pools::synchronized()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetLimit(value: *mut usize, _limit: i32) -> u32 {
    put(value, context::here().map(|_| 1024))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetLimit(_limit: i32, _value: usize) -> u32 {
    code(context::here().map(|_| ()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> u32 {
    put_if_wanted(least, 0);
    put_if_wanted(greatest, -5);
    code(context::here().map(|_| ()))
}

/// One more use of the current context.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxAttach(handle: *mut Handle, _flags: u32) -> u32 {
    put(handle, context::attach())
}

/// One use less of a context; the last one ends it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxDetach(handle: Handle) -> u32 {
    code(context::detach(handle))
}
