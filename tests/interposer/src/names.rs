//! Lists of names of CUDA and NVML: those that are hooked, those that were looked at and stay the driver's, and those that a library exports. It judges
//! nothing: what has to be in which list is the tests' business.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The hooked names, as the ELF check has them, without those of the loader.
#[must_use]
pub fn hooked() -> BTreeSet<String> {
    let list = include_str!("../../../interposer/exports.txt");
    list.lines().filter(|name| !matches!(*name, "dlsym" | "dlvsym")).map(str::to_owned).collect()
}

/// The names that stay the driver's, each with its reason, as `unhooked.txt` has them.
#[must_use]
pub fn unhooked() -> BTreeMap<String, String> {
    let (mut names, mut reason) = (BTreeMap::new(), "");
    for line in include_str!("../unhooked.txt").lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            reason = heading;
        } else if !line.starts_with("//") {
            assert!(!reason.is_empty(), "unhooked.txt: {line} stands before the first reason");
            let before = names.insert(line.to_owned(), reason.to_owned());
            assert!(before.is_none(), "unhooked.txt has {line} twice");
        }
    }
    names
}

/// What a library exports, functions and data.
#[must_use]
pub fn exports(library: &Path) -> BTreeSet<String> {
    let done = Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library).output();
    let done = done.expect("nm comes with the linker that cargo needs");
    assert!(done.status.success(), "nm cannot read {}; run cargo xtask fetch", library.display());
    let text = String::from_utf8(done.stdout).expect("names are ASCII");
    let name = |line: &str| line.split([' ', '@']).next().unwrap_or_default().to_owned();
    text.lines().map(name).collect()
}
