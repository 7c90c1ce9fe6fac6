//! The machine's own loader, in a root of its own, finds a library outside its default folders through the cache.
use crate::bundle::Bundle;
use std::path::Path;
use std::process::{Command, Output};

/// Compiles C; every Rust toolchain needs a C compiler to link.
fn compile(source: &str, out: &Path, args: &[&str]) {
    std::fs::create_dir_all(out.parent().unwrap()).unwrap();
    let file = out.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let done = Command::new("cc").arg("-o").arg(out).arg(&file).args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    std::fs::remove_file(file).unwrap();
}

/// Runs a program in the root; `None`, with a message, where this user may not.
fn chroot(root: &Path, program: &str) -> Option<Output> {
    let run = |by: &str, before: &[&str]| {
        let out = Command::new(by).args(before).arg(root).arg(program).env_clear().output().unwrap();
        (out.status.code() != Some(125) && !String::from_utf8_lossy(&out.stderr).contains("unshare")).then_some(out)
    };
    let out = run("/usr/sbin/chroot", &[]).or_else(|| run("/usr/bin/unshare", &["-r", "/usr/sbin/chroot"]));
    if out.is_none() {
        eprintln!("skipped: this user may neither chroot nor make a user namespace");
    }
    out
}

#[test]
fn a_library_outside_the_default_folders() {
    let bundle = Bundle::new();
    compile(
        "int answer(void) { return 42; }\n",
        &bundle.at("opt/driver/libanswer.so.1"),
        &["-shared", "-nostdlib", "-fPIC", "-Wl,-soname,libanswer.so.1"],
    );
    let library = bundle.at("opt/driver/libanswer.so.1");
    let link = [library.to_str().unwrap()];
    compile("int answer(void);\nint main(void) { return answer(); }\n", &bundle.at("ask"), &link);
    let loader = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"];
    let loader = loader.into_iter().find(|path| Path::new("/").join(path).exists()).unwrap();
    std::fs::create_dir_all(bundle.at(loader).parent().unwrap()).unwrap();
    std::fs::copy(Path::new("/").join(loader), bundle.at(loader)).unwrap();
    let machine = ldcache::read(&std::fs::read("/etc/ld.so.cache").unwrap()).unwrap();
    let libc = machine.iter().find(|entry| entry.name == "libc.so.6" && ldcache::is_native(entry.flags)).unwrap();
    std::fs::create_dir_all(bundle.at("opt/libc")).unwrap();
    std::fs::copy(&libc.path, bundle.at("opt/libc/libc.so.6")).unwrap();
    let Some(before) = chroot(&bundle.at(""), "/ask") else { return };
    assert_eq!(before.status.code(), Some(127), "{before:?}");
    assert_eq!(
        bundle.hook(&["update", "--folder", "/opt/driver", "--folder", "/opt/libc", "--folder", "/usr/lib64"]),
        ""
    );
    let after = chroot(&bundle.at(""), "/ask").unwrap();
    assert_eq!(after.status.code(), Some(42), "{after:?}");
    assert!(bundle.printed().contains(&"libanswer.so.1 /opt/driver/libanswer.so.1".to_owned()));
}
