//! Inventory to CDI spec: pure, the same input gives the same bytes.
use crate::flags::NameStrategy;
use cdi::spec::Hook;
use cdi::version::rank;
use cdi::{ContainerEdits, Device, Spec, minimum_version};
use inventory::Inventory;
use std::path::Path;

/// What of the inventory is written, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// `vendor/class`.
    pub kind: &'a str,
    /// How devices are named, at least one way.
    pub names: &'a [NameStrategy],
    /// Only these, by any of their names; all where there are none.
    pub only: &'a [String],
    /// The highest version that may be needed.
    pub max_version: Option<&'a str>,
    /// The program that adds the libraries to the container's `ld.so.cache`.
    pub hook: Option<&'a Path>,
    /// Whether the groups of device nodes are given.
    pub groups: bool,
}

/// A GPU or MIG instance of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The names of its devices, those that the strategies give.
    pub names: Vec<String>,
    /// Every name by which it can be asked for: index, UUID, type-index.
    pub known_as: [String; 3],
    /// The product's name.
    pub product: String,
    /// PCI address.
    pub pci_bus_id: String,
    /// Memory in bytes, where NVML tells it.
    pub memory: Option<u64>,
    edits: ContainerEdits,
}

/// A spec, and what is to be said of it.
#[derive(Clone, Debug)]
pub struct Built {
    /// `None` where no device is left, since a device without edits makes a file unloadable.
    pub spec: Option<Spec>,
    /// What the spec gives.
    pub units: Vec<Unit>,
    /// Asked for and not there.
    pub unknown: Vec<String>,
    /// What was left out.
    pub warnings: Vec<String>,
}

/// The spec needs more than the highest version that was allowed.
#[derive(Debug, thiserror::Error)]
#[error("{content} needs CDI {needed}, and --max-cdi-version is {allowed}; {advice}")]
pub struct TooNew {
    content: String,
    needed: &'static str,
    allowed: String,
    advice: &'static str,
}

/// The spec of a node.
///
/// # Errors
/// [`TooNew`] for content that cannot be left out.
pub fn spec(inventory: &Inventory, options: &Options<'_>) -> Result<Built, TooNew> {
    let known = units(inventory, options.names);
    let named = |unit: &Unit, name: &String| name == "all" || unit.known_as.contains(name);
    let unknown = options.only.iter().filter(|name| *name != "all" && !known.iter().any(|unit| named(unit, name)));
    let unknown = unknown.cloned().collect();
    let wanted = |unit: &Unit| options.only.is_empty() || options.only.iter().any(|name| named(unit, name));
    let mut units: Vec<Unit> = known.iter().filter(|unit| wanted(unit)).cloned().collect();
    let mut warnings = Vec::new();
    fit_names(&mut units, options, &mut warnings)?;
    if units.is_empty() {
        return Ok(Built { spec: None, units, unknown, warnings });
    }
    let mut devices = Vec::new();
    let mut all = ContainerEdits::default();
    for unit in &units {
        all.merge(&unit.edits);
        for name in &unit.names {
            devices.push(Device { name: name.clone(), container_edits: unit.edits.clone(), ..Device::default() });
        }
    }
    devices.push(Device { name: "all".to_owned(), container_edits: all, ..Device::default() });
    let mut edits = inventory.common_edits();
    edits.hooks.extend(options.hook.map(hook));
    let groups = if options.groups { inventory.groups() } else { Vec::new() };
    let allowed = |needed: &str| options.max_version.is_none_or(|max| rank(needed) <= rank(max));
    if groups.is_empty() || allowed("0.7.0") {
        edits.additional_gids = groups;
    } else {
        warnings.push(format!(
            "left out: the groups {groups:?} of device nodes need CDI 0.7.0, above --max-cdi-version; users in a container need them by other means"
        ));
    }
    let mut spec = Spec { kind: options.kind.to_owned(), devices, container_edits: edits, ..Spec::default() };
    let needed = minimum_version(&spec);
    if !allowed(needed) {
        // Nothing else of ours needs more than the floor of all readers.
        let content = format!("the kind {:?}, for the dot in its class,", options.kind);
        return Err(too_new(content, needed, options, "choose another --kind"));
    }
    needed.clone_into(&mut spec.cdi_version);
    Ok(Built { spec: Some(spec), units, unknown, warnings })
}

