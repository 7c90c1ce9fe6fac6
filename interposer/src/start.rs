//! First use in a process: read the limits, map the ledger, and, before the first allocation, take a slot in it. Or refuse, for good.
//!
//! # Safety
//! The state lies in a page of its own that a child after fork finds zeroed: it starts again, with a slot of its own, and never touches its parent's.
//! `limits` and `path` are written by the one thread that holds stage [`BUSY`], and read only after [`READY`] was seen.
#![expect(unsafe_code, reason = "state that a fork must wipe lies in memory that is mapped by hand")]
use crate::sys::{self, File, OpenError};
use account::table::{SHARDS, Shard};
use account::{Entry, Physical, Table};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use quota::Bytes;
use quota::ledger::{LEDGER_LEN, LEDGER_WORDS, Ledger, SLOTS, lock_byte};
use quota::limits::{LIMITS_LEN, Limits, MAX_CARDS};
use quota::paths::{IN_LEDGER, IN_LIMITS};

const BUSY: u32 = 1;
const READY: u32 = 2;
const REFUSED: u32 = 3;
/// Names a folder with `limits` and `ledger` where the container's own path does not exist: for programs that run under the library outside of a
/// container. Inside one the path exists, and the variable is not looked at.
const DIR_ENV: &[u8] = b"GPU_QUOTA_DIR=";
const PATH_MAX: usize = 512;
/// Live allocations of one process: 64 shards of 32,768 places, seven of eight used.
const ALLOCATIONS: usize = SHARDS << 15;
/// Handles, objects and mappings of virtual memory management.
const PHYSICAL: usize = SHARDS << 10;
/// Devices whose card is remembered.
pub(crate) const DEVICES: usize = 64;

struct Page {
    stage: AtomicU32,
    slot_stage: AtomicU32,
    slot: AtomicU32,
    limits: UnsafeCell<MaybeUninit<Limits>>,
    path: UnsafeCell<[u8; PATH_MAX]>,
    ledger: AtomicPtr<AtomicU64>,
    tables: AtomicPtr<Tables>,
    /// Card of each CUDA device: 0 not asked yet, 1 none, else the card plus 2.
    cards: [AtomicU32; DEVICES],
    /// What this process has charged on each card, beside the ledger, which the whole container can write.
    held: [AtomicU64; MAX_CARDS],
}

/// Everything that grows with use, in one mapping of zeros.
#[repr(C)]
struct Tables {
    shards: [[Shard; SHARDS]; 4],
    next: AtomicU64,
    allocations: [Entry; ALLOCATIONS],
    physical: [[Entry; PHYSICAL]; 3],
}

const PAGE_LEN: usize = size_of::<Page>().next_multiple_of(4096);

static PAGE: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());

fn page() -> Option<&'static Page> {
    let mut at = PAGE.load(Ordering::Acquire);
    if at.is_null() {
        let fresh = sys::zeroed(PAGE_LEN)?;
        if !sys::wipe_in_children(fresh, PAGE_LEN) {
            // SAFETY: nobody else has seen it.
            unsafe { sys::unmap(fresh, PAGE_LEN) };
            return None;
        }
        match PAGE.compare_exchange(at, fresh.cast(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => at = fresh.cast(),
            Err(first) => {
                // SAFETY: another thread was first, and nobody has seen this one.
                unsafe { sys::unmap(fresh, PAGE_LEN) };
                at = first;
            }
        }
    }
    // SAFETY: a mapping of that size that is never unmapped, and zeros are a Page.
    unsafe { at.as_ref() }
}

/// What this process may use, and where it counts.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    page: &'static Page,
    pub(crate) limits: &'static Limits,
    pub(crate) ledger: Ledger<'static>,
}

