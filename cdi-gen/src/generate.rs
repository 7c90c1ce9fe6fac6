//! Inventory to CDI spec: pure, the same input gives the same bytes.
use cdi::{ContainerEdits, Device, Spec, minimum_version};
use inventory::Inventory;

/// The spec of a node with at least one card; `None` where there is no card, since a device without edits makes a file unloadable.
#[must_use]
pub fn spec(inventory: &Inventory, kind: &str) -> Option<Spec> {
    let mut devices = Vec::new();
    let mut all = ContainerEdits::default();
    for card in &inventory.cards {
        let edits = inventory.card_edits(card);
        all.merge(&edits);
        for name in [card.index.to_string(), card.id.to_string()] {
            devices.push(Device { name, container_edits: edits.clone(), ..Device::default() });
        }
    }
    if devices.is_empty() {
        return None;
    }
    devices.push(Device { name: "all".to_owned(), container_edits: all, ..Device::default() });
    let mut spec =
        Spec { kind: kind.to_owned(), devices, container_edits: inventory.common_edits(), ..Spec::default() };
    minimum_version(&spec).clone_into(&mut spec.cdi_version);
    Some(spec)
}
