//! `state`: memory in use, shared by all processes that use the simulated driver.
//!
//! The file holds a row of counts for each process. A process owns a row while it holds a POSIX record lock on the row's byte: the kernel drops
//! the lock when the process ends, however it ends, and tells the owner's pid as the asker's pid namespace has it. A process does not see its own
//! locks, and libcuda and NVML in one process each have a `State`, so a row also says who owns it. Who takes memory holds a lock of its own
//! meanwhile, so that a card is never given out twice.
//!
//! # Safety
//! The mapping lives as long as the process and covers the file, which only ever grows to its full length; it is reached as atomics only.
#![expect(unsafe_code, reason = "shared memory and record locks")]
use crate::scenario::MAX_CARDS;
use libc::{c_int, c_short};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const ROWS: usize = 2048;
/// A row: who owns it ([`identity`]), then its count on each card.
const ROW: usize = 1 + MAX_CARDS;
const WORDS: usize = ROWS * ROW;
const LEN: usize = WORDS * 8;
/// The byte whose lock lets one process at a time change counts. Rows' bytes lie behind it.
const GATE: usize = LEN;

/// The card has no room for an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A process that uses a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// As the asker's pid namespace has it; 0 where the process is in another.
    pub pid: u32,
    /// In bytes.
    pub bytes: u64,
}

/// The shared counts, as this process sees them.
#[derive(Debug)]
pub struct State {
    file: File,
    counts: &'static [AtomicU64],
    /// One thread at a time: record locks belong to the process, so they do not keep threads apart.
    inside: Mutex<()>,
    /// Pid and row (plus one) of the process that claimed; a child after fork has another pid and claims its own.
    owner: AtomicU32,
    row: AtomicU32,
}

