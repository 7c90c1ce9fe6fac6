//! The driver's libraries, loaded as frameworks do: `dlopen` by soname, then `dlsym` for each function.
//!
//! # Safety
//! A function is called with the type that cuda.h or nvml.h gives its name. The libraries are never unloaded.
#![expect(unsafe_code, reason = "loads and calls C libraries")]
use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

/// A library of the driver.
pub(crate) enum Part {
    Cuda,
    Nvml,
}

fn open(name: &str) -> Option<Library> {
    // SAFETY: the driver's libraries may run constructors, which are theirs to answer for.
    unsafe { Library::open(Some(name), RTLD_NOW) }.ok()
}

unsafe extern "C" {
    /// The GNU loader's `dlopen` into a namespace; -1 is a new one.
    fn dlmopen(namespace: libc::c_long, name: *const libc::c_char, flags: libc::c_int) -> *mut c_void;
}

/// Loads libcuda in a namespace of its own, which stays loaded; NULL where that fails.
pub(crate) fn load_apart() -> *mut c_void {
    // SAFETY: a C string; the library's constructors are its own to answer for.
    unsafe { dlmopen(-1, c"libcuda.so.1".as_ptr(), RTLD_NOW) }
}

/// The address of a function of the driver; NULL where there is none.
pub(crate) fn find(part: &Part, name: &str) -> *const () {
    static CUDA: OnceLock<Option<Library>> = OnceLock::new();
    static NVML: OnceLock<Option<Library>> = OnceLock::new();
    let library = match part {
        Part::Cuda => CUDA.get_or_init(|| open("libcuda.so.1")),
        Part::Nvml => NVML.get_or_init(|| open("libnvidia-ml.so.1")),
    };
    library.as_ref().map_or(std::ptr::null(), |library| symbol(library, name))
}

fn symbol(library: &Library, name: &str) -> *const () {
    // SAFETY: the address is not used as anything here.
    unsafe { library.get::<*const ()>(name.as_bytes()) }.map_or(std::ptr::null(), |symbol| *symbol)
}

/// `dlsym` in a library of the given path, which stays loaded.
pub(crate) fn find_in(path: &str, name: &str) -> *const () {
    let Some(library) = open(path) else { return std::ptr::null() };
    let address = symbol(&library, name);
    std::mem::forget(library);
    address
}

/// `dlsym` with `RTLD_NEXT` or `RTLD_DEFAULT`.
pub(crate) fn search(handle: *mut c_void, name: &str) -> *const () {
    let Ok(name) = CString::new(name) else { return std::ptr::null() };
    // SAFETY: a pseudo handle of the loader, and a C string.
    unsafe { libc::dlsym(handle, name.as_ptr()) }.cast_const().cast()
}

unsafe extern "C" {
    /// The GNU loader's look-up of a name in a version.
    fn dlvsym(handle: *mut c_void, name: *const libc::c_char, version: *const libc::c_char) -> *mut c_void;
}

/// `dlvsym` in a library of the given path, which stays loaded.
pub(crate) fn find_version(path: &str, name: &str, version: &str) -> *const () {
    let (Some(library), Ok(name), Ok(version)) = (open(path), CString::new(name), CString::new(version)) else {
        return std::ptr::null();
    };
    let handle = library.into_raw();
    // SAFETY: a library that stays loaded, and two C strings.
    unsafe { dlvsym(handle, name.as_ptr(), version.as_ptr()) }.cast_const().cast()
}

/// File name of the object that an address lies in, and the name it has there: `libcuda.so.1 cuMemAlloc_v2`.
pub(crate) fn whose(address: *const ()) -> String {
    // SAFETY: a structure of pointers, for which zeros are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let found = unsafe { libc::dladdr(address.cast(), &raw mut info) };
    if address.is_null() || found == 0 {
        return "none".to_owned();
    }
    let text = |at: *const libc::c_char| {
        if at.is_null() {
            return String::new();
        }
        // SAFETY: the loader's own string of an object that stays loaded.
        unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
    };
    let path = text(info.dli_fname);
    format!("{} {}", path.rsplit('/').next().unwrap_or_default(), text(info.dli_sname)).trim_end().to_owned()
}

/// Calls a function by address with the given C type; -1 for NULL.
macro_rules! call {
    ($address:expr, ($($argument:expr => $type:ty),* $(,)?)) => {{
        let address: *const () = $address;
        if address.is_null() {
            -1_i32
        } else {
            // SAFETY: the function has this type by cuda.h or nvml.h.
            let function = unsafe {
                std::mem::transmute::<*const (), unsafe extern "C" fn($($type),*) -> i32>(address)
            };
            // SAFETY: the arguments are what the step says, and out-pointers are our own or NULL.
            unsafe { function($($argument),*) }
        }
    }};
}

/// Calls a function of libcuda by name.
macro_rules! cuda {
    ($name:expr, ($($argument:expr => $type:ty),* $(,)?)) => {
        $crate::driver::call!($crate::driver::find(&$crate::driver::Part::Cuda, $name), ($($argument => $type),*))
    };
}

/// Calls a function of NVML by name.
macro_rules! nvml {
    ($name:expr, ($($argument:expr => $type:ty),* $(,)?)) => {
        $crate::driver::call!($crate::driver::find(&$crate::driver::Part::Nvml, $name), ($($argument => $type),*))
    };
}

pub(crate) use {call, cuda, nvml};
