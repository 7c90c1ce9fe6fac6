//! Arrays and mipmapped arrays. Sparse and deferred ones take no memory of their own.
use crate::context::{self, Handle};
use crate::memory::{charge, give_back};
use crate::physical;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Arrays lie in pages of this size.
const PAGE: u64 = 64 << 10;
/// `CUDA_ARRAY3D_LAYERED`, `_SPARSE` and `_DEFERRED_MAPPING`.
const LAYERED: u32 = 1;
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// A shape, in the words of `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) size: [u64; 3],
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
    pub(crate) levels: u32,
}

struct Array {
    bytes: u64,
    device: i32,
    context: Handle,
    sparse: bool,
    /// Part: object of physical memory.
    parts: HashMap<[u64; 5], u64>,
}

static ARRAYS: LazyLock<Mutex<HashMap<Handle, Array>>> = LazyLock::new(Mutex::default);

fn arrays() -> MutexGuard<'static, HashMap<Handle, Array>> {
    ARRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of `elements`, by `CUarray_format` of cuda.h; `None` for formats that are not simulated.
fn bytes_of(format: u32, channels: u64, elements: u64) -> Option<u64> {
    let each = |bytes: u64| elements.checked_mul(bytes);
    match format {
        1 | 8 => each(channels),
        2 | 9 | 0x10 => each(2 * channels),
        3 | 0x0a | 0x20 => each(4 * channels),
        0xb0 => Some(elements.checked_mul(3)?.div_ceil(2)),
        0x91 | 0x92 | 0x97 | 0x98 => Some(elements.div_ceil(2)),
        0x93..=0x96 | 0x99..=0x9e | 0xc0 | 0xc6 => each(1),
        0xc1 | 0xc3 | 0xc7 | 0xc9 => each(2),
        0xc2 | 0xc4 | 0xc8 | 0xca => each(4),
        0xc5 | 0xcb => each(8),
        _ => None,
    }
}

fn size(shape: &Shape) -> Result<u64, u32> {
    if !matches!(shape.channels, 1 | 2 | 4) && shape.format != 0xb0 || shape.size[0] == 0 {
        return Err(1);
    }
    let mut sum = 0_u64;
    for level in 0..shape.levels {
        let at = |length: u64| (length >> level.min(63)).max(1);
        let [width, height, depth] = shape.size;
        let depth = if shape.flags & LAYERED == 0 { at(depth) } else { depth.max(1) };
        let elements = at(width).checked_mul(at(height)).and_then(|area| area.checked_mul(depth)).ok_or(2_u32)?;
        let bytes = bytes_of(shape.format, u64::from(shape.channels), elements).ok_or(1_u32)?;
        sum = sum.checked_add(bytes).ok_or(2_u32)?;
        if at(width) == 1 && at(height) == 1 && (shape.flags & LAYERED != 0 || depth == 1) {
            break;
        }
    }
    sum.checked_next_multiple_of(PAGE).ok_or(2)
}

pub(crate) fn create(shape: &Shape) -> Result<Handle, u32> {
    let (context, device) = context::here()?;
    let whole = size(shape)?;
    let bytes = if shape.flags & WITHOUT_MEMORY == 0 { whole } else { 0 };
    charge(Some(device), bytes)?;
    let array = Box::new(0_u64);
    // The handle is an address that nobody else has, as the driver's are; it stays taken.
    let handle = std::ptr::from_ref(Box::leak(array)) as Handle;
    let sparse = shape.flags & 0x40 != 0;
    arrays().insert(handle, Array { bytes, device, context, sparse, parts: HashMap::new() });
    Ok(handle)
}

fn end(array: Array) {
    give_back(Some(array.device), array.bytes);
    array.parts.into_values().for_each(physical::unuse);
}

pub(crate) fn destroy(handle: Handle) -> Result<(), u32> {
    end(arrays().remove(&handle).ok_or(400_u32)?);
    Ok(())
}

/// The arrays of a context end with it.
pub(crate) fn free_context(context: Handle) {
    let gone: Vec<Array> = arrays().extract_if(|_, array| array.context == context).map(|(_, array)| array).collect();
    gone.into_iter().for_each(end);
}

/// Maps physical memory into a part of a sparse array, or with `None` takes it out.
pub(crate) fn map(handle: Handle, part: [u64; 5], memory: Option<u64>) -> Result<(), u32> {
    let mut arrays = arrays();
    let array = arrays.get_mut(&handle).filter(|array| array.sparse).ok_or(400_u32)?;
    let before = match memory {
        Some(memory) => array.parts.insert(part, physical::use_in_array(memory)?),
        None => array.parts.remove(&part),
    };
    drop(arrays);
    before.into_iter().for_each(physical::unuse);
    Ok(())
}
