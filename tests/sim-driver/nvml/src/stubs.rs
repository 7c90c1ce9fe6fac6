//! The exports that are not simulated. Made by `build.rs`.
#![expect(unsafe_code, reason = "exported under the C names")]

/// `NVML_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = 3;

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
