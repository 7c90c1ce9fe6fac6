//! NVML's lists of processes, and whether the library has calls that the wrapper does not know.
use super::{MIG_ENABLED, library, whole};
use crate::usage::{CardUse, ProcessUse};
use crate::{InventoryError, Sources, files};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use object::{Object, ObjectSymbol};
use quota::{Bytes, CardId};

/// Sets a limit for a cgroup (nvml.h of CUDA 13.4 and later).
const NATIVE_LIMITS: &str = "nvmlDeviceSetMemoryLimits_v1";

pub(crate) fn in_use(sources: &Sources, place: &files::Place) -> Result<Vec<CardUse>, InventoryError> {
    let path = library(sources, place);
    let nvml = Nvml::builder().lib_path(path.as_os_str()).init().map_err(|error| whole(error, &path))?;
    let count = nvml.device_count().map_err(|error| whole(error, &path))?;
    Ok((0..count).filter_map(|index| card(&nvml.device_by_index(index).ok()?)).collect())
}

fn card(device: &Device<'_>) -> Option<CardUse> {
    if device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED) {
        return None;
    }
    let id = CardId::parse(&device.uuid().ok()?)?;
    let mut processes: Vec<ProcessUse> = Vec::new();
    let compute = newest(device.running_compute_processes(), || device.running_compute_processes_v2()).ok()?;
    let graphics = newest(device.running_graphics_processes(), || device.running_graphics_processes_v2());
    // Who computes and draws is in both lists, with the same amount.
    for info in compute.into_iter().chain(graphics.unwrap_or_default()) {
        if !processes.iter().any(|known| known.pid == info.pid) {
            let memory = match info.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                UsedGpuMemory::Unavailable => None,
            };
            processes.push(ProcessUse { pid: info.pid, memory });
        }
    }
    Some(CardUse { id, processes })
}

/// The answer of a call, or of its version before where the driver lacks it.
fn newest(
    answer: Result<Vec<ProcessInfo>, NvmlError>,
    before: impl FnOnce() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Result<Vec<ProcessInfo>, NvmlError> {
    match answer {
        Err(NvmlError::FailedToLoadSymbol(_)) => before(),
        answer => answer,
    }
}

/// Whether the library exports the call, by its symbols alone: nothing of it is run.
pub(crate) fn has_native_limits(sources: &Sources, place: &files::Place) -> Option<bool> {
    exports(&std::fs::read(library(sources, place)).ok()?, NATIVE_LIMITS)
}

fn exports(library: &[u8], name: &str) -> Option<bool> {
    let library = object::File::parse(library).ok()?;
    Some(library.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_told_from_an_import_and_from_nothing() {
        // This program's own C library, and the program, which imports from it.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().find_map(|line| Some(&line[line.find('/')?..]).filter(|path| path.contains("libc.so")));
        let libc = std::fs::read(libc.unwrap()).unwrap();
        let program = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!((exports(&libc, "malloc"), exports(&libc, NATIVE_LIMITS)), (Some(true), Some(false)));
        assert_eq!(exports(&program, "malloc"), Some(false));
        assert_eq!(exports(b"no library", "malloc"), None);
    }
}
