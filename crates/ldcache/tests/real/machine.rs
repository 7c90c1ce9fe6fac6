//! What the tests use of the machine: ldconfig, a C compiler (every Rust toolchain needs one), chroot.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the machine's ldconfig; Debian keeps it out of users' PATH.
pub(crate) fn ldconfig(args: &[&str]) -> String {
    let program = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// The lines that `ldconfig -p` prints for a cache, without the first (the count) and the last (who made it).
pub(crate) fn printed(cache: &Path) -> Vec<String> {
    let text = ldconfig(&["-p", "-C", cache.to_str().unwrap()]);
    text.lines().filter(|line| line.contains(" => ")).map(|line| line.trim().to_owned()).collect()
}

/// Name and path of such a line.
pub(crate) fn pair(line: &str) -> (String, String) {
    let (name, path) = line.split_once(" => ").unwrap();
    (name.split_once(" (").unwrap().0.to_owned(), path.to_owned())
}

/// Compiles C.
pub(crate) fn compile(source: &str, out: &Path, args: &[&str]) {
    let file = out.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let out = Command::new("cc").arg("-o").arg(out).arg(&file).args(args).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    std::fs::remove_file(file).unwrap();
}

/// A root with the machine's loader, its libc in `/opt/odd` (where no loader looks by itself) and `/try`, which opens the libraries
/// that its arguments name and prints what their `which` says.
pub(crate) fn root(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    for folder in ["opt/odd", "etc", "lib64", "lib"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let source = "#include <dlfcn.h>\n#include <stdio.h>\nint main(int c, char **v) {\n  for (int i = 1; i < c; i++) {\n\
        void *l = dlopen(v[i], RTLD_NOW);\n    if (!l) { puts(dlerror()); return 1; }\n\
        puts(((const char *(*)(void))dlsym(l, \"which\"))());\n  }\n  return 0;\n}\n";
    compile(source, &root.join("try"), &["-ldl"]);
    let loader = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"];
    let loader = loader.into_iter().find(|path| Path::new("/").join(path).exists()).unwrap();
    std::fs::copy(Path::new("/").join(loader), root.join(loader)).unwrap();
    let cache = std::fs::read("/etc/ld.so.cache").unwrap();
    let libc = ldcache::read(&cache).unwrap();
    let libc = libc.iter().find(|entry| entry.name == "libc.so.6" && ldcache::is_native(entry.flags)).unwrap();
    std::fs::copy(&libc.path, root.join("opt/odd/libc.so.6")).unwrap();
    root
}

/// A library whose `which` says `text`.
pub(crate) fn library(out: &Path, text: &str) {
    std::fs::create_dir_all(out.parent().unwrap()).unwrap();
    compile(&format!("const char *which(void) {{ return \"{text}\"; }}\n"), out, &["-shared", "-nostdlib", "-fPIC"]);
}

/// Runs a program in the root; `None`, with a message, where this user may not.
pub(crate) fn chroot(root: &Path, args: &[&str]) -> Option<Output> {
    let run = |program: &str, before: &[&str]| {
        let out = Command::new(program).args(before).arg(root).args(args).env_clear().output().unwrap();
        (out.status.code() != Some(125) && !String::from_utf8_lossy(&out.stderr).contains("unshare")).then_some(out)
    };
    let out = run("/usr/sbin/chroot", &[]).or_else(|| run("/usr/bin/unshare", &["-r", "/usr/sbin/chroot"]));
    if out.is_none() {
        eprintln!("skipped: this user may neither chroot nor make a user namespace");
    }
    out
}
