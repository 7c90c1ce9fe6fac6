//! Physical memory of virtual memory management: its bytes go back when the last handle is released and the last mapping is gone, whichever is later.
//!
//! cuda.h (`cuMemRelease`): memory is freed when all outstanding mappings are unmapped and all handles are released. A handle's value may be given
//! out again while the memory behind it is still mapped, so objects have numbers of their own.
use crate::table::{Full, Table, mix};
use core::sync::atomic::{AtomicU64, Ordering};

/// The maps of virtual memory management.
#[derive(Clone, Copy, Debug)]
pub struct Physical<'a> {
    /// Handle: object, and how many times the handle is out.
    handles: Table<'a>,
    /// Object: charge, and how many handles and mappings it has.
    objects: Table<'a>,
    /// Mapped address: length and object. Mapped part of an array ([`part_of_array`]): array and object.
    mappings: Table<'a>,
    /// Shareable handle (a descriptor's number, plus one): object.
    exports: Table<'a>,
    next: &'a AtomicU64,
}

/// An object's references: handles in the upper half, mappings in the lower.
const HANDLE: u64 = 1 << 32;
const MAPPING: u64 = 1;
/// The step in which mappings are looked for in a range: no driver maps in smaller ones (64 KiB on the smallest).
const STEP: u64 = 64 << 10;
/// In a longer range all mappings are looked at instead: a reservation of addresses can be a thousand times as long as what is mapped in it.
const MOST_STEPS: u64 = 4096;
/// Marks a part of an array among the mappings: no address of a process has this bit.
const PART: u64 = 1 << 63;

/// The key of a part of an array, which `words` describe: the array and the subresource as the program names them, alike at mapping and unmapping.
#[must_use]
pub fn part_of_array(array: u64, words: &[u64]) -> u64 {
    words.iter().fold(mix(array), |key, word| mix(key ^ word)) | PART
}

