//! Reading caches that the real ldconfig made, and every kind of broken ones.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use ldcache::{CacheError, Entry, is_native, read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine's ldconfig; Debian keeps it out of users' PATH.
fn ldconfig(args: &[&str]) -> String {
    let program = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// A cache of this machine's libraries, made by ldconfig in one of its formats.
fn real(folder: &Path, format: &str) -> PathBuf {
    let cache = folder.join(format);
    ldconfig(&["-X", "-c", format, "-C", cache.to_str().unwrap()]);
    cache
}

/// Name and path of each line that `ldconfig -p` prints.
fn printed(cache: &Path) -> Vec<(String, String)> {
    let text = ldconfig(&["-p", "-C", cache.to_str().unwrap()]);
    let line = |line: &str| {
        let (name, path) = line.trim().split_once(" => ")?;
        Some((name.split_once(" (")?.0.to_owned(), path.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn pairs(entries: &[Entry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.name.clone(), entry.path.clone())).collect()
}

#[test]
fn reads_what_ldconfig_writes_in_each_format() {
    let dir = tempfile::tempdir().unwrap();
    for format in ["new", "compat", "old"] {
        let cache = real(dir.path(), format);
        let entries = read(&std::fs::read(&cache).unwrap()).unwrap();
        assert!(!entries.is_empty());
        assert_eq!(pairs(&entries), printed(&cache), "{format}");
        let libc = entries.iter().find(|entry| entry.name == "libc.so.6" && is_native(entry.flags)).unwrap();
        assert!(Path::new(&libc.path).exists());
    }
}

#[test]
fn what_is_no_cache_is_said() {
    assert_eq!(read(b""), Err(CacheError::Magic));
    assert_eq!(read(b"root:x:0:0"), Err(CacheError::Magic));
    let text = read(b"ld.so-1.7.0\0\xff\xff\xff\xff").unwrap_err().to_string();
    assert!(text.contains("4294967295 entries"), "{text}");
}
