//! The interposer beside other libraries that stand between a program and its C library: allocators, sanitizers, and others that wrap `dlsym`.
//!
//! What a container preloads by itself comes before us (the loader takes `LD_PRELOAD` before `/etc/ld.so.preload`); what its programs link, after us.
#[cfg(target_arch = "x86_64")]
use interposer_tests::foreign::Libc;
use interposer_tests::foreign::{compiled, driver};
use interposer_tests::{Case, output, parts};
use std::path::{Path, PathBuf};
use std::process::Command;

/// 600 MiB of 1,024, not 600 more, and the whole when the first went back.
const HELD: &str = "0 2 0 0\n";
/// As the driver alone answers.
const BARE: &str = "0 0 0 0\n";

const HEAD: &str = r#"
int printf(const char *, ...);
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
void *malloc(unsigned long);
void free(void *);
typedef unsigned long word;
static void use(int (*alloc)(word *, word), int (*give)(word)) {
    word first = 0, second = 0;
    int a = alloc(&first, 600ul << 20), b = alloc(&second, 600ul << 20);
    int c = give(first), d = alloc(&second, 1024ul << 20);
    printf("%d %d %d %d\n", a, b, c, d);
}
"#;

/// Asks for the driver's functions by name.
const ASKED: &str = r#"
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    use(dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"));
    return 0;
}
"#;

/// Links the driver.
const LINKED: &str = r"
int cuMemAlloc_v2(word *, word), cuMemFree_v2(word);
int main(int count, char **words) {
    use(cuMemAlloc_v2, cuMemFree_v2);
    return 0;
}
";

/// A case with a driver of C.
fn case() -> Case {
    let case = Case::default();
    let _ = driver(case.dir());
    case
}

fn program(case: &Case, source: &str, options: &[&str]) -> PathBuf {
    compiled(case.dir(), "program", &format!("{HEAD}{source}"), options).expect("a C compiler")
}

fn linked(case: &Case) -> PathBuf {
    program(case, LINKED, &[&case.dir().join("libcuda.so.1").to_string_lossy()])
}

/// The program with these libraries preloaded.
fn with(case: &Case, program: &Path, preload: &[&Path]) -> Command {
    let list: Vec<String> = preload.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let mut command = case.held(program);
    command.env("LD_LIBRARY_PATH", case.dir()).env("LD_PRELOAD", list.join(":"));
    command
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_allocator_before_and_after() {
    let case = case();
    // The allocator needs a C++ library, so all of it runs on the fetched root.
    let libc = Libc::bookworm();
    let source = r#"
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    use(dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"));
    for (int i = 0; i < 10000; i++) free(malloc(i));
    word version = 0, length = sizeof(char *);
    int (*ask)(const char *, void *, word *, void *, word) = dlsym(0, "mallctl");
    printf("%d\n", ask ? ask("version", &version, &length, 0, 0) : -1);
    return 0;
}
"#;
    let program = libc.program(case.dir(), "program", &format!("{HEAD}{source}"), &[]);
    let jemalloc = parts::cache().join("jemalloc/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    let path = format!("{}:{}", libc.path(&case), parts::cache().join("guest-root/usr/lib/x86_64-linux-gnu").display());
    let library = case.library();
    for (list, says) in [
        (vec![&*jemalloc], format!("{BARE}0\n")),
        (vec![&*library], format!("{HELD}-1\n")),
        (vec![&*jemalloc, &*library], format!("{HELD}0\n")),
        (vec![&*library, &*jemalloc], format!("{HELD}0\n")),
    ] {
        let mut command = with(&case, &program, &list);
        assert_eq!(output(command.env("LD_LIBRARY_PATH", &path)), says, "{list:?}");
    }
}

/// Also does something wrong where it is told to.
const WRONG: &str = r#"
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    use(dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"));
    volatile char *memory = malloc(16);
    if (count > 1) memory[count + 14] = 1;
    free((void *)memory);
    return 0;
}
"#;

/// A program built with a sanitizer; none where the compiler has none.
fn sanitized(case: &Case, kind: &str) -> Option<PathBuf> {
    let found = compiled(case.dir(), "program", &format!("{HEAD}{WRONG}"), &[&format!("-fsanitize={kind}")]);
    if found.is_none() {
        println!("left out: this C compiler has no {kind} sanitizer");
    }
    found
}

#[test]
fn the_address_sanitizer() {
    let case = case();
    let Some(program) = sanitized(&case, "address") else { return };
    let library = case.library();
    let held = |preload: &[&Path]| {
        let mut command = with(&case, &program, preload);
        // It wants to be the first library of all, and looks for leaks with ptrace.
        command.env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0");
        command
    };
    assert_eq!(output(&mut held(&[])), BARE);
    assert_eq!(output(&mut held(&[&library])), HELD);
    let found = held(&[&library]).args(["1", "2"]).output().unwrap();
    let errors = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(1), "{errors}");
    assert!(errors.contains("heap-buffer-overflow"), "{errors}");
}

#[test]
fn the_thread_sanitizer() {
    let case = case();
    let Some(program) = sanitized(&case, "thread") else { panic!("an open fault is only seen where the sanitizer is") };
    assert_eq!(output(&mut with(&case, &program, &[])), BARE);
    assert_eq!(output(&mut with(&case, &program, &[&case.library()])), HELD);
}

/// A program with a `dl_iterate_phdr` of its own, as servers have that keep a copy of the loader's list.
const ITERATES: &str = r#"
int dl_iterate_phdr(int (*visit)(void *, word, void *), void *data) {
    static int (*next)(int (*)(void *, word, void *), void *);
    if (!next) next = dlsym((void *)-1l, "dl_iterate_phdr");
    return next(visit, data);
}
"#;

#[test]
fn a_program_with_its_own_list_of_objects() {
    let case = case();
    let program = program(&case, &format!("{ITERATES}{ASKED}"), &["-rdynamic"]);
    assert_eq!(output(&mut with(&case, &program, &[])), BARE);
    assert_eq!(output(&mut with(&case, &program, &[&case.library()])), HELD);
}

/// Wraps `dlsym`, and hands out a function of its own for one of the driver's, as other libraries that watch the GPU do.
const WRAPS: &str = r#"
int strcmp(const char *, const char *);
void *dlvsym(void *, const char *, const char *);
typedef unsigned long word;
static int (*real)(word *, word);
int watched;
static int watch(word *at, word bytes) { watched++; return real(at, bytes); }
void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    if (!next) next = dlvsym((void *)-1l, "dlsym", VERSION);
    void *found = next(handle, name);
    if (!found || strcmp(name, "cuMemAlloc_v2")) return found;
    real = found;
    return watch;
}
"#;

