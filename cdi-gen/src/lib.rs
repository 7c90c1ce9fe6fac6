//! Writes the node's CDI file: one device per GPU, by index and by UUID, and `all`.
//!
//! The file appears whole or not at all, and says only what is there: a card that is bad costs that card.
#![forbid(unsafe_code)]

pub mod exit;
pub mod flags;
pub mod generate;
pub mod run;
