//! Runs the fuzz targets, each for a while from its own corpus. cargo-fuzz is installed into the cache folder, pinned.
use crate::fetch;
use crate::run::program;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::Path;

/// The pinned release of cargo-fuzz.
const CARGO_FUZZ: &str = "0.13.1";
/// Where the targets are, and which.
const FOLDER: &str = "crates/cdi/fuzz";
const TARGETS: [&str; 2] = ["spec", "ldcache"];

/// Fuzzes every target for some seconds.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    let tools = fetch::cache()?.join("tools");
    if !tools.join("bin/cargo-fuzz").exists() {
        let folder = tools.display().to_string();
        let install = ["install", "--quiet", "--locked", "--root", &folder, "--version", CARGO_FUZZ, "cargo-fuzz"];
        program("cargo", &install).dir(Path::new("/")).done().context("cargo-fuzz cannot be installed")?;
    }
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path: OsString = std::env::join_paths([tools.join("bin")].into_iter().chain(std::env::split_paths(&old)))?;
    for target in TARGETS {
        let limit = format!("-max_total_time={seconds}");
        let fuzz = ["run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir", FOLDER, target, "--", &limit];
        program("rustup", &fuzz)
            .dir(root)
            .env("PATH", &path)
            .done()
            .with_context(|| format!("fuzz target {target}"))?;
    }
    Ok(())
}