/// Waits for, or does, the work behind a stage, once. `failed` is the stage after work that failed: [`REFUSED`] for good, or 0 to try again.
fn once(stage: &AtomicU32, failed: u32, work: impl FnOnce() -> bool) -> bool {
    loop {
        match stage.load(Ordering::Acquire) {
            READY => return true,
            REFUSED => return false,
            BUSY => sys::pause(),
            _ => {
                if stage.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    let done = work();
                    stage.store(if done { READY } else { failed }, Ordering::Release);
                    return done;
                }
            }
        }
    }
}

/// This process's share; `None` where limits or ledger are missing or damaged, and then nothing may be allocated.
pub(crate) fn share() -> Option<Share> {
    let page = page()?;
    if !once(&page.stage, REFUSED, || read(page).is_some()) {
        return None;
    }
    // SAFETY: written before the stage became READY, and never again.
    let limits = unsafe { &*page.limits.get() };
    // SAFETY: as above.
    let limits = unsafe { limits.assume_init_ref() };
    let words = page.ledger.load(Ordering::Relaxed);
    // SAFETY: a mapping of the whole ledger that is never unmapped in this process.
    let words = unsafe { core::slice::from_raw_parts(words, LEDGER_WORDS) };
    Some(Share { page, limits, ledger: Ledger::new(words)? })
}

fn read(page: &Page) -> Option<()> {
    // SAFETY: this thread alone holds the stage.
    let path = unsafe { &mut *page.path.get() };
    let limits = match File::open(put(path, &[IN_LIMITS.as_bytes()])?, false) {
        Ok(file) => {
            put(path, &[IN_LEDGER.as_bytes()])?;
            file
        }
        Err(OpenError::NotThere) => {
            let mut dir = [0; PATH_MAX];
            let length = environment(&mut dir)?;
            let dir = dir.get(..length)?;
            let file = File::open(put(path, &[dir, b"/limits"])?, false).ok()?;
            put(path, &[dir, b"/ledger"])?;
            file
        }
        Err(OpenError::Other) => return None,
    };
    let mut bytes = [0; LIMITS_LEN + 1];
    let length = limits.read(&mut bytes);
    let limits = Limits::decode(bytes.get(..length)?).ok()?;
    let file = File::open(CStr::from_bytes_until_nul(path).ok()?, true).ok()?;
    if file.len() != LEDGER_LEN {
        return None;
    }
    let map = file.map(LEDGER_LEN, true)?;
    sys::keep_from_children(map, LEDGER_LEN);
    page.ledger.store(map.cast(), Ordering::Relaxed);
    // SAFETY: this thread alone holds the stage.
    let place = unsafe { &mut *page.limits.get() };
    place.write(limits);
    Some(())
}

/// Puts a path together, NUL-terminated.
fn put<'a>(path: &'a mut [u8; PATH_MAX], parts: &[&[u8]]) -> Option<&'a CStr> {
    path.fill(0);
    let mut at = 0_usize;
    for part in parts {
        path.get_mut(at..at.checked_add(part.len())?)?.copy_from_slice_checked(part)?;
        at += part.len();
    }
    CStr::from_bytes_until_nul(path).ok()
}

/// `copy_from_slice` without its panic.
trait CopyChecked {
    fn copy_from_slice_checked(&mut self, from: &[u8]) -> Option<()>;
}

impl CopyChecked for [u8] {
    fn copy_from_slice_checked(&mut self, from: &[u8]) -> Option<()> {
        (self.len() == from.len()).then(|| self.iter_mut().zip(from).for_each(|(to, from)| *to = *from))
    }
}

/// The folder that [`DIR_ENV`] names in the environment with which the process started; its length.
fn environment(dir: &mut [u8; PATH_MAX]) -> Option<usize> {
    let file = File::open(c"/proc/self/environ", false).ok()?;
    let mut chunk = [0; 1024];
    // Where the current variable agrees with the name so far; beyond its end the value is taken.
    let (mut agrees, mut matched, mut length) = (true, 0, 0);
    loop {
        let read = file.read(&mut chunk);
        if read == 0 {
            return None;
        }
        for byte in chunk.iter().take(read) {
            if *byte == 0 {
                if agrees && matched == DIR_ENV.len() && length > 0 {
                    return Some(length);
                }
                (agrees, matched, length) = (true, 0, 0);
            } else if !agrees {
            } else if matched < DIR_ENV.len() {
                agrees = DIR_ENV.get(matched) == Some(byte);
                matched += 1;
            } else {
                *dir.get_mut(length)? = *byte;
                length += 1;
            }
        }
    }
}

