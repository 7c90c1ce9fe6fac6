//! `cards.toml`: the cards of the simulated node. Absent, it is the reference scenario's node: one Tesla V100-SXM2-16GB of 16,130 MiB.
use serde::Deserialize;
use std::path::Path;

/// The most cards that a node can have.
pub const MAX_CARDS: usize = 16;

/// The node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// As NVML tells it.
    pub driver_version: String,
    /// As `cuDriverGetVersion` tells it: 12040 is CUDA 12.4.
    pub cuda_version: i32,
    /// What a process's first context takes on a card, in MiB. The reference scenario shows 15,453 MiB in use where the framework took 15,024.
    pub context_mib: u64,
    /// The cards, in NVML's order.
    #[serde(rename = "card")]
    pub cards: Vec<Card>,
}

/// A card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Card {
    /// Product name.
    pub name: String,
    /// `GPU-...`.
    pub uuid: String,
    /// `domain:bus:device.function`, domain with eight digits.
    pub pci_bus_id: String,
    /// `/dev/nvidia<minor>`; absent: the card's place in the list.
    pub minor: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Major and minor number.
    pub compute_capability: (i32, i32),
    /// Fallen off the bus: every call on it fails.
    pub lost: bool,
    /// In need of a reset: what is not its name or address fails.
    pub needs_reset: bool,
    /// The driver does not tell its memory, as on chips that share the host's.
    pub memory_unsupported: bool,
    /// How long the driver takes to hand out the card, in milliseconds.
    pub slow_ms: u64,
    /// Whether MIG is on; absent: the card has no MIG.
    pub mig: Option<bool>,
    /// The MIG instances, in NVML's order.
    #[serde(rename = "instance")]
    pub instances: Vec<Instance>,
}

/// A MIG instance: a compute instance of a GPU instance of a card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// `MIG-...`.
    pub uuid: String,
    /// Number of the GPU instance.
    pub gpu_instance: u32,
    /// Number of the compute instance within it.
    pub compute_instance: u32,
    /// Profile, such as `1g.10gb`.
    pub profile: String,
    /// Memory in MiB.
    pub memory_mib: u64,
}

impl Default for Card {
    fn default() -> Self {
        Self {
            name: "Tesla V100-SXM2-16GB".to_owned(),
            uuid: "GPU-5ba4538b-234f-2c18-6a7a-458d0a7fb348".to_owned(),
            pci_bus_id: "00000000:00:1E.0".to_owned(),
            minor: None,
            memory_mib: 16_130,
            compute_capability: (7, 0),
            lost: false,
            needs_reset: false,
            memory_unsupported: false,
            slow_ms: 0,
            mig: None,
            instances: Vec::new(),
        }
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            driver_version: "550.163.01".to_owned(),
            cuda_version: 12_040,
            context_mib: 429,
            cards: vec![Card::default()],
        }
    }
}

/// Why `cards.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file is there and cannot be read.
    #[error("cannot read the simulated driver's cards: {0}")]
    Read(#[from] std::io::Error),
    /// The file is wrong.
    #[error("the simulated driver's cards are wrong: {0}")]
    Parse(#[from] toml::de::Error),
    /// More cards than the state has room for.
    #[error("at most {MAX_CARDS} cards can be simulated")]
    TooMany,
}

impl Scenario {
    /// Reads `dir/cards.toml`; the reference node where it is absent.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn read(dir: &Path) -> Result<Self, ScenarioError> {
        let text = match std::fs::read_to_string(dir.join("cards.toml")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text?,
        };
        let scenario: Self = toml::from_str(&text)?;
        if scenario.cards.len() > MAX_CARDS { Err(ScenarioError::TooMany) } else { Ok(scenario) }
    }
}

impl Card {
    /// Memory in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory_mib << 20
    }

    /// The 16 bytes of the UUID, zeros where it is malformed.
    #[must_use]
    pub fn uuid_bytes(&self) -> [u8; 16] {
        let digits: Vec<u8> = self.uuid.bytes().skip(4).filter(u8::is_ascii_hexdigit).collect();
        let mut uuid = [0; 16];
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
            *byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
        }
        uuid
    }

    /// Domain, bus and device of the PCI address, zeros where it is malformed.
    #[must_use]
    pub fn pci(&self) -> (u32, u32, u32) {
        let mut parts = self.pci_bus_id.split([':', '.']).map(|part| u32::from_str_radix(part, 16).unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_it_is_the_reference_node() {
        let scenario = Scenario::read(Path::new("/no/such/folder")).unwrap();
        assert_eq!((scenario.cards.len(), scenario.cards[0].memory()), (1, 16_130 << 20));
        assert_eq!(scenario.cards[0].pci(), (0, 0, 0x1e));
        assert_eq!(scenario.cards[0].uuid_bytes()[..3], [0x5b, 0xa4, 0x53]);
    }

    #[test]
    fn the_scenarios_beside_the_driver_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let read =
            |name: &str| -> Scenario { toml::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap() };
        assert_eq!(read("dgx-h100.toml").cards.len(), 8);
        assert_eq!(read("mixed.toml").cards[0].instances[1].gpu_instance, 2);
    }

    #[test]
    fn a_file_is_read_and_unknown_keys_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let text = "driver_version = \"535.261.03\"\n[[card]]\nmemory_mib = 1024\n[[card]]\nlost = true\n";
        std::fs::write(dir.path().join("cards.toml"), text).unwrap();
        let scenario = Scenario::read(dir.path()).unwrap();
        assert_eq!((scenario.cards[0].memory_mib, scenario.cards[1].lost), (1024, true));
        std::fs::write(dir.path().join("cards.toml"), "memory = 3\n").unwrap();
        assert!(Scenario::read(dir.path()).unwrap_err().to_string().contains("memory"));
    }
}
