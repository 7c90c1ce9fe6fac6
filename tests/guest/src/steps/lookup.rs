//! Look-ups of functions, each answered with the object and the name that the address belongs to.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use crate::Answer;
use crate::driver::{Part, call, cuda, find, find_in, find_version, load_apart, search, whose};
use std::ffi::CString;
use std::ptr::null;

/// `cuGetProcAddress_v2`: result, address and status.
pub(super) fn ask(name: &str, version: i32, flags: u64) -> (i32, *const (), u32) {
    ask_by(find(&Part::Cuda, "cuGetProcAddress_v2"), name, version, flags)
}

fn ask_by(function: *const (), name: &str, version: i32, flags: u64) -> (i32, *const (), u32) {
    let name = CString::new(name).unwrap_or_default();
    let (mut address, mut status) = (null::<()>(), u32::MAX);
    let result = call!(function, (
        name.as_ptr() => *const libc::c_char, &raw mut address => *mut *const (), version => i32, flags => u64,
        &raw mut status => *mut u32,
    ));
    (result, address, status)
}

fn answer((result, address, status): (i32, *const (), u32)) -> Answer {
    Answer { result: result.into(), values: vec![status.into()], text: whose(address) }
}

/// `cuGetProcAddress_v2`; the value is its status.
pub(super) fn procaddr(name: &str, version: i32, flags: u64) -> Answer {
    answer(ask(name, version, flags))
}

/// `cuGetProcAddress` as CUDA 11.3 has it, without a status.
pub(super) fn procaddr_v1(name: &str, version: i32, flags: u64) -> Answer {
    let name = CString::new(name).unwrap_or_default();
    let mut address = null::<()>();
    let result = cuda!("cuGetProcAddress", (
        name.as_ptr() => *const libc::c_char, &raw mut address => *mut *const (), version => i32, flags => u64,
    ));
    Answer { result: result.into(), values: Vec::new(), text: whose(address) }
}

/// Asks for `cuGetProcAddress` itself in a CUDA version of 12 or later, and then, through what came back, for a name.
pub(super) fn via(own_version: i32, name: &str, version: i32) -> Answer {
    let (result, function, _) = ask("cuGetProcAddress", own_version, 0);
    if result != 0 {
        return Answer::code(result);
    }
    let mut answer = answer(ask_by(function, name, version, 0));
    answer.text = format!("{}, {}", whose(function), answer.text);
    answer
}

/// `dlsym` with `next`, `default`, `cuda`, `nvml` or the path of a library.
pub(super) fn dlsym(place: &str, name: &str) -> Answer {
    Answer::text(whose(match place {
        "next" => search(libc::RTLD_NEXT, name),
        "default" => search(libc::RTLD_DEFAULT, name),
        "cuda" => find(&Part::Cuda, name),
        "nvml" => find(&Part::Nvml, name),
        path => find_in(path, name),
    }))
}

/// `dlvsym` in the library of a path.
pub(super) fn dlvsym(path: &str, name: &str, version: &str) -> Answer {
    Answer::text(whose(find_version(path, name, version)))
}

/// What another library's `dlsym(RTLD_NEXT, name)` finds: it is preloaded, and exports `guest_next`, which copies the address to where it is told.
pub(super) fn next_of_another(name: &str) -> Answer {
    let name = CString::new(name).unwrap_or_default();
    let mut address = null::<()>();
    let result = call!(search(libc::RTLD_DEFAULT, "guest_next"), (
        name.as_ptr() => *const libc::c_char, &raw mut address => *mut *const (),
    ));
    Answer { result: result.into(), values: Vec::new(), text: whose(address) }
}

/// Allocates with a libcuda in a namespace of its own; the text is whose function that was.
pub(super) fn apart(bytes: usize) -> Answer {
    let handle = load_apart();
    let find = |name: &str| if handle.is_null() { null() } else { search(handle, name) };
    let (mut context, mut address) = (0_usize, 0_u64);
    let alloc = find("cuMemAlloc_v2");
    let begun = [
        call!(find("cuInit"), (0 => u32)),
        call!(find("cuDevicePrimaryCtxRetain"), (&raw mut context => *mut usize, 0 => i32)),
        call!(find("cuCtxSetCurrent"), (context => usize)),
    ];
    let begun = begun.into_iter().find(|result| *result != 0).unwrap_or(0);
    let result = if begun == 0 { call!(alloc, (&raw mut address => *mut u64, bytes => usize)) } else { begun };
    Answer { result: result.into(), text: whose(alloc), ..Answer::default() }
}
