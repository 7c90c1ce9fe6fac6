//! What is added to which cache.
use crate::bundle::{Bundle, HOOK, LIB64, header, run};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;

#[test]
fn to_an_image_without_a_cache() {
    let bundle = Bundle::new();
    assert_eq!(bundle.hook(&LIB64), "");
    bundle.assert_added();
    let before = std::fs::metadata(bundle.cache()).unwrap().ino();
    assert_eq!(bundle.hook(&LIB64), "");
    assert_eq!(std::fs::metadata(bundle.cache()).unwrap().ino(), before, "what is there already is not written again");
}

#[test]
fn an_empty_cache_is_none() {
    let bundle = Bundle::new();
    std::fs::write(bundle.cache(), "").unwrap();
    assert_eq!(bundle.hook(&LIB64), "");
    bundle.assert_added();
}

#[test]
fn entries_of_the_image_stay_and_stay_first() {
    let bundle = Bundle::new();
    let machine = std::fs::read("/etc/ld.so.cache").unwrap();
    let mut entries = ldcache::read(&machine).unwrap();
    let compat = ldcache::Entry {
        name: "libcuda.so.1".to_owned(),
        path: "/opt/compat/libcuda.so.1".to_owned(),
        flags: ldcache::NATIVE,
        hwcap: 0,
        os_version: 0,
    };
    let stale = ldcache::Entry { path: "/usr/lib64/libcuda.so.1".to_owned(), os_version: 9, ..compat.clone() };
    entries.extend([compat.clone(), stale.clone()]);
    std::fs::write(bundle.cache(), ldcache::write_with_hwcaps(&entries, &ldcache::hwcaps(&machine))).unwrap();
    assert_eq!(bundle.hook(&LIB64), "");
    let mut after = ldcache::read(&std::fs::read(bundle.cache()).unwrap()).unwrap();
    let cuda: Vec<_> = after.iter().filter(|entry| entry.name == "libcuda.so.1").cloned().collect();
    assert_eq!(cuda, [compat, ldcache::Entry { os_version: 0, ..stale }]);
    after.retain(|entry| entry.name != "libcuda.so.1");
    assert_eq!(after, ldcache::read(&machine).unwrap());
    let printed = bundle.printed();
    let ours = printed.iter().filter(|line| line.starts_with("libcuda.so.1 ")).count();
    assert_eq!((ours, printed.len()), (2, after.len() + 2));
}

#[test]
fn only_libraries_of_this_machine() {
    let bundle = Bundle::new();
    for name in ["libnvidia-ml.so.1", "libnvcuvid.so.1", "libcuda.a", "cuda.so", "libother.so.1"] {
        bundle.library(&format!("usr/lib64/{name}"));
    }
    for (at, wrong) in [(4, 1), (18, 3), (16, 2), (0, b'#')] {
        let mut bytes = header();
        *bytes.get_mut(at).unwrap() = wrong;
        std::fs::write(bundle.at(&format!("usr/lib64/libcuda-{at}.so")), bytes).unwrap();
    }
    std::fs::write(bundle.at("usr/lib64/libcuda-short.so"), "\x7fELF").unwrap();
    std::fs::create_dir(bundle.at("usr/lib64/libcuda-folder.so")).unwrap();
    let args = ["update", "--folder", "/usr/lib64/", "--prefix", "libcuda", "--prefix", "libnv"];
    assert_eq!(bundle.hook(&args), "");
    let line = |name| format!("{name} /usr/lib64/{name}");
    assert_eq!(bundle.printed(), ["libnvidia-ml.so.1", "libnvcuvid.so.1", "libcuda.so.1"].map(line));
}

#[test]
fn folders_and_links_as_the_container_sees_them() {
    let bundle = Bundle::new();
    symlink("/usr/lib64", bundle.at("lib64")).unwrap();
    symlink("../lib64/libcuda.so.1", bundle.at("usr/lib64/libcuda.so")).unwrap();
    symlink("/usr/lib64/libcuda.so.1", bundle.at("usr/lib64/libcuda-absolute.so")).unwrap();
    bundle.library("opt/libcuda.so.1");
    let args = ["update", "--folder", "/lib64", "--folder", "/usr/lib64", "--folder", "/none", "--folder", "/opt"];
    assert_eq!(bundle.hook(&args), "");
    let lines = bundle.printed();
    assert_eq!(
        lines,
        [
            "libcuda.so.1 /lib64/libcuda.so.1",
            "libcuda.so.1 /opt/libcuda.so.1",
            "libcuda.so /lib64/libcuda.so",
            "libcuda-absolute.so /lib64/libcuda-absolute.so"
        ]
    );
}

#[test]
fn nothing_to_add_changes_nothing() {
    let bundle = Bundle::new();
    assert_eq!(bundle.hook(&["update", "--folder", "/none"]), "");
    assert!(!bundle.cache().exists());
}

#[test]
fn the_environment_counts_for_nothing() {
    let bundle = Bundle::new();
    let odd =
        [("RUST_BACKTRACE", "full"), ("RUST_MIN_STACK", "1"), ("TMPDIR", "/none"), ("PATH", "/none"), ("HOME", "")];
    assert_eq!(run(Command::new(HOOK).args(LIB64).env_clear().envs(odd), bundle.state().as_bytes()), "");
    bundle.assert_added();
}
