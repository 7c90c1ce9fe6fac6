//! First use in a process: read the limits, map the ledger, and, before the first allocation, take a slot in it. Or refuse, for good, and leave the reason
//! in the ledger for the host to see.
//!
//! # Safety
//! The state lies in a page of its own that a child after fork finds zeroed: it starts again, with a slot of its own, and never touches its parent's.
//! `limits` and `path` are written by the one thread that holds stage [`BUSY`], and read only after [`READY`] was seen.
#![expect(unsafe_code, reason = "state that a fork must wipe lies in memory that is mapped by hand")]
use crate::sys::{self, File, OpenError};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use environment::{PATH_MAX, environment, put};
use quota::ledger::{LEDGER_LEN, LEDGER_WORDS, Ledger, Refusal};
use quota::limits::{LIMITS_LEN, Limits, LimitsError, MAX_CARDS};
use quota::paths::{IN_LEDGER, IN_LIMITS};

mod environment;
mod share;
mod slot;
mod tables;

pub(crate) use share::Share;
use tables::Tables;

const BUSY: u32 = 1;
const READY: u32 = 2;
const REFUSED: u32 = 3;
/// Devices whose card is remembered.
pub(crate) const DEVICES: usize = 64;
/// How often a limits file with a wrong checksum is read: the host may be in the midst of writing it.
const READS: u32 = 3;

struct Page {
    stage: AtomicU32,
    slot_stage: AtomicU32,
    slot: AtomicU32,
    /// Whether the host was told that no slot was to be had.
    told: AtomicU32,
    /// Whether the ledger was cut short: from then on this process counts by itself.
    lost: AtomicU32,
    /// Whether a pool may hold more than is live in it.
    slack: AtomicU32,
    /// When the ledger was last seen to be whole, in [`sys::ticks`].
    seen: AtomicU64,
    limits: UnsafeCell<MaybeUninit<Limits>>,
    path: UnsafeCell<[u8; PATH_MAX]>,
    /// The limits file as it is now: the host may change a quota.
    quotas: AtomicPtr<AtomicU64>,
    ledger: AtomicPtr<AtomicU64>,
    tables: AtomicPtr<Tables>,
    /// Card of each CUDA device: 0 not asked yet, 1 none, else the card plus 2.
    cards: [AtomicU32; DEVICES],
    /// What this process has charged on each card, beside the ledger, which the whole container can write.
    held: [AtomicU64; MAX_CARDS],
    /// Contexts of this process on each card that are charged.
    contexts: [AtomicU64; MAX_CARDS],
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
    let Some(page) = page() else {
        refuse_without_memory();
        return None;
    };
    if !once(&page.stage, REFUSED, || start(page)) {
        return None;
    }
    // SAFETY: written before the stage became READY, and never again.
    let limits = unsafe { &*page.limits.get() };
    // SAFETY: as above.
    let limits = unsafe { limits.assume_init_ref() };
    let words = page.ledger.load(Ordering::Relaxed);
    // SAFETY: a mapping of the whole ledger that is never unmapped in this process; it is touched only after `Share::ledger` has looked whether it is whole.
    let words = unsafe { core::slice::from_raw_parts(words, LEDGER_WORDS) };
    let quotas = page.quotas.load(Ordering::Relaxed);
    // SAFETY: a mapping of the whole limits file that is never unmapped in this process; only the host can cut it short.
    let quotas = unsafe { core::slice::from_raw_parts(quotas, LIMITS_LEN / 8) };
    Some(Share { page, limits, words, quotas })
}

/// Whether a pool of this process may hold more than is live in it. Starts nothing.
pub(crate) fn has_slack() -> bool {
    // SAFETY: NULL, or a mapping of that size that is never unmapped, and zeros are a Page.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    page.is_some_and(|page| page.slack.load(Ordering::Relaxed) != 0)
}

