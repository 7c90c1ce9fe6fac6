//! The staged library answers `cuGetProcAddress` as driver 550.163.01 did, row by row, and has every export of it.
#![expect(unsafe_code, reason = "calls a C library")]
use libloading::{Library, Symbol};
use std::ffi::{CString, c_char};
use std::path::PathBuf;

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut *const (), i32, u64) -> u32;
type GetProcAddressV2 = unsafe extern "C" fn(*const c_char, *mut *const (), i32, u64, *mut u32) -> u32;

fn library() -> Library {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../target"), PathBuf::from);
    let stage = std::env::var_os("GPU_QUOTA_STAGE").map_or_else(|| target.join("stage"), PathBuf::from);
    let path = stage.join("sim/libcuda.so.1");
    assert!(path.exists(), "no {}; run cargo xtask build", path.display());
    // SAFETY: our own library, which does nothing at load.
    unsafe { Library::new(path) }.expect("the staged library loads")
}

fn export(library: &Library, name: &str) -> *const () {
    // SAFETY: only the address is taken; the type does not matter for that.
    let symbol = unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) };
    symbol.map_or(std::ptr::null(), |symbol: Symbol<'_, unsafe extern "C" fn()>| *symbol as *const ())
}

#[test]
fn every_export_is_there() {
    let library = library();
    let names: Vec<&str> = include_str!("../exports.txt").lines().collect();
    assert_eq!(names.len(), 656);
    for name in names {
        assert!(!export(&library, name).is_null(), "{name}");
    }
}

#[test]
fn every_row_of_the_table() {
    let library = library();
    // SAFETY: the type of cuda.h.
    let v1 = unsafe { library.get::<GetProcAddress>(b"cuGetProcAddress") }.expect("exported");
    // SAFETY: the type of cuda.h.
    let v2 = unsafe { library.get::<GetProcAddressV2>(b"cuGetProcAddress_v2") }.expect("exported");
    let mut rows = 0;
    for row in include_str!("../cuGetProcAddress.tsv").lines() {
        let [name, flags, version, answer] = row.split('\t').collect::<Vec<_>>().try_into().expect("four fields");
        let (wanted, status) = answer.split_once(" r=0 st=").expect("every row succeeded on the real driver");
        let wanted = if wanted == "NULL" { std::ptr::null() } else { export(&library, wanted) };
        let (version, flags) = (version.parse().expect("a number"), flags.parse().expect("a number"));
        let name = CString::new(name).expect("no NUL");
        let (mut entry, mut said) = (std::ptr::dangling(), 77);
        // SAFETY: as cuda.h asks, with pointers that live through the call.
        let result = unsafe { v2(name.as_ptr(), &raw mut entry, version, flags, &raw mut said) };
        assert_eq!((result, entry, said.to_string().as_str()), (0, wanted, status), "{row}");
        let untouched: *const () = std::ptr::dangling();
        let mut entry = untouched;
        // SAFETY: as above.
        let result = unsafe { v1(name.as_ptr(), &raw mut entry, version, flags) };
        let expected = if wanted.is_null() { (500, untouched) } else { (0, wanted) };
        assert_eq!((result, entry), expected, "{row} (first version)");
        rows += 1;
    }
    assert_eq!(rows, 2856);
}

#[test]
fn unknown_names_and_bad_flags() {
    let library = library();
    // SAFETY: the type of cuda.h.
    let v2 = unsafe { library.get::<GetProcAddressV2>(b"cuGetProcAddress_v2") }.expect("exported");
    let ask = |name: &std::ffi::CStr, flags| {
        let (mut entry, mut status) = (std::ptr::dangling(), 77);
        // SAFETY: as cuda.h asks, with pointers that live through the call.
        let result = unsafe { v2(name.as_ptr(), &raw mut entry, 12_040, flags, &raw mut status) };
        (result, entry.is_null(), status)
    };
    assert_eq!(ask(c"noSuchThing", 0), (0, true, 1));
    assert_eq!(ask(c"cuMemAlloc_v2", 0), (0, true, 1), "names with versions are not accepted");
    assert_eq!(ask(c"cuInit", 3).0, 1);
}
