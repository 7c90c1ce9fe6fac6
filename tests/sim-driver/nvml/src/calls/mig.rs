//! MIG: whether it is on, and the instances of a card.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::node::{Handle, NOT_SUPPORTED, card, handle, instance, instance_handle, working};
use crate::out::{INVALID_ARGUMENT, put};
use sim_driver_cards::Instance;

/// The most instances that a card can have (A100 and later).
const MOST_INSTANCES: u32 = 7;

/// Current and pending mode.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: Handle, current: *mut u32, pending: *mut u32) -> u32 {
    let mode = working(device).and_then(|(_, card)| card.mig.map(u32::from).ok_or(NOT_SUPPORTED));
    match put(current, mode) {
        0 => put(pending, mode),
        error => error,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: *mut u32) -> u32 {
    put(count, card(device).map(|(_, card)| if card.mig.is_some() { MOST_INSTANCES } else { 0 }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: u32, mig: *mut Handle) -> u32 {
    let found = card(device).and_then(|(place, card)| match card.mig {
        None => Err(NOT_SUPPORTED),
        Some(_) => instance_handle(|at, nth, _| at == place && nth == index as usize),
    });
    put(mig, found)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig: Handle, device: *mut Handle) -> u32 {
    let parent = of(mig).and_then(|_| card(mig)).and_then(|(place, _)| handle(|at, _| at == place));
    put(device, parent)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceIsMigDeviceHandle(device: Handle, is: *mut u32) -> u32 {
    put(is, instance(device).map(|instance| u32::from(instance.is_some())))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceId(mig: Handle, id: *mut u32) -> u32 {
    put(id, of(mig).map(|instance| instance.gpu_instance))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeInstanceId(mig: Handle, id: *mut u32) -> u32 {
    put(id, of(mig).map(|instance| instance.compute_instance))
}

fn of(mig: Handle) -> Result<&'static Instance, u32> {
    instance(mig)?.ok_or(INVALID_ARGUMENT)
}
