//! Hostile images: nothing outside the root is read or written, nothing hangs, and the memory is bounded.
use crate::bundle::{Bundle, HOOK, LIB64, header, run};
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// A folder outside the root with a cache that must stay as it is.
fn outside(bundle: &Bundle) -> std::path::PathBuf {
    let host = bundle.dir.path().join("host");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("ld.so.cache"), ldcache::write(&[])).unwrap();
    host
}

fn assert_untouched(host: &Path) {
    assert_eq!(std::fs::read(host.join("ld.so.cache")).unwrap(), ldcache::write(&[]));
    assert_eq!(std::fs::read_dir(host).unwrap().count(), 1);
}

#[test]
fn etc_leads_out() {
    for absolute in [true, false] {
        let bundle = Bundle::new();
        let host = outside(&bundle);
        std::fs::remove_dir(bundle.at("etc")).unwrap();
        let target = if absolute { host.as_path() } else { Path::new("../../../host") };
        symlink(target, bundle.at("etc")).unwrap();
        assert!(bundle.hook(&LIB64).contains("cannot open the image's folder /etc: No such file"));
        assert_untouched(&host);
    }
}

#[test]
fn etc_is_a_magic_link_or_no_folder() {
    let bundle = Bundle::new();
    std::fs::remove_dir(bundle.at("etc")).unwrap();
    assert!(bundle.hook(&LIB64).contains("cannot open the image's folder /etc"));
    symlink("etc", bundle.at("etc")).unwrap();
    assert!(bundle.hook(&LIB64).contains("symbolic links"));
    std::fs::remove_file(bundle.at("etc")).unwrap();
    mkfifoat(CWD, bundle.at("etc"), Mode::RUSR).unwrap();
    assert!(bundle.hook(&LIB64).contains("Not a directory"));
}

#[test]
fn the_cache_is_a_link() {
    let bundle = Bundle::new();
    let host = outside(&bundle);
    std::fs::write(bundle.at("etc/passwd"), "root:x:0:0").unwrap();
    for target in [host.join("ld.so.cache"), "/etc/passwd".into(), "passwd".into(), "/none".into()] {
        symlink(&target, bundle.cache()).unwrap();
        let said = bundle.hook(&LIB64);
        assert!(said.contains("not a regular file but a Symlink"), "{said}");
        assert_eq!(std::fs::read_link(bundle.cache()).unwrap(), target);
        std::fs::remove_file(bundle.cache()).unwrap();
    }
    assert_eq!(std::fs::read(bundle.at("etc/passwd")).unwrap(), b"root:x:0:0");
    assert_untouched(&host);
}

#[test]
fn the_cache_is_another_name_of_a_file_outside() {
    let bundle = Bundle::new();
    let host = outside(&bundle);
    std::fs::hard_link(host.join("ld.so.cache"), bundle.cache()).unwrap();
    assert_eq!(bundle.hook(&LIB64), "");
    assert_untouched(&host);
    bundle.assert_added();
}

#[test]
fn the_cache_is_no_regular_file() {
    let bundle = Bundle::new();
    mkfifoat(CWD, bundle.cache(), Mode::RUSR | Mode::WUSR).unwrap();
    assert!(bundle.hook(&LIB64).contains("not a regular file but a Fifo"));
    std::fs::remove_file(bundle.cache()).unwrap();
    std::fs::create_dir(bundle.cache()).unwrap();
    assert!(bundle.hook(&LIB64).contains("not a regular file but a Directory"));
    std::fs::remove_dir(bundle.cache()).unwrap();
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(CWD, bundle.cache(), FileType::CharacterDevice, Mode::RUSR, zero).is_err() {
        eprintln!("skipped the device: this user may not make one");
        return;
    }
    assert!(bundle.hook(&LIB64).contains("not a regular file but a CharacterDevice"));
}

#[test]
fn the_cache_is_huge_or_broken() {
    let bundle = Bundle::new();
    let file = File::create(bundle.cache()).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(&ldcache::write(&[]), 0).unwrap();
    assert!(bundle.hook(&LIB64).contains("more than 1048576 bytes"));
    for bytes in [b"root:x:0:0".as_slice(), b"glibc-ld.so.cache1.1", b"ld.so-1.7.0\0\xff\xff\xff\xff"] {
        std::fs::write(bundle.cache(), bytes).unwrap();
        assert!(bundle.hook(&LIB64).contains("cannot be used"));
        assert_eq!(std::fs::read(bundle.cache()).unwrap(), bytes);
    }
}

/// Nearly as many entries as the bound lets in. (The address space also holds the program and two stacks.)
#[test]
fn the_largest_cache_in_little_memory() {
    let bundle = Bundle::new();
    let entry = |number| ldcache::Entry {
        name: format!("lib{number}.so"),
        path: format!("/a/lib{number}.so"),
        flags: ldcache::NATIVE,
        hwcap: 0,
        os_version: 0,
    };
    let entries: Vec<_> = (0..24_000).map(entry).collect();
    let bytes = ldcache::write(&entries);
    assert!((900_000..1 << 20).contains(&bytes.len()));
    std::fs::write(bundle.cache(), bytes).unwrap();
    let limited = "ulimit -v 49152; exec \"$0\" update --folder /usr/lib64";
    assert_eq!(run(Command::new("sh").args(["-c", limited, HOOK]), bundle.state().as_bytes()), "");
    let after = ldcache::read(&std::fs::read(bundle.cache()).unwrap()).unwrap();
    assert_eq!(after.len(), entries.len() + 1);
}

