//! Writing: the new format alone, which every loader since glibc 2.2 reads.
use crate::layout::{
    COUNT_NEW, ENDIAN_NATIVE, ENTRY_NEW, EXTENSION_ALIGN, EXTENSION_HEADER, EXTENSION_MAGIC, EXTENSION_NEW, FLAGS_NEW,
    HEADER_NEW, LENGTH_NEW, MAGIC_NEW, PART, TAG_HWCAPS, put,
};
use crate::read::LONGEST;
use crate::{Entry, order};

/// The cache with these entries, in the order that the loader's search needs; entries that compare alike keep theirs.
///
/// An entry that the format cannot hold is left out: with a NUL or 4096 bytes and more in its name or path, or beyond 4 GiB.
#[must_use]
pub fn write(entries: &[Entry]) -> Vec<u8> {
    write_with_hwcaps(entries, &[])
}

/// [`write()`] for entries of a cache whose [`crate::hwcaps`] were these; without them the loader ignores entries with bit 62.
#[must_use]
pub fn write_with_hwcaps(entries: &[Entry], hwcaps: &[String]) -> Vec<u8> {
    let mut sorted: Vec<&Entry> = entries.iter().filter(|entry| fits(&entry.name) && fits(&entry.path)).collect();
    sorted.sort_by(|one, other| order::entries(one, other));
    let strings_at = HEADER_NEW + sorted.len() * ENTRY_NEW;
    let mut strings = Strings { at: strings_at, bytes: Vec::new() };
    let mut table = Vec::with_capacity(sorted.len() * ENTRY_NEW);
    let mut count = 0_u32;
    for entry in sorted {
        let Some((name, path)) = strings.add_both(&entry.name, &entry.path) else { continue };
        for field in [entry.flags, name, path, entry.os_version] {
            table.extend(field.to_ne_bytes());
        }
        table.extend(entry.hwcap.to_ne_bytes());
        count += 1;
    }
    let places: Option<Vec<u32>> = hwcaps.iter().map(|name| strings.add(name).filter(|_| fits(name))).collect();

    let mut file = MAGIC_NEW.to_vec();
    file.resize(HEADER_NEW, 0);
    put(&mut file, COUNT_NEW, count);
    put(&mut file, LENGTH_NEW, u32::try_from(strings.bytes.len()).unwrap_or(u32::MAX));
    file.extend(table);
    file.resize(strings_at, 0);
    file.extend(strings.bytes);
    if let Some(byte) = file.get_mut(FLAGS_NEW) {
        *byte = ENDIAN_NATIVE;
    }
    if let Some(places) = places.filter(|places| !places.is_empty()) {
        extend(&mut file, &places);
    }
    file
}

/// Whether the string can stand in a cache and be read again.
fn fits(string: &str) -> bool {
    string.len() < LONGEST && !string.contains('\0')
}

/// Adds the extension section with the names of `glibc-hwcaps` folders at these places; none where it would not fit.
fn extend(file: &mut Vec<u8>, places: &[u32]) {
    let at = file.len().next_multiple_of(EXTENSION_ALIGN);
    let numbers = (u32::try_from(at), u32::try_from(at + EXTENSION_HEADER + PART), u32::try_from(places.len() * 4));
    let (Ok(section), Ok(part), Ok(size)) = numbers else { return };
    put(file, EXTENSION_NEW, section);
    file.resize(at, 0);
    for number in [EXTENSION_MAGIC, 1, TAG_HWCAPS, 0, part, size].iter().chain(places) {
        file.extend(number.to_ne_bytes());
    }
}

/// The strings, each with its NUL.
struct Strings {
    /// Where they begin in the file.
    at: usize,
    bytes: Vec<u8>,
}

impl Strings {
    /// The string's place in the file; `None` where the format cannot name it.
    fn add(&mut self, string: &str) -> Option<u32> {
        let at = u32::try_from(self.at + self.bytes.len()).ok()?;
        self.bytes.extend(string.bytes());
        self.bytes.push(0);
        Some(at)
    }

    /// The places of name and path; a name that the path ends with is not written twice.
    fn add_both(&mut self, name: &str, path: &str) -> Option<(u32, u32)> {
        let at = self.add(path)?;
        let name = match path.strip_suffix(name) {
            Some(folder) => at.checked_add(u32::try_from(folder.len()).ok()?)?,
            None => self.add(name)?,
        };
        Some((name, at))
    }
}
