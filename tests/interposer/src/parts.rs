//! Where the built and fetched parts are: the stage folder of `cargo xtask build` and the cache folder of `cargo xtask fetch`.
use std::env::var_os;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The stage folder.
#[must_use]
pub fn stage() -> PathBuf {
    let target = var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let stage = var_os("GPU_QUOTA_STAGE").map_or_else(|| target.join("stage"), PathBuf::from);
    assert!(stage.join("guest").exists(), "no programs in {}; run cargo xtask build", stage.display());
    stage.canonicalize().expect("it exists")
}

/// The cache folder.
#[must_use]
pub fn cache() -> PathBuf {
    let home = || {
        let cache = var_os("XDG_CACHE_HOME").map(PathBuf::from);
        cache.unwrap_or_else(|| Path::new(&var_os("HOME").unwrap_or_default()).join(".cache")).join("gpu-quota")
    };
    let cache = var_os("GPU_QUOTA_CACHE").map_or_else(home, PathBuf::from);
    assert!(cache.join("guest-root").exists(), "no packages in {}; run cargo xtask fetch", cache.display());
    cache
}

/// Compiles a C library, with further options of the compiler, for a test that needs another library than the simulated driver.
#[must_use]
pub fn c_library(dir: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(format!("lib{name}.so")));
    std::fs::write(&from, source).expect("the test's folder can be written");
    let done = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&to).arg(&from).args(options).status();
    assert!(done.expect("a C compiler is the linker that cargo needs").success(), "cannot compile {}", from.display());
    to
}
