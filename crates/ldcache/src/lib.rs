//! glibc's `/etc/ld.so.cache`: which library file answers to which name. Bytes in, bytes out; it opens no file and never panics.
//!
//! Source of every offset and rule: glibc's `sysdeps/generic/dl-cache.h`, `elf/dl-cache.c` (loader) and `elf/cache.c` (ldconfig).
#![forbid(unsafe_code)]

mod extension;
mod layout;
mod order;
mod read;
mod write;

pub use extension::hwcaps;
pub use read::{CacheError, read};
pub use write::{write, write_with_hwcaps};

/// The flags of a library for the 64-bit loader of this machine; 0 (which no library has) on machines that we do not serve.
pub const NATIVE: u32 = if cfg!(target_arch = "x86_64") {
    0x0303
} else if cfg!(target_arch = "aarch64") {
    0x0a03
} else {
    0
};

/// One line of the cache.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Entry {
    /// The soname, as the loader asks for it: `libcuda.so.1`.
    pub name: String,
    /// Where the file is, as a process inside the cache's root sees it.
    pub path: String,
    /// What kind of library it is: see [`is_native`].
    pub flags: u32,
    /// 0 for every processor; otherwise which ones (old glibc: bits; since 2.33: bit 62 and a place in [`hwcaps`]).
    pub hwcap: u64,
    /// The lowest kernel that the library runs on; 0 for any.
    pub os_version: u32,
}

/// Whether the 64-bit loader of this machine takes a library with these flags.
#[must_use]
pub fn is_native(flags: u32) -> bool {
    NATIVE != 0 && flags == NATIVE
}
