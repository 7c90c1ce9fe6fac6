//! What the node has: cards, what is booked on them, and the edits that give them to a container.
use cdi::ContainerEdits;
use quota::{Bytes, CardId, Unit};

/// The node as the decision sees it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The unit of the node's counts; `None`: guessed from what the container says one card counts, else GiB.
    pub unit: Option<Unit>,
    /// The cards that can be shared.
    pub cards: Vec<NodeCard>,
    /// What every container with a GPU gets: control nodes and driver libraries.
    pub common: ContainerEdits,
}

/// A card of the node.
#[derive(Clone, Debug)]
pub struct NodeCard {
    /// NVML's index, as schedulers count.
    pub index: u32,
    /// The card's identity.
    pub id: CardId,
    /// The card's whole memory.
    pub memory: Bytes,
    /// What containers hold of it, isolated or not.
    pub booked: Bytes,
    /// The card's device nodes.
    pub edits: ContainerEdits,
}

impl NodeCard {
    /// What is not booked.
    #[must_use]
    pub fn free(&self) -> Bytes {
        Bytes(self.memory.0.saturating_sub(self.booked.0))
    }
}

impl Node {
    /// The card with this index.
    #[must_use]
    pub fn card(&self, index: u32) -> Option<&NodeCard> {
        self.cards.iter().find(|card| card.index == index)
    }
}
