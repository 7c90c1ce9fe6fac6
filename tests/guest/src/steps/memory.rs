//! Contexts and linear memory.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use super::Guest;
use crate::Answer;
use crate::driver::{Part, call, cuda, find};
use std::ptr::null_mut;

/// Starts the driver.
pub(super) fn init() -> Answer {
    Answer::code(cuda!("cuInit", (0 => u32)))
}

/// Starts the driver, and makes a device's primary context the thread's current one.
pub(super) fn context(device: i32) -> Answer {
    let started = init();
    if started.result != 0 {
        return started;
    }
    Answer::code(enter(device))
}

/// Makes a device's primary context the thread's current one.
pub(super) fn enter(device: i32) -> i32 {
    let mut context = 0_usize;
    match cuda!("cuDevicePrimaryCtxRetain", (&raw mut context => *mut usize, device => i32)) {
        0 => cuda!("cuCtxSetCurrent", (context => usize)),
        error => error,
    }
}

/// Leaves the thread without a context.
pub(super) fn no_context() -> Answer {
    Answer::code(cuda!("cuCtxSetCurrent", (0 => usize)))
}

/// Frees all of a device's primary context.
pub(super) fn reset(device: i32) -> Answer {
    Answer::code(cuda!("cuDevicePrimaryCtxReset_v2", (device => i32)))
}

/// Gives up a device's primary context; the last to do so ends it.
pub(super) fn release_context(device: i32) -> Answer {
    Answer::code(cuda!("cuDevicePrimaryCtxRelease_v2", (device => i32)))
}

/// Makes a context of its own on a device, and makes it the thread's current one.
pub(super) fn new_context(device: i32) -> Answer {
    let mut context = 0_usize;
    Answer::code(cuda!("cuCtxCreate_v2", (&raw mut context => *mut usize, 0 => u32, device => i32)))
}

/// Ends the thread's current context, which is not a primary one.
pub(super) fn end_context() -> Answer {
    let mut context = 0_usize;
    match cuda!("cuCtxGetCurrent", (&raw mut context => *mut usize)) {
        0 => Answer::code(cuda!("cuCtxDestroy_v2", (context => usize))),
        error => Answer::code(error),
    }
}

/// Uses the thread's current context once more.
pub(super) fn attach() -> Answer {
    let mut context = 0_usize;
    Answer::code(cuda!("cuCtxAttach", (&raw mut context => *mut usize, 0 => u32)))
}

/// Ends one use of the thread's current context.
pub(super) fn detach() -> Answer {
    let mut context = 0_usize;
    match cuda!("cuCtxGetCurrent", (&raw mut context => *mut usize)) {
        0 => Answer::code(cuda!("cuCtxDetach", (context => usize))),
        error => Answer::code(error),
    }
}

/// Waits for all that was asked for.
pub(super) fn synchronize() -> Answer {
    Answer::code(cuda!("cuCtxSynchronize", ()))
}

fn default_pool(pool: &mut usize) -> i32 {
    let mut device = 0;
    match cuda!("cuCtxGetDevice", (&raw mut device => *mut i32)) {
        0 => cuda!("cuDeviceGetDefaultMemPool", (&raw mut *pool => *mut usize, device => i32)),
        error => error,
    }
}

/// Allocates through a function of the type of `cuMemAlloc_v2`.
pub(super) fn allocate(function: *const (), bytes: usize) -> Result<u64, i32> {
    let mut address = 0;
    match call!(function, (&raw mut address => *mut u64, bytes => usize)) {
        0 => Ok(address),
        error => Err(error),
    }
}

/// Frees an address that need not be one of ours.
pub(super) fn free_at(function: &str, address: u64) -> Answer {
    Answer::code(cuda!(function, (address => u64)))
}

impl Guest {
    /// Notes an allocation; the answer is its place.
    pub(super) fn keep(&mut self, result: i32, address: u64) -> Answer {
        if result != 0 {
            return Answer::code(result);
        }
        self.pointers.push(address);
        Answer::values(0, &[self.pointers.len() as u64 - 1])
    }

    pub(super) fn pointer(&self, at: usize) -> u64 {
        self.pointers.get(at).copied().unwrap_or_default()
    }

    pub(super) fn alloc(&mut self, bytes: usize) -> Answer {
        match allocate(find(&Part::Cuda, "cuMemAlloc_v2"), bytes) {
            Ok(address) => self.keep(0, address),
            Err(error) => Answer::code(error),
        }
    }

    /// Allocates with the function that `cuGetProcAddress_v2` names for `cuMemAlloc` in a CUDA version.
    pub(super) fn alloc_by(&mut self, version: i32, bytes: usize) -> Answer {
        let (_, function, _) = super::lookup::ask("cuMemAlloc", version, 0);
        match allocate(function, bytes) {
            Ok(address) => self.keep(0, address),
            Err(error) => Answer::code(error),
        }
    }

    /// Memory that host and device share, attached to all streams (`CU_MEM_ATTACH_GLOBAL`, 1).
    pub(super) fn managed(&mut self, bytes: usize) -> Answer {
        let mut address = 0;
        let result = cuda!("cuMemAllocManaged", (&raw mut address => *mut u64, bytes => usize, 1 => u32));
        self.keep(result, address)
    }

    /// Rows of `width` bytes; the second value is the row's real length.
    pub(super) fn pitch(&mut self, width: usize, height: usize) -> Answer {
        let (mut address, mut pitch) = (0, 0_usize);
        let result = cuda!("cuMemAllocPitch_v2", (
            &raw mut address => *mut u64, &raw mut pitch => *mut usize, width => usize, height => usize, 4 => u32,
        ));
        let mut answer = self.keep(result, address);
        answer.values.push(pitch as u64);
        answer
    }

    pub(super) fn alloc_async(&mut self, function: &str, bytes: usize) -> Answer {
        let mut address = 0;
        let result = cuda!(function, (&raw mut address => *mut u64, bytes => usize, null_mut() => *mut ()));
        self.keep(result, address)
    }

    pub(super) fn alloc_from_pool(&mut self, bytes: usize) -> Answer {
        let (mut pool, mut address) = (0, 0);
        let result = match default_pool(&mut pool) {
            0 => cuda!("cuMemAllocFromPoolAsync", (
                &raw mut address => *mut u64, bytes => usize, pool => usize, null_mut() => *mut (),
            )),
            error => error,
        };
        self.keep(result, address)
    }

    pub(super) fn free(&mut self, function: &str, at: usize) -> Answer {
        free_at(function, self.pointer(at))
    }

    pub(super) fn free_async(&mut self, function: &str, at: usize) -> Answer {
        Answer::code(cuda!(function, (self.pointer(at) => u64, null_mut() => *mut ())))
    }
}
