//! What the hook does: driver libraries that the runtime mounted into a container are added to its `/etc/ld.so.cache`.
//!
//! Everything in the container's root is hostile: it is opened below the root's descriptor, checked before it is read, and read with
//! a bound. It never fails a container, starts no program and does not look at its environment.
#![forbid(unsafe_code)]

pub mod args;
pub mod bundle;
pub mod cache;
pub mod guard;
pub mod root;
pub mod scan;
