//! Small C programs for other C libraries than the machine's: linked against those themselves, so that they ask for exactly the symbols and versions
//! that a program built there asks for, and started by their dynamic loaders. The driver is one of C too, since the simulated one needs the machine's.
use crate::{Case, parts};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A C library with its loader, unpacked in the cache folder.
#[derive(Clone, Debug)]
pub struct Libc {
    /// What it is called in messages.
    pub name: &'static str,
    /// The dynamic loader.
    pub loader: PathBuf,
    /// Where its libraries are.
    pub libraries: PathBuf,
    /// The loader's path in a program.
    interpreter: PathBuf,
    /// What a program links.
    linked: &'static [&'static str],
}

impl Libc {
    fn new(name: &'static str, folder: &str, loader: &str, linked: &'static [&'static str]) -> Option<Self> {
        let libraries = parts::cache().join(folder);
        let loader = libraries.join(loader);
        let interpreter = loader.clone();
        loader.exists().then_some(Self { name, loader, libraries, interpreter, linked })
    }

    /// Programs for a root in which the loader has this path.
    #[must_use]
    pub fn at(mut self, interpreter: &str) -> Self {
        self.interpreter = interpreter.into();
        self
    }

    /// glibc 2.31, where `dlsym` is in a library of its own.
    #[must_use]
    pub fn bullseye() -> Self {
        let linked = &["libc.so.6", "libdl.so.2"];
        Self::new("bullseye", "libc/bullseye/lib/x86_64-linux-gnu", LOADER, linked).expect(FETCH)
    }

    /// glibc 2.36.
    #[must_use]
    pub fn bookworm() -> Self {
        Self::new("bookworm", "guest-root/lib/x86_64-linux-gnu", LOADER, &["libc.so.6"]).expect(FETCH)
    }

    /// glibc 2.41.
    #[must_use]
    pub fn trixie() -> Self {
        Self::new("trixie", "podman/5.4.2/usr/lib/x86_64-linux-gnu", LOADER, &["libc.so.6"]).expect(FETCH)
    }

    /// glibc 2.43, where the mirror still serves that package.
    #[must_use]
    pub fn sid() -> Option<Self> {
        Self::new("sid", "libc/sid/usr/lib/x86_64-linux-gnu", LOADER, &["libc.so.6"])
    }

    /// musl 1.2.5, whose loader is the library itself.
    #[must_use]
    pub fn musl() -> Self {
        Self::new("musl", "libc/musl/usr/lib/x86_64-linux-musl", "libc.so", &["libc.so"]).expect(FETCH)
    }

    /// Compiles a program for it, with further options of the compiler. Its entry is of our own, since the machine's is for the machine's libc.
    #[must_use]
    pub fn program(&self, dir: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
        std::fs::write(&from, format!("{ENTRY}{source}")).expect("the test's folder can be written");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-fPIE", "-pie", "-nostdlib", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-o"]);
        cc.arg(&to).arg(&from).args(options);
        // By name: musl's library has no soname, and a path would make the loader load it once more.
        cc.arg("-L").arg(&self.libraries).args(self.linked.iter().map(|name| format!("-l:{name}")));
        cc.arg(format!("-Wl,--dynamic-linker={}", self.interpreter.display()));
        cc.arg(format!("-Wl,-rpath-link={}", self.libraries.display()));
        let done = cc.status().expect("a C compiler is the linker that cargo needs");
        assert!(done.success(), "cannot compile {}", from.display());
        to
    }

    /// Where the loader looks for libraries: those of the test first.
    #[must_use]
    pub fn path(&self, case: &Case) -> String {
        format!("{}:{}", case.dir().display(), self.libraries.display())
    }

    /// The program started by its own loader, without the interposer.
    #[must_use]
    pub fn bare(&self, case: &Case, program: &Path) -> Command {
        let mut command = case.bare(program);
        command.env("LD_LIBRARY_PATH", self.path(case));
        command
    }

    /// The program started by its own loader, under the interposer.
    #[must_use]
    pub fn held(&self, case: &Case, program: &Path) -> Command {
        let mut command = case.held(program);
        command.env("LD_LIBRARY_PATH", self.path(case));
        command
    }
}

