//! The extension section: names of `glibc-hwcaps` folders (`x86-64-v3`), which entries with bit 62 in their hwcap count into.
use crate::layout::{
    ALIGN, COUNT_OLD, ENTRY_OLD, EXTENSION_HEADER, EXTENSION_MAGIC, EXTENSION_NEW, HEADER_OLD, MAGIC_NEW, PART,
    TAG_HWCAPS, number,
};
use crate::read::string;

/// More names than this are no real cache's (glibc knows fewer than ten for each machine).
const MOST_NAMES: usize = 1024;
/// More parts than this are no real cache's (glibc writes two).
const MOST_PARTS: usize = 64;

/// The `glibc-hwcaps` names of a cache, for [`crate::write_with_hwcaps`]; none where it has no such section or a broken one.
#[must_use]
pub fn hwcaps(bytes: &[u8]) -> Vec<String> {
    header(bytes).and_then(|header| names(bytes, header)).unwrap_or_default()
}

/// Where the new part's header is.
fn header(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(MAGIC_NEW) {
        return Some(0);
    }
    let count = usize::try_from(number(bytes, COUNT_OLD)?).ok()?;
    let at = count.checked_mul(ENTRY_OLD)?.checked_add(HEADER_OLD)?.checked_next_multiple_of(ALIGN)?;
    bytes.get(at..)?.starts_with(MAGIC_NEW).then_some(at)
}

/// The names. The section and its parts are counted from the file's first byte, names from the new part's, as ldconfig writes them.
/// (Loader and `ldconfig -p` count the names, too, from the file's first byte, so behind an old part they find none.)
fn names(bytes: &[u8], header: usize) -> Option<Vec<String>> {
    let at = usize::try_from(number(bytes, header + EXTENSION_NEW)?).ok()?;
    let section = bytes.get(at..).filter(|_| at != 0)?;
    if number(section, 0)? != EXTENSION_MAGIC {
        return None;
    }
    let count = usize::try_from(number(section, 4)?).ok()?.min(MOST_PARTS);
    let part = section
        .get(EXTENSION_HEADER..)?
        .chunks_exact(PART)
        .take(count)
        .find(|part| number(part, 0) == Some(TAG_HWCAPS))?;
    let from = usize::try_from(number(part, 8)?).ok()?;
    let size = usize::try_from(number(part, 12)?).ok()?;
    let offsets = bytes.get(from..from.checked_add(size)?)?;
    if size / 4 > MOST_NAMES {
        return None;
    }
    let strings = bytes.get(header..)?;
    let name = |offset: &[u8]| Some(str::from_utf8(string(strings, number(offset, 0)?)?).ok()?.to_owned());
    offsets.chunks_exact(4).map(name).collect()
}
