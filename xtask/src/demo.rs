//! The reference scenario in real containers: builds and fetches what it needs, and lets the end-to-end harness show it.
use crate::run::cargo;
use crate::{build, fetch};
use anyhow::Result;
use std::path::Path;

/// Runs the demo.
pub(crate) fn run(root: &Path, real_driver: bool) -> Result<()> {
    let cache = fetch::run(root)?;
    let stage = build::run(root, false)?;
    let mut arguments = vec!["run", "--quiet", "-p", "e2e", "--bin", "demo", "--"];
    if real_driver {
        arguments.push("--real-driver");
    }
    cargo(root, &arguments).env("GPU_QUOTA_STAGE", stage).env("GPU_QUOTA_CACHE", cache).done()
}
