//! Memory in use, and by whom.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::node::{Handle, memory, users};
use crate::out::{INSUFFICIENT_SIZE, get, put};

/// `nvmlMemory_t`, in bytes.
#[repr(C)]
pub(crate) struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`, in bytes. The simulated driver reserves nothing.
#[repr(C)]
pub(crate) struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// The structure's size with the version in the upper byte, as nvml.h makes it.
const MEMORY_V2: u32 = 0x0200_0028;
/// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`.
const VERSION_MISMATCH: u32 = 25;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, at: *mut Memory) -> u32 {
    put(at, memory(device).map(|(total, used)| Memory { total, free: total - used, used }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, at: *mut MemoryV2) -> u32 {
    match get(at.cast::<u32>()) {
        Ok(MEMORY_V2) => {}
        Ok(_) => return VERSION_MISMATCH,
        Err(error) => return error,
    }
    let info = |(total, used)| MemoryV2 { version: MEMORY_V2, total, reserved: 0, free: total - used, used };
    put(at, memory(device).map(info))
}

/// `nvmlBAR1Memory_t`: total, free, used.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, at: *mut [u64; 3]) -> u32 {
    put(at, memory(device).map(|_| [16 << 30, (16 << 30) - (2 << 20), 2 << 20]))
}

/// `nvmlProcessInfo_v1_t`: pid and bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pid: u32,
    bytes: u64,
}

/// `nvmlProcessInfo_v2_t`, and what the later calls of that name take: no GPU or compute instance.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessV2 {
    pid: u32,
    bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// Fills the caller's list; with too short a list, says how long it must be. Processes of other pid namespaces are left out, as the driver does.
fn list<T>(device: Handle, count: *mut u32, at: *mut T, row: impl Fn(u32, u64) -> T) -> u32 {
    let (room, users) = match (get(count), users(device)) {
        (Ok(room), Ok(users)) => (room, users),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let rows: Vec<T> = users.iter().filter(|user| user.pid != 0).map(|user| row(user.pid, user.bytes)).collect();
    let needed = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    put(count, Ok(needed));
    if needed > room {
        return INSUFFICIENT_SIZE;
    }
    for (n, row) in rows.into_iter().enumerate() {
        put(at.wrapping_add(n), Ok(row));
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses(device: Handle, count: *mut u32, at: *mut Process) -> u32 {
    list(device, count, at, |pid, bytes| Process { pid, bytes })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(device: Handle, count: *mut u32, at: *mut ProcessV2) -> u32 {
    let none = u32::MAX;
    list(device, count, at, |pid, bytes| ProcessV2 { pid, bytes, gpu_instance: none, compute_instance: none })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: *mut u32, at: *mut ProcessV2) -> u32 {
    nvmlDeviceGetComputeRunningProcesses_v2(device, count, at)
}

/// No process draws on a simulated card.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses(_: Handle, count: *mut u32, _: *mut Process) -> u32 {
    put(count, Ok(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v2(_: Handle, count: *mut u32, _: *mut ProcessV2) -> u32 {
    put(count, Ok(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(_: Handle, count: *mut u32, _: *mut ProcessV2) -> u32 {
    put(count, Ok(0))
}
