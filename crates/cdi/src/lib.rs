//! CDI (Container Device Interface) as its specification has it: types, names, minimum version, rules, reading and writing.
//!
//! Source of every field and rule: the CNCF container-device-interface repository, SPEC.md and its Go loader, version 1.1.0.
#![forbid(unsafe_code)]

pub mod spec;

pub use spec::{ContainerEdits, Device, DeviceNode, Hook, Mount, Spec};