impl State {
    /// Opens `dir/state`, and makes it where it is missing.
    ///
    /// # Errors
    /// Where the folder or file cannot be used.
    pub fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("state");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o666).open(&path)?;
        // The umask of whoever comes first must not keep other users out. Not the owner: then it is open already.
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o666));
        if file.metadata()?.len() < LEN as u64 {
            file.set_len(LEN as u64)?;
        }
        // SAFETY: a shared mapping of a file that we just opened, of its length, at a place of the kernel's choice.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is LEN bytes, aligned to a page, never unmapped, and any bits are a u64.
        let counts = unsafe { std::slice::from_raw_parts(map.cast::<AtomicU64>(), WORDS) };
        Ok(Self { file, counts, inside: Mutex::new(()), owner: AtomicU32::new(0), row: AtomicU32::new(0) })
    }

    /// Takes `bytes` of a card of `memory` bytes.
    ///
    /// # Errors
    /// [`Full`] where that many are not free.
    pub fn take(&self, card: usize, memory: u64, bytes: u64) -> Result<(), Full> {
        self.alone(|| {
            let row = self.own_row().ok_or(Full)?;
            let used = self.sum(card);
            if used.checked_add(bytes).is_none_or(|sum| sum > memory) {
                return Err(Full);
            }
            self.count(row, card).fetch_add(bytes, Ordering::SeqCst);
            Ok(())
        })
    }

    /// Gives back `bytes` of a card that this process took. A child gives back nothing of its parent's.
    pub fn give(&self, card: usize, bytes: u64) {
        self.alone(|| {
            if let Some(row) = self.own_row() {
                let count = self.count(row, card);
                let left = count.load(Ordering::SeqCst).saturating_sub(bytes);
                count.store(left, Ordering::SeqCst);
            }
        });
    }

    /// Bytes of a card in use by all living processes.
    pub fn used(&self, card: usize) -> u64 {
        self.users(card).iter().fold(0, |sum, user| sum.saturating_add(user.bytes))
    }

    /// The living processes that use a card.
    pub fn users(&self, card: usize) -> Vec<Use> {
        let rows = (0..ROWS).filter_map(|row| {
            let bytes = self.count(row, card).load(Ordering::SeqCst);
            if bytes == 0 { None } else { self.living(row).map(|pid| Use { pid, bytes }) }
        });
        rows.collect()
    }

    /// The sum over living processes; what the dead left is cleared on the way.
    fn sum(&self, card: usize) -> u64 {
        let mut sum = 0_u64;
        for row in 0..ROWS {
            let bytes = self.count(row, card).load(Ordering::SeqCst);
            if bytes == 0 {
                continue;
            }
            if self.living(row).is_some() {
                sum = sum.saturating_add(bytes);
            } else {
                self.clear(row);
            }
        }
        sum
    }

    fn clear(&self, row: usize) {
        (0..MAX_CARDS).for_each(|card| self.count(row, card).store(0, Ordering::SeqCst));
    }

    fn count(&self, row: usize, card: usize) -> &AtomicU64 {
        &self.counts[row * ROW + 1 + card % MAX_CARDS]
    }

    /// The row of this very process, claimed at first use.
    fn own_row(&self) -> Option<usize> {
        let pid = std::process::id();
        if self.owner.load(Ordering::Relaxed) != pid {
            let me = identity();
            let start = pid as usize % ROWS;
            let free = (0..ROWS).map(|n| (start + n) % ROWS).find(|row| {
                self.living(*row).is_none() && self.lock(byte(*row), libc::F_WRLCK, libc::F_SETLK).is_some()
            })?;
            self.clear(free);
            self.counts[free * ROW].store(me, Ordering::SeqCst);
            self.row.store(u32::try_from(free).ok()?, Ordering::Relaxed);
            self.owner.store(pid, Ordering::Relaxed);
        }
        Some(self.row.load(Ordering::Relaxed) as usize)
    }

    /// The pid of a row's owner; `None` where it has none.
    fn living(&self, row: usize) -> Option<u32> {
        let pid = std::process::id();
        if self.owner.load(Ordering::Relaxed) == pid && self.row.load(Ordering::Relaxed) as usize == row {
            return Some(pid);
        }
        let lock = self.lock(byte(row), libc::F_WRLCK, libc::F_GETLK)?;
        if c_int::from(lock.l_type) != libc::F_UNLCK {
            return Some(u32::try_from(lock.l_pid).unwrap_or(0));
        }
        (self.counts[row * ROW].load(Ordering::SeqCst) == identity()).then_some(pid)
    }

    fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = self.lock(GATE, libc::F_WRLCK, libc::F_SETLKW);
        let done = work();
        if gate.is_some() {
            self.lock(GATE, libc::F_UNLCK, libc::F_SETLK);
        }
        done
    }

    fn lock(&self, start: usize, kind: c_int, command: c_int) -> Option<libc::flock> {
        let short = |number: c_int| c_short::try_from(number).ok();
        let mut lock = libc::flock {
            l_type: short(kind)?,
            l_whence: short(libc::SEEK_SET)?,
            l_start: i64::try_from(start).ok()?,
            l_len: 1,
            l_pid: 0,
        };
        loop {
            // SAFETY: a record-lock command on our own open file, with a lock structure that lives through the call.
            let done = unsafe { libc::fcntl(self.file.as_raw_fd(), command, &raw mut lock) };
            if done == 0 {
                return Some(lock);
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
    }
}

/// This process among all that ever ran in any pid namespace since boot: namespace, pid and start time, mixed into one word that is not 0.
fn identity() -> u64 {
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |ns| std::os::unix::fs::MetadataExt::ino(&ns));
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Field 22 counts from 1; the name in field 2 can hold blanks, so counting starts behind its bracket.
    let began = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)?.parse().ok()).unwrap_or(0);
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    [namespace, u64::from(std::process::id()), began].into_iter().fold(0xcbf2_9ce4_8422_2325, mix) | 1
}

const fn byte(row: usize) -> usize {
    GATE + 1 + row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_never_given_out_twice() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        assert_eq!(state.take(0, 100, 60), Ok(()));
        assert_eq!(state.take(0, 100, 41), Err(Full));
        assert_eq!(state.take(1, 100, 100), Ok(()));
        assert_eq!(state.users(0), [Use { pid: std::process::id(), bytes: 60 }]);
        state.give(0, 60);
        assert_eq!((state.used(0), state.used(1)), (0, 100));
        assert_eq!(state.take(0, u64::MAX, u64::MAX), Ok(()));
        assert_eq!(state.take(0, u64::MAX, 1), Err(Full));
    }
}
