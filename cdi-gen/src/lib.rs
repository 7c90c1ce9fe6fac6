//! Writes the node's CDI file: one device per GPU and MIG instance, by index and by UUID, and `all`; and keeps it right.
//!
//! The file appears whole or not at all, and says only what is there: a card that is bad costs that card.
#![forbid(unsafe_code)]

pub mod check;
pub mod exit;
pub mod files;
pub mod flags;
pub mod generate;
pub mod report;
pub mod run;
pub mod stale;
pub mod watch;
