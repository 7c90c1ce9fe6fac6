//! pip of the guest root, run by the guest root's own Python, so that the host needs neither. It installs for other Pythons too.
use super::Wheels;
use crate::run::program;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Where Debian's Python looks for packages, below its root; all wheels go there.
const SITE: &str = "usr/lib/python3/dist-packages";
/// Kinds of wheels that a Python of Debian bullseye or later can load, newest first.
const PLATFORMS: [&str; 5] = [
    "manylinux_2_28_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
];

/// Installs pinned wheels below `into`, with the pip of `guest`.
pub(super) fn install(wheels: &Wheels, requirements: &Path, guest: &Path, into: &Path) -> Result<()> {
    let wheels_of_pip = guest.join("usr/share/python-wheels");
    let mut pip = fs::read_dir(&wheels_of_pip)?.flatten().map(|entry| entry.path());
    let pip = pip.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pip-")));
    let pip = pip.with_context(|| format!("no pip in {}", wheels_of_pip.display()))?;
    let libraries =
        ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|dir| guest.join(dir).display().to_string());
    let mut arguments =
        vec!["--library-path".to_owned(), libraries.join(":"), guest.join("usr/bin/python3.11").display().to_string()];
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    add(&["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]);
    add(&["--no-compile", "--no-cache-dir", "--disable-pip-version-check", "--root-user-action=ignore"]);
    if let Some(version) = &wheels.python {
        let abi = format!("cp{}", version.replace('.', ""));
        add(&["--python-version", version, "--implementation", "cp", "--abi", &abi]);
        for platform in PLATFORMS {
            add(&["--platform", platform]);
        }
    }
    add(&["--target", &into.join(SITE).display().to_string(), "--requirement", &requirements.display().to_string()]);
    program(guest.join("lib64/ld-linux-x86-64.so.2"), &arguments)
        .env("PYTHONHOME", guest.join("usr"))
        .env("PYTHONPATH", pip)
        .quiet()
        .done()
        .with_context(|| format!("pip could not install xtask/{} for {}", wheels.requirements, wheels.into))
}