impl<'a> Physical<'a> {
    /// The maps in four tables and a counter, all zero at first.
    #[must_use]
    pub fn new([handles, objects, mappings, exports]: [Table<'a>; 4], next: &'a AtomicU64) -> Self {
        Self { handles, objects, mappings, exports, next }
    }

    /// Notes memory of `charge` (any word) behind a new handle.
    ///
    /// # Errors
    /// [`Full`]; nothing is noted then.
    pub fn created(&self, handle: u64, charge: u64) -> Result<(), Full> {
        let object = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.objects.insert(object, (charge, HANDLE))?;
        self.handles.insert(handle, (object, 1)).inspect_err(|_| {
            let _ = self.objects.remove(object);
        })
    }

    /// Notes one more handle of the memory that is mapped at `at`; the value may be one that is known, and is then that memory's.
    pub fn retained(&self, handle: u64, at: u64) {
        let known = self.handles.with(handle, |stored| *stored).ok().flatten().map(|(object, _)| object);
        let object =
            known.or_else(|| self.mappings.with(at, |stored| *stored).ok().flatten().map(|(_, object)| object));
        if let Some(object) = object {
            self.one_more(handle, object);
        }
    }

    /// One more handle of an object, whose value may be out already.
    fn one_more(&self, handle: u64, object: u64) {
        if self.refer(object, |count| count.wrapping_add(HANDLE)).is_none() {
            return;
        }
        let more = |stored: &mut Option<(u64, u64)>| {
            let out = stored.filter(|(of, _)| *of == object).map_or(0, |(_, out)| out);
            *stored = Some((object, out + 1));
        };
        // In a full table the handle is not known, and the memory stays charged.
        let _ = self.handles.with(handle, more);
    }

    /// Notes that a handle is released; the charge to give back where nothing holds the memory any more. A handle that is not out changes nothing.
    #[must_use]
    pub fn released(&self, handle: u64) -> Option<u64> {
        let less = |stored: &mut Option<(u64, u64)>| {
            let (object, out) = (*stored)?;
            *stored = (out > 1).then_some((object, out - 1));
            Some(object)
        };
        let object = self.handles.with(handle, less).ok().flatten()?;
        let (charge, count) = self.refer(object, |count| count.saturating_sub(HANDLE))?;
        (count == 0).then_some(charge)
    }

    /// Notes that a handle was exported as a descriptor.
    pub fn exported(&self, handle: u64, descriptor: u32) {
        let object = self.handles.with(handle, |stored| *stored).ok().flatten();
        let key = u64::from(descriptor) + 1;
        // A full table forgets an export: memory that is imported by its own process is then given back with the first of the two handles.
        let _ = self.exports.with(key, |stored| *stored = object);
    }

    /// Notes a handle that was imported from a descriptor: one more of the same memory where this process exported it, and otherwise memory that another
    /// process is charged for.
    pub fn imported(&self, handle: u64, descriptor: u32) {
        let Some((object, _)) = self.exports.with(u64::from(descriptor) + 1, |stored| *stored).ok().flatten() else {
            return;
        };
        self.one_more(handle, object);
    }

    /// Notes that memory is mapped into a part of an array; memory that was mapped there before is not any more.
    ///
    /// # Errors
    /// [`Full`]; nothing is noted then.
    pub fn mapped_into(&self, array: u64, part: u64, handle: u64, give_back: impl FnMut(u64)) -> Result<(), Full> {
        let Some((object, _)) = self.handles.with(handle, |stored| *stored)? else { return Ok(()) };
        let before = self.mappings.with(part, |stored| stored.replace((array, object)))?;
        let _ = self.refer(object, |count| count.wrapping_add(MAPPING));
        self.unmapped_one(before, give_back);
        Ok(())
    }

    /// Notes that nothing is mapped into a part of an array any more.
    pub fn unmapped_from(&self, part: u64, give_back: impl FnMut(u64)) {
        self.unmapped_one(self.mappings.remove(part), give_back);
    }

    /// Notes that an array is gone, and with it all that was mapped into it.
    pub fn array_gone(&self, array: u64, mut give_back: impl FnMut(u64)) {
        self.forget_mappings(|key, of| key & PART != 0 && of == array, &mut give_back);
    }

    fn unmapped_one(&self, mapping: Option<(u64, u64)>, mut give_back: impl FnMut(u64)) {
        if let Some((_, object)) = mapping
            && let Some((charge, 0)) = self.refer(object, |count| count.saturating_sub(MAPPING))
        {
            give_back(charge);
        }
    }

    fn forget_mappings(&self, gone: impl Fn(u64, u64) -> bool, give_back: &mut impl FnMut(u64)) {
        self.mappings.retain(|key, (word, object)| {
            let gone = gone(key, word);
            if gone && let Some((charge, 0)) = self.refer(object, |count| count.saturating_sub(MAPPING)) {
                give_back(charge);
            }
            !gone
        });
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
        if length / STEP > MOST_STEPS {
            self.forget_mappings(|key, _| (at..end).contains(&key), &mut give_back);
            return;
        }
        let mut at = at;
        while at < end {
            let mapping = self.mappings.remove(at);
            self.unmapped_one(mapping, &mut give_back);
            at = at.saturating_add(mapping.map_or(STEP, |(length, _)| length.max(STEP)));
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
        Physical::new([table(), table(), table(), table()], Box::leak(Box::new(AtomicU64::new(0))))
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
    #[test]
    fn a_long_range_with_few_mappings_ends_them_all() {
        let physical = physical();
        for n in 1..=3 {
            physical.created(n, n * 10).unwrap();
            physical.mapped(n << 36, 2 * MIB, n).unwrap();
            assert_eq!(physical.released(n), None);
        }
        let mut back = unmap(&physical, 1 << 36, 2 << 36);
        back.sort_unstable();
        assert_eq!(back, [10, 20], "the third is beyond the range");
        assert_eq!(unmap(&physical, 3 << 36, 2 * MIB), [30]);
    }

    #[test]
    fn an_imported_handle_is_one_more_of_what_was_exported() {
        let physical = physical();
        physical.created(7, 5).unwrap();
        physical.exported(7, 0);
        physical.imported(8, 0);
        physical.imported(9, 4);
        assert_eq!(physical.released(7), None);
        assert_eq!(physical.released(9), None, "of another process, which is charged for it");
        assert_eq!(physical.released(8), Some(5));
        physical.imported(8, 0);
        assert_eq!(physical.released(8), None, "what was exported is gone");
        physical.created(1, 6).unwrap();
        physical.exported(1, 0);
        physical.exported(99, 0);
        physical.imported(2, 0);
        assert_eq!(physical.released(1), Some(6), "the descriptor's number is another's by now");
        physical.created(1, 6).unwrap();
        physical.exported(1, 0);
        physical.imported(2, 0);
        assert_eq!(
            (physical.released(1), physical.released(1)),
            (None, None),
            "it is out no more: the other holds the memory"
        );
        assert_eq!(physical.released(2), Some(6));
    }

    #[test]
    fn memory_in_an_array_is_in_use_until_unmapped_or_the_array_goes() {
        let physical = physical();
        let back = core::cell::RefCell::new(Vec::new());
        let give_back = |charge| back.borrow_mut().push(charge);
        let part = |n| part_of_array(0x500, &[0, n]);
        assert_ne!(part(1), part(2));
        for n in 1..=3 {
            physical.created(n, n).unwrap();
            physical.mapped_into(0x500, part(n), n, give_back).unwrap();
            assert_eq!(physical.released(n), None);
        }
        physical.created(4, 4).unwrap();
        physical.mapped_into(0x500, part(2), 4, give_back).unwrap();
        assert_eq!(back.take(), [2], "another memory took its place");
        physical.unmapped_from(part(1), give_back);
        physical.unmapped_from(part(1), give_back);
        assert_eq!(back.take(), [1]);
        physical.array_gone(0x501, give_back);
        assert_eq!(back.take(), []);
        physical.array_gone(0x500, give_back);
        assert_eq!(back.take(), [3]);
        assert_eq!(physical.released(4), Some(4));
    }
}
