//! This process's slot in the ledger, and the slots of those that died.
//!
//! # Safety
//! As in [`super`].
#![expect(unsafe_code, reason = "reads what the start has left in the page")]
use super::tables::Tables;
use super::{READY, Share, once};
use crate::sys::{self, File};
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use quota::ledger::{Owner, Refusal, SLOTS, lock_byte};

impl Share {
    /// This process's slot, taken at the first allocation; `None` where there is none to be had.
    pub(crate) fn slot(&self) -> Option<usize> {
        let taken = once(&self.page.slot_stage, 0, || self.take_slot().is_some());
        if !taken && self.page.told.swap(1, Ordering::Relaxed) == 0 {
            self.ledger()?.note_refusal(Refusal::NoSlot);
        }
        taken.then(|| self.page.slot.load(Ordering::Relaxed) as usize)
    }

    /// Locks a free slot. The lock belongs to the open file, which the small mapping keeps when the descriptor is closed; the kernel ends both with the
    /// process.
    fn take_slot(&self) -> Option<()> {
        const KEEP: usize = 4096;
        let file = File::open(self.ledger_path()?, true).ok()?;
        let used = self.ledger().map_or(0, |ledger| ledger.slots_in_use());
        let random = sys::pid().wrapping_mul(0x9e37_79b9);
        // Two looks at slots that may have become free, then the next that was never used, then all: the time does not grow with the processes.
        let guesses = [random, random >> 16].into_iter().filter_map(|guess| guess.checked_rem(used));
        let slot = guesses.chain(used..SLOTS).chain(0..used).find(|slot| file.lock(lock_byte(*slot)))?;
        let tables = sys::zeroed(size_of::<Tables>())?;
        let Some(keep) = file.map(KEEP, false) else {
            // SAFETY: nobody has seen it.
            unsafe { sys::unmap(tables, size_of::<Tables>()) };
            return None;
        };
        sys::keep_from_children(tables, size_of::<Tables>());
        sys::keep_from_children(keep, KEEP);
        if let Some(ledger) = self.whole_ledger() {
            ledger.open_slot(slot, owner());
        }
        self.page.tables.store(tables.cast(), Ordering::Relaxed);
        self.page.slot.store(u32::try_from(slot).ok()?, Ordering::Relaxed);
        Some(())
    }

    fn ledger_path(&self) -> Option<&CStr> {
        // SAFETY: written before the stage became READY, and never again.
        let path = unsafe { &*self.page.path.get() };
        CStr::from_bytes_until_nul(path).ok()
    }

    /// Gives back what dead processes had charged. Anyone may; a slot whose lock can be taken has no living owner.
    pub(crate) fn reap(&self) {
        let Some(ledger) = self.whole_ledger() else { return };
        let ready = self.page.slot_stage.load(Ordering::Acquire) == READY;
        let own = if ready { self.page.slot.load(Ordering::Relaxed) as usize } else { usize::MAX };
        let mut others = ledger.charged_slots(own).peekable();
        if others.peek().is_none() {
            return;
        }
        let Some(Ok(file)) = self.ledger_path().map(|path| File::open(path, true)) else { return };
        for slot in others {
            if file.lock(lock_byte(slot)) {
                ledger.clear_slot(slot);
                file.unlock(lock_byte(slot));
            }
        }
    }
}

/// Who this process is, as it sees itself. What cannot be read is 0.
fn owner() -> Owner {
    let mut link = [0; 64];
    let length = sys::link(c"/proc/self/ns/pid", &mut link);
    let namespace = digits(link.get(..length).unwrap_or(&[]));
    let mut record = [0; 1024];
    let length = File::open(c"/proc/self/stat", false).map_or(0, |file| file.read(&mut record));
    let record = record.get(..length).unwrap_or(&[]);
    // The program's name, in parentheses, may hold anything; the last parenthesis ends it, and field 3 follows.
    let behind = record.iter().rposition(|byte| *byte == b')').and_then(|at| record.get(at..)).unwrap_or(&[]);
    let start = behind.split(|byte| *byte == b' ').nth(20).map_or(0, digits);
    Owner { pid: sys::pid() as u64, start, namespace }
}

/// The digits of a text as one number.
fn digits(text: &[u8]) -> u64 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| number.wrapping_mul(10).wrapping_add(u64::from(*digit - b'0')))
}
