//! The only file that speaks NVML on the host, through nvml-wrapper. A call that fails for one card makes that card bad, and no other.
mod raw;

use crate::root::Root;
use crate::{BadCard, InventoryError, Sources, files};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use quota::{Bytes, CardId};
use std::path::Path;

/// NVML's soname.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A card as NVML tells it.
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) id: CardId,
    pub(crate) name: String,
    pub(crate) pci_bus_id: String,
    pub(crate) memory: Option<Bytes>,
    pub(crate) minor: u32,
}

/// What NVML tells of the node.
pub(crate) struct Found {
    pub(crate) driver_version: String,
    pub(crate) cards: Vec<Seen>,
    pub(crate) bad: Vec<BadCard>,
}

pub(crate) fn read(sources: &Sources) -> Result<Found, InventoryError> {
    let path = match &sources.nvml_path {
        Some(path) => path.clone(),
        None => files::library(&Root::new(&sources.driver_root), LIBRARY).unwrap_or_else(|| LIBRARY.into()),
    };
    let nvml = Nvml::builder().lib_path(path.as_os_str()).init().map_err(|error| whole(error, &path))?;
    let fail = |error| whole(error, &path);
    let driver_version = nvml.sys_driver_version().map_err(fail)?;
    let (mut cards, mut bad) = (Vec::<Seen>::new(), Vec::<BadCard>::new());
    for index in 0..nvml.device_count().map_err(fail)? {
        let device = nvml.device_by_index(index);
        let pci_bus_id = device.as_ref().ok().and_then(|device| Some(device.pci_info().ok()?.bus_id));
        match device.and_then(|device| card(&device, index)) {
            Ok(Ok(seen)) => cards.push(seen),
            Ok(Err(reason)) => bad.push(BadCard { index, pci_bus_id, reason }),
            Err(error) => bad.push(BadCard { index, pci_bus_id, reason: one(&error) }),
        }
    }
    address_the_lost(sources, &cards, &mut bad);
    Ok(Found { driver_version, cards, bad })
}

/// What the decision and the CDI file need is a must; memory is not, since some cards do not tell it and can still be given whole.
fn card(device: &Device<'_>, index: u32) -> Result<Result<Seen, String>, NvmlError> {
    let uuid = device.uuid()?;
    let Some(id) = CardId::parse(&uuid) else { return Ok(Err(format!("NVML names it {uuid:?}, which is no UUID"))) };
    if device.mig_mode().is_ok_and(|mode| mode.current == 1) {
        return Ok(Err("MIG is enabled; its instances cannot be shared yet".to_owned()));
    }
    Ok(Ok(Seen {
        index,
        id,
        name: device.name().unwrap_or_else(|_| "unknown".to_owned()),
        pci_bus_id: device.pci_info()?.bus_id,
        memory: memory(device)?,
        minor: device.minor_number()?,
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

/// NVML gives no handle of a lost card, so no address; the kernel module lists the addresses of all. Where one card is missing one address, it is told.
fn address_the_lost(sources: &Sources, cards: &[Seen], bad: &mut [BadCard]) {
    let known: Vec<String> = cards
        .iter()
        .map(|card| card.pci_bus_id.clone())
        .chain(bad.iter().filter_map(|card| card.pci_bus_id.clone()))
        .map(|address| plain(&address))
        .collect();
    let Ok(entries) = std::fs::read_dir(sources.proc_root.join("driver/nvidia/gpus")) else { return };
    let mut left = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|address| !known.contains(&plain(address)));
    let mut lost = bad.iter_mut().filter(|card| card.pci_bus_id.is_none());
    if let (Some(address), None, Some(card), None) = (left.next(), left.next(), lost.next(), lost.next()) {
        card.pci_bus_id = Some(address);
    }
}

/// NVML writes the domain with eight digits and capitals, the kernel with four and small letters.
fn plain(address: &str) -> String {
    address.trim_start_matches('0').to_ascii_lowercase()
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
