//! Arrays and mipmapped arrays.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::{INVALID_VALUE, code, get, put};
use crate::arrays::{self, Shape};
use crate::context::Handle;

/// `CUDA_ARRAY_DESCRIPTOR` of cuda.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Flat {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of cuda.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Solid {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

fn shape(solid: &Solid, levels: u32) -> Shape {
    let size = [solid.width as u64, solid.height as u64, solid.depth as u64];
    Shape { size, format: solid.format, channels: solid.channels, flags: solid.flags, levels }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuArrayCreate_v2(array: *mut Handle, descriptor: *const Flat) -> u32 {
    let create = |flat: Flat| {
        let Flat { width, height, format, channels } = flat;
        arrays::create(&shape(&Solid { width, height, depth: 0, format, channels, flags: 0 }, 1))
    };
    if array.is_null() { INVALID_VALUE } else { put(array, get(descriptor).and_then(create)) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuArray3DCreate_v2(array: *mut Handle, descriptor: *const Solid) -> u32 {
    let create = |solid: Solid| arrays::create(&shape(&solid, 1));
    if array.is_null() { INVALID_VALUE } else { put(array, get(descriptor).and_then(create)) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMipmappedArrayCreate(array: *mut Handle, descriptor: *const Solid, levels: u32) -> u32 {
    let create = |solid: Solid| arrays::create(&shape(&solid, levels));
    if array.is_null() || levels == 0 { INVALID_VALUE } else { put(array, get(descriptor).and_then(create)) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuArrayDestroy(array: Handle) -> u32 {
    code(arrays::destroy(array))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMipmappedArrayDestroy(array: Handle) -> u32 {
    code(arrays::destroy(array))
}
