//! The simulated node: which cards there are, and who uses how much of their memory.
//!
//! Cards come from `cards.toml`, use from `state`, both in the folder named by `SIM_DRIVER_DIR` (default `/run/sim-driver`). Every process that uses the
//! simulated driver maps `state`, so all see one truth, across containers that mount the folder. Uses nothing of gpu-quota.

pub mod scenario;
pub mod state;

pub use scenario::{Card, Instance, Scenario};
pub use state::{Full, State, Use};

use std::path::PathBuf;

/// Names the folder of `cards.toml` and `state`.
pub const DIR_ENV: &str = "SIM_DRIVER_DIR";
/// The folder where the variable is not set.
pub const DEFAULT_DIR: &str = "/run/sim-driver";

/// The folder of this process.
#[must_use]
pub fn dir() -> PathBuf {
    std::env::var_os(DIR_ENV).map_or_else(|| DEFAULT_DIR.into(), PathBuf::from)
}
