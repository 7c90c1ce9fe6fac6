//! Devices: handles, names, addresses, and the sensors of an idle card.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::node::{Handle, card, handle, instance, instance_handle, node};
use crate::out::{INVALID_ARGUMENT, NOT_FOUND, field, put, put_text, text};
use std::ffi::{c_char, c_void};

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount(count: *mut u32) -> u32 {
    put(count, node().map(|node| u32::try_from(node.scenario.cards.len()).unwrap_or(0)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: *mut u32) -> u32 {
    nvmlDeviceGetCount(count)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex(index: u32, device: *mut Handle) -> u32 {
    match handle(|place, _| place == index as usize) {
        // An index beyond the count is the argument's fault.
        Err(NOT_FOUND) => INVALID_ARGUMENT,
        found => put(device, found),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: *mut Handle) -> u32 {
    nvmlDeviceGetHandleByIndex(index, device)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Handle) -> u32 {
    let Some(uuid) = text(uuid) else { return 2 };
    match handle(|_, card| card.uuid == uuid) {
        Err(NOT_FOUND) => put(device, instance_handle(|_, _, instance| instance.uuid == uuid)),
        found => put(device, found),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId(id: *const c_char, device: *mut Handle) -> u32 {
    let Some(id) = text(id).map(str::to_ascii_uppercase) else { return 2 };
    put(device, handle(|_, card| card.pci_bus_id.to_ascii_uppercase().ends_with(&id)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, device: *mut Handle) -> u32 {
    nvmlDeviceGetHandleByPciBusId(id, device)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Handle, name: *mut u8, length: u32) -> u32 {
    let text = card(device).and_then(|(_, card)| {
        Ok(match instance(device)? {
            Some(instance) => format!("{} MIG {}", card.name, instance.profile),
            None => card.name.clone(),
        })
    });
    put_text(name, length, text.as_deref().map_err(|error| *error))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Handle, uuid: *mut u8, length: u32) -> u32 {
    let known = card(device)
        .and_then(|(_, card)| Ok(instance(device)?.map_or(card.uuid.as_str(), |instance| instance.uuid.as_str())));
    put_text(uuid, length, known)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(device: Handle, index: *mut u32) -> u32 {
    put(index, card(device).map(|(place, _)| u32::try_from(place).unwrap_or(0)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, minor: *mut u32) -> u32 {
    put(minor, card(device).map(|(place, card)| card.minor.unwrap_or(u32::try_from(place).unwrap_or(0))))
}

/// `nvmlPciInfo_t`: the legacy address, numbers, and the address with eight digits of domain.
#[repr(C)]
struct PciInfo {
    legacy: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    address: [u8; 32],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: *mut PciInfo) -> u32 {
    let info = |(_, card): (usize, &'static sim_driver_cards::Card)| {
        let (domain, bus, device) = card.pci();
        PciInfo {
            legacy: field(card.pci_bus_id.strip_prefix("0000").unwrap_or(&card.pci_bus_id)),
            domain,
            bus,
            device,
            device_id: 0x1db1_10de,
            subsystem_id: 0x1212_10de,
            address: field(&card.pci_bus_id),
        }
    };
    put(pci, card(device).map(info))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v2(device: Handle, pci: *mut PciInfo) -> u32 {
    nvmlDeviceGetPciInfo_v3(device, pci)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: *mut i32, minor: *mut i32) -> u32 {
    let capability = card(device).map(|(_, card)| card.compute_capability);
    match put(major, capability.map(|(major, _)| major)) {
        0 => put(minor, capability.map(|(_, minor)| minor)),
        error => error,
    }
}

/// `NVML_BRAND_TESLA`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBrand(device: Handle, brand: *mut u32) -> u32 {
    put(brand, card(device).map(|_| 2))
}

/// `NVML_DEVICE_ARCH_VOLTA`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetArchitecture(device: Handle, architecture: *mut u32) -> u32 {
    put(architecture, card(device).map(|_| 5))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPersistenceMode(device: Handle, mode: *mut u32) -> u32 {
    put(mode, card(device).map(|_| 1))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayActive(device: Handle, active: *mut u32) -> u32 {
    put(active, card(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayMode(device: Handle, mode: *mut u32) -> u32 {
    put(mode, card(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeMode(device: Handle, mode: *mut u32) -> u32 {
    put(mode, card(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPerformanceState(device: Handle, state: *mut u32) -> u32 {
    put(state, card(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: Handle, _sensor: u32, degrees: *mut u32) -> u32 {
    put(degrees, card(device).map(|_| 34))
}

/// Milliwatts.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, power: *mut u32) -> u32 {
    put(power, card(device).map(|_| 42_000))
}

/// Milliwatts.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, power: *mut u32) -> u32 {
    put(power, card(device).map(|_| 300_000))
}

/// Milliwatts.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimit(device: Handle, power: *mut u32) -> u32 {
    put(power, card(device).map(|_| 300_000))
}

/// `nvmlUtilization_t`: GPU and memory, in percent.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, rates: *mut [u32; 2]) -> u32 {
    put(rates, card(device).map(|_| [0, 0]))
}

/// Nothing ever happens to a simulated card.
#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetCreate(set: *mut usize) -> u32 {
    put(set, node().map(|_| 0x6000_0000))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(_set: *mut c_void) -> u32 {
    0
}
