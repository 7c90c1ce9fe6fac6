//! Stream-ordered memory: `cuMemAllocAsync`, from pools, and `cuMemFreeAsync`, in their legacy and per-thread stream forms.
//!
//! An allocation is charged while it is live. What a pool keeps after a free is not charged any more.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::CuResult;
use crate::hook::alloc::{allocate, release};
use crate::real::{self, call};
use crate::table::Name;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocAsync(at: *mut u64, bytes: usize, stream: usize) -> CuResult {
    allocate_async(Name::cuMemAllocAsync, Name::cuMemFreeAsync, at, bytes, stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocFromPoolAsync(at: *mut u64, bytes: usize, pool: usize, stream: usize) -> CuResult {
    allocate_from_pool(Name::cuMemAllocFromPoolAsync, Name::cuMemFreeAsync, at, bytes, pool, stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeAsync(address: u64, stream: usize) -> CuResult {
    release(address, || free(Name::cuMemFreeAsync, address, stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocAsync_ptsz(at: *mut u64, bytes: usize, stream: usize) -> CuResult {
    allocate_async(Name::cuMemAllocAsync_ptsz, Name::cuMemFreeAsync_ptsz, at, bytes, stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocFromPoolAsync_ptsz(
    at: *mut u64,
    bytes: usize,
    pool: usize,
    stream: usize,
) -> CuResult {
    allocate_from_pool(Name::cuMemAllocFromPoolAsync_ptsz, Name::cuMemFreeAsync_ptsz, at, bytes, pool, stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeAsync_ptsz(address: u64, stream: usize) -> CuResult {
    release(address, || free(Name::cuMemFreeAsync_ptsz, address, stream))
}

fn allocate_async(name: Name, free_name: Name, at: *mut u64, bytes: usize, stream: usize) -> CuResult {
    let driver = || {
        call!(
            real::of(name),
            fn(*mut u64, usize, usize) -> CuResult,
            (at, bytes, stream),
            else CuResult::NOT_FOUND
        )
    };
    allocate(at, bytes as u64, || 0, driver, |address| free(free_name, address, stream))
}

fn allocate_from_pool(name: Name, free_name: Name, at: *mut u64, bytes: usize, pool: usize, stream: usize) -> CuResult {
    let driver = || {
        call!(
            real::of(name),
            fn(*mut u64, usize, usize, usize) -> CuResult,
            (at, bytes, pool, stream),
            else CuResult::NOT_FOUND
        )
    };
    allocate(at, bytes as u64, || 0, driver, |address| free(free_name, address, stream))
}

fn free(name: Name, address: u64, stream: usize) -> CuResult {
    call!(real::of(name), fn(u64, usize) -> CuResult, (address, stream), else CuResult::NOT_FOUND)
}
