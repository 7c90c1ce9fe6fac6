//! CDI (Container Device Interface) as its specification has it: types, names, minimum version, rules, reading and writing.
//!
//! Source of every field and rule: the CNCF container-device-interface repository, SPEC.md and its Go loader, version 1.1.0.
#![forbid(unsafe_code)]

pub mod dirs;
pub mod name;
pub mod read;
pub mod spec;
pub mod transform;
pub mod validate;
pub mod version;
pub mod write;

pub use dirs::{Conflict, DEFAULT_DIRS, conflicts, kind_of};
pub use read::{ReadError, read};
pub use spec::{ContainerEdits, Device, DeviceNode, Hook, Mount, Spec};
pub use transform::{Side, transform};
pub use validate::{Broken, validate};
pub use version::minimum_version;
pub use write::{Format, WriteError, Written, make_folder, remove, write, write_bytes};
