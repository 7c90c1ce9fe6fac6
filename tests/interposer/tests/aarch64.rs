//! The interposer built for aarch64: its ELF is as it must be, and it holds a quota on an emulated machine, under that machine's own loader.
//!
//! Needs `rustup target add aarch64-unknown-linux-gnu`; without it the test says that it was left out. There is no C compiler for that machine, so program
//! and driver are of Rust, without its library, and linked by the toolchain's own linker.
#![cfg(target_arch = "x86_64")]
use interposer_tests::{Case, parts};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";

const DRIVER: &str = r#"
#![no_std]
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
static NEXT: AtomicU64 = AtomicU64::new(0x70_0000_0000);
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut i32) -> i32 { unsafe { *device = 0 }; 0 }
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut u64) -> i32 { unsafe { *context = 0x1000 }; 0 }
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], _: i32) -> i32 {
    unsafe { uuid.write_volatile(0x5ba4538b_234f_2c18_6a7a_458d0a7fb348_u128.to_be_bytes()) };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> i32 {
    let address = NEXT.load(Relaxed);
    NEXT.store(address + bytes as u64, Relaxed);
    unsafe { *at = address };
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(_: u64) -> i32 { 0 }
"#;

const PROGRAM: &str = r#"
#![no_std]
#![no_main]
use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
unsafe extern "C" {
    fn printf(format: *const c_char, ...) -> c_int;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn __libc_start_main(main: extern "C" fn() -> c_int, count: c_int, words: *const u64, start: extern "C" fn(),
        end: extern "C" fn(), loader: usize, stack: *const u64) -> c_int;
}
core::arch::global_asm!(".globl _start", "_start:", "mov x29, #0", "mov x30, #0", "mov x0, sp", "bl begin");
extern "C" fn nothing() {}
#[unsafe(no_mangle)]
unsafe extern "C" fn begin(stack: *const u64) {
    unsafe { __libc_start_main(main, *stack as c_int, stack.add(1), nothing, nothing, 0, stack) };
}
extern "C" fn main() -> c_int {
    unsafe {
        let library = dlopen(c"libcuda.so.1".as_ptr(), 2);
        if library.is_null() { return 1; }
        let alloc: extern "C" fn(*mut u64, usize) -> c_int = transmute(dlsym(library, c"cuMemAlloc_v2".as_ptr()));
        let free: extern "C" fn(u64) -> c_int = transmute(dlsym(library, c"cuMemFree_v2".as_ptr()));
        let none = dlsym(library, c"cuNothing".as_ptr());
        let libc = dlopen(c"libc.so.6".as_ptr(), 2);
        let other = dlvsym(libc, c"printf".as_ptr(), c"GLIBC_2.17".as_ptr());
        let (mut first, mut second) = (0, 0);
        let (a, b) = (alloc(&mut first, 600 << 20), alloc(&mut second, 600 << 20));
        let (c, d) = (free(first), alloc(&mut second, 1024 << 20));
        printf(c"%d %d %d %d, %d %d\n".as_ptr(), a, b, c, d, none.is_null() as c_int, other.is_null() as c_int);
        7
    }
}
"#;

/// What a program of the toolchain says of it.
fn rustc(arguments: &[&str]) -> PathBuf {
    let said = Command::new("rustc").args(arguments).output().expect("cargo runs it too");
    String::from_utf8(said.stdout).expect("text").trim().into()
}

/// Flags that link for the other machine with the linker that comes with Rust: the machine's own `cc` only hands it its options.
///
/// Atomics in line, since those out of line come with a constructor that asks libc for what the processor can do.
fn flags() -> Vec<String> {
    let linker = rustc(&["--print", "sysroot"]).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
    let linker = format!("link-arg=-B{}", linker.display());
    let flags = ["linker=cc", "link-arg=-fuse-ld=lld", &linker, "link-arg=-Wl,-m,aarch64linux"];
    let flags = flags.into_iter().chain(["target-feature=-outline-atomics", "panic=abort"]);
    flags.map(|flag| format!("-C{flag}")).collect()
}

fn compile(dir: &Path, source: &str, to: &str, kind: &str, link: &[String]) -> PathBuf {
    let (from, to) = (dir.join(format!("{to}.rs")), dir.join(to));
    std::fs::write(&from, source).expect("the test's folder can be written");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--target", TARGET, "-O", "--cap-lints", "allow", "--crate-name", "other"]);
    rustc.args(["--crate-type", kind]).args(flags()).arg("-Clink-arg=-nostartfiles");
    rustc.args(link.iter().map(|argument| format!("-Clink-arg={argument}")));
    let done = rustc.arg("-o").arg(&to).arg(&from).output().expect("cargo runs it too");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    to
}

/// The interposer, built as `cargo xtask build` builds it, for the other machine.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let done = Command::new("cargo")
        .args(["build", "-p", "interposer", "--profile", "interposer", "--target", TARGET])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", flags().join(" "))
        .output()
        .expect("cargo runs this test");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    target.join(TARGET).join("interposer/libgpu_quota.so")
}

#[test]
fn the_quota_is_held_on_an_emulated_machine() {
    if !rustc(&["--target", TARGET, "--print", "target-libdir"]).exists() {
        println!("left out: run rustup target add {TARGET}");
        return;
    }
    let (library, case) = (library(), Case::default());
    let checked = Command::new("cargo").args(["run", "--quiet", "-p", "xtask", "--", "elf"]).arg(&library).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let libc = parts::cache().join("libc/arm64/lib/aarch64-linux-gnu");
    let _ = compile(case.dir(), DRIVER, "libcuda.so.1", "cdylib", &["-Wl,-soname,libcuda.so.1".to_owned()]);
    let link = [
        libc.join("libc.so.6").display().to_string(),
        "-Wl,--allow-shlib-undefined".to_owned(),
        format!("-Wl,--dynamic-linker={}", libc.join("ld-linux-aarch64.so.1").display()),
    ];
    let program = compile(case.dir(), PROGRAM, "program", "bin", &link);
    let run = |preload: Option<&Path>| {
        // The emulator is static, so what is preloaded is the program's.
        let mut command = case.bare(&parts::cache().join("qemu/usr/bin/qemu-aarch64-static"));
        command.env("LD_LIBRARY_PATH", format!("{}:{}", case.dir().display(), libc.display()));
        command.env("GPU_QUOTA_DIR", case.dir()).arg(&program);
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let run = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (run.status.code(), text(&run.stdout), text(&run.stderr))
    };
    assert_eq!(run(None), (Some(7), "0 0 0 0, 1 0\n".to_owned(), String::new()));
    assert_eq!(run(Some(&library)), (Some(7), "0 2 0 0, 1 0\n".to_owned(), String::new()));
}
