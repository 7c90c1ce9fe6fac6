//! Reading: any bytes give entries or an error. Work and memory are bounded by the file's length, whatever the numbers in it say.
use crate::Entry;
use crate::layout::{
    ALIGN, COUNT_NEW, COUNT_OLD, ENDIAN_MASK, ENDIAN_NATIVE, ENDIAN_UNSET, ENTRY_NEW, ENTRY_OLD, FLAGS_NEW, HEADER_NEW,
    HEADER_OLD, MAGIC_NEW, MAGIC_OLD, long_number, number,
};

/// The longest name or path, its NUL included (the kernel's limit for a path).
pub(crate) const LONGEST: usize = 4096;
/// Entries share strings (a name is the end of its path), so all together are up to twice the file. More than this often is a bomb.
const SHARED: usize = 4;

/// Why bytes are not a cache.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CacheError {
    /// Neither format's first bytes.
    #[error("not a loader cache: the file begins with neither format's magic; make it with ldconfig")]
    Magic,
    /// Written by a machine of the other byte order, or marked as broken.
    #[error("the loader cache is of another byte order (mark {0}); make it with ldconfig on this kind of machine")]
    ByteOrder(u8),
    /// The file ends before what its header promises.
    #[error(
        "the loader cache ends at byte {length}, before the table of its {count} entries does; make it again with ldconfig"
    )]
    Short {
        /// The file's length.
        length: usize,
        /// How many entries the header promises.
        count: u32,
    },
    /// An entry's name or path is outside the file or has no end.
    #[error(
        "entry {entry} of the loader cache has a string at {offset}, which is not one; make the cache again with ldconfig"
    )]
    String {
        /// Which entry, from 0.
        entry: u32,
        /// Where its string should be, counted as the format does.
        offset: u32,
    },
    /// All strings together are many times the file.
    #[error(
        "the strings of the loader cache's entries are more than {SHARED} times the file; make it again with ldconfig"
    )]
    Bomb,
}

/// The entries of a cache, in its order. Of a file with both formats the new one counts, as for the loader.
///
/// An entry whose name or path is not UTF-8 is left out.
///
/// # Errors
/// [`CacheError`] where the bytes are not a cache of this machine, or not a whole one.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry>, CacheError> {
    if bytes.starts_with(MAGIC_NEW) {
        return new(bytes);
    }
    if !bytes.starts_with(MAGIC_OLD) {
        return Err(CacheError::Magic);
    }
    let table = Table::find(bytes, COUNT_OLD, HEADER_OLD, ENTRY_OLD)?;
    let follows = bytes.get(table.end.next_multiple_of(ALIGN)..).unwrap_or_default();
    if follows.starts_with(MAGIC_NEW) {
        return new(follows);
    }
    let strings = bytes.get(table.end..).unwrap_or_default();
    table.entries(bytes.len(), strings, |_| Some((0, 0)))
}

/// The entries of a new part; its strings are counted from its own first byte.
fn new(bytes: &[u8]) -> Result<Vec<Entry>, CacheError> {
    let table = Table::find(bytes, COUNT_NEW, HEADER_NEW, ENTRY_NEW)?;
    let order = bytes.get(FLAGS_NEW).copied().unwrap_or_default() & ENDIAN_MASK;
    if order != ENDIAN_UNSET && order != ENDIAN_NATIVE {
        return Err(CacheError::ByteOrder(order));
    }
    table.entries(bytes.len(), bytes, |row| Some((number(row, 12)?, long_number(row, 16)?)))
}

/// A table of entries that lies wholly within the file.
struct Table<'a> {
    rows: &'a [u8],
    row: usize,
    count: u32,
    end: usize,
}

impl<'a> Table<'a> {
    /// The table after a header whose number of entries is at `at`.
    fn find(bytes: &'a [u8], at: usize, header: usize, row: usize) -> Result<Self, CacheError> {
        let length = bytes.len();
        let count = number(bytes, at).ok_or(CacheError::Short { length, count: 0 })?;
        let short = CacheError::Short { length, count };
        let size = usize::try_from(count).ok().and_then(|count| count.checked_mul(row));
        let Some(end) = size.and_then(|size| size.checked_add(header)) else {
            return Err(short);
        };
        let rows = bytes.get(header..end).ok_or(short)?;
        Ok(Self { rows, row, count, end })
    }

    /// All entries; `rest` gives kernel version and hwcap of a row.
    fn entries(
        &self,
        length: usize,
        strings: &[u8],
        rest: impl Fn(&[u8]) -> Option<(u32, u64)>,
    ) -> Result<Vec<Entry>, CacheError> {
        let short = CacheError::Short { length, count: self.count };
        let mut left = length.saturating_mul(SHARED);
        let mut entries = Vec::new();
        for (entry, row) in (0..).zip(self.rows.chunks_exact(self.row)) {
            let fields = (number(row, 0), number(row, 4), number(row, 8), rest(row));
            let (Some(flags), Some(name), Some(path), Some((os_version, hwcap))) = fields else {
                return Err(short);
            };
            let name = string(strings, name).ok_or(CacheError::String { entry, offset: name })?;
            let path = string(strings, path).ok_or(CacheError::String { entry, offset: path })?;
            left = left.checked_sub(name.len() + path.len() + 2).ok_or(CacheError::Bomb)?;
            if let (Ok(name), Ok(path)) = (str::from_utf8(name), str::from_utf8(path)) {
                entries.push(Entry { name: name.to_owned(), path: path.to_owned(), flags, hwcap, os_version });
            }
        }
        Ok(entries)
    }
}

/// The string at `offset`, without its NUL; `None` where it has no end within the file and the limit.
pub(crate) fn string(strings: &[u8], offset: u32) -> Option<&[u8]> {
    let from = strings.get(usize::try_from(offset).ok()?..)?;
    let from = from.get(..LONGEST).unwrap_or(from);
    let end = from.iter().position(|&byte| byte == 0)?;
    from.get(..end)
}
