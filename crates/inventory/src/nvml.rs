//! The only file that speaks NVML on the host, through nvml-wrapper. A call that fails for one card makes that card bad, and no other.
//!
//! One session for a scan, and no question twice: on cards without persistence each session wakes the card, which takes seconds.
mod raw;
mod usage;

use crate::{BadCard, InventoryError, Sources, files, pci};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use quota::{Bytes, CardId};
use std::path::{Path, PathBuf};

/// NVML's soname.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// `NVML_DEVICE_MIG_ENABLE` (nvml.h).
const MIG_ENABLED: u32 = 1;

/// A card as NVML tells it.
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) id: CardId,
    pub(crate) name: String,
    pub(crate) pci_bus_id: String,
    pub(crate) memory: Option<Bytes>,
    pub(crate) minor: u32,
    /// With MIG on: its instances, or why one cannot be given.
    pub(crate) instances: Option<Vec<Result<Instance, String>>>,
}

/// A MIG instance as NVML tells it.
pub(crate) struct Instance {
    pub(crate) index: u32,
    pub(crate) id: CardId,
    pub(crate) name: String,
    pub(crate) memory: Option<Bytes>,
    /// Numbers of the GPU instance and of the compute instance in it.
    pub(crate) place: (u32, u32),
}

/// What NVML tells of the node.
pub(crate) struct Found {
    pub(crate) driver_version: String,
    pub(crate) cards: Vec<Seen>,
    pub(crate) bad: Vec<BadCard>,
}

pub(crate) use usage::{has_native_limits, in_use};

/// NVML's library file.
fn library(sources: &Sources, place: &files::Place) -> PathBuf {
    let found = || place.library(LIBRARY).unwrap_or_else(|| LIBRARY.into());
    sources.nvml_path.clone().unwrap_or_else(found)
}

pub(crate) fn read(sources: &Sources, place: &files::Place) -> Result<Found, InventoryError> {
    let path = library(sources, place);
    let nvml = Nvml::builder().lib_path(path.as_os_str()).init().map_err(|error| whole(error, &path))?;
    let fail = |error| whole(error, &path);
    let driver_version = nvml.sys_driver_version().map_err(fail)?;
    let (mut cards, mut bad) = (Vec::<Seen>::new(), Vec::<BadCard>::new());
    for index in 0..nvml.device_count().map_err(fail)? {
        let bad_card = |pci_bus_id, reason| BadCard { index: Some(index), pci_bus_id, reason };
        let device = match nvml.device_by_index(index) {
            Ok(device) => device,
            Err(error) => {
                bad.push(bad_card(None, one(&error)));
                continue;
            }
        };
        let address = device.pci_info().map(|pci| pci.bus_id);
        match &address {
            Err(error) => bad.push(bad_card(None, one(error))),
            Ok(address) => match card(&device, index, address) {
                Ok(Ok(seen)) => cards.push(seen),
                Ok(Err(reason)) => bad.push(bad_card(Some(address.clone()), reason)),
                Err(error) => bad.push(bad_card(Some(address.clone()), one(&error))),
            },
        }
    }
    address_the_lost(sources, &cards, &mut bad);
    Ok(Found { driver_version, cards, bad })
}

/// What the decision and the CDI file need is a must; name and memory are not, since some cards do not tell them and can still be given whole.
fn card(device: &Device<'_>, index: u32, address: &str) -> Result<Result<Seen, String>, NvmlError> {
    let uuid = device.uuid()?;
    let Some(id) = CardId::parse(&uuid) else { return Ok(Err(format!("NVML names it {uuid:?}, which is no UUID"))) };
    let mig = match device.mig_mode() {
        Ok(mode) => mode.current == MIG_ENABLED,
        // Not a card with MIG, or a driver from before it.
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => false,
        Err(error) => return Err(error),
    };
    Ok(Ok(Seen {
        index,
        id,
        name: device.name().unwrap_or_else(|_| "unknown".to_owned()),
        pci_bus_id: address.to_owned(),
        memory: memory(device)?,
        minor: device.minor_number()?,
        instances: if mig { Some(instances(device)?) } else { None },
    }))
}

