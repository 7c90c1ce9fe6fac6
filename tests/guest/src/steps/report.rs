//! What the process is told of cards and their memory.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use crate::Answer;
use crate::driver::{cuda, nvml};
use std::ptr::null_mut;

/// `cuMemGetInfo_v2`: free and total. With `null`, both out-pointers are NULL; with `free` or `total`, only that one is given.
pub(super) fn info(which: &str) -> Answer {
    let (mut free, mut total) = (0_usize, 0_usize);
    let free_at = if matches!(which, "" | "free") { &raw mut free } else { null_mut() };
    let total_at = if matches!(which, "" | "total") { &raw mut total } else { null_mut() };
    let result = cuda!("cuMemGetInfo_v2", (free_at => *mut usize, total_at => *mut usize));
    Answer::values(result, &[free as u64, total as u64])
}

/// `cuDeviceTotalMem_v2`.
pub(super) fn total(device: i32) -> Answer {
    let mut bytes = 0_usize;
    let result = cuda!("cuDeviceTotalMem_v2", (&raw mut bytes => *mut usize, device => i32));
    Answer::values(result, &[bytes as u64])
}

/// A device's UUID by CUDA, as hexadecimal digits.
pub(super) fn uuid(device: i32) -> Answer {
    use std::fmt::Write;
    let mut uuid = [0_u8; 16];
    let result = cuda!("cuDeviceGetUuid_v2", (&raw mut uuid => *mut [u8; 16], device => i32));
    let mut text = String::new();
    for byte in uuid {
        let _ = write!(text, "{byte:02x}");
    }
    Answer { result: result.into(), text, ..Answer::default() }
}

/// Starts NVML.
pub(super) fn nvml_init() -> Answer {
    Answer::code(nvml!("nvmlInit_v2", ()))
}

fn handle(index: u32) -> Result<usize, i32> {
    let mut handle = 0_usize;
    let started = nvml!("nvmlInit_v2", ());
    if started != 0 {
        return Err(started);
    }
    match nvml!("nvmlDeviceGetHandleByIndex_v2", (index => u32, &raw mut handle => *mut usize)) {
        0 => Ok(handle),
        error => Err(error),
    }
}

/// `nvmlDeviceGetMemoryInfo`: total, free, used.
pub(super) fn nvml(index: u32) -> Answer {
    let mut memory = [0_u64; 3];
    let result = handle(index).map_or_else(
        |error| error,
        |handle| nvml!("nvmlDeviceGetMemoryInfo", (handle => usize, &raw mut memory => *mut [u64; 3])),
    );
    Answer::values(result, &memory)
}

/// `nvmlDeviceGetMemoryInfo_v2`: total, reserved, free, used. A version of 0 stands for the right one.
pub(super) fn nvml_v2(index: u32, version: u64) -> Answer {
    // The structure's size with the version in the upper byte; the upper half of the word is padding.
    let version = if version == 0 { 0x0200_0028 } else { version };
    let mut memory = [version, 0, 0, 0, 0];
    let result = handle(index).map_or_else(
        |error| error,
        |handle| nvml!("nvmlDeviceGetMemoryInfo_v2", (handle => usize, &raw mut memory => *mut [u64; 5])),
    );
    let [_, values @ ..] = memory;
    Answer::values(result, &values)
}

/// A card's UUID by NVML.
pub(super) fn nvml_uuid(index: u32) -> Answer {
    let mut text = [0_u8; 96];
    let result = handle(index).map_or_else(
        |error| error,
        |handle| nvml!("nvmlDeviceGetUUID", (handle => usize, &raw mut text => *mut [u8; 96], 96 => u32)),
    );
    let text = text.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    Answer { result: result.into(), text, ..Answer::default() }
}
