//! Real clients that are too big for every run.
use crate::run::cargo;
use crate::{build, fetch};
use anyhow::Result;
use std::path::Path;

/// Fetches, builds, and runs the tests of `tests/clients`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let real_driver = ["/dev/nvidiactl", "/proc/driver/nvidia/version"].iter().all(|path| Path::new(path).exists());
    let cache = fetch::clients(root, real_driver)?;
    let stage = build::run(root, false)?;
    cargo(root, &["test", "--no-fail-fast", "-p", "clients"])
        .env("GPU_QUOTA_STAGE", stage)
        .env("GPU_QUOTA_CACHE", cache)
        .done()
}
