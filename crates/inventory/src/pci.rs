//! The PCI bus as sysfs shows it: which NVIDIA cards are there, whose they are, and which DRM nodes belong to which.
use std::fs;
use std::path::Path;

/// Where sysfs lists the bus, below its root.
pub const DEVICES: &str = "bus/pci/devices";
/// NVIDIA's vendor id.
const VENDOR: &str = "0x10de";
/// Class codes of display controllers: VGA and 3D (PCI Code and ID Assignment, base class 03h).
const CLASSES: [&str; 2] = ["0x0300", "0x0302"];

/// An NVIDIA card on the bus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciCard {
    /// As [`address`] writes it.
    pub address: String,
    /// The kernel driver that holds it.
    pub driver: Option<String>,
}

/// A PCI address as the kernel writes it: four digits of domain, small letters. NVML writes eight digits and capitals.
#[must_use]
pub fn address(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.split_once(':') {
        Some((domain, rest)) if rest.contains(':') => format!("{:0>4}:{rest}", domain.trim_start_matches('0')),
        _ => text,
    }
}

/// The NVIDIA cards on the bus, in the order of their addresses; `None` where sysfs does not show the bus.
#[must_use]
pub fn cards(sys_root: &Path) -> Option<Vec<PciCard>> {
    let mut cards = Vec::new();
    for entry in fs::read_dir(sys_root.join(DEVICES)).ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let class = read("class");
        if read("vendor").trim() != VENDOR || !CLASSES.iter().any(|known| class.starts_with(known)) {
            continue;
        }
        let driver = fs::read_link(entry.path().join("driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        cards.push(PciCard { address: address(&entry.file_name().to_string_lossy()), driver });
    }
    cards.sort();
    Some(cards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nvml_and_of_the_kernel_are_one() {
        assert_eq!(address("00000000:3B:00.0"), "0000:3b:00.0");
        assert_eq!(address("0000:3b:00.0"), "0000:3b:00.0");
        assert_eq!(address("0000000F:01:00.0"), "000f:01:00.0");
        assert_eq!(address("00010000:01:00.0"), "10000:01:00.0");
        assert_eq!(address("odd"), "odd");
    }

    #[test]
    fn only_display_controllers_of_nvidia_count() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(cards(sys.path()), None);
        let put = |name: &str, vendor: &str, class: &str, driver: Option<&str>| {
            let dir = sys.path().join(DEVICES).join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("vendor"), vendor).unwrap();
            fs::write(dir.join("class"), class).unwrap();
            if let Some(driver) = driver {
                std::os::unix::fs::symlink(format!("../../../bus/pci/drivers/{driver}"), dir.join("driver")).unwrap();
            }
        };
        put("0000:82:00.0", "0x10de\n", "0x030200\n", Some("vfio-pci"));
        put("0000:3b:00.0", "0x10de\n", "0x030000\n", None);
        put("0000:3b:00.1", "0x10de\n", "0x040300\n", Some("snd_hda_intel"));
        put("0000:00:02.0", "0x8086\n", "0x030000\n", Some("i915"));
        let found = cards(sys.path()).unwrap();
        let found: Vec<_> = found.iter().map(|card| (card.address.as_str(), card.driver.as_deref())).collect();
        assert_eq!(found, [("0000:3b:00.0", None), ("0000:82:00.0", Some("vfio-pci"))]);
    }
}
