//! Stream-ordered memory and its pools.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::{INVALID_VALUE, code, get, put};
use crate::context::{self, Handle};
use crate::node::card;
use crate::{graphs, memory, pools};

/// `CUmemPoolProps` of cuda.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Properties {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    pub(super) location_id: i32,
    windows: usize,
    most: usize,
    rest: [u64; 7],
}

impl Properties {
    pub(super) fn of_device(device: i32) -> Self {
        Self { kind: 1, handle_types: 0, location_type: 1, location_id: device, windows: 0, most: 0, rest: [0; 7] }
    }
}

fn allocate(pool: Handle, bytes: usize, stream: Handle) -> Result<u64, u32> {
    let (_, device) = context::here()?;
    match graphs::captured(stream) {
        Some(graph) => graphs::add_alloc(graph, device, bytes as u64).map(|(_, at)| at),
        None => pools::allocate(pool, bytes as u64),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocAsync(at: *mut u64, bytes: usize, stream: Handle) -> u32 {
    if at.is_null() {
        return INVALID_VALUE;
    }
    let pool = context::here().and_then(|(_, device)| pools::current_of(device));
    put(at, pool.and_then(|pool| allocate(pool, bytes, stream)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocFromPoolAsync(at: *mut u64, bytes: usize, pool: Handle, stream: Handle) -> u32 {
    if at.is_null() {
        return INVALID_VALUE;
    }
    put(at, allocate(pool, bytes, stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeAsync(at: u64, stream: Handle) -> u32 {
    match graphs::captured(stream) {
        Some(graph) => code(graphs::add(graph, graphs::Node::Free { at }).map(|_| ())),
        None => code(memory::free(at)),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: i32) -> u32 {
    put(pool, pools::default_of(device))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetMemPool(pool: *mut Handle, device: i32) -> u32 {
    put(pool, pools::current_of(device))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceSetMemPool(device: i32, pool: Handle) -> u32 {
    code(pools::set_current(device, pool))
}

/// Pools of a device (location type 1) and of the host (2 to 4).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolCreate(pool: *mut Handle, properties: *const Properties) -> u32 {
    let create = || {
        let properties = get(properties)?;
        let device = match properties.location_type {
            _ if properties.kind != 1 => return Err(INVALID_VALUE),
            1 => Some(card(properties.location_id).map(|_| properties.location_id).ok_or(101_u32)?),
            2..=4 => None,
            _ => return Err(INVALID_VALUE),
        };
        Ok(pools::create(device, properties.most as u64))
    };
    put(pool, create())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolDestroy(pool: Handle) -> u32 {
    code(pools::destroy(pool))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolTrimTo(pool: Handle, keep: usize) -> u32 {
    code(pools::trim(pool, keep as u64))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolGetAttribute(pool: Handle, which: u32, value: *mut u64) -> u32 {
    put(value, pools::attribute(pool, which))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolSetAttribute(pool: Handle, which: u32, value: *const u64) -> u32 {
    // The reuse flags (1 to 3) are of 32 bits, and do nothing here.
    let value = if which <= 3 { Ok(0) } else { get(value) };
    code(value.and_then(|value| pools::set_attribute(pool, which, value)))
}
