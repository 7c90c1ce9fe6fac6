//! The doors through which containers come: each translates a protocol's container into a request, and edits into the protocol's answer.

pub mod nri;