/// Names that begin with a digit need CDI 0.5.0: they go where less is allowed, and a unit without a name goes with them.
fn fit_names(units: &mut [Unit], options: &Options<'_>, warnings: &mut Vec<String>) -> Result<(), TooNew> {
    if options.max_version.is_none_or(|max| rank(max) >= rank("0.5.0")) {
        return Ok(());
    }
    let digit = |name: &String| name.starts_with(|c: char| c.is_ascii_digit());
    let gone: Vec<String> =
        units.iter().flat_map(|unit| unit.names.iter().filter(|name| digit(name)).cloned()).collect();
    if gone.is_empty() {
        return Ok(());
    }
    for unit in units.iter_mut() {
        unit.names.retain(|name| !digit(name));
    }
    if units.iter().any(|unit| unit.names.is_empty()) {
        let content = format!("the device names {}", gone.join(", "));
        return Err(too_new(content, "0.5.0", options, "add --name-strategy uuid or type-index"));
    }
    warnings.push(format!("left out: the device names {} need CDI 0.5.0, above --max-cdi-version", gone.join(", ")));
    Ok(())
}

fn too_new(content: String, needed: &'static str, options: &Options<'_>, advice: &'static str) -> TooNew {
    TooNew { content, needed, allowed: options.max_version.unwrap_or("none").to_owned(), advice }
}

/// Cards and MIG instances in NVML's order.
fn units(inventory: &Inventory, strategies: &[NameStrategy]) -> Vec<Unit> {
    let unit = |index: String, kind: &str, id: String, edits: ContainerEdits| {
        let known_as = [index.clone(), id, format!("{kind}{index}")];
        let mut names: Vec<String> = Vec::new();
        for strategy in strategies {
            let name = match strategy {
                NameStrategy::Index => &known_as[0],
                NameStrategy::Uuid => &known_as[1],
                NameStrategy::TypeIndex => &known_as[2],
            };
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Unit { names, known_as, product: String::new(), pci_bus_id: String::new(), memory: None, edits }
    };
    let cards = inventory.cards.iter().map(|card| {
        let unit = unit(card.index.to_string(), "gpu", card.id.to_string(), inventory.card_edits(card));
        let (product, pci_bus_id) = (card.name.clone(), card.pci_bus_id.clone());
        ((card.index, 0), Unit { product, pci_bus_id, memory: card.memory.map(|memory| memory.0), ..unit })
    });
    let slices = inventory.slices.iter().map(|slice| {
        let index = format!("{}:{}", slice.parent, slice.index);
        let unit = unit(index, "mig", slice.id.to_string(), inventory.slice_edits(slice));
        let (product, pci_bus_id) = (slice.name.clone(), slice.pci_bus_id.clone());
        let memory = slice.memory.map(|memory| memory.0);
        ((slice.parent, slice.index), Unit { product, pci_bus_id, memory, ..unit })
    });
    let mut all: Vec<_> = cards.chain(slices).collect();
    all.sort_by_key(|(order, _)| *order);
    all.into_iter().map(|(_, unit)| unit).collect()
}

/// The beginnings of the driver's libraries, for the hook: an image's own ones in the same folders are not its business.
const PREFIXES: [&str; 9] = [
    "libcuda",
    "libnvidia-",
    "libnvcuvid",
    "libnvoptix",
    "libEGL_nvidia",
    "libGLESv1_CM_nvidia",
    "libGLESv2_nvidia",
    "libGLX_nvidia",
    "libGLX_indirect",
];

/// The opt-in hook. Its environment is not empty, or it would get the container image's own, `LD_PRELOAD` included (CVE-2025-23266); it has no time limit,
/// since a runtime fails the container when one runs out, and ends by itself.
fn hook(program: &Path) -> Hook {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut args = vec![name, "update".to_owned()];
    for folder in Inventory::library_folders() {
        args.extend(["--folder".to_owned(), folder.to_owned()]);
    }
    for prefix in PREFIXES {
        args.extend(["--prefix".to_owned(), prefix.to_owned()]);
    }
    Hook {
        hook_name: "createContainer".to_owned(),
        path: program.to_string_lossy().into_owned(),
        args,
        env: vec!["GPU_QUOTA_HOOK=1".to_owned()],
        timeout: None,
    }
}

/// The names by which the node's GPUs and MIG instances can be asked for.
#[must_use]
pub fn names(inventory: &Inventory) -> Vec<String> {
    units(inventory, &[]).into_iter().flat_map(|unit| unit.known_as).collect()
}
