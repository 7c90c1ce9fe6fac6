//! Arrays and mipmapped arrays: charged what their shape takes. Sparse and deferred ones take nothing until physical memory is mapped into them, which is
//! charged where that is created.
//!
//! # Safety
//! Descriptors and out-pointers are the program's; they are read where cuda.h has the driver read them, and after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::{Array3dDescriptor, ArrayDescriptor, ArrayShape, CuResult};
use crate::hook::alloc::{allocate, release};
use crate::hook::charge::{SPARSE, give_back, word};
use crate::hook::context;
use crate::real::{self, call};
use crate::start::share;
use crate::table::Name;
use core::ffi::c_uint;

/// `CUDA_ARRAY3D_LAYERED`: depth counts layers, of which every level has as many.
const LAYERED: u32 = 1;
/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;
/// Arrays lie in pages of this size; how their rows are padded is not documented.
const PAGE: u64 = 64 << 10;
/// What an element of a format takes that is not known here: the largest there is.
const LARGEST_BITS: u64 = 128;

/// Bits of one element. The formats are `CUarray_format` of cuda.h; the first ones are of one channel, the others of all.
fn element_bits(format: u32, channels: u32) -> u64 {
    let channels = u64::from(channels.clamp(1, 4));
    match format {
        0x01 | 0x08 => 8 * channels,
        0x02 | 0x09 | 0x10 => 16 * channels,
        0x03 | 0x0a | 0x20 => 32 * channels,
        // Of two planes, one of a quarter of the samples in two channels.
        0xb0 => 12,
        // Blocks of 4 by 4 elements, of 8 bytes or 16.
        0x91 | 0x92 | 0x97 | 0x98 => 4,
        0x93..=0x96 | 0x99..=0x9e | 0xc0 | 0xc6 => 8,
        0xc1 | 0xc3 | 0xc7 | 0xc9 => 16,
        0xc2 | 0xc4 | 0xc8 | 0xca => 32,
        0xc5 | 0xcb => 64,
        _ => LARGEST_BITS,
    }
}

/// What an array of a shape takes, in bytes, with so many levels; `None` for more than there can be.
fn bytes_of(shape: &ArrayShape, levels: u32) -> Option<u64> {
    if shape.flags & WITHOUT_MEMORY != 0 {
        return Some(0);
    }
    let bits = element_bits(shape.format, shape.channels);
    let layered = shape.flags & LAYERED != 0;
    let (mut sum, mut width, mut height, mut depth) = (0_u64, shape.width, shape.height.max(1), shape.depth.max(1));
    // The driver makes no more levels than it takes to come down to one element.
    for _ in 0..levels.clamp(1, 64) {
        let elements = width.max(1).checked_mul(height)?.checked_mul(depth)?;
        sum = sum.checked_add(elements.checked_mul(bits)?.div_ceil(8))?;
        if width <= 1 && height <= 1 && (layered || depth <= 1) {
            break;
        }
        (width, height) = (width / 2, (height / 2).max(1));
        depth = if layered { depth } else { (depth / 2).max(1) };
    }
    sum.checked_next_multiple_of(PAGE)
}

/// Makes an array; what takes no memory is the driver's business alone.
fn make(
    handle: *mut u64,
    shape: Option<ArrayShape>,
    levels: u32,
    driver: impl FnOnce() -> CuResult,
    destroy: Name,
) -> CuResult {
    let Some(shape) = shape.filter(|_| !handle.is_null()) else { return driver() };
    match bytes_of(&shape, levels) {
        Some(0) => make_sparse(handle, driver),
        Some(bytes) => allocate(handle, bytes, context::current, driver, |handle| end(destroy, handle)),
        None => CuResult::OUT_OF_MEMORY,
    }
}

/// Makes an array without memory, and notes its context: what is mapped into it is mapped no longer when that ends.
fn make_sparse(handle: *mut u64, driver: impl FnOnce() -> CuResult) -> CuResult {
    let result = driver();
    if result == CuResult::SUCCESS
        && let Some(share) = share()
        && share.slot().is_some()
        && let Some(table) = share.allocations()
    {
        // SAFETY: not NULL, and the driver has written the handle there.
        let array = unsafe { *handle };
        // In a full table it is not known, and what is mapped into it stays charged when its context ends.
        let _ = table.insert(array, (word(0, 0, SPARSE), context::current()));
    }
    result
}

fn end(name: Name, handle: u64) -> CuResult {
    call!(real::of(name), fn(u64) -> CuResult, (handle), else CuResult::NOT_FOUND)
}

/// Ends an array: what it takes goes back, and what was mapped into it is mapped no longer.
fn destroy(name: Name, handle: u64) -> CuResult {
    let result = release(handle, || end(name, handle));
    if result == CuResult::SUCCESS
        && let Some(share) = share()
        && let Some(book) = share.physical()
    {
        book.array_gone(handle, |charge| give_back(&share, charge));
    }
    result
}

fn flat<Word: Copy + Into<u64>>(descriptor: *const ArrayDescriptor<Word>) -> Option<ArrayShape> {
    // SAFETY: NULL, or the program's descriptor by cuda.h.
    let d = unsafe { descriptor.as_ref() }?;
    let (width, height) = (d.width.into(), d.height.into());
    Some(ArrayShape { width, height, depth: 0, format: d.format, channels: d.channels, flags: 0 })
}

fn solid<Word: Copy + Into<u64>>(descriptor: *const Array3dDescriptor<Word>) -> Option<ArrayShape> {
    // SAFETY: NULL, or the program's descriptor by cuda.h.
    let d = unsafe { descriptor.as_ref() }?;
    let (width, height, depth) = (d.width.into(), d.height.into(), d.depth.into());
    Some(ArrayShape { width, height, depth, format: d.format, channels: d.channels, flags: d.flags })
}

macro_rules! creates {
    ($($(#[$doc:meta])* $name:ident($descriptor:ident<$word:ty>) by $shape:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name(handle: *mut u64, descriptor: *const $descriptor<$word>) -> CuResult {
            let driver = || {
                call!(
                    real::of(Name::$name),
                    fn(*mut u64, *const $descriptor<$word>) -> CuResult,
                    (handle, descriptor),
                    else CuResult::NOT_FOUND
                )
            };
            make(handle, $shape(descriptor), 1, driver, Name::cuArrayDestroy)
        }
    )*};
}

creates!(
    cuArrayCreate_v2(ArrayDescriptor<u64>) by flat,
    cuArray3DCreate_v2(Array3dDescriptor<u64>) by solid,
    /// The first version, of 32-bit sizes.
    cuArrayCreate(ArrayDescriptor<u32>) by flat,
    /// The first version, of 32-bit sizes.
    cuArray3DCreate(Array3dDescriptor<u32>) by solid,
);

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMipmappedArrayCreate(
    handle: *mut u64,
    descriptor: *const Array3dDescriptor<u64>,
    levels: c_uint,
) -> CuResult {
    let driver = || {
        call!(
            real::of(Name::cuMipmappedArrayCreate),
            fn(*mut u64, *const Array3dDescriptor<u64>, c_uint) -> CuResult,
            (handle, descriptor, levels),
            else CuResult::NOT_FOUND
        )
    };
    make(handle, solid(descriptor), levels, driver, Name::cuMipmappedArrayDestroy)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuArrayDestroy(handle: u64) -> CuResult {
    destroy(Name::cuArrayDestroy, handle)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMipmappedArrayDestroy(handle: u64) -> CuResult {
    destroy(Name::cuMipmappedArrayDestroy, handle)
}
