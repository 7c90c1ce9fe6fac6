//! Arrays, mipmapped arrays, and physical memory in sparse ones.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use super::{Guest, Words};
use crate::Answer;
use crate::driver::cuda;

/// `CUDA_ARRAY_DESCRIPTOR` of cuda.h.
#[repr(C)]
struct Flat {
    size: [usize; 2],
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of cuda.h.
#[repr(C)]
struct Solid {
    size: [usize; 3],
    format: u32,
    channels: u32,
    flags: u32,
}

/// `CUarrayMapInfo` of cuda.h.
#[repr(C)]
#[derive(Default)]
struct Map {
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

impl Guest {
    fn keep_array(&mut self, result: i32, array: usize) -> Answer {
        if result != 0 {
            return Answer::code(result);
        }
        self.arrays.push(array);
        Answer::values(0, &[self.arrays.len() as u64 - 1])
    }

    fn array_at(&self, at: usize) -> usize {
        self.arrays.get(at).copied().unwrap_or_default()
    }

    /// Width, height, format, channels.
    pub(super) fn array(&mut self, words: &Words<'_>) -> Answer {
        let size = [words.number(0), words.number(1)];
        let descriptor = Flat { size, format: words.number(2), channels: words.number(3) };
        let mut array = 0;
        let result = cuda!("cuArrayCreate_v2", (&raw mut array => *mut usize, &raw const descriptor => *const Flat));
        self.keep_array(result, array)
    }

    /// Width, height, depth, format, channels, flags.
    pub(super) fn array3d(&mut self, words: &Words<'_>) -> Answer {
        let descriptor = solid(words);
        let mut array = 0;
        let result = cuda!("cuArray3DCreate_v2", (&raw mut array => *mut usize, &raw const descriptor => *const Solid));
        self.keep_array(result, array)
    }

    /// As [`Guest::array3d`], and levels.
    pub(super) fn mipmap(&mut self, words: &Words<'_>) -> Answer {
        let descriptor = solid(words);
        let mut array = 0;
        let result = cuda!("cuMipmappedArrayCreate", (
            &raw mut array => *mut usize, &raw const descriptor => *const Solid, words.number(6) => u32,
        ));
        self.keep_array(result, array)
    }

    pub(super) fn end_array(&self, function: &str, at: usize) -> Answer {
        Answer::code(cuda!(function, (self.array_at(at) => usize)))
    }

    /// Maps a handle's memory into a sparse array; without one (`None`) takes it out.
    pub(super) fn map_array(&self, array: usize, handle: Option<usize>) -> Answer {
        let operation = if handle.is_some() { 1 } else { 2 };
        let handle = handle.map_or(0, |at| self.handle(at).0);
        let map = Map { resource: self.array_at(array), operation, handle, ..Map::default() };
        Answer::code(cuda!("cuMemMapArrayAsync", (&raw const map => *const Map, 1 => u32, 0 => usize)))
    }
}

fn solid(words: &Words<'_>) -> Solid {
    let size = [words.number(0), words.number(1), words.number(2)];
    Solid { size, format: words.number(3), channels: words.number(4), flags: words.number(5) }
}
