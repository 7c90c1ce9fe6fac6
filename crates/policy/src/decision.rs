//! What is decided. A refusal is a value, not an error: the decision worked.
use crate::reason::{Reason, Warning};
use quota::{Bytes, CardId};

/// The decision on one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What the container gets.
    pub outcome: Outcome,
    /// What the node's owner should know; changes nothing.
    pub warnings: Vec<Warning>,
}

/// What a container gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No share is asked: the container is not touched.
    NotOurs,
    /// The whole cards, without isolation; the grants are booked all the same.
    Whole(Vec<Grant>),
    /// Shares of the cards, held by the interposer.
    Share(Vec<Grant>),
    /// The container must not be created.
    Deny(Reason),
}

/// A share of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The card's index on this node.
    pub index: u32,
    /// The card's identity.
    pub id: CardId,
    /// What is booked, and, with isolation, the limit.
    pub bytes: Bytes,
    /// The card's whole memory.
    pub total: Bytes,
}