/// The instances of a card with MIG on. An index without an instance is not the end: what was destroyed leaves a gap.
fn instances(device: &Device<'_>) -> Result<Vec<Result<Instance, String>>, NvmlError> {
    let mut found = Vec::new();
    for index in 0..device.mig_device_count()? {
        match device.mig_device_by_index(index) {
            Ok(instance) => found.push(match self::instance(&instance, index) {
                Ok(told) => told,
                Err(error) => Err(format!("MIG instance {index}: {}", one(&error))),
            }),
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
            Err(error) => found.push(Err(format!("MIG instance {index}: {}", one(&error)))),
        }
    }
    Ok(found)
}

fn instance(device: &Device<'_>, index: u32) -> Result<Result<Instance, String>, NvmlError> {
    let uuid = device.uuid()?;
    let Some(id) = CardId::parse(&uuid) else {
        return Ok(Err(format!(
            "MIG instance {index}: NVML names it {uuid:?}, which is no UUID of driver 470 or later"
        )));
    };
    Ok(Ok(Instance {
        index,
        id,
        name: device.name().unwrap_or_else(|_| "unknown MIG instance".to_owned()),
        memory: memory(device)?,
        place: (raw::gpu_instance(device)?, raw::compute_instance(device)?),
    }))
}

fn memory(device: &Device<'_>) -> Result<Option<Bytes>, NvmlError> {
    match device.memory_info() {
        Ok(memory) => Ok(Some(Bytes(memory.total))),
        Err(NvmlError::NotSupported) => Ok(None),
        Err(NvmlError::FailedToLoadSymbol(_)) => match raw::total_memory(device) {
            Ok(total) => Ok(Some(Bytes(total))),
            Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// NVML gives no handle of a lost card, so no address; the kernel module lists the addresses of all. NVML counts in the order of addresses, so where as
/// many addresses are unknown as cards, each card gets its own.
fn address_the_lost(sources: &Sources, cards: &[Seen], bad: &mut [BadCard]) {
    let known = cards.iter().map(|card| card.pci_bus_id.as_str());
    let known: Vec<String> =
        known.chain(bad.iter().filter_map(|card| card.pci_bus_id.as_deref())).map(pci::address).collect();
    let Ok(entries) = std::fs::read_dir(sources.proc_root.join("driver/nvidia/gpus")) else { return };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut left: Vec<String> = names.map(|name| pci::address(&name)).filter(|name| !known.contains(name)).collect();
    left.sort();
    let lost = bad.iter_mut().filter(|card| card.pci_bus_id.is_none());
    let lost: Vec<_> = lost.collect();
    if lost.len() == left.len() {
        lost.into_iter().zip(left).for_each(|(card, address)| card.pci_bus_id = Some(address));
    }
}

fn whole(error: NvmlError, path: &Path) -> InventoryError {
    match error {
        NvmlError::LibloadingError(error) => {
            InventoryError::NoDriver { path: path.to_owned(), reason: error.to_string() }
        }
        NvmlError::LibraryNotFound => {
            InventoryError::NoDriver { path: path.to_owned(), reason: "it lacks a library of its own".to_owned() }
        }
        error @ NvmlError::DriverNotLoaded => InventoryError::NotLoaded(error.to_string()),
        error @ NvmlError::LibRmVersionMismatch => InventoryError::Mismatch(error.to_string()),
        error => InventoryError::Nvml(error.to_string()),
    }
}

fn one(error: &NvmlError) -> String {
    match error {
        NvmlError::GpuLost => {
            "the GPU is lost: it has fallen off the bus or is inaccessible; reboot the node".to_owned()
        }
        NvmlError::ResetRequired => "the GPU needs a reset (nvidia-smi --gpu-reset)".to_owned(),
        other => format!("NVML: {other}"),
    }
}
