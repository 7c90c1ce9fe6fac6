//! Pools of stream-ordered memory by hand, and memory of others: imported, or of another process.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use super::Guest;
use crate::Answer;
use crate::driver::cuda;
use std::fmt::Write;
use std::ptr::null_mut;

/// `CUmemPoolProps` of cuda.h.
#[repr(C)]
pub(super) struct Properties {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
    windows: usize,
    most: usize,
    rest: [u64; 7],
}

impl Properties {
    pub(super) fn new(location_type: u32, location_id: i32, most: usize) -> Self {
        Self { kind: 1, handle_types: 0, location_type, location_id, windows: 0, most, rest: [0; 7] }
    }
}

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`, `_RESERVED_MEM_CURRENT`, `_USED_MEM_CURRENT`.
const KEEP: u32 = 4;
const RESERVED: u32 = 5;
const USED: u32 = 7;

impl Guest {
    fn keep_pool(&mut self, result: i32, pool: usize) -> Answer {
        if result != 0 {
            return Answer::code(result);
        }
        self.pools.push(pool);
        Answer::values(0, &[self.pools.len() as u64 - 1])
    }

    fn pool(&self, at: usize) -> usize {
        self.pools.get(at).copied().unwrap_or_default()
    }

    /// The default pool of a device.
    pub(super) fn pool_of(&mut self, device: i32) -> Answer {
        let mut pool = 0;
        let result = cuda!("cuDeviceGetDefaultMemPool", (&raw mut pool => *mut usize, device => i32));
        self.keep_pool(result, pool)
    }

    /// A new pool; a location type of 0 stands for 1, a device.
    pub(super) fn new_pool(&mut self, id: i32, most: usize, location_type: u32) -> Answer {
        let properties = Properties::new(if location_type == 0 { 1 } else { location_type }, id, most);
        let mut pool = 0;
        let result =
            cuda!("cuMemPoolCreate", (&raw mut pool => *mut usize, &raw const properties => *const Properties));
        self.keep_pool(result, pool)
    }

    pub(super) fn end_pool(&self, at: usize) -> Answer {
        Answer::code(cuda!("cuMemPoolDestroy", (self.pool(at) => usize)))
    }

    pub(super) fn set_pool(&self, device: i32, at: usize) -> Answer {
        Answer::code(cuda!("cuDeviceSetMemPool", (device => i32, self.pool(at) => usize)))
    }

    pub(super) fn pool_alloc(&mut self, function: &str, at: usize, bytes: usize) -> Answer {
        let mut address = 0;
        let result = cuda!(function, (
            &raw mut address => *mut u64, bytes => usize, self.pool(at) => usize, null_mut() => *mut (),
        ));
        self.keep(result, address)
    }

    /// What a pool keeps when streams come to rest, in MiB; -1 is all.
    pub(super) fn pool_keep(&self, at: usize, mib: i64) -> Answer {
        let keep = u64::try_from(mib).map_or(u64::MAX, |mib| mib << 20);
        Answer::code(cuda!("cuMemPoolSetAttribute", (
            self.pool(at) => usize, KEEP => u32, &raw const keep => *const u64,
        )))
    }

    /// Reserved and used bytes of a pool.
    pub(super) fn pool_state(&self, at: usize) -> Answer {
        let mut values = [0_u64; 2];
        let mut result = 0;
        for (value, which) in values.iter_mut().zip([RESERVED, USED]) {
            result = cuda!("cuMemPoolGetAttribute", (self.pool(at) => usize, which => u32, value => *mut u64));
        }
        Answer::values(result, &values)
    }

    pub(super) fn trim(&self, at: usize, keep: usize) -> Answer {
        Answer::code(cuda!("cuMemPoolTrimTo", (self.pool(at) => usize, keep => usize)))
    }

    /// What another process needs to open an allocation, as hexadecimal digits.
    pub(super) fn ipc_get(&self, at: usize) -> Answer {
        let mut handle = [0_u8; 64];
        let result = cuda!("cuIpcGetMemHandle", (&raw mut handle => *mut [u8; 64], self.pointer(at) => u64));
        let mut text = String::new();
        for byte in handle {
            let _ = write!(text, "{byte:02x}");
        }
        Answer { result: result.into(), text, ..Answer::default() }
    }

    /// Opens another process's allocation.
    pub(super) fn ipc_open(&mut self, digits: &str) -> Answer {
        let mut handle = [0_u8; 64];
        for (at, byte) in handle.iter_mut().enumerate() {
            *byte = digits.get(at * 2..at * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
        }
        let mut address = 0;
        let result = cuda!("cuIpcOpenMemHandle_v2", (&raw mut address => *mut u64, handle => [u8; 64], 1 => u32));
        self.keep(result, address)
    }

    pub(super) fn ipc_close(&self, at: usize) -> Answer {
        Answer::code(cuda!("cuIpcCloseMemHandle", (self.pointer(at) => u64)))
    }

    /// Memory of another library, mapped as a buffer.
    pub(super) fn external(&mut self, bytes: usize) -> Answer {
        // CUDA_EXTERNAL_MEMORY_HANDLE_DESC and CUDA_EXTERNAL_MEMORY_BUFFER_DESC; the simulated driver looks at the buffer's size alone.
        let (description, buffer) = ([0_u64; 16], [0, bytes as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (mut memory, mut address) = (0, 0);
        let result =
            cuda!("cuImportExternalMemory", (&raw mut memory => *mut u64, &raw const description => *const [u64; 16]));
        if result != 0 {
            return Answer::code(result);
        }
        let result = cuda!("cuExternalMemoryGetMappedBuffer", (
            &raw mut address => *mut u64, memory => u64, &raw const buffer => *const [u64; 11],
        ));
        self.keep(result, address)
    }
}

/// What all processes have taken of a device's card, by the simulated driver's own word.
pub(super) fn truth(device: i32) -> Answer {
    let mut bytes = 0;
    let result = cuda!("simTaken", (device => i32, &raw mut bytes => *mut u64));
    Answer::values(result, &[bytes])
}
