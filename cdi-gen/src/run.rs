//! Scan, build, check, write: the order in which nothing wrong can reach a runtime.
use crate::exit::Failure;
use crate::flags::Generate;
use crate::generate;
use cdi::Written;
use inventory::{BadCard, Sources};

/// Writes the CDI file, and returns a line for people.
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
    let Some(spec) = generate::spec(&inventory, &flags.kind) else {
        return Err(Failure::NoGpu { removed: cdi::remove(&flags.output)?, bad });
    };
    if let Some(broken) = cdi::validate(&spec).first() {
        return Err(Failure::Invalid(broken.to_string()));
    }
    let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
    if let Some(conflict) = cdi::conflicts(&flags.spec_dirs, &flags.output, &flags.kind, &names).into_iter().next() {
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
    Ok(format!("{path} is {did}: {cards} GPU(s), driver {}, CDI {}", inventory.driver_version, spec.cdi_version))
}

fn said(card: &BadCard) -> String {
    let address = card.pci_bus_id.as_deref().unwrap_or("unknown PCI address");
    format!("GPU {} ({address}): {}", card.index, card.reason)
}
