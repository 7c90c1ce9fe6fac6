//! Start, stop, versions, errors, and the table that nvidia-smi asks for.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::node::{node, start, stop};
use crate::out::{INVALID_ARGUMENT, NOT_FOUND, get, put, put_text};
use std::ffi::{CStr, c_char, c_void};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> u32 {
    start()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    start()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> u32 {
    start()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    stop()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(version: *mut u8, length: u32) -> u32 {
    put_text(version, length, node().map(|node| node.scenario.driver_version.as_str()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(version: *mut u8, length: u32) -> u32 {
    let text = node().map(|node| format!("12.{}", node.scenario.driver_version));
    put_text(version, length, text.as_deref().map_err(|error| *error))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut i32) -> u32 {
    put(version, node().map(|node| node.scenario.cuda_version))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut i32) -> u32 {
    nvmlSystemGetCudaDriverVersion(version)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetProcessName(pid: u32, name: *mut u8, length: u32) -> u32 {
    let path = std::fs::read_link(format!("/proc/{pid}/exe"));
    let path = path.map(|path| path.to_string_lossy().into_owned());
    put_text(name, length, path.as_deref().map_err(|_| NOT_FOUND))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(error: u32) -> *const c_char {
    let text: &CStr = match error {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// The table that nvidia-smi asks for first; it takes a table whose entries are all NULL for one without extras. The first word is the size in bytes.
const TABLE_WORDS: usize = 0x7d8 / 8;
static TABLE: [usize; TABLE_WORDS] = {
    let mut words = [0; TABLE_WORDS];
    words[0] = TABLE_WORDS * 8;
    words
};
const TABLE_ID: [u8; 16] =
    [0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4];

#[unsafe(no_mangle)]
extern "C" fn nvmlInternalGetExportTable(table: *mut *const c_void, id: *const [u8; 16]) -> u32 {
    match get(id) {
        Ok(id) if id == TABLE_ID => put(table, Ok(TABLE.as_ptr().cast())),
        Ok(_) => NOT_FOUND,
        Err(_) => INVALID_ARGUMENT,
    }
}
