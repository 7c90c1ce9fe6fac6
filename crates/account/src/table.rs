//! A map from an address or handle to two words, in memory of the caller: constant time at a million entries, no allocation.
//!
//! The memory is cut into [`SHARDS`], each with a lock of one word, so that threads rarely meet. A lock is held for a few dozen instructions and
//! never across a call to the driver. Memory of all zeros is an empty table.
use core::sync::atomic::{AtomicU64, Ordering};

/// How many parts are locked by themselves.
pub const SHARDS: usize = 64;
/// Of a shard's places, at most this many of 8 are used, so that a search stays short.
const MOST_OF_EIGHT: usize = 7;

/// A place in the table. Key 0 is free, so 0 cannot be a key: neither an address nor a handle is 0.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Entry {
    key: AtomicU64,
    first: AtomicU64,
    second: AtomicU64,
}

/// The lock and count of a shard; a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Shard {
    held: AtomicU64,
    used: AtomicU64,
}

/// The table has no place for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A table in memory of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    shards: &'a [Shard; SHARDS],
    entries: &'a [Entry],
    /// Places in a shard; a power of two.
    size: usize,
}

struct Locked<'a>(&'a Shard);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.held.store(0, Ordering::Release);
    }
}

impl<'a> Table<'a> {
    /// A table in `entries`; `None` unless there are [`SHARDS`] times a power of two, at least eight, of them.
    #[must_use]
    pub fn new(shards: &'a [Shard; SHARDS], entries: &'a [Entry]) -> Option<Self> {
        let size = entries.len() / SHARDS;
        let fits = size >= 8 && size.is_power_of_two() && size * SHARDS == entries.len();
        fits.then_some(Self { shards, entries, size })
    }

    /// Lets `change` look at and change what is stored under `key`: `None` is nothing.
    ///
    /// # Errors
    /// [`Full`] where something is to be stored under a new key and there is no place; nothing is changed then. Key 0 is always full.
    pub fn with<R>(&self, key: u64, change: impl FnOnce(&mut Option<(u64, u64)>) -> R) -> Result<R, Full> {
        let hash = mix(key);
        let number = usize::try_from(hash >> 58).unwrap_or(0);
        let (Some(shard), Some(entries)) =
            (self.shards.get(number), self.entries.get(number * self.size..(number + 1) * self.size))
        else {
            return Err(Full);
        };
        if key == 0 {
            return Err(Full);
        }
        let _locked = lock(shard);
        let mask = self.size - 1;
        let home = usize::try_from(hash & mask as u64).unwrap_or(0);
        let (at, found) = find(entries, mask, home, key);
        let Some(entry) = entries.get(at) else { return Err(Full) };
        let mut value = found.then(|| (entry.first.load(Ordering::Relaxed), entry.second.load(Ordering::Relaxed)));
        let used = shard.used.load(Ordering::Relaxed);
        let full = !found && used >= (self.size / 8 * MOST_OF_EIGHT) as u64;
        if full {
            return Err(Full);
        }
        let result = change(&mut value);
        match value {
            Some((first, second)) => {
                entry.first.store(first, Ordering::Relaxed);
                entry.second.store(second, Ordering::Relaxed);
                if !found {
                    entry.key.store(key, Ordering::Relaxed);
                    shard.used.store(used + 1, Ordering::Relaxed);
                }
            }
            None if found => {
                close(entries, mask, at);
                shard.used.store(used.saturating_sub(1), Ordering::Relaxed);
            }
            None => {}
        }
        Ok(result)
    }

    /// Stores two words under a key that is new or replaced.
    ///
    /// # Errors
    /// [`Full`].
    pub fn insert(&self, key: u64, value: (u64, u64)) -> Result<(), Full> {
        self.with(key, |stored| *stored = Some(value))
    }

    /// Takes what is stored under a key. Works in a full table too.
    #[must_use]
    pub fn remove(&self, key: u64) -> Option<(u64, u64)> {
        self.with(key, Option::take).ok().flatten()
    }

    /// Forgets every entry for which `keep` says no. Shards without entries cost nothing.
    pub fn retain(&self, mut keep: impl FnMut(u64, (u64, u64)) -> bool) {
        for (number, shard) in self.shards.iter().enumerate() {
            let Some(entries) = self.entries.get(number * self.size..(number + 1) * self.size) else { continue };
            let _locked = lock(shard);
            let mut at = 0;
            while shard.used.load(Ordering::Relaxed) > 0 {
                let Some(entry) = entries.get(at) else { break };
                let key = entry.key.load(Ordering::Relaxed);
                let value = (entry.first.load(Ordering::Relaxed), entry.second.load(Ordering::Relaxed));
                if key == 0 || keep(key, value) {
                    at += 1;
                    continue;
                }
                // What moves up into this place is looked at next; what moves here from the shard's beginning was kept, and is kept again.
                close(entries, self.size - 1, at);
                let used = shard.used.load(Ordering::Relaxed);
                shard.used.store(used.saturating_sub(1), Ordering::Relaxed);
            }
        }
    }

    /// How many keys are stored; only a hint while others change the table.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| u64::saturating_add(sum, shard.used.load(Ordering::Relaxed)))
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Takes a shard's lock; its holder does not sleep while it has it.
fn lock(shard: &Shard) -> Locked<'_> {
    while shard.held.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        core::hint::spin_loop();
    }
    Locked(shard)
}

/// The place of `key`, or the free place where it would go.
fn find(entries: &[Entry], mask: usize, home: usize, key: u64) -> (usize, bool) {
    let mut at = home;
    for _ in 0..=mask {
        match entries.get(at).map(|entry| entry.key.load(Ordering::Relaxed)) {
            Some(other) if other == key => return (at, true),
            Some(0) | None => break,
            Some(_) => at = (at + 1) & mask,
        }
    }
    (at, false)
}

/// Frees a place, and moves those behind it up whose search would pass it: no marks are left that would make later searches long.
fn close(entries: &[Entry], mask: usize, mut hole: usize) {
    let mut at = hole;
    loop {
        at = (at + 1) & mask;
        let (Some(to), Some(from)) = (entries.get(hole), entries.get(at)) else { return };
        let key = from.key.load(Ordering::Relaxed);
        if key == 0 || at == hole {
            to.key.store(0, Ordering::Relaxed);
            return;
        }
        let wanted = usize::try_from(mix(key) & mask as u64).unwrap_or(0);
        // The entry may move if its home is not in (hole, at], counted round the end.
        if (at.wrapping_sub(wanted) & mask) >= (at.wrapping_sub(hole) & mask) {
            to.first.store(from.first.load(Ordering::Relaxed), Ordering::Relaxed);
            to.second.store(from.second.load(Ordering::Relaxed), Ordering::Relaxed);
            to.key.store(key, Ordering::Relaxed);
            hole = at;
        }
    }
}

/// Spreads keys that differ in few bits, as addresses do (the finalizer of `SplitMix64`).
pub(crate) const fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

#[cfg(test)]
mod tests;
