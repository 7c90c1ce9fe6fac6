//! Streams and events. Everything is done at once, so every stream is always idle and every event has happened.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::{code, put};
use crate::context::{self, Handle};
use crate::{graphs, pools};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);

fn new_handle() -> Result<Handle, u32> {
    context::here()?;
    Ok(NEXT.fetch_add(0x10, Ordering::Relaxed))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreate(stream: *mut Handle, _flags: u32) -> u32 {
    put(stream, new_handle())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, _flags: u32, _priority: i32) -> u32 {
    put(stream, new_handle())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy(_stream: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy_v2(_stream: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamSynchronize(_stream: Handle) -> u32 {
    code(context::here().map(|_| pools::synchronized()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamQuery(_stream: Handle) -> u32 {
    code(context::here().map(|_| ()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCtx(_stream: Handle, handle: *mut Handle) -> u32 {
    put(handle, context::here().map(|(handle, _)| handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetFlags(_stream: Handle, flags: *mut u32) -> u32 {
    put(flags, Ok(0))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetPriority(_stream: Handle, priority: *mut i32) -> u32 {
    put(priority, Ok(0))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetId(stream: Handle, id: *mut u64) -> u32 {
    put(id, Ok(stream as u64))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut u32) -> u32 {
    put(status, Ok(u32::from(graphs::captured(stream).is_some())))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamBeginCapture_v2(stream: Handle, _mode: u32) -> u32 {
    code(graphs::begin_capture(stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> u32 {
    put(graph, graphs::end_capture(stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(_stream: Handle, _event: Handle, _flags: u32) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuLaunchHostFunc(
    _stream: Handle,
    function: Option<extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> u32 {
    match function {
        Some(function) => {
            function(data);
            0
        }
        None => 1,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventCreate(event: *mut Handle, _flags: u32) -> u32 {
    put(event, new_handle())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventDestroy(_event: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventDestroy_v2(_event: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventRecord(_event: Handle, _stream: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventSynchronize(_event: Handle) -> u32 {
    pools::synchronized();
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventQuery(_event: Handle) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, _start: Handle, _end: Handle) -> u32 {
    put(milliseconds, Ok(0.0))
}