/// Compiles a program for the machine's own C library, with further options of the compiler; `None` where the compiler cannot.
///
/// # Panics
/// Without a compiler.
#[must_use]
pub fn compiled(dir: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&from, source).expect("the test's folder can be written");
    let done = Command::new("cc").arg("-o").arg(&to).arg(&from).args(options).args(["-ldl"]).output();
    done.expect("a C compiler is the linker that cargo needs").status.success().then_some(to)
}

const LOADER: &str = "ld-linux-x86-64.so.2";
const FETCH: &str = "the cache folder has it; run cargo xtask fetch";

/// A driver with the reference card, which needs no C library. Whatever is asked for is served, and its names have a version, `FAKE_1`.
///
/// # Panics
/// Where it cannot be compiled.
#[must_use]
pub fn driver(dir: &Path) -> PathBuf {
    let script = dir.join("driver.map");
    std::fs::write(&script, "FAKE_1 { global: cu*; };\n").expect("the test's folder can be written");
    let script = format!("-Wl,--version-script={}", script.display());
    let options = ["-O2", "-nostdlib", "-fno-stack-protector", "-Wl,-soname,libcuda.so.1", &script];
    let built = parts::c_library(dir, "fakecuda", DRIVER, &options);
    let place = dir.join("libcuda.so.1");
    std::fs::rename(&built, &place).expect("the test's folder can be written");
    place
}

const DRIVER: &str = r"
static unsigned long used;
int cuInit(unsigned flags) { return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)0x1000; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)0x1000; return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    static const unsigned char reference[16] =
        {0x5b, 0xa4, 0x53, 0x8b, 0x23, 0x4f, 0x2c, 0x18, 0x6a, 0x7a, 0x45, 0x8d, 0x0a, 0x7f, 0xb3, 0x48};
    for (int i = 0; i < 16; i++) ((volatile unsigned char *)uuid)[i] = reference[i];
    return 0;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
/* What was freed last is handed out next, as drivers do: a stack of places, with a count in its head so that no place is taken twice. */
#define PLACES (1 << 21)
static unsigned long head, sizes[PLACES];
static unsigned below[PLACES], never = 1;
int cuMemAlloc_v2(unsigned long *at, unsigned long bytes) {
    unsigned long top = __atomic_load_n(&head, __ATOMIC_ACQUIRE), place, more;
    do {
        place = top & 0xffffffff;
        if (!place) { place = __atomic_fetch_add(&never, 1, __ATOMIC_RELAXED); break; }
        more = ((top >> 32) + 1) << 32 | below[place];
    } while (!__atomic_compare_exchange_n(&head, &top, more, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (place >= PLACES) return 2;
    sizes[place] = bytes;
    __atomic_fetch_add(&used, bytes, __ATOMIC_RELAXED);
    *at = 0x7000000000 + (place << 21);
    return 0;
}
int cuMemFree_v2(unsigned long at) {
    unsigned long place = (at - 0x7000000000) >> 21, top = __atomic_load_n(&head, __ATOMIC_ACQUIRE);
    __atomic_fetch_sub(&used, sizes[place], __ATOMIC_RELAXED);
    do below[place] = (unsigned)top;
    while (!__atomic_compare_exchange_n(&head, &top, ((top >> 32) + 1) << 32 | place, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return 0;
}
/* What it hands out is not what it exports, but for a form that nobody knows yet. */
static int hidden(unsigned long *at, unsigned long bytes) { return cuMemAlloc_v2(at, bytes); }
int cuMemAlloc_v3(unsigned long *at, unsigned long bytes, int more) { return 77; }
static int unhooked(void) { return 0; }
int cuGetProcAddress_v2(const char *name, void **entry, int version, unsigned long flags, int *status) {
    if (name[5] == 'A') *entry = version < 14000 ? (void *)hidden : (void *)cuMemAlloc_v3;
    else *entry = (void *)unhooked;
    if (status) *status = 0;
    return 0;
}
int cuMemGetInfo_v2(unsigned long *free, unsigned long *total) {
    *total = 16130ul << 20;
    *free = *total - used;
    return 0;
}
";

/// Calls `main` as the C library's own entry does.
const ENTRY: &str = r#"
int main(int, char **);
int __libc_start_main(int (*)(int, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
static void nothing(void) {}
__attribute__((used)) void begin(long *stack) {
    __libc_start_main(main, (int)stack[0], (char **)(stack + 1), nothing, nothing, 0, stack);
}
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n\thlt\n");
"#;
