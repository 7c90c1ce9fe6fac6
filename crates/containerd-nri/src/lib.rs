//! NRI (Node Resource Interface) plugins in Rust: messages, multiplexer, handshake and stub.
//!
//! A plugin implements [`Plugin`] and is run by a [`Stub`], which connects to the runtime's socket (or takes the socket that containerd
//! hands to a plugin that it starts), registers, and calls the plugin for each event. Knows nothing of what a plugin is for.
//!
//! Protocol: `nri.pkg.api.v1alpha1` of containerd's NRI 0.12.2, over ttrpc, over a multiplexed unix stream socket. Older runtimes work: unknown
//! fields are ignored in both directions, and events that older runtimes send as `StateChange` reach the same methods.

pub mod adjust;
pub mod mux;
pub mod plugin;
mod service;
pub mod stub;

/// The messages of the protocol, generated from `proto/api.proto`.
pub mod messages {
    pub use crate::generated::api::*;
}

/// The two services of the protocol, generated from `proto/api.proto`: what the runtime calls and what a plugin calls. For peers and tests.
pub mod services {
    pub use crate::generated::api_ttrpc::*;
}

#[expect(clippy::pedantic, clippy::allow_attributes, clippy::unwrap_used, reason = "generated code")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

pub use adjust::{Adjustment, AdjustmentError};
pub use plugin::{EventMask, Plugin, PluginError};
pub use stub::{Runtime, Stub, StubError};
