//! Where the built and fetched parts are: the stage folder of `cargo xtask build` and the cache folder of `cargo xtask fetch`.
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// The version of the driver that the simulated node has.
pub const DRIVER: &str = "550.163.01";

/// The releases of containerd to test against, the newest last: those that are fetched, or one in the cache folder that `GPU_QUOTA_CONTAINERD` names.
#[must_use]
pub fn containerd_versions() -> Vec<String> {
    let fetched = || ["1.7.24", "2.1.9"].map(str::to_owned).to_vec();
    std::env::var("GPU_QUOTA_CONTAINERD").map_or_else(|_| fetched(), |version| vec![version])
}

/// The stage folder.
///
/// # Errors
/// Where it is not there, with the command that makes it.
pub fn stage() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let stage = std::env::var_os("GPU_QUOTA_STAGE").map_or_else(|| target.join("stage"), PathBuf::from);
    ensure!(stage.join("nri-plugin").exists(), "no programs in {}; run cargo xtask build", stage.display());
    Ok(stage.canonicalize()?)
}

/// The cache folder.
///
/// # Errors
/// Where it is not there, with the command that makes it.
pub fn cache() -> Result<PathBuf> {
    let home = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        cache.unwrap_or_default().join("gpu-quota")
    };
    let cache = std::env::var_os("GPU_QUOTA_CACHE").map_or_else(home, PathBuf::from);
    ensure!(cache.join("guest-root").exists(), "no packages in {}; run cargo xtask fetch", cache.display());
    Ok(cache)
}
