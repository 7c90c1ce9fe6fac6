//! Virtual memory management: addresses, physical memory and mappings, each with a life of its own.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::{INVALID_VALUE, code, get, put};
use crate::memory::{self, VMM};
use crate::node::card;
use crate::{arrays, physical};
use std::ffi::c_void;

/// `CUmemAllocationProp` of cuda.h, up to the location; the rest does not matter here.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Properties {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
}

/// Physical memory of a device is charged, that of the host (types 2 to 4) is not.
fn location(properties: *const Properties) -> Result<Option<i32>, u32> {
    let properties = get(properties)?;
    match properties.location_type {
        _ if properties.kind != 1 => Err(INVALID_VALUE),
        1 => card(properties.location_id).map(|_| Some(properties.location_id)).ok_or(101),
        2..=4 => Ok(None),
        _ => Err(INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetAllocationGranularity(
    bytes: *mut usize,
    properties: *const Properties,
    _option: u32,
) -> u32 {
    put(bytes, location(properties).map(|_| usize::try_from(VMM).unwrap_or(0)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemCreate(handle: *mut u64, bytes: usize, properties: *const Properties, flags: u64) -> u32 {
    if handle.is_null() || flags != 0 {
        return INVALID_VALUE;
    }
    put(handle, location(properties).and_then(|device| physical::create(device, bytes as u64)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRelease(handle: u64) -> u32 {
    code(physical::release(handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRetainAllocationHandle(handle: *mut u64, at: u64) -> u32 {
    put(handle, physical::retain(at))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAddressReserve(
    at: *mut u64,
    bytes: usize,
    _align: usize,
    _hint: u64,
    _flags: u64,
) -> u32 {
    put(at, memory::reserve(bytes as u64))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAddressFree(_at: u64, _bytes: usize) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMap(at: u64, bytes: usize, offset: usize, handle: u64, _flags: u64) -> u32 {
    code(physical::map(at, bytes as u64, offset as u64, handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemUnmap(at: u64, bytes: usize) -> u32 {
    code(physical::unmap(at, bytes as u64))
}

/// Only descriptors (type 1) are simulated.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemExportToShareableHandle(out: *mut i32, handle: u64, kind: u32, flags: u64) -> u32 {
    if out.is_null() || kind != 1 || flags != 0 {
        return INVALID_VALUE;
    }
    put(out, physical::export(handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemImportFromShareableHandle(handle: *mut u64, from: usize, kind: u32) -> u32 {
    if handle.is_null() || kind != 1 {
        return INVALID_VALUE;
    }
    put(handle, i32::try_from(from).map_err(|_| INVALID_VALUE).and_then(physical::import))
}

/// `CUarrayMapInfo` of cuda.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ArrayMap {
    resource_kind: u32,
    resource: usize,
    subresource_kind: u32,
    subresource: [u64; 4],
    operation: u32,
    handle_kind: u32,
    handle: u64,
    offset: u64,
    devices: u32,
    flags: u32,
    reserved: [u32; 2],
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMapArrayAsync(list: *const ArrayMap, count: u32, _stream: usize) -> u32 {
    for at in 0..count as usize {
        let map = match get(list.wrapping_add(at)) {
            Ok(map) => map,
            Err(error) => return error,
        };
        let [a, b, c, d] = map.subresource;
        let memory = (map.operation == 1).then_some(map.handle);
        if let Err(error) = arrays::map(map.resource, [u64::from(map.subresource_kind), a, b, c, d], memory) {
            return error;
        }
    }
    0
}

/// The simulated driver's own: closes a descriptor that it made.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn simCloseDescriptor(descriptor: i32) -> u32 {
    physical::close(descriptor);
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemSetAccess(_at: u64, _bytes: usize, _access: *const c_void, _count: usize) -> u32 {
    0
}
