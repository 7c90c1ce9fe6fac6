//! DRM nodes of one card, for graphics: sysfs says which belong to the card's PCI address, so another vendor's card is never given away.
use super::{FOR_ALL, Node, checked};
use crate::pci;
use std::fs;
use std::path::Path;

/// The card's `/dev/dri/card<n>` and `renderD<n>`; what is not there is left out with a warning.
pub(crate) fn drm(sys_root: &Path, dev_root: &Path, pci_bus_id: &str, warnings: &mut Vec<String>) -> Vec<Node> {
    let folder = sys_root.join(pci::DEVICES).join(pci::address(pci_bus_id)).join("drm");
    let Ok(entries) = fs::read_dir(&folder) else {
        warnings.push(format!(
            "no DRM nodes for the card at {pci_bus_id}: {} is not there; load nvidia-drm",
            folder.display()
        ));
        return Vec::new();
    };
    let mut nodes = Vec::new();
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names {
        // Connectors such as card0-DP-1 are folders there too. Their `controlD` nodes are gone since Linux 4.
        let number = name.strip_prefix("card").or_else(|| name.strip_prefix("renderD"));
        if number.is_none_or(|number| number.is_empty() || !number.bytes().all(|c| c.is_ascii_digit())) {
            continue;
        }
        let device = fs::read_to_string(folder.join(&name).join("dev")).unwrap_or_default();
        let numbers =
            device.trim().split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let Some(numbers) = numbers else {
            warnings.push(format!("left out: {} tells no device number", folder.join(&name).display()));
            continue;
        };
        if let Ok(node) = checked(dev_root, &format!("dri/{name}"), numbers, FOR_ALL) {
            nodes.push(node);
        } else {
            let (major, minor) = numbers;
            warnings.push(format!("left out: /dev/dri/{name} is not the character device {major}:{minor} of sysfs"));
        }
    }
    nodes
}