/// Reads the limits and maps the ledger. Where that fails, a ledger that can be mapped is told why.
fn start(page: &Page) -> bool {
    // SAFETY: this thread alone holds the stage.
    let path = unsafe { &mut *page.path.get() };
    let read = read(page, path);
    let ledger = map_ledger(path);
    match (read, ledger) {
        (Ok(limits), Some(ledger)) => {
            page.ledger.store(ledger, Ordering::Relaxed);
            // SAFETY: this thread alone holds the stage.
            let place = unsafe { &mut *page.limits.get() };
            place.write(limits);
            true
        }
        (Err(why), Some(ledger)) => {
            // SAFETY: a fresh mapping of the whole ledger.
            Ledger::known(unsafe { core::slice::from_raw_parts(ledger, LEDGER_WORDS) }).note_refusal(why);
            // SAFETY: nobody has seen it.
            unsafe { sys::unmap(ledger.cast(), LEDGER_LEN) };
            false
        }
        (_, None) => false,
    }
}

/// The kernel does not give what this library needs, or no memory. The host is told, once.
fn refuse_without_memory() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    if TOLD.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    let mut path = [0; PATH_MAX];
    if put(&mut path, &[IN_LEDGER.as_bytes()]).is_some()
        && let Some(ledger) = map_ledger(&path)
    {
        // SAFETY: a fresh mapping of the whole ledger.
        Ledger::known(unsafe { core::slice::from_raw_parts(ledger, LEDGER_WORDS) }).note_refusal(Refusal::Kernel);
        // SAFETY: nobody has seen it.
        unsafe { sys::unmap(ledger.cast(), LEDGER_LEN) };
    }
}

/// The limits; the ledger's path is left in `path`, whatever comes of them.
fn read(page: &Page, path: &mut [u8; PATH_MAX]) -> Result<Limits, Refusal> {
    let opened = File::open(put(path, &[IN_LIMITS.as_bytes()]).ok_or(Refusal::LimitsMissing)?, false);
    let mut dir = [0; PATH_MAX];
    let outside = if opened.is_err() { environment(&mut dir) } else { None };
    let opened = match (opened, outside.and_then(|length| dir.get(..length))) {
        (Err(OpenError::NotThere), Some(dir)) => {
            let opened = File::open(put(path, &[dir, b"/limits"]).ok_or(Refusal::LimitsMissing)?, false);
            put(path, &[dir, b"/ledger"]).ok_or(Refusal::LimitsMissing)?;
            opened
        }
        (opened, _) => {
            put(path, &[IN_LEDGER.as_bytes()]).ok_or(Refusal::LimitsMissing)?;
            opened
        }
    };
    let file = opened.map_err(|error| match error {
        OpenError::NotThere => Refusal::LimitsMissing,
        OpenError::Other => Refusal::LimitsUnreadable,
    })?;
    let mut decoded = Err(LimitsError::Length);
    for _ in 0..READS {
        let mut bytes = [0; LIMITS_LEN + 1];
        let length = file.read_from_start(&mut bytes);
        decoded = Limits::decode(bytes.get(..length).unwrap_or(&[]));
        if decoded != Err(LimitsError::Checksum) {
            break;
        }
        sys::pause();
    }
    let limits = decoded.map_err(|error| match error {
        LimitsError::Magic => Refusal::LimitsVersion,
        _ => Refusal::LimitsDamaged,
    })?;
    let map = file.map(LIMITS_LEN, false).ok_or(Refusal::LimitsUnreadable)?;
    sys::keep_from_children(map, LIMITS_LEN);
    page.quotas.store(map.cast(), Ordering::Relaxed);
    Ok(limits)
}

/// Maps the ledger at a path, if it is one.
fn map_ledger(path: &[u8; PATH_MAX]) -> Option<*mut AtomicU64> {
    let file = File::open(CStr::from_bytes_until_nul(path).ok()?, true).ok()?;
    if file.len() != LEDGER_LEN {
        return None;
    }
    let map: *mut AtomicU64 = file.map(LEDGER_LEN, true)?.cast();
    // It may be cut short from now on.
    let is_ledger = sys::can_read(map.cast()) && {
        // SAFETY: a fresh mapping of the whole ledger.
        Ledger::new(unsafe { core::slice::from_raw_parts(map, LEDGER_WORDS) }).is_some()
    };
    if !is_ledger {
        // SAFETY: nobody has seen it.
        unsafe { sys::unmap(map.cast(), LEDGER_LEN) };
        return None;
    }
    sys::keep_from_children(map.cast(), LEDGER_LEN);
    Some(map)
}