#[test]
fn the_folder_leads_out() {
    let bundle = Bundle::new();
    let host = outside(&bundle);
    std::fs::write(host.join("libhost.so"), header()).unwrap();
    symlink(&host, bundle.at("usr/lib")).unwrap();
    symlink("../../../host", bundle.at("usr/up")).unwrap();
    symlink("loop", bundle.at("usr/loop")).unwrap();
    symlink(host.join("libhost.so"), bundle.at("usr/lib64/libabsolute.so")).unwrap();
    symlink("../../../host/libhost.so", bundle.at("usr/lib64/libup.so")).unwrap();
    let mut args = LIB64.to_vec();
    args.extend(["--folder", "/usr/lib", "--folder", "/usr/up", "--folder", "/usr/loop", "--folder", "/../../host"]);
    let said = bundle.hook(&args);
    assert!(said.contains("folder /usr/loop is left out"), "{said}");
    bundle.assert_added();
}

#[test]
fn files_in_the_folder_that_would_hang_or_never_end() {
    let bundle = Bundle::new();
    mkfifoat(CWD, bundle.at("usr/lib64/libfifo.so"), Mode::RUSR | Mode::WUSR).unwrap();
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(CWD, bundle.at("usr/lib64/libzero.so"), FileType::CharacterDevice, Mode::RUSR, zero).is_err() {
        eprintln!("skipped the device: this user may not make one");
    }
    let file = File::create(bundle.at("usr/lib64/libhuge.so")).unwrap();
    file.set_len(1 << 40).unwrap();
    std::fs::write(bundle.at("usr/lib64/libline.so\nlibc.so.6 (libc6) => x"), header()).unwrap();
    assert_eq!(bundle.hook(&LIB64), "");
    bundle.assert_added();
}

#[test]
fn more_files_than_are_looked_at() {
    let bundle = Bundle::new();
    for number in 0..100_001 {
        File::create(bundle.at(&format!("usr/lib64/{number}"))).unwrap();
    }
    for number in 0..4097 {
        bundle.library(&format!("opt/lib{number}.so"));
    }
    let said = bundle.hook(&["update", "--folder", "/usr/lib64", "--folder", "/opt"]);
    assert_eq!(
        said,
        "folder /usr/lib64 has too many files; some are left out; folder /opt has too many files; some are left out"
    );
    let added = ldcache::read(&std::fs::read(bundle.cache()).unwrap()).unwrap();
    assert_eq!(added.iter().filter(|entry| entry.path.starts_with("/opt/")).count(), 4096);
}

#[test]
fn what_stands_where_the_new_file_would() {
    let bundle = Bundle::new();
    let host = outside(&bundle);
    let new = bundle.at("etc/.ld.so.cache.gpu-quota");
    symlink(host.join("ld.so.cache"), &new).unwrap();
    assert_eq!(bundle.hook(&LIB64), "");
    bundle.assert_added();
    assert_untouched(&host);
    std::fs::remove_file(bundle.cache()).unwrap();
    std::fs::create_dir_all(new.join("full")).unwrap();
    assert!(bundle.hook(&LIB64).contains("cannot write the container's /etc/ld.so.cache"));
    assert!(!bundle.cache().exists());
}

/// Mounts as root in a namespace of its own, and runs the hook in it; `None`, with a message, where this user may not.
fn mounted(bundle: &Bundle, mounts: &str) -> Option<String> {
    let root = bundle.at("");
    let may = Command::new("unshare").args(["-m", "sh", "-c", "mount -t tmpfs none /mnt"]).output().unwrap();
    if !may.status.success() {
        eprintln!("skipped: this user may not mount");
        return None;
    }
    let script = format!("cd '{}' && {mounts} && exec '{HOOK}' update --folder /usr/lib64", root.display());
    Some(run(Command::new("unshare").args(["-m", "sh", "-c", &script]), bundle.state().as_bytes()))
}

#[test]
fn a_volume_is_not_the_image() {
    let bundle = Bundle::new();
    let host = outside(&bundle);
    let Some(said) = mounted(&bundle, "mount --bind ../host etc") else { return };
    assert!(said.contains("not a volume"), "{said}");
    assert_untouched(&host);
    std::fs::write(bundle.cache(), "").unwrap();
    let said = mounted(&bundle, "mount --bind ../host/ld.so.cache etc/ld.so.cache").unwrap();
    assert!(said.contains("cannot read the image's /etc/ld.so.cache"), "{said}");
    std::fs::create_dir(bundle.at("volume")).unwrap();
    std::fs::rename(bundle.at("etc"), bundle.at("real")).unwrap();
    symlink("/volume", bundle.at("etc")).unwrap();
    let said = mounted(&bundle, "mount --bind ../host volume").unwrap();
    assert!(said.contains("not a volume"), "{said}");
    assert_untouched(&host);
}

#[test]
fn libraries_are_mounts_and_the_root_may_be_read_only() {
    let bundle = Bundle::new();
    std::fs::write(bundle.at("usr/lib64/libcuda.so.1"), "").unwrap();
    std::fs::write(bundle.dir.path().join("driver"), header()).unwrap();
    let bind = "mount --bind ../driver usr/lib64/libcuda.so.1";
    let root = bundle.at("");
    let inside = format!("mount --rbind . . && cd '{}' && {bind}", root.display());
    let Some(said) = mounted(&bundle, &inside) else { return };
    assert_eq!(said, "");
    bundle.assert_added();
    std::fs::remove_file(bundle.cache()).unwrap();
    let said = mounted(&bundle, &format!("{inside} && mount -o remount,ro,bind .")).unwrap();
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(!bundle.cache().exists());
}
