//! The exports that are not simulated. Made by `build.rs`.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::node::NOT_SUPPORTED;

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
