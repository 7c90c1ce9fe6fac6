//! Physical memory of virtual memory management: its bytes go back when the last handle is released and the last mapping is gone, whichever is later.
//!
//! cuda.h (`cuMemRelease`): memory is freed when all outstanding mappings are unmapped and all handles are released. A handle's value may be given
//! out again while the memory behind it is still mapped, so objects have numbers of their own.
use crate::table::{Full, Table};
use core::sync::atomic::{AtomicU64, Ordering};

/// The three maps of virtual memory management.
#[derive(Clone, Copy, Debug)]
pub struct Physical<'a> {
    /// Handle: object.
    handles: Table<'a>,
    /// Object: charge, and how many handles and mappings it has.
    objects: Table<'a>,
    /// Mapped address: length and object.
    mappings: Table<'a>,
    next: &'a AtomicU64,
}

/// An object's references: handles in the upper half, mappings in the lower.
const HANDLE: u64 = 1 << 32;
const MAPPING: u64 = 1;
/// The step in which mappings are looked for in a range: no driver maps in smaller ones (64 KiB on the smallest).
const STEP: u64 = 64 << 10;

impl<'a> Physical<'a> {
    /// The maps in three tables and a counter, all zero at first.
    #[must_use]
    pub fn new(handles: Table<'a>, objects: Table<'a>, mappings: Table<'a>, next: &'a AtomicU64) -> Self {
        Self { handles, objects, mappings, next }
    }

    /// Notes memory of `charge` (any word) behind a new handle.
    ///
    /// # Errors
    /// [`Full`]; nothing is noted then.
    pub fn created(&self, handle: u64, charge: u64) -> Result<(), Full> {
        let object = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.objects.insert(object, (charge, HANDLE))?;
        self.handles.insert(handle, (object, 0)).inspect_err(|_| {
            let _ = self.objects.remove(object);
        })
    }

    /// Notes one more handle of the memory that is mapped at `at`; the value may be one that is known, and is then that memory's.
    pub fn retained(&self, handle: u64, at: u64) {
        let known = self.handles.with(handle, |stored| *stored).ok().flatten().map(|(object, _)| object);
        let object =
            known.or_else(|| self.mappings.with(at, |stored| *stored).ok().flatten().map(|(_, object)| object));
        if let Some(object) = object {
            let _ = self.refer(object, |count| count.wrapping_add(HANDLE));
            let _ = self.handles.insert(handle, (object, 0));
        }
    }

    /// Notes that a handle is released; the charge to give back where nothing holds the memory any more.
    #[must_use]
    pub fn released(&self, handle: u64) -> Option<u64> {
        let (object, _) = self.handles.with(handle, |stored| *stored).ok().flatten()?;
        let (charge, count) = self.refer(object, |count| count.saturating_sub(HANDLE))?;
        if count < HANDLE {
            let _ = self.handles.remove(handle);
        }
        (count == 0).then_some(charge)
    }

    /// Notes a mapping; of memory that was not charged nothing is noted.
    ///
    /// # Errors
    /// [`Full`]; nothing is noted then.
    pub fn mapped(&self, at: u64, length: u64, handle: u64) -> Result<(), Full> {
        let Some((object, _)) = self.handles.with(handle, |stored| *stored)? else { return Ok(()) };
        self.mappings.insert(at, (length, object))?;
        let _ = self.refer(object, |count| count.wrapping_add(MAPPING));
        Ok(())
    }

    /// Notes that all mappings in a range are gone; `give_back` is called with each charge that nothing holds any more.
    pub fn unmapped(&self, at: u64, length: u64, mut give_back: impl FnMut(u64)) {
        let end = at.saturating_add(length);
        let mut at = at;
        while at < end {
            let Some((length, object)) = self.mappings.remove(at) else {
                at = at.saturating_add(STEP);
                continue;
            };
            if let Some((charge, 0)) = self.refer(object, |count| count.saturating_sub(MAPPING)) {
                give_back(charge);
            }
            at = at.saturating_add(length.max(STEP));
        }
    }

    /// Changes an object's references, and forgets it where none is left. Its charge and what is left.
    fn refer(&self, object: u64, step: impl FnOnce(u64) -> u64) -> Option<(u64, u64)> {
        let apply = |stored: &mut Option<(u64, u64)>| {
            let (charge, before) = (*stored)?;
            let count = step(before);
            *stored = (count != 0).then_some((charge, count));
            Some((charge, count))
        };
        self.objects.with(object, apply).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::table::{Entry, SHARDS, Shard};
    use std::boxed::Box;
    use std::vec::Vec;

    fn physical() -> Physical<'static> {
        let table = || {
            let shards: &'static [Shard; SHARDS] = Box::leak(Box::new(core::array::from_fn(|_| Shard::default())));
            let entries: Vec<Entry> = (0..SHARDS * 16).map(|_| Entry::default()).collect();
            Table::new(shards, entries.leak()).unwrap()
        };
        Physical::new(table(), table(), table(), Box::leak(Box::new(AtomicU64::new(0))))
    }

    fn unmap(physical: &Physical<'_>, at: u64, length: u64) -> Vec<u64> {
        let mut back = Vec::new();
        physical.unmapped(at, length, |charge| back.push(charge));
        back
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn released_while_mapped_is_still_in_use() {
        let physical = physical();
        physical.created(1, 512).unwrap();
        physical.mapped(MIB, 2 * MIB, 1).unwrap();
        assert_eq!(physical.released(1), None);
        assert_eq!(physical.released(1), None, "a second release is the driver's error, not ours");
        assert_eq!(unmap(&physical, MIB, 2 * MIB), [512]);
        assert_eq!(unmap(&physical, MIB, 2 * MIB), []);
    }

    #[test]
    fn a_handle_value_that_comes_again_is_other_memory() {
        let physical = physical();
        physical.created(1, 512).unwrap();
        physical.mapped(MIB, MIB, 1).unwrap();
        assert_eq!(physical.released(1), None);
        physical.created(1, 99).unwrap();
        assert_eq!(unmap(&physical, MIB, MIB), [512]);
        assert_eq!(physical.released(1), Some(99));
    }

    #[test]
    fn a_retained_handle_is_released_twice() {
        let physical = physical();
        physical.created(7, 5).unwrap();
        physical.mapped(MIB, MIB, 7).unwrap();
        physical.retained(7, MIB);
        assert_eq!(unmap(&physical, MIB, MIB), []);
        assert_eq!(physical.released(7), None);
        assert_eq!(physical.released(7), Some(5));
    }

    #[test]
    fn a_handle_retained_from_inside_a_mapping_is_one_more() {
        let physical = physical();
        physical.created(7, 5).unwrap();
        physical.mapped(4 * MIB, 4 * MIB, 7).unwrap();
        physical.retained(7, 6 * MIB);
        assert_eq!(unmap(&physical, 4 * MIB, 4 * MIB), []);
        assert_eq!(physical.released(7), None);
        assert_eq!(physical.released(7), Some(5));
    }

    #[test]
    fn one_unmap_ends_several_mappings() {
        let physical = physical();
        for n in 1..=3 {
            physical.created(n, n * 10).unwrap();
            physical.mapped(n * 4 * MIB, 2 * MIB, n).unwrap();
            assert_eq!(physical.released(n), None);
        }
        assert_eq!(unmap(&physical, 4 * MIB, 10 * MIB), [10, 20, 30]);
        assert_eq!(physical.released(99), None);
        physical.mapped(MIB, MIB, 99).unwrap();
        assert_eq!(unmap(&physical, MIB, MIB), []);
    }
}
