//! The one built library under the dynamic loaders of other C libraries: glibc from 2.31 to the newest, and musl.
//!
//! Programs say what the driver's functions returned, and end with 7: the library prints nothing and changes no exit code.
#![cfg(target_arch = "x86_64")]
use interposer_tests::Case;
use interposer_tests::foreign::{Libc, driver};
use std::process::{Command, Output};

/// Declarations of our own: headers would be those of the machine's libc.
const HEAD: &str = r"
int printf(const char *, ...);
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
void *dlvsym(void *, const char *, const char *);
typedef unsigned long word;
#define MIB(n) ((word)(n) << 20)
static void use(const char *way, int (*alloc)(word *, word), int (*free)(word), int (*info)(word *, word *)) {
    word first = 0, second = 0, rest = 0, all = 0;
    int a = alloc(&first, MIB(600)), b = alloc(&second, MIB(600)), i = info(&rest, &all);
    int f = free(first), c = alloc(&second, MIB(1024)), g = free(second);
    printf(way, a, b, i, (int)(rest >> 20), (int)(all >> 20), f, c, g);
}
";

/// Asks for each function by name, as frameworks do.
const ASKED: &str = r#"
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    if (!library) return 1;
    use("dlsym: %d %d, %d %d/%d, %d %d %d\n", dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"),
        dlsym(library, "cuMemGetInfo_v2"));
#ifdef VERSIONED
    use("dlvsym: %d %d, %d %d/%d, %d %d %d\n", dlvsym(library, "cuMemAlloc_v2", "FAKE_1"),
        dlvsym(library, "cuMemFree_v2", "FAKE_1"), dlvsym(library, "cuMemGetInfo_v2", "FAKE_1"));
    printf("NULL: %d\n", !dlvsym(library, "cuMemAlloc_v2", "FAKE_2"));
#endif
    printf("own: %d %d\n", dlsym(library, "cuInit") != 0, dlsym(library, "cuNothing") == 0);
    return 7;
}
"#;

/// Links libcuda, and before glibc 2.34 no library that has a `dlsym`.
const LINKED: &str = r#"
int cuMemAlloc_v2(word *, word), cuMemFree_v2(word), cuMemGetInfo_v2(word *, word *);
int main(int count, char **words) {
    use("linked: %d %d, %d %d/%d, %d %d %d\n", cuMemAlloc_v2, cuMemFree_v2, cuMemGetInfo_v2);
    return 7;
}
"#;

/// 600 MiB of 1,024, not 600 more, and the whole when the first went back.
const HELD: &str = "0 2, 0 424/1024, 0 0 0";

/// What it printed, when it ended with 7 and without a word on stderr.
fn said(libc: &Libc, mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let (out, errors) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr));
    assert_eq!((status.code(), &*errors), (Some(7), ""), "{}: {command:?}: {out}", libc.name);
    out
}

/// The loader started as a program, which is asked to load the interposer first.
fn preloaded(libc: &Libc, case: &Case, program: &std::path::Path) -> Command {
    let mut command = case.bare(&libc.loader);
    command.env_remove("LD_LIBRARY_PATH").env("GPU_QUOTA_DIR", case.dir()).arg("--preload").arg(case.library());
    command.args(["--library-path", &libc.path(case)]).arg(program);
    command
}

fn holds(libc: &Libc, versioned: bool) {
    let case = Case::default();
    let driver = driver(case.dir());
    let options: &[&str] = if versioned { &["-DVERSIONED"] } else { &[] };
    let asked = libc.program(case.dir(), "asked", &format!("{HEAD}{ASKED}"), options);
    let driver = driver.to_string_lossy();
    let linked = libc.program(case.dir(), "linked", &format!("{HEAD}{LINKED}"), &["-Wl,--as-needed", &driver]);

    let free = said(libc, libc.bare(&case, &asked));
    assert!(free.starts_with("dlsym: 0 0, 0 14930/16130, 0 0 0\n"), "{}: {free}", libc.name);

    let by_version = if versioned { format!("dlvsym: {HELD}\nNULL: 1\n") } else { String::new() };
    let asked_says = format!("dlsym: {HELD}\n{by_version}own: 1 1\n");
    let linked_says = format!("linked: {HELD}\n");
    for (program, says) in [(asked, asked_says), (linked, linked_says)] {
        assert_eq!(said(libc, libc.held(&case, &program)), says, "{} by LD_PRELOAD", libc.name);
        assert_eq!(said(libc, preloaded(libc, &case, &program)), says, "{} by --preload", libc.name);
    }
}

#[test]
fn glibc_of_bullseye() {
    holds(&Libc::bullseye(), true);
}

#[test]
fn glibc_of_bookworm() {
    holds(&Libc::bookworm(), true);
}

#[test]
fn glibc_of_trixie() {
    holds(&Libc::trixie(), true);
}

#[test]
fn glibc_of_sid() {
    match Libc::sid() {
        Some(libc) => holds(&libc, true),
        None => println!("left out: the mirror serves the pinned libc6 of sid no more"),
    }
}

#[test]
fn musl() {
    holds(&Libc::musl(), false);
}
