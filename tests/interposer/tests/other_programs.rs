//! Programs into which the library cannot be loaded, or only with care, in a root that lists it in `/etc/ld.so.preload` as a container does: programs
//! of 32 bits, static ones, ones of musl, and one that changes its user. All start as before, and end as before.
//!
//! Needs root, for the root's sake: elsewhere each test says that it was left out.
#![cfg(target_arch = "x86_64")]
use interposer_tests::foreign::{Libc, driver};
use interposer_tests::{Case, parts};
use quota::paths::{IN_LEDGER, IN_LIBRARY, IN_LIMITS, IN_PRELOAD};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Somebody without any right.
const NOBODY: &str = "65534:65534";

/// A root folder with the interposer at its place in a container, and the driver where glibc looks for libraries.
struct Root {
    dir: PathBuf,
    /// Holds the folder.
    case: Case,
}

impl Root {
    /// `None` where this user may not use one.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("left out: only root can give a program another root folder");
            return None;
        }
        let case = Case::default();
        let root = Self { dir: case.dir().join("root"), case };
        let libc = parts::cache().join("guest-root/lib/x86_64-linux-gnu");
        root.put(&libc.join("ld-linux-x86-64.so.2"), "/lib64/ld-linux-x86-64.so.2");
        root.put(&libc.join("libc.so.6"), "/lib/x86_64-linux-gnu/libc.so.6");
        root.put(&driver(root.case.dir()), "/lib/x86_64-linux-gnu/libcuda.so.1");
        root.put(&root.case.limits(), IN_LIMITS);
        root.put(&root.case.ledger(), IN_LEDGER);
        root.put(&root.case.library(), IN_LIBRARY);
        Some(root)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path.trim_start_matches('/'))
    }

    /// Copies a file, with its mode, to a path in the root.
    fn put(&self, from: &Path, path: &str) {
        let to = self.at(path);
        fs::create_dir_all(to.parent().expect("a path in the root")).expect("the root can be written");
        fs::copy(from, to).expect("the root can be written");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("chroot");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").arg(format!("--userspec={NOBODY}"));
        command.arg(&self.dir).args(arguments).output().expect("coreutils has chroot")
    }

    /// What a program does without and with the interposer in the list.
    fn both(&self, arguments: &[&str]) -> (Output, Output) {
        let list = self.at(IN_PRELOAD);
        fs::create_dir_all(list.parent().expect("a path in the root")).expect("the root can be written");
        let _ = fs::remove_file(&list);
        let bare = self.run(arguments);
        fs::write(&list, format!("{IN_LIBRARY}\n")).expect("the root can be written");
        (bare, self.run(arguments))
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Asks for 600 MiB twice, says who it is, and ends with 7.
const PROGRAM: &str = r#"
int printf(const char *, ...);
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
unsigned geteuid(void), getuid(void);
char *getenv(const char *);
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    if (!library) return 1;
    int (*alloc)(unsigned long *, unsigned long) = dlsym(library, "cuMemAlloc_v2");
    unsigned long at;
    int a = alloc(&at, 600ul << 20), b = alloc(&at, 600ul << 20);
    printf("%d %d, user %u as %u\n", a, b, getuid(), geteuid());
    return 7;
}
"#;

#[test]
fn an_ordinary_program_is_held_by_the_list() {
    let Some(root) = Root::new() else { return };
    let libc = Libc::bookworm().at("/lib64/ld-linux-x86-64.so.2");
    root.put(&libc.program(root.case.dir(), "program", PROGRAM, &[]), "/program");
    let (bare, held) = root.both(&["/program"]);
    assert_eq!(
        (bare.status.code(), text(&bare.stdout), text(&bare.stderr)),
        (Some(7), "0 0, user 65534 as 65534\n", "")
    );
    assert_eq!(
        (held.status.code(), text(&held.stdout), text(&held.stderr)),
        (Some(7), "0 2, user 65534 as 65534\n", "")
    );
}

#[test]
fn a_program_that_changes_its_user_is_held() {
    let Some(root) = Root::new() else { return };
    let libc = Libc::bookworm().at("/lib64/ld-linux-x86-64.so.2");
    root.put(&libc.program(root.case.dir(), "program", PROGRAM, &[]), "/program");
    fs::set_permissions(root.at("/program"), Permissions::from_mode(0o4755)).unwrap();
    let (bare, held) = root.both(&["/program"]);
    if text(&bare.stdout).ends_with("as 65534\n") {
        println!("left out: programs below {} do not change their user (nosuid)", root.dir.display());
        return;
    }
    assert_eq!((bare.status.code(), text(&bare.stdout), text(&bare.stderr)), (Some(7), "0 0, user 65534 as 0\n", ""));
    assert_eq!((held.status.code(), text(&held.stdout), text(&held.stderr)), (Some(7), "0 2, user 65534 as 0\n", ""));
}

