//! Linear memory: allocate, free, copy, fill, and report.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::system::started;
use super::{INVALID_VALUE, code, get, put, put_if_wanted};
use crate::context::{self, Handle};
use crate::memory;
use crate::node::card;
use std::ffi::c_void;

fn allocate(bytes: u64) -> Result<u64, u32> {
    started()?;
    let (handle, device) = context::here()?;
    memory::allocate(Some(device), handle, bytes)
}

fn small<T: TryFrom<u64> + Default>(value: u64) -> T {
    T::try_from(value).unwrap_or_default()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc(at: *mut u32, bytes: u32) -> u32 {
    let _ = (at, bytes);
    // Addresses of this card do not fit 32 bits.
    801
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> u32 {
    if at.is_null() {
        return INVALID_VALUE;
    }
    put(at, allocate(bytes as u64))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocManaged(at: *mut u64, bytes: usize, flags: u32) -> u32 {
    if at.is_null() || !(1..=2).contains(&flags) {
        return INVALID_VALUE;
    }
    put(at, allocate(bytes as u64))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocPitch_v2(
    at: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> u32 {
    if at.is_null() || pitch.is_null() || !matches!(element, 4 | 8 | 16) || width == 0 {
        return INVALID_VALUE;
    }
    let Some(row) = width.checked_next_multiple_of(512) else { return 2 };
    match row.checked_mul(height).ok_or(2).and_then(|bytes| allocate(bytes as u64)) {
        Ok(address) => {
            put_if_wanted(pitch, row);
            put(at, Ok(address))
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFree_v2(at: u64) -> u32 {
    if at == 0 {
        return 0;
    }
    let result = code(memory::free(at));
    crate::pools::synchronized();
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo(free: *mut u32, total: *mut u32) -> u32 {
    info(free, total)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    info(free, total)
}

fn info<T: TryFrom<u64> + Default>(free: *mut T, total: *mut T) -> u32 {
    let here = started().and_then(|()| context::here()).and_then(|(_, device)| card(device).ok_or(101));
    match here.and_then(memory::info) {
        Ok((left, all)) => {
            put_if_wanted(free, small(left));
            put_if_wanted(total, small(all));
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, at: u64) -> u32 {
    let Some((start, length)) = memory::range(at) else { return 500 };
    put_if_wanted(base, start);
    put_if_wanted(bytes, small(length));
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocHost_v2(at: *mut u64, bytes: usize) -> u32 {
    cuMemHostAlloc(at, bytes, 0)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemHostAlloc(at: *mut u64, bytes: usize, _flags: u32) -> u32 {
    if at.is_null() {
        return INVALID_VALUE;
    }
    put(at, context::here().and_then(|(handle, _)| memory::allocate(None, handle, bytes as u64)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeHost(at: u64) -> u32 {
    code(memory::free(at))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemHostRegister_v2(_at: u64, _bytes: usize, _flags: u32) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemHostUnregister(_at: u64) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemHostGetDevicePointer_v2(at: *mut u64, host: u64, _flags: u32) -> u32 {
    put(at, Ok(host))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, _stream: Handle) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: Handle) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, _stream: Handle) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: Handle) -> u32 {
    memory::copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> u32 {
    memory::fill(to, &[value], count)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, _stream: Handle) -> u32 {
    memory::fill(to, &[value], count)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD16_v2(to: u64, value: u16, count: usize) -> u32 {
    memory::fill(to, &value.to_ne_bytes(), count)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD32_v2(to: u64, value: u32, count: usize) -> u32 {
    memory::fill(to, &value.to_ne_bytes(), count)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, _stream: Handle) -> u32 {
    memory::fill(to, &value.to_ne_bytes(), count)
}

/// The attributes that clients ask: context 1, memory type 2, device pointer 3, host pointer 4, is managed 8, device ordinal 9.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuPointerGetAttribute(data: *mut c_void, attribute: i32, at: u64) -> u32 {
    let Some((start, length)) = memory::range(at) else { return INVALID_VALUE };
    let device = memory::device(at);
    match attribute {
        1 => put(data.cast::<usize>(), Ok(context::current())),
        2 => put(data.cast::<u32>(), Ok(if device.is_some() { 2 } else { 1 })),
        3 | 4 => put(data.cast::<u64>(), Ok(at)),
        // Four bytes: cudart reads as many, from memory that it has not set.
        8 => put(data.cast::<u32>(), Ok(0)),
        // Pinned memory is of the device in whose context it was made.
        9 => put(data.cast::<i32>(), device.map_or_else(|| context::device_of(0), Ok)),
        11 => put(data.cast::<u64>(), Ok(start)),
        12 => put(data.cast::<u64>(), Ok(length)),
        _ => 801,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuPointerGetAttributes(
    count: u32,
    attributes: *const i32,
    data: *const *mut c_void,
    at: u64,
) -> u32 {
    for n in 0..count as usize {
        let (Ok(attribute), Ok(to)) = (get(attributes.wrapping_add(n)), get(data.wrapping_add(n))) else {
            return INVALID_VALUE;
        };
        // An address that the driver does not know has the value zero, which is no error here.
        if cuPointerGetAttribute(to, attribute, at) != 0 {
            put_if_wanted(to.cast::<u32>(), 0);
        }
    }
    0
}

/// Memory of another library, such as a graphics one: it is not this process's to count.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuImportExternalMemory(handle: *mut u64, description: *const c_void) -> u32 {
    if description.is_null() {
        return INVALID_VALUE;
    }
    put(handle, context::here().map(|_| 0x6600_0000))
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ExternalBuffer {
    offset: u64,
    bytes: u64,
    flags: u32,
    reserved: [u32; 16],
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuExternalMemoryGetMappedBuffer(
    at: *mut u64,
    _memory: u64,
    buffer: *const ExternalBuffer,
) -> u32 {
    let place = || {
        let (_, device) = context::here()?;
        memory::allocate_of_another(device, get(buffer)?.bytes)
    };
    put(at, place())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDestroyExternalMemory(_memory: u64) -> u32 {
    0
}

/// What stands for an allocation in another process: its size is all that is needed here.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct IpcHandle([u64; 8]);

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuIpcGetMemHandle(handle: *mut IpcHandle, at: u64) -> u32 {
    let length = memory::range(at).filter(|(start, _)| *start == at).map(|(_, length)| length).ok_or(INVALID_VALUE);
    put(handle, length.map(|length| IpcHandle([u64::from(std::process::id()), at, length, 0, 0, 0, 0, 0])))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuIpcOpenMemHandle(at: *mut u64, handle: IpcHandle, _flags: u32) -> u32 {
    let IpcHandle([process, _, length, ..]) = handle;
    let open = || {
        let (_, device) = context::here()?;
        // The driver opens no handle in the process that made it.
        if process == u64::from(std::process::id()) { Err(201) } else { memory::allocate_of_another(device, length) }
    };
    put(at, open())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuIpcOpenMemHandle_v2(at: *mut u64, handle: IpcHandle, flags: u32) -> u32 {
    cuIpcOpenMemHandle(at, handle, flags)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuIpcCloseMemHandle(at: u64) -> u32 {
    code(memory::free(at))
}