impl Share {
    /// This process's slot, taken at the first allocation; `None` where there is none to be had.
    pub(crate) fn slot(&self) -> Option<usize> {
        let taken = once(&self.page.slot_stage, 0, || self.take_slot().is_some());
        taken.then(|| self.page.slot.load(Ordering::Relaxed) as usize)
    }

    /// Locks a free slot. The lock belongs to the open file, which the small mapping keeps when the descriptor is closed; the kernel ends both with the
    /// process.
    fn take_slot(&self) -> Option<()> {
        const KEEP: usize = 4096;
        let file = File::open(self.ledger_path()?, true).ok()?;
        let used = self.ledger.slots_in_use();
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
        self.ledger.open_slot(slot);
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
        let ready = self.page.slot_stage.load(Ordering::Acquire) == READY;
        let own = if ready { self.page.slot.load(Ordering::Relaxed) as usize } else { usize::MAX };
        let mut others = self.ledger.charged_slots(own).peekable();
        if others.peek().is_none() {
            return;
        }
        let Some(Ok(file)) = self.ledger_path().map(|path| File::open(path, true)) else { return };
        for slot in others {
            if file.lock(lock_byte(slot)) {
                self.ledger.clear_slot(slot);
                file.unlock(lock_byte(slot));
            }
        }
    }

    /// Charges `bytes` to this process if the container's use then stays within `quota`; `false` changes nothing.
    ///
    /// The process's own sum is looked at too: whatever becomes of the ledger, one process never gets more than the whole quota.
    pub(crate) fn charge(&self, card: usize, slot: usize, bytes: Bytes, quota: Bytes) -> bool {
        let Some(held) = self.page.held.get(card) else { return false };
        let add = |held: u64| held.checked_add(bytes.0).filter(|sum| *sum <= quota.0);
        if held.try_update(Ordering::SeqCst, Ordering::SeqCst, add).is_err() {
            return false;
        }
        let charged = self.ledger.reserve(card, slot, bytes, quota).is_ok();
        if !charged {
            held.fetch_sub(bytes.0, Ordering::SeqCst);
        }
        charged
    }

    /// Gives back what [`Share::charge`] has charged.
    pub(crate) fn give_back(&self, card: usize, slot: usize, bytes: Bytes) {
        self.ledger.release(card, slot, bytes);
        if let Some(held) = self.page.held.get(card) {
            let _ = held.try_update(Ordering::SeqCst, Ordering::SeqCst, |held| Some(held.saturating_sub(bytes.0)));
        }
    }

    fn tables(&self) -> Option<&'static Tables> {
        // SAFETY: NULL, or a mapping of that size that is never unmapped in this process; zeros are Tables.
        unsafe { self.page.tables.load(Ordering::Relaxed).as_ref() }
    }

    /// Which address holds how much; `None` before the first allocation.
    pub(crate) fn allocations(&self) -> Option<Table<'static>> {
        let tables = self.tables()?;
        Table::new(tables.shards.first()?, &tables.allocations)
    }

    /// The memory behind handles and mappings; `None` before the first allocation.
    pub(crate) fn physical(&self) -> Option<Physical<'static>> {
        let tables = self.tables()?;
        let table = |at: usize| Table::new(tables.shards.get(at + 1)?, tables.physical.get(at)?);
        Some(Physical::new(table(0)?, table(1)?, table(2)?, &tables.next))
    }

    /// Where the card of a CUDA device is remembered.
    pub(crate) fn remembered(&self, device: usize) -> Option<&'static AtomicU32> {
        self.page.cards.get(device)
    }
}
