//! `cuGetProcAddress` as driver 550.163.01 answers it: from a table that was read off the real library (name, flags, version asked, export).
use crate::exports;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Name, flags: the versions from which on an answer holds, lowest first; `None` is "not in that version".
type Table = HashMap<(&'static str, u64), Vec<(i32, Option<&'static str>)>>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::new();
        for row in include_str!("../cuGetProcAddress.tsv").lines() {
            let mut fields = row.split('\t');
            let (Some(name), Some(flags), Some(version), Some(answer)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (Ok(flags), Ok(version)) = (flags.parse(), version.parse()) else { continue };
            let export = answer.split(' ').next().filter(|export| *export != "NULL");
            table.entry((name, flags)).or_default().push((version, export));
        }
        for versions in table.values_mut() {
            versions.sort_unstable_by_key(|(version, _)| *version);
        }
        table
    })
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The address of an export.
    At(*const ()),
    /// No such name in this driver (`CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`).
    Unknown,
    /// Only in later versions (`CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT`).
    TooNew,
}

/// The export for a name, a CUDA version and flags 0, 1 (legacy stream) or 2 (per-thread stream).
pub(crate) fn find(name: &str, version: i32, flags: u64) -> Found {
    let Some(versions) = table().get(&(name, flags)) else { return Found::Unknown };
    let after = versions.partition_point(|(from, _)| *from <= version);
    let fitting = after.checked_sub(1).map(|at| versions[at]);
    // The table was read at certain versions only; between "not yet" and an export, the export is there.
    let answer = match (fitting, versions.get(after)) {
        (Some((from, None)), Some((_, export))) if from < version => *export,
        (Some((_, export)), _) => export,
        (None, _) => None,
    };
    match answer {
        Some(export) => exports::address(export).map_or(Found::Unknown, Found::At),
        None if versions.iter().all(|(_, export)| export.is_none()) => Found::Unknown,
        None => Found::TooNew,
    }
}
