//! Where things lie in the file. All numbers are in this machine's byte order, as ldconfig writes them.

/// The old format's first bytes (11, then one byte of padding).
pub(crate) const MAGIC_OLD: &[u8] = b"ld.so-1.7.0";
/// The old header: magic, padding, number of entries.
pub(crate) const HEADER_OLD: usize = 16;
/// Where the old header has the number of entries.
pub(crate) const COUNT_OLD: usize = 12;
/// An old entry: flags, name, path.
pub(crate) const ENTRY_OLD: usize = 12;

/// The new format's first bytes: magic and version.
pub(crate) const MAGIC_NEW: &[u8] = b"glibc-ld.so.cache1.1";
/// The new header: magic, number of entries, length of the strings, flags, extension's offset, 12 unused bytes.
pub(crate) const HEADER_NEW: usize = 48;
/// Where the new header has the number of entries.
pub(crate) const COUNT_NEW: usize = 20;
/// Where the new header has its flags; the two lowest bits are the byte order.
pub(crate) const FLAGS_NEW: usize = 28;
/// A new entry: flags, name, path, kernel version, hwcap.
pub(crate) const ENTRY_NEW: usize = 24;
/// A new part that follows an old one begins at a multiple of this.
pub(crate) const ALIGN: usize = 8;

/// Where the new header has the length of its strings.
pub(crate) const LENGTH_NEW: usize = 24;
/// Where the new header has the extension section's offset in the file; 0 for none.
pub(crate) const EXTENSION_NEW: usize = 32;
/// The extension section's first number; the number of its parts follows.
pub(crate) const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// The extension section's header: magic and number of parts.
pub(crate) const EXTENSION_HEADER: usize = 8;
/// A part of the extension section: tag, flags, offset in the file, size.
pub(crate) const PART: usize = 16;
/// The part with the names of `glibc-hwcaps` folders: their offsets, sorted by name.
pub(crate) const TAG_HWCAPS: u32 = 1;
/// The extension section begins at a multiple of this.
pub(crate) const EXTENSION_ALIGN: usize = 4;

/// The byte order bits of the flags.
pub(crate) const ENDIAN_MASK: u8 = 3;
/// Written by a glibc before 2.33, which did not say.
pub(crate) const ENDIAN_UNSET: u8 = 0;
/// This machine's byte order.
pub(crate) const ENDIAN_NATIVE: u8 = if cfg!(target_endian = "little") { 2 } else { 3 };

/// The number at `at`; `None` outside the bytes.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*field))
}

/// The long number at `at`; `None` outside the bytes.
pub(crate) fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_ne_bytes(*field))
}

/// Puts the number at `at`, where there is room for it.
pub(crate) fn put(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|from| from.first_chunk_mut::<4>()) {
        *field = number.to_ne_bytes();
    }
}
