//! The few NVML calls that nvml-wrapper lacks. It must never grow beyond such calls, and each goes when the wrapper has it.
//!
//! # Safety
//! A handle comes from a [`Device`], which borrows the initialised library; the library's function pointers are of the types of nvml.h.
#![expect(unsafe_code, reason = "C functions that nvml-wrapper does not wrap")]

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use std::mem::MaybeUninit;

/// The card's memory in bytes, from the first version of the call (nvml.h, `nvmlMemory_t`); drivers before 510 lack the second.
#[doc(alias = "nvmlDeviceGetMemoryInfo")]
pub(super) fn total_memory(device: &Device<'_>) -> Result<u64, NvmlError> {
    let call = device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref();
    let call = call.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    let mut memory = MaybeUninit::zeroed();
    // SAFETY: the handle is used below only, while `device` keeps the library initialised.
    let handle = unsafe { device.handle() };
    // SAFETY: the pointer's type is that of the function's argument, and the memory behind it is ours for the call.
    let code = unsafe { call(handle, memory.as_mut_ptr()) };
    nvml_try(code)?;
    // SAFETY: three integers, which zeros are valid for even where the call wrote none.
    let memory = unsafe { memory.assume_init() };
    Ok(memory.total)
}

/// The number of the GPU instance that a MIG device is part of.
#[doc(alias = "nvmlDeviceGetGpuInstanceId")]
pub(super) fn gpu_instance(device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = device.nvml().lib().nvmlDeviceGetGpuInstanceId.as_ref();
    let call = call.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    let mut id = 0;
    // SAFETY: the handle is used below only, while `device` keeps the library initialised.
    let handle = unsafe { device.handle() };
    // SAFETY: the pointer's type is that of the function's argument, and the memory behind it is ours for the call.
    nvml_try(unsafe { call(handle, &raw mut id) })?;
    Ok(id)
}

/// The number of a MIG device's compute instance within its GPU instance.
#[doc(alias = "nvmlDeviceGetComputeInstanceId")]
pub(super) fn compute_instance(device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = device.nvml().lib().nvmlDeviceGetComputeInstanceId.as_ref();
    let call = call.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    let mut id = 0;
    // SAFETY: the handle is used below only, while `device` keeps the library initialised.
    let handle = unsafe { device.handle() };
    // SAFETY: the pointer's type is that of the function's argument, and the memory behind it is ours for the call.
    nvml_try(unsafe { call(handle, &raw mut id) })?;
    Ok(id)
}
