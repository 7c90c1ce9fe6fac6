//! What ldconfig writes is read as ldconfig prints it, and what we write ldconfig prints as we meant it.
use crate::machine::{ldconfig, library, pair, printed, root};
use ldcache::{Entry, NATIVE, hwcaps, is_native, read, write, write_with_hwcaps};
use std::path::Path;

fn pairs(entries: &[Entry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.name.clone(), entry.path.clone())).collect()
}

#[test]
fn a_cache_of_this_machine_in_each_format() {
    let dir = tempfile::tempdir().unwrap();
    for format in ["new", "compat", "old"] {
        let cache = dir.path().join(format);
        ldconfig(&["-X", "-c", format, "-C", cache.to_str().unwrap()]);
        let entries = read(&std::fs::read(&cache).unwrap()).unwrap();
        let lines: Vec<_> = printed(&cache).iter().map(|line| pair(line)).collect();
        assert!(!entries.is_empty());
        assert_eq!(pairs(&entries), lines, "{format}");
        let libc = entries.iter().find(|entry| entry.name == "libc.so.6" && is_native(entry.flags)).unwrap();
        assert!(Path::new(&libc.path).exists());
    }
}

#[test]
fn our_cache_is_printed_as_ldconfigs_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = root(dir.path());
    for name in ["liba.so.2", "liba.so.10", "lib1.so", "lib02.so", "lib-a.so", "lib_a.so", "lib+.so.1", "libA.so.9a1"] {
        library(&root.join("opt/odd").join(name), name);
    }
    for name in ["x86-64-v2", "x86-64-v3", "power9"] {
        library(&root.join("opt/odd/glibc-hwcaps").join(name).join("liba.so.2"), name);
    }
    std::fs::write(root.join("etc/ld.so.conf"), "/opt/odd\n").unwrap();
    let mut theirs = Vec::new();
    // Behind an old part ldconfig 2.36 prints the folders' names as nonsense, so the lines of the new format count for both.
    for format in ["new", "compat"] {
        ldconfig(&["-X", "-c", format, "-r", root.to_str().unwrap(), "-C", "/etc/ld.so.cache"]);
        let cache = root.join("etc/ld.so.cache");
        let bytes = std::fs::read(&cache).unwrap();
        if format == "new" {
            theirs = printed(&cache);
        }
        let entries = read(&bytes).unwrap();
        assert_eq!(hwcaps(&bytes), ["power9", "x86-64-v2", "x86-64-v3"], "{format}");
        let mut mixed = entries.clone();
        mixed.reverse();
        std::fs::write(&cache, write_with_hwcaps(&mixed, &hwcaps(&bytes))).unwrap();
        assert_eq!(printed(&cache), theirs, "{format}");
        assert!(theirs.iter().any(|line| line.contains("hwcap: \"x86-64-v2\"")), "{theirs:?}");
        let again = std::fs::read(&cache).unwrap();
        assert_eq!((read(&again).unwrap(), hwcaps(&again)), (entries, hwcaps(&bytes)));
    }
}

#[test]
fn ldconfig_takes_a_cache_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let entry = |name: &str, path: &str| Entry {
        name: name.to_owned(),
        path: path.to_owned(),
        flags: NATIVE,
        hwcap: 0,
        os_version: 0,
    };
    let entries = [entry("liba.so.9", "/opt/liba.so.9"), entry("liba.so.10", "/x"), entry("liba.so.9", "/b/liba.so.9")];
    std::fs::write(&cache, write(&entries)).unwrap();
    let machine = if cfg!(target_arch = "aarch64") { "AArch64" } else { "x86-64" };
    let line = |name: &str, path: &str| format!("{name} (libc6,{machine}) => {path}");
    let expected = [line("liba.so.10", "/x"), line("liba.so.9", "/opt/liba.so.9"), line("liba.so.9", "/b/liba.so.9")];
    assert_eq!(printed(&cache), expected);
    std::fs::write(&cache, write(&[])).unwrap();
    assert_eq!(printed(&cache), Vec::<String>::new());
}
