//! What the program is told of memory, by CUDA and by NVML: the share as if it were the card. A call that fails comes back as the driver left it.
//!
//! # Safety
//! Out-pointers are the program's; NULL is left alone, and the others are written only after the driver has accepted them or its own kind.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::{CuResult, NvmlMemory, NvmlMemoryV2, NvmlReturn};
use crate::card;
use crate::hook::pool::settle_all;
use crate::real::{self, call};
use crate::start::share;
use crate::table::Name;
use account::told::{Told, told};
use core::ffi::c_int;

/// What is said of a card with `free` of `total` bytes by the driver's word.
///
/// Without a share of it nothing can be allocated there, so nothing is free.
fn of_card(card: impl FnOnce(&crate::start::Share) -> Option<usize>, free: u64, total: u64) -> Option<Told> {
    let share = share()?;
    let card = card(&share)?;
    settle_all();
    share.reap();
    Some(told(share.quota(card), share.used(card), free, total))
}

fn put<T>(at: *mut T, value: T) {
    // SAFETY: NULL, or the program's own out-pointer of this type.
    if let Some(at) = unsafe { at.as_mut() } {
        *at = value;
    }
}

/// Free and total memory of the current device, in words of either size.
fn info<Word: Copy + Default + TryFrom<u64> + TryInto<u64>>(name: Name, free: *mut Word, total: *mut Word) -> CuResult {
    let (mut real_free, mut real_total) = (Word::default(), Word::default());
    let result = call!(
        real::of(name),
        fn(*mut Word, *mut Word) -> CuResult,
        (&raw mut real_free, &raw mut real_total),
        else CuResult::NOT_FOUND
    );
    if result != CuResult::SUCCESS {
        return result;
    }
    let (real_free, real_total) = (real_free.try_into().unwrap_or(0), real_total.try_into().unwrap_or(0));
    let device = card::current_device().ok();
    let said = of_card(|share| card::of_device(share, device?), real_free, real_total);
    let said = said.unwrap_or(Told { total: real_total, used: 0, free: 0 });
    put(free, Word::try_from(said.free).unwrap_or_default());
    put(total, Word::try_from(said.total).unwrap_or_default());
    CuResult::SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CuResult {
    info(Name::cuMemGetInfo_v2, free, total)
}

/// The first version, of 32-bit sizes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo(free: *mut u32, total: *mut u32) -> CuResult {
    info(Name::cuMemGetInfo, free, total)
}

/// A card's memory, in words of either size: the share's where there is one.
fn total<Word: Copy + Ord + TryFrom<u64>>(name: Name, bytes: *mut Word, device: c_int) -> CuResult {
    let result = call!(
        real::of(name),
        fn(*mut Word, c_int) -> CuResult,
        (bytes, device),
        else CuResult::NOT_FOUND
    );
    // SAFETY: NULL, or the program's own out-pointer.
    let Some(bytes) = (unsafe { bytes.as_mut() }).filter(|_| result == CuResult::SUCCESS) else { return result };
    if let Some(share) = share()
        && let Some(card) = card::of_device(&share, device)
        && let Ok(quota) = Word::try_from(share.quota(card).0)
    {
        *bytes = (*bytes).min(quota);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> CuResult {
    total(Name::cuDeviceTotalMem_v2, bytes, device)
}

/// The first version, of 32-bit sizes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem(bytes: *mut u32, device: c_int) -> CuResult {
    total(Name::cuDeviceTotalMem, bytes, device)
}

/// A card of which the container has no share is NVML's own answer: NVML also serves monitors.
fn nvml_info(name: Name, device: usize, at: *mut NvmlMemory) -> NvmlReturn {
    let result = call!(
        real::of(name),
        fn(usize, *mut NvmlMemory) -> NvmlReturn,
        (device, at),
        else NvmlReturn::FUNCTION_NOT_FOUND
    );
    // SAFETY: NULL, or the program's own structure, which NVML has filled.
    let Some(memory) = (unsafe { at.as_mut() }).filter(|_| result == NvmlReturn::SUCCESS) else { return result };
    if let Some(said) = of_card(|share| card::of_nvml(share, device), memory.free, memory.total) {
        *memory = NvmlMemory { total: said.total, free: said.free, used: said.used };
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlDeviceGetMemoryInfo(device: usize, at: *mut NvmlMemory) -> NvmlReturn {
    nvml_info(Name::nvmlDeviceGetMemoryInfo, device, at)
}

/// The protected part of a card in confidential computing is all that programs can use of it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlDeviceGetConfComputeProtectedMemoryUsage(
    device: usize,
    at: *mut NvmlMemory,
) -> NvmlReturn {
    nvml_info(Name::nvmlDeviceGetConfComputeProtectedMemoryUsage, device, at)
}

/// What the driver keeps for itself lies outside of the share, so nothing is reserved in it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: usize, at: *mut NvmlMemoryV2) -> NvmlReturn {
    let result = call!(
        real::of(Name::nvmlDeviceGetMemoryInfo_v2),
        fn(usize, *mut NvmlMemoryV2) -> NvmlReturn,
        (device, at),
        else NvmlReturn::FUNCTION_NOT_FOUND
    );
    // SAFETY: NULL, or the program's own structure, which NVML has filled.
    let Some(memory) = (unsafe { at.as_mut() }).filter(|_| result == NvmlReturn::SUCCESS) else { return result };
    if let Some(said) = of_card(|share| card::of_nvml(share, device), memory.free, memory.total) {
        memory.total = said.total;
        memory.free = said.free;
        memory.used = said.used;
        memory.reserved = 0;
    }
    result
}
