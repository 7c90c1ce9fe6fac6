//! Which card of the limits a CUDA or NVML device is: by UUID, since `CUDA_VISIBLE_DEVICES` and the order of devices change indexes.
//!
//! # Safety
//! The driver's functions are called as cuda.h and nvml.h have them, with memory of our own.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use crate::abi::{CuResult, NvmlReturn};
use crate::real::{Real, call};
use crate::start::Share;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use quota::CardId;

static CTX_GET_DEVICE: Real = Real::new(c"cuCtxGetDevice");
static UUID_V2: Real = Real::new(c"cuDeviceGetUuid_v2");
static UUID: Real = Real::new(c"cuDeviceGetUuid");
static NVML_UUID: Real = Real::new(c"nvmlDeviceGetUUID");

/// The device of the current context.
///
/// # Errors
/// The driver's own: without a context it is `CUDA_ERROR_INVALID_CONTEXT`, as the call that asks would have said.
pub(crate) fn current_device() -> Result<c_int, CuResult> {
    let mut device = 0;
    let result = call!(CTX_GET_DEVICE.get(), fn(*mut c_int) -> CuResult, (&raw mut device), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS { Ok(device) } else { Err(result) }
}

/// The card of a CUDA device; `None` where the container has no share of it.
pub(crate) fn of_device(share: &Share, device: c_int) -> Option<usize> {
    let remembered = share.remembered(usize::try_from(device).ok()?);
    match remembered.map(|slot| slot.load(Ordering::Relaxed)) {
        Some(0) | None => {}
        Some(known) => return (known as usize).checked_sub(2),
    }
    let mut uuid = [0_u8; 16];
    let ask = |address| {
        call!(
            address,
            fn(*mut [u8; 16], c_int) -> CuResult,
            (&raw mut uuid, device),
            else CuResult::NOT_FOUND
        )
    };
    let mut ask = ask;
    if ask(UUID_V2.get()) != CuResult::SUCCESS && ask(UUID.get()) != CuResult::SUCCESS {
        return None;
    }
    let card = share.limits.cards().iter().position(|card| card.id.uuid == uuid);
    if let Some(slot) = remembered {
        slot.store(card.map_or(1, |card| u32::try_from(card).unwrap_or(0).saturating_add(2)), Ordering::Relaxed);
    }
    card
}

/// The card of an NVML device handle; `None` where the container has no share of it.
pub(crate) fn of_nvml(share: &Share, handle: usize) -> Option<usize> {
    let mut text = [0_u8; 96];
    let result = call!(
        NVML_UUID.get(),
        fn(usize, *mut u8, u32) -> NvmlReturn,
        (handle, text.as_mut_ptr(), 96),
        else NvmlReturn::FUNCTION_NOT_FOUND
    );
    if result != NvmlReturn::SUCCESS {
        return None;
    }
    let length = text.iter().position(|byte| *byte == 0)?;
    let id = CardId::parse(core::str::from_utf8(text.get(..length)?).ok()?)?;
    share.limits.cards().iter().position(|card| card.id == id)
}
