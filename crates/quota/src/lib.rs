//! What both sides of the container wall must agree on: amounts, card names, the limits file, the ledger and where they lie.
//!
//! The host (`nri-plugin`) writes a container's limits file and makes its ledger; the interposer inside the container reads
//! the first and counts in the second. Both are versioned by a magic number in their first bytes: a reader refuses what it
//! does not know. No std, no allocation, no dependency, so that the same code runs on both sides.
#![no_std]
#![forbid(unsafe_code)]

pub mod bytes;
pub mod card;
pub mod ledger;
pub mod limits;
pub mod paths;

pub use bytes::{Bytes, ShareRule, Unit};
pub use card::CardId;
