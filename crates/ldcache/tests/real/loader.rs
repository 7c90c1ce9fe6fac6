//! The machine's own loader finds libraries that only our cache names.
use crate::machine::{chroot, ldconfig, library, root};
use ldcache::{Entry, NATIVE, hwcaps, read, write, write_with_hwcaps};

#[test]
fn libraries_that_only_our_cache_names() {
    let dir = tempfile::tempdir().unwrap();
    let root = root(dir.path());
    let mut names: Vec<String> = (0..20).map(|number| format!("libn.so.{number}")).collect();
    names.extend(
        ["liba.so.1", "lib1a.so", "lib-x.so", "lib_x.so", "libz.so", "lib.so", "libA.so.09"].map(str::to_owned),
    );
    let one = root.join("opt/odd/one.so");
    library(&one, "here");
    for name in &names {
        std::fs::copy(&one, root.join("opt/odd").join(name)).unwrap();
    }
    let args: Vec<&str> = ["/try"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let Some(out) = chroot(&root, &args) else { return };
    assert!(!out.status.success(), "without a cache not even libc is found");
    let entry = |name: &str| Entry {
        name: name.to_owned(),
        path: format!("/opt/odd/{name}"),
        flags: NATIVE,
        hwcap: 0,
        os_version: 0,
    };
    let entries: Vec<Entry> = names.iter().map(String::as_str).chain(["libc.so.6"]).map(entry).collect();
    std::fs::write(root.join("etc/ld.so.cache"), write(&entries)).unwrap();
    let out = chroot(&root, &args).unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "here\n".repeat(names.len()));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_the_processor_can_do_is_still_preferred() {
    let dir = tempfile::tempdir().unwrap();
    let root = root(dir.path());
    library(&root.join("opt/odd/liba.so.2"), "any");
    library(&root.join("opt/odd/glibc-hwcaps/x86-64-v2/liba.so.2"), "v2");
    std::fs::write(root.join("etc/ld.so.conf"), "/opt/odd\n").unwrap();
    ldconfig(&["-X", "-r", root.to_str().unwrap(), "-C", "/etc/ld.so.cache"]);
    let cache = root.join("etc/ld.so.cache");
    let bytes = std::fs::read(&cache).unwrap();
    let run = || chroot(&root, &["/try", "liba.so.2"]).map(|out| String::from_utf8(out.stdout).unwrap());
    let Some(theirs) = run() else { return };
    let entries = read(&bytes).unwrap();
    std::fs::write(&cache, write_with_hwcaps(&entries, &hwcaps(&bytes))).unwrap();
    assert_eq!(run().unwrap(), theirs);
    std::fs::write(&cache, write(&entries)).unwrap();
    assert_eq!(run().unwrap(), "any\n", "without the section the loader takes the plain one");
    assert_eq!(theirs, "v2\n", "every x86-64 machine since 2009 can do this");
}