#[test]
fn a_static_program_does_not_notice() {
    let Some(root) = Root::new() else { return };
    root.put(&parts::cache().join("busybox/bin/busybox"), "/busybox");
    let (bare, held) = root.both(&["/busybox", "sh", "-c", "/busybox id -u; /busybox echo words; exit 7"]);
    assert_eq!((bare.status.code(), text(&bare.stdout)), (Some(7), "65534\nwords\n"));
    assert_eq!(held, bare);
}

/// musl reads no such list, so its programs are as they were, and the quota is not held in them: only `LD_PRELOAD` loads the library there.
#[test]
fn a_program_of_musl_does_not_notice_the_list() {
    let Some(root) = Root::new() else { return };
    let libc = Libc::musl().at("/lib/ld-musl-x86_64.so.1");
    root.put(&libc.loader, "/lib/ld-musl-x86_64.so.1");
    root.put(&root.case.dir().join("libcuda.so.1"), "/lib/libcuda.so.1");
    root.put(&libc.program(root.case.dir(), "program", PROGRAM, &[]), "/program");
    let (bare, held) = root.both(&["/program"]);
    assert_eq!(
        (bare.status.code(), text(&bare.stdout), text(&bare.stderr)),
        (Some(7), "0 0, user 65534 as 65534\n", "")
    );
    assert_eq!(held, bare);
}

/// A word on stdout and 7, by system calls of 32 bits alone: the compiler's own libraries of that kind are in no standard installation.
const SMALL: &str = r#"
#ifdef DYNAMIC
int printf(const char *, ...);
void exit(int);
void _start(void) { __asm__("and $-16, %esp"); printf("small %d\n", (int)sizeof(void *)); exit(7); }
#else
static int call(int number, int a, const void *b, int c) {
    __asm__ volatile("int $0x80" : "+a"(number) : "b"(a), "c"(b), "d"(c) : "memory");
    return number;
}
void _start(void) { call(4, 1, "small 4\n", 8); call(1, 7, 0, 0); }
#endif
"#;

/// A program of 32 bits, put into the root; `false` where this compiler or kernel has none of that.
fn small(root: &Root, options: &[&str]) -> bool {
    let (from, to) = (root.case.dir().join("small.c"), root.case.dir().join("small"));
    fs::write(&from, SMALL).expect("the root can be written");
    let always = ["-m32", "-nostdlib", "-fno-pic", "-no-pie", "-fno-stack-protector", "-o"];
    let done = Command::new("cc").args(always).arg(&to).arg(&from).args(options).output().expect("a C compiler");
    if !done.status.success() {
        println!("left out: this C compiler makes no programs of 32 bits: {}", text(&done.stderr));
        return false;
    }
    root.put(&to, "/small");
    let runs = root.run(&["/small"]).status.code() == Some(7);
    if !runs {
        println!("left out: this kernel runs no programs of 32 bits");
    }
    runs
}

#[test]
fn a_static_program_of_32_bits_does_not_notice() {
    let Some(root) = Root::new() else { return };
    if small(&root, &["-static"]) {
        let (bare, held) = root.both(&["/small"]);
        assert_eq!((bare.status.code(), text(&bare.stdout), text(&bare.stderr)), (Some(7), "small 4\n", ""));
        assert_eq!(held, bare);
    }
}

/// The loader of 32 bits cannot use the library, says so in one line on stderr, and goes on: with one list for all loaders that cannot be helped.
#[test]
fn a_dynamic_program_of_32_bits_runs_with_a_line_on_stderr() {
    let Some(root) = Root::new() else { return };
    let libc = parts::cache().join("libc/i386/lib/i386-linux-gnu");
    root.put(&libc.join("ld-linux.so.2"), "/lib/ld-linux.so.2");
    root.put(&libc.join("libc.so.6"), "/lib/i386-linux-gnu/libc.so.6");
    let (path, libc) = (format!("-Wl,-rpath-link={}", libc.display()), libc.join("libc.so.6"));
    let options = ["-DDYNAMIC", "-Wl,--dynamic-linker=/lib/ld-linux.so.2", &path, &libc.to_string_lossy()];
    if small(&root, &options) {
        let (bare, held) = root.both(&["/small"]);
        assert_eq!((bare.status.code(), text(&bare.stdout), text(&bare.stderr)), (Some(7), "small 4\n", ""));
        assert_eq!((held.status.code(), text(&held.stdout)), (Some(7), "small 4\n"));
        let line = format!(
            "ERROR: ld.so: object '{IN_LIBRARY}' from {IN_PRELOAD} cannot be preloaded (wrong ELF class: ELFCLASS64): ignored.\n"
        );
        assert_eq!(text(&held.stderr), line);
    }
}
