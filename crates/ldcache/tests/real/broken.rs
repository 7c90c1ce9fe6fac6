//! Broken bytes give an error or entries, never a panic, and never more work than their length.
use crate::machine::ldconfig;
use ldcache::{CacheError, Entry, NATIVE, hwcaps, read, write, write_with_hwcaps};
use proptest::prelude::*;
use std::sync::LazyLock;

fn entry(name: &str, path: &str, hwcap: u64) -> Entry {
    Entry { name: name.to_owned(), path: path.to_owned(), flags: NATIVE, hwcap, os_version: 7 }
}

/// A small cache with everything in it.
fn small() -> Vec<u8> {
    let entries = [entry("liba.so.1", "/lib/liba.so.1", 0), entry("libb.so", "/c", 1 << 62), entry("", "", 3)];
    write_with_hwcaps(&entries, &["x86-64-v2".to_owned(), "x86-64-v3".to_owned()])
}

/// A cache of this machine in both formats.
static COMPAT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    ldconfig(&["-X", "-c", "compat", "-C", cache.to_str().unwrap()]);
    std::fs::read(cache).unwrap()
});

/// `small` behind an old part without entries.
fn both() -> Vec<u8> {
    let mut bytes = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
    bytes.extend(small());
    bytes
}

#[test]
fn what_is_no_cache_is_said() {
    assert_eq!(read(b""), Err(CacheError::Magic));
    assert_eq!(read(b"root:x:0:0"), Err(CacheError::Magic));
    let text = read(b"ld.so-1.7.0\0\xff\xff\xff\xff").unwrap_err().to_string();
    assert!(text.contains("4294967295 entries"), "{text}");
    let mut other = small();
    *other.get_mut(28).unwrap() = if cfg!(target_endian = "little") { 3 } else { 2 };
    assert!(matches!(read(&other), Err(CacheError::ByteOrder(_))));
    let mut outside = small();
    outside.get_mut(52..56).unwrap().fill(0xff);
    assert_eq!(read(&outside), Err(CacheError::String { entry: 0, offset: u32::MAX }));
}

#[test]
fn every_truncation() {
    for whole in [small(), both()] {
        assert!(read(&whole).is_ok());
        for length in 0..whole.len() {
            let bytes = whole.get(..length).unwrap();
            let _ = (read(bytes), hwcaps(bytes));
        }
    }
    for length in (0..COMPAT.len()).step_by(997) {
        let bytes = COMPAT.get(..length).unwrap();
        let _ = (read(bytes), hwcaps(bytes));
    }
}

#[test]
fn many_entries_with_one_long_string_are_a_bomb() {
    let long = format!("/{}", "a".repeat(4000));
    let mut bytes = write(&[entry("a", &long, 0)]);
    let row = bytes.get(48..72).unwrap().to_vec();
    let string = bytes.split_off(72);
    let count = 100_000_u32;
    bytes.get_mut(20..24).unwrap().copy_from_slice(&count.to_ne_bytes());
    for _ in 1..count {
        bytes.extend(&row);
    }
    let at = u32::try_from(bytes.len()).unwrap();
    for entry in 0..count as usize {
        let row = bytes.get_mut(48 + entry * 24..).unwrap();
        row.get_mut(4..8).unwrap().copy_from_slice(&at.to_ne_bytes());
        row.get_mut(8..12).unwrap().copy_from_slice(&at.to_ne_bytes());
    }
    bytes.extend(string);
    assert_eq!(read(&bytes), Err(CacheError::Bomb));
}

#[test]
fn what_the_format_cannot_hold_is_left_out() {
    let fine = entry("liba.so", "/liba.so", 0);
    let odd = [entry("a\0b", "/a", 0), entry("a", "/\0", 0), entry("a", &"b".repeat(4096), 0), fine.clone()];
    assert_eq!(read(&write(&odd)), Ok(vec![fine]));
}

prop_compose! {
    fn any_entry()(
        name in "(lib)?[a-z0-9.+_é-]{0,8}(\\.so\\.[0-9]{0,12})?",
        folder in "/[a-z0-9/]{0,8}",
        own in proptest::option::of("[^\0]{0,12}"),
        flags in prop_oneof![Just(NATIVE), any::<u32>()],
        hwcap in prop_oneof![Just(0), Just(1 << 62), any::<u64>()],
        os_version in any::<u32>(),
    ) -> Entry {
        let path = own.unwrap_or_else(|| format!("{folder}{name}"));
        Entry { name, path, flags, hwcap, os_version }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        mut entries in proptest::collection::vec(any_entry(), 0..40),
        names in proptest::collection::vec("[a-z0-9-]{1,9}", 0..4),
    ) {
        let bytes = write_with_hwcaps(&entries, &names);
        let mut again = read(&bytes).unwrap();
        prop_assert_eq!(write_with_hwcaps(&again, &names), bytes.clone(), "written in order");
        prop_assert_eq!(hwcaps(&bytes), names);
        entries.sort_by_key(|entry| format!("{entry:?}"));
        again.sort_by_key(|entry| format!("{entry:?}"));
        prop_assert_eq!(again, entries);
    }

    #[test]
    fn flipped_bytes(flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for mut bytes in [small(), both(), COMPAT.clone()] {
            for (at, value) in &flips {
                *at.get_mut(&mut bytes) = *value;
            }
            let _ = (read(&bytes), hwcaps(&bytes));
        }
    }

    #[test]
    fn any_bytes_behind_a_header(rest in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..3_usize) {
        let mut bytes = [b"glibc-ld.so.cache1.1".as_slice(), b"ld.so-1.7.0\0\x01\0\0\0", b""].get(kind).unwrap().to_vec();
        bytes.extend(rest);
        let _ = (read(&bytes), hwcaps(&bytes));
    }
}
