//! Builds everything and puts it into the stage folder, whole or not at all.
use crate::run::cargo;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// What is staged: the package, its file in the target folder, its name in the stage folder.
const STAGED: [(&str, &str, &str); 5] = [
    ("cdi-gen", "cdi-gen", "cdi-gen"),
    ("nri-plugin", "nri-plugin", "nri-plugin"),
    ("guest", "guest", "guest"),
    ("sim-driver-cuda", "libsim_cuda.so", "sim/libcuda.so.1"),
    ("sim-driver-nvml", "libsim_nvml.so", "sim/libnvidia-ml.so.1"),
];

/// What is static: the hook, since nothing of a container may be loaded into it, and a test's program into which the interposer cannot be loaded. The
/// package, the program, its name in the stage folder.
const STATIC: [(&str, &str, &str); 2] = [
    ("ldcache-hook", "gpu-quota-ldcache-hook", "gpu-quota-ldcache-hook"),
    ("sim-driver-cards", "sim-hold", "sim/hold-static"),
];
/// The machine's target, named so that the flag below reaches the program and not the macros that build it.
const TARGET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

/// Builds, and returns the stage folder.
pub(crate) fn run(root: &Path, release: bool) -> Result<PathBuf> {
    let mut arguments = vec!["build"];
    for (package, ..) in STAGED {
        arguments.extend(["-p", package]);
    }
    if release {
        arguments.push("--release");
    }
    cargo(root, &arguments).done()?;
    cargo(root, &["build", "-p", "interposer", "--profile", "interposer"]).done()?;
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.to_uppercase().replace('-', "_"));
    for (package, program, _) in STATIC {
        let build = ["build", "-p", package, "--bin", program, "--release", "--target", TARGET];
        cargo(root, &build).env(&flags, "-C target-feature=+crt-static -C strip=symbols").done()?;
    }

    let target = target(root);
    let profile = target.join(if release { "release" } else { "debug" });
    let stage = target.join(if release { "stage-release" } else { "stage" });
    let fresh = target.join(format!(".stage.{}", std::process::id()));
    fs::create_dir_all(fresh.join("sim"))?;
    let copy = |from: PathBuf, to: &str| {
        fs::copy(&from, fresh.join(to)).with_context(|| format!("cannot stage {}", from.display()))
    };
    for (_, from, to) in STAGED {
        copy(profile.join(from), to)?;
    }
    copy(target.join("interposer/libgpu_quota.so"), "libgpu_quota.so")?;
    for (_, program, to) in STATIC {
        copy(target.join(TARGET).join("release").join(program), to)?;
    }
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    fs::rename(&fresh, &stage)?;
    println!("staged in {}", stage.display());
    Ok(stage)
}

/// cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}
