//! The program itself against made-up bundles: what it adds, what hostile images do to it, and what loader and ldconfig say.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adds;
mod bundle;
mod hostile;
mod linked;
mod loader;
mod runtime;
