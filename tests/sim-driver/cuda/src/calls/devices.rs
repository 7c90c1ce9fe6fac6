//! Devices and what they are.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::system::started;
use super::{put, put_text, text};
use crate::node::{Visible, card, node};
use std::ffi::c_char;

fn device(number: i32) -> Result<&'static Visible, u32> {
    started()?;
    card(number).ok_or(101)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    let cards = node().map_or(0, |node| node.cards.len());
    put(count, started().map(|()| i32::try_from(cards).unwrap_or(0)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGet(number: *mut i32, ordinal: i32) -> u32 {
    put(number, device(ordinal).map(|_| ordinal))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetName(name: *mut u8, length: i32, number: i32) -> u32 {
    match device(number) {
        Ok(seen) => put_text(name, length, &seen.card.name),
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], number: i32) -> u32 {
    put(uuid, device(number).map(|seen| seen.card.uuid_bytes()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], number: i32) -> u32 {
    cuDeviceGetUuid(uuid, number)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem(bytes: *mut u32, number: i32) -> u32 {
    put(bytes, device(number).map(|seen| u32::try_from(seen.card.memory()).unwrap_or(u32::MAX)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: i32) -> u32 {
    put(bytes, device(number).map(|seen| usize::try_from(seen.card.memory()).unwrap_or(0)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, number: i32) -> u32 {
    let capability = device(number).map(|seen| seen.card.compute_capability);
    match put(major, capability.map(|(major, _)| major)) {
        0 => put(minor, capability.map(|(_, minor)| minor)),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetPCIBusId(id: *mut u8, length: i32, number: i32) -> u32 {
    match device(number) {
        Ok(seen) => put_text(id, length, seen.card.pci_bus_id.strip_prefix("0000").unwrap_or(&seen.card.pci_bus_id)),
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetByPCIBusId(number: *mut i32, id: *const c_char) -> u32 {
    let wanted = text(id).map(str::to_ascii_uppercase);
    let cards = node().map(|node| node.cards.as_slice()).unwrap_or_default();
    let found =
        cards.iter().position(|seen| wanted.as_ref().is_some_and(|id| seen.card.pci_bus_id.ends_with(id.as_str())));
    put(number, found.and_then(|at| i32::try_from(at).ok()).ok_or(101))
}

/// The numbers are `CUdevice_attribute` of cuda.h; a V100's values. What is not listed is a feature that the simulated card lacks.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, number: i32) -> u32 {
    let value_of = |seen: &Visible| {
        let (domain, bus, slot) = seen.card.pci();
        let pci = |number: u32| i32::try_from(number).unwrap_or(0);
        match attribute {
            1..=3 | 39 => 1024,
            4 | 9 | 12 | 82 => 65_536,
            5 | 11 => i32::MAX,
            6 | 7 => 65_535,
            8 => 49_152,
            10 => 32,
            13 => 1_530_000,
            14 => 512,
            15 | 19 | 31 | 41 | 78 | 79 | 83 | 89 | 102 | 115 => 1,
            16 => 80,
            33 => pci(bus),
            34 => pci(slot),
            36 => 877_000,
            37 => 4096,
            38 => 6 << 20,
            40 => 5,
            50 => pci(domain),
            75 => seen.card.compute_capability.0,
            76 => seen.card.compute_capability.1,
            81 | 97 => 98_304,
            _ => 0,
        }
    };
    put(value, device(number).map(value_of))
}

/// All devices are peers of none.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceCanAccessPeer(can: *mut i32, one: i32, other: i32) -> u32 {
    put(can, device(one).and_then(|_| device(other)).map(|_| 0))
}
