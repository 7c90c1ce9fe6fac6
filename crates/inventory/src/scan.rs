//! One look at the whole node, in the order in which each part can still be told apart from the next: nodes, NVML, files, cards.
use crate::nodes::{self, Majors, Makes, Node, NodesError};
use crate::nvml::{self, Instance, Seen};
use crate::{BadCard, Card, Inventory, InventoryError, MigSlice, Profile, Sources, files, pci};
use std::path::Path;

/// A card of a DGX Station that only drives a monitor; NVIDIA's own tools leave it out as well.
const DISPLAY_ONLY: &str = "DGX Display";

impl Sources {
    /// Where the driver's files are.
    pub(crate) fn place(&self) -> Result<files::Place, InventoryError> {
        // A relative path would mean another folder to the runtime.
        let root = std::path::absolute(&self.driver_root);
        let root = root.map_err(|source| InventoryError::Root { path: self.driver_root.clone(), source })?;
        Ok(files::Place::new(&root, &self.library_paths))
    }

    /// Looks at the driver, its files and nodes. Takes as long as NVML takes: up to seconds for each card.
    ///
    /// # Errors
    /// [`InventoryError`] where no card of the node could be given; a card that is bad by itself is in [`Inventory::bad`].
    pub fn scan(&self) -> Result<Inventory, InventoryError> {
        let place = self.place()?;
        let makes = if self.create_nodes { Makes::Missing } else { Makes::Nothing };
        if self.create_nodes {
            // NVML needs nvidiactl. What cannot be made is said below, where it is needed.
            if let Ok(majors) = Majors::read(&self.proc_root) {
                nodes::control(&self.dev_root, &majors, makes)?;
            }
        }
        let cards_on_bus = pci::cards(&self.sys_root);
        let found = match nvml::read(self, &place) {
            Err(InventoryError::NoDriver { .. }) if self.dev_root.join("dev/dxg").exists() => {
                return Err(InventoryError::Platform { what: "WSL2" });
            }
            Err(InventoryError::NoDriver { .. }) if self.dev_root.join("dev/nvhost-ctrl").exists() => {
                return Err(InventoryError::Platform { what: "a Tegra board" });
            }
            Err(InventoryError::NoDriver { .. }) if cards_on_bus.as_ref().is_some_and(Vec::is_empty) => {
                return Err(InventoryError::NoHardware { path: self.sys_root.join(pci::DEVICES) });
            }
            found => found?,
        };
        let mut inventory = Inventory {
            driver_version: found.driver_version,
            cards: Vec::new(),
            slices: Vec::new(),
            bad: found.bad,
            left_out: Vec::new(),
            warnings: Vec::new(),
            files: files::DriverFiles::default(),
            nodes: nodes::ControlNodes::default(),
        };
        inventory.bad.extend(foreign(&cards_on_bus.unwrap_or_default(), &found.cards, &inventory.bad));
        // Nothing to give, so nothing is needed: a node without a usable card is not told to load more modules.
        if !found.cards.is_empty() {
            let mut found_files = files::find(self, &place, &inventory.driver_version)?;
            inventory.warnings.append(&mut found_files.warnings);
            inventory.files = found_files;
            let majors = Majors::read(&self.proc_root)?;
            inventory.nodes = nodes::control(&self.dev_root, &majors, makes)?;
            inventory.warnings.append(&mut inventory.nodes.warnings);
            let nodes = Nodes { sources: self, majors, makes };
            for seen in found.cards {
                nodes.sort(seen, &mut inventory);
            }
        }
        inventory.bad.sort();
        Ok(inventory)
    }
}

/// The NVIDIA cards on the bus that NVML does not list, because another kernel driver holds them.
fn foreign(on_bus: &[pci::PciCard], seen: &[Seen], bad: &[BadCard]) -> Vec<BadCard> {
    let known = seen.iter().map(|card| card.pci_bus_id.as_str());
    let known: Vec<String> =
        known.chain(bad.iter().filter_map(|card| card.pci_bus_id.as_deref())).map(pci::address).collect();
    let held = on_bus.iter().filter(|card| !known.contains(&card.address));
    held.filter_map(|card| {
        let driver = card.driver.as_deref()?;
        // A card of our own driver that NVML does not list is counted by NVML as lost already.
        let reason = match driver {
            "nvidia" => return None,
            "vfio-pci" => "it is bound to vfio-pci, for a virtual machine".to_owned(),
            other => format!("it is bound to the kernel driver {other}, not to nvidia"),
        };
        Some(BadCard { index: None, pci_bus_id: Some(card.address.clone()), reason })
    })
    .collect()
}

/// Where a card's nodes are looked for.
struct Nodes<'a> {
    sources: &'a Sources,
    majors: Majors,
    makes: Makes,
}

impl Nodes<'_> {
    /// Puts a card that NVML told whole where it belongs.
    fn sort(&self, seen: Seen, inventory: &mut Inventory) {
        let bad =
            |index: Option<u32>, reason: String| BadCard { index, pci_bus_id: Some(seen.pci_bus_id.clone()), reason };
        if seen.name.contains(DISPLAY_ONLY) && self.sources.profile == Profile::Compute {
            let reason = format!("{} only drives a monitor; --profile graphics gives it", seen.name);
            inventory.left_out.push(bad(Some(seen.index), reason));
            return;
        }
        let node = match nodes::card(&self.sources.dev_root, &self.majors, seen.minor, self.makes) {
            Ok(node) => node,
            Err(error) => {
                inventory.bad.push(bad(Some(seen.index), error.to_string()));
                return;
            }
        };
        let drm = self.drm(&seen.pci_bus_id, &mut inventory.warnings);
        let Some(instances) = &seen.instances else {
            inventory.cards.push(Card {
                index: seen.index,
                id: seen.id,
                name: seen.name,
                pci_bus_id: seen.pci_bus_id,
                memory: seen.memory,
                node,
                drm,
            });
            return;
        };
        if instances.is_empty() {
            let reason = "MIG is on and has no instance; make one (nvidia-smi mig -cgi ... -C), or turn MIG off";
            inventory.bad.push(bad(Some(seen.index), reason.to_owned()));
        }
        for instance in instances {
            match instance.as_ref().map_err(Clone::clone).and_then(|instance| self.slice(&seen, instance, &node, &drm))
            {
                Ok(slice) => inventory.slices.push(slice),
                Err(reason) => inventory.bad.push(bad(Some(seen.index), reason)),
            }
        }
    }

    fn slice(&self, seen: &Seen, instance: &Instance, node: &Node, drm: &[Node]) -> Result<MigSlice, String> {
        let (gpu, compute) = instance.place;
        let which = |error: NodesError| format!("MIG instance {} ({gpu}:{compute}): {error}", instance.id);
        let caps = nodes::mig(self.sources, &self.majors, (seen.minor, gpu, compute), self.makes).map_err(which)?;
        let nodes = [node.clone()].into_iter().chain(caps).collect();
        Ok(MigSlice {
            parent: seen.index,
            index: instance.index,
            id: instance.id,
            name: instance.name.clone(),
            pci_bus_id: seen.pci_bus_id.clone(),
            memory: instance.memory,
            nodes,
            drm: drm.to_vec(),
        })
    }

    /// The card's DRM nodes, for graphics.
    fn drm(&self, pci_bus_id: &str, warnings: &mut Vec<String>) -> Vec<Node> {
        if self.sources.profile == Profile::Compute {
            return Vec::new();
        }
        let (sys, dev): (&Path, &Path) = (&self.sources.sys_root, &self.sources.dev_root);
        nodes::drm(sys, dev, pci_bus_id, warnings)
    }
}