/// The version of glibc's `dlsym` that every program of this machine's kind can ask for.
const VERSION: &str = if cfg!(target_arch = "aarch64") { "\"GLIBC_2.17\"" } else { "\"GLIBC_2.2.5\"" };

/// Says how often the other library was called.
const WATCHED: &str = r#"
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    use(dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"));
    int *watched = dlsym(0, "watched");
    printf("%d\n", watched ? *watched : -1);
    return 0;
}
"#;

#[test]
fn another_library_that_wraps_dlsym() {
    let case = case();
    let program = program(&case, WATCHED, &[]);
    let (other, library) =
        (parts::c_library(case.dir(), "wraps", &WRAPS.replace("VERSION", VERSION), &[]), case.library());
    assert_eq!(output(&mut with(&case, &program, &[&other])), format!("{BARE}3\n"));
    assert_eq!(output(&mut with(&case, &program, &[&library])), format!("{HELD}-1\n"));
    assert_eq!(output(&mut with(&case, &program, &[&other, &library])), format!("{HELD}3\n"));
}

#[test]
fn another_library_that_wraps_dlsym_behind_us() {
    let case = case();
    let program = program(&case, WATCHED, &[]);
    let other = parts::c_library(case.dir(), "wraps", &WRAPS.replace("VERSION", VERSION), &[]);
    assert_eq!(output(&mut with(&case, &program, &[&case.library(), &other])), format!("{HELD}3\n"));
}

/// Stands in front of one of the driver's functions by its name, and looks for the next one.
const NEXT: &str = r#"
void *dlsym(void *, const char *);
typedef unsigned long word;
int watched;
int cuMemAlloc_v2(word *at, word bytes) {
    int (*next)(word *, word) = dlsym((void *)-1l, "cuMemAlloc_v2");
    watched++;
    return next ? next(at, bytes) : -9;
}
"#;

#[test]
fn another_library_that_looks_for_the_next() {
    let case = case();
    let program = linked(&case);
    let (other, library) = (parts::c_library(case.dir(), "next", NEXT, &[]), case.library());
    assert_eq!(output(&mut with(&case, &program, &[&other])), BARE);
    assert_eq!(output(&mut with(&case, &program, &[&other, &library])), HELD);
    assert_eq!(output(&mut with(&case, &program, &[&library, &other])), HELD);
}

/// Loads the driver into a name space of its own, where nothing is preloaded.
const APART: &str = r#"
void *dlmopen(long, const char *, int);
int main(int count, char **words) {
    void *library = dlmopen(-1, "libcuda.so.1", 2);
    use(dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"));
    return 0;
}
"#;

#[test]
fn a_driver_in_another_name_space() {
    let case = case();
    let program = program(&case, APART, &[]);
    assert_eq!(output(&mut with(&case, &program, &[])), BARE);
    let held = output(&mut with(&case, &program, &[&case.library()]));
    assert_ne!(held.split_whitespace().nth(1), Some("0"), "600 MiB more: {held}");
}

/// Asks a driver for functions that it does not export, for one of a later version, and for one that is not hooked.
const HIDDEN: &str = r#"
int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", 2);
    int (*ask)(const char *, void **, int, word, int *) = dlsym(library, "cuGetProcAddress_v2");
    int (*alloc)(word *, word) = 0, (*later)(word *, word, int) = 0, (*other)(void) = 0, status = 9;
    printf("%d ", ask("cuMemAlloc", (void **)&alloc, 12000, 0, &status));
    ask("cuMemAlloc", (void **)&later, 14000, 0, 0);
    ask("cuMemcpy", (void **)&other, 12000, 0, 0);
    printf("%d %d %d\n", status, later(0, 0, 0), other());
    use(alloc, dlsym(library, "cuMemFree_v2"));
    return 0;
}
"#;

#[test]
fn a_driver_that_hands_out_what_it_does_not_export() {
    let case = case();
    let program = program(&case, HIDDEN, &[]);
    assert_eq!(output(&mut with(&case, &program, &[])), format!("0 0 77 0\n{BARE}"));
    assert_eq!(output(&mut with(&case, &program, &[&case.library()])), format!("0 0 77 0\n{HELD}"));
}
