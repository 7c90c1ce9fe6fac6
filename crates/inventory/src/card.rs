//! What can be given and what cannot: cards, MIG instances, and the ones that are left out.
use crate::nodes::Node;
use quota::{Bytes, CardId};

/// A card that can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// NVML's index.
    pub index: u32,
    /// The card's identity.
    pub id: CardId,
    /// The product's name.
    pub name: String,
    /// PCI address as NVML prints it, such as `00000000:00:1E.0`.
    pub pci_bus_id: String,
    /// The card's whole memory; `None` where NVML does not tell, and then no share of it can be given.
    pub memory: Option<Bytes>,
    /// `/dev/nvidia<minor>`.
    pub node: Node,
    /// `/dev/dri/card<n>` and `renderD<n>` of this very card; empty without graphics.
    pub drm: Vec<Node>,
}

/// A MIG instance (a compute instance of a GPU instance) that can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigSlice {
    /// NVML's index of the card that it is part of.
    pub parent: u32,
    /// NVML's index among the instances of that card.
    pub index: u32,
    /// The instance's identity, `MIG-...`.
    pub id: CardId,
    /// The product's name with the profile, such as `NVIDIA A100-SXM4-40GB MIG 3g.20gb`.
    pub name: String,
    /// PCI address of the card.
    pub pci_bus_id: String,
    /// The instance's memory; `None` where NVML does not tell.
    pub memory: Option<Bytes>,
    /// The card's node, then the capability nodes of the GPU instance and of the compute instance.
    pub nodes: Vec<Node>,
    /// DRM nodes of the card; empty without graphics.
    pub drm: Vec<Node>,
}

/// A card or MIG instance that is not given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadCard {
    /// NVML's index; `None` where NVML does not know the card.
    pub index: Option<u32>,
    /// PCI address, where it could be found out.
    pub pci_bus_id: Option<String>,
    /// What is wrong.
    pub reason: String,
}
