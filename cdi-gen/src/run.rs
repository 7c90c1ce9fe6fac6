//! Scan, build, check, write: the order in which nothing wrong can reach a runtime.
use crate::exit::Failure;
use crate::flags::Generate;
use crate::generate;
use cdi::Written;
use inventory::{BadCard, Card, Sources};
use std::path::Path;

/// Writes the CDI file, and returns what to tell people: a line on the file and one on each card.
///
/// # Errors
/// [`Failure`]. With [`Failure::Partial`] the file is written; with any other but [`Failure::NoGpu`] the old file stays as it was.
pub fn generate(flags: Generate) -> Result<String, Failure> {
    let sources = Sources {
        nvml_path: flags.nvml_path,
        driver_root: flags.driver_root,
        dev_root: flags.dev_root,
        proc_root: flags.proc_root,
    };
    let inventory = sources.scan()?;
    let bad: Vec<String> = inventory.bad.iter().map(said).collect();
    if flags.output.symlink_metadata().is_ok() {
        let what = match cdi::kind_of(&flags.output) {
            Some(kind) if kind == flags.kind => None,
            Some(kind) => Some(format!("holds devices of kind {kind:?}")),
            None => Some("is no CDI file".to_owned()),
        };
        if let Some(what) = what {
            return Err(Failure::Foreign { path: flags.output, what });
        }
    }
    let Some(spec) = generate::spec(&inventory, &flags.kind) else {
        return Err(Failure::NoGpu { removed: cdi::remove(&flags.output)?, bad });
    };
    if let Some(broken) = cdi::validate(&spec).first() {
        return Err(Failure::Invalid(broken.to_string()));
    }
    let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
    let mut dirs = flags.spec_dirs;
    dirs.extend(flags.output.parent().map(Path::to_owned));
    if let Some(conflict) = cdi::conflicts(&dirs, &flags.output, &flags.kind, &names).into_iter().next() {
        return Err(Failure::Conflict(conflict));
    }
    let written = cdi::write(&spec, &flags.output)?;
    if !bad.is_empty() {
        return Err(Failure::Partial { good: inventory.cards.len(), bad });
    }
    let did = match written {
        Written::Changed => "written",
        Written::Same => "up to date",
    };
    let (path, cards) = (flags.output.display(), inventory.cards.len());
    let list: String = inventory.cards.iter().map(line).collect();
    Ok(format!("{path} is {did}: {cards} GPU(s), driver {}, CDI {}{list}", inventory.driver_version, spec.cdi_version))
}

fn line(card: &Card) -> String {
    let memory = card.memory.map_or("memory unknown".to_owned(), |memory| format!("{} MiB", memory.0 >> 20));
    format!("\n  GPU {}: {}, {}, {}, {memory}", card.index, card.id, card.name, card.pci_bus_id)
}

fn said(card: &BadCard) -> String {
    let address = card.pci_bus_id.as_deref().unwrap_or("unknown PCI address");
    format!("GPU {} ({address}): {}", card.index, card.reason)
}
