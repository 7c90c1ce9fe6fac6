//! Programs that we did not write and that judge or race ours, built into the cache folder: the reference CDI loader, the Rust CDI crate's programs, and
//! nvidia-ctk. Those in Go only where `go` is installed.
use crate::run::program;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The pinned release of the Rust crate.
const CRATE: (&str, &str) = ("container-device-interface", "1.1.1");
/// The pinned release of NVIDIA's generator.
const CTK: (&str, &str) = ("github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk", "v1.20.0");

/// Builds the judges of CDI files.
pub(crate) fn judges(root: &Path, cache: &Path) -> Result<()> {
    let folder = cache.join("oracle");
    let (name, version) = CRATE;
    once(&folder, &format!("{name}-{version}"), || {
        let into = folder.display().to_string();
        // A folder of its own, so that the workspace's settings are not those of the program.
        let install = ["install", "--quiet", "--locked", "--force", "--root", &into, "--version", version, name];
        program("cargo", &install).dir(&folder).done()
    })?;
    if !has_go() {
        println!("no go: the reference CDI loader is left out");
        return Ok(());
    }
    let out = folder.join("bin/cdi-oracle").display().to_string();
    let build = ["build", "-mod=readonly", "-o", &out, "."];
    program("go", &build).dir(&root.join("tests/oracle/go")).done().context("the reference CDI loader")
}

/// Builds nvidia-ctk, for the benchmark.
pub(crate) fn peer(cache: &Path) -> Result<()> {
    if !has_go() {
        println!("no go: nvidia-ctk is left out");
        return Ok(());
    }
    let folder = cache.join("oracle");
    let (module, version) = CTK;
    once(&folder, &format!("nvidia-ctk-{version}"), || {
        let install = ["install", &format!("{module}@{version}")];
        program("go", &install).dir(&folder).env("GOBIN", folder.join("bin")).env("CGO_CFLAGS", "-w").quiet().done()
    })
    .context("nvidia-ctk")
}

/// Does the work unless a stamp says that it is done.
fn once(folder: &Path, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.join(format!(".{name}"));
    if stamp.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder.join("bin"))?;
    work()?;
    fs::write(&stamp, "").with_context(|| format!("cannot write {}", stamp.display()))
}

fn has_go() -> bool {
    Command::new("go").arg("version").output().is_ok_and(|output| output.status.success())
}
