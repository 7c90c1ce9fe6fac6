//! What a container's ledger says, looked at from the host. The container can write anything there: it is read once, bounded, never mapped, and what
//! cannot be is told as a fault.
use crate::files::FileError;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use quota::Bytes;
use quota::ledger::snapshot::{Snapshot, SnapshotError};
use quota::ledger::{LEDGER_LEN, Owner, Refusal, SLOTS, lock_byte};
use quota::limits::MAX_CARDS;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

/// A ledger at one moment.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Card by card, in the order of the limits file.
    pub cards: [CardUsage; MAX_CARDS],
    /// The living processes that count in the ledger.
    pub processes: Vec<Process>,
    /// Why processes were refused for good: the last reason, and how many they were.
    pub refusal: Option<(Refusal, u64)>,
}

/// What is counted on one card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardUsage {
    /// By living processes; what the dead left is nobody's.
    pub used: Bytes,
    /// The most at one time.
    pub peak: Bytes,
    /// Living processes that hold something.
    pub processes: usize,
    /// Allocations that were refused.
    pub refused: u64,
}

/// A living process that counts in the ledger, by its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Who it says it is.
    pub owner: Option<Owner>,
    /// What it holds, card by card.
    pub held: [Bytes; MAX_CARDS],
}

/// Why a ledger cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The container has cut it short or written over its head.
    #[error("{0}; a process of the container has damaged it, and its use is not known")]
    Damaged(#[from] SnapshotError),
}

/// Reads a ledger, and asks the kernel which of its processes live.
///
/// # Errors
/// [`UsageError`].
pub fn read(path: &Path) -> Result<Usage, UsageError> {
    let fail = |step| move |source| FileError::new(step, path, source);
    let file = File::open(path).map_err(fail("open"))?;
    let mut bytes = Vec::with_capacity(LEDGER_LEN + 1);
    (&file).take(LEDGER_LEN as u64 + 1).read_to_end(&mut bytes).map_err(fail("read"))?;
    let ledger = Snapshot::read(&bytes)?;
    let mut usage = Usage { cards: Default::default(), processes: Vec::new(), refusal: ledger.refusal() };
    for (card, seen) in usage.cards.iter_mut().enumerate() {
        (seen.peak, seen.refused) = (ledger.peak(card), ledger.refused(card));
    }
    for slot in 0..SLOTS {
        let held: [Bytes; MAX_CARDS] = std::array::from_fn(|card| ledger.held(card, slot));
        let owner = ledger.owner(slot);
        if (owner.is_none() && held == [Bytes(0); MAX_CARDS])
            || !is_locked(&file, slot).map_err(fail("ask the locks of"))?
        {
            continue;
        }
        for (seen, held) in usage.cards.iter_mut().zip(held).filter(|(_, held)| held.0 > 0) {
            seen.used = Bytes(seen.used.0.saturating_add(held.0));
            seen.processes += 1;
        }
        usage.processes.push(Process { owner, held });
    }
    Ok(usage)
}

/// Whether a slot's owner lives: the kernel releases its lock when it is gone.
fn is_locked(file: &File, slot: usize) -> std::io::Result<bool> {
    let short = |number: i32| i16::try_from(number).unwrap_or(0);
    let mut lock = libc::flock {
        l_type: short(libc::F_WRLCK),
        l_whence: short(libc::SEEK_SET),
        l_start: i64::try_from(lock_byte(slot)).unwrap_or(i64::MAX),
        l_len: 1,
        l_pid: 0,
    };
    fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota::ledger::initial_head;
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    /// Locks slots' bytes as the interposer does; the lock ends with the file.
    fn lock(path: &Path, slot: usize) -> File {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let lock = libc::flock {
            l_type: i16::try_from(libc::F_WRLCK).unwrap(),
            l_whence: 0,
            l_start: i64::try_from(lock_byte(slot)).unwrap(),
            l_len: 1,
            l_pid: 0,
        };
        fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        file
    }

    fn word(file: &File, at: usize, value: u64) {
        file.write_all_at(&value.to_ne_bytes(), at as u64 * 8).unwrap();
    }

    #[test]
    fn only_the_living_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut empty = initial_head().to_vec();
        empty.resize(LEDGER_LEN, 0);
        std::fs::write(&path, &empty).unwrap();
        let usage = read(&path).unwrap();
        assert_eq!((usage.cards[0], usage.processes.len(), usage.refusal), (CardUsage::default(), 0, None));

        let file = OpenOptions::new().write(true).open(&path).unwrap();
        // As the layout in quota::ledger has it: refusals, peak, two slots on card 1, one owner.
        word(&file, 16 + 1, 4);
        word(&file, 32 + 1, 900);
        word(&file, 64 + SLOTS + 3, 100);
        word(&file, 64 + SLOTS + 1023, 70);
        word(&file, 16448 + 3 * 4, 17);
        let living = lock(&path, 3);
        let usage = read(&path).unwrap();
        let expected = CardUsage { used: Bytes(100), peak: Bytes(900), processes: 1, refused: 4 };
        assert_eq!((usage.cards[1], usage.cards[0]), (expected, CardUsage::default()));
        assert_eq!(usage.processes.len(), 1);
        assert_eq!(usage.processes[0].owner.map(|owner| owner.pid), Some(17));
        let other = lock(&path, 1023);
        assert_eq!(read(&path).unwrap().cards[1].used, Bytes(170));
        drop((living, other));
        assert_eq!(read(&path).unwrap().cards[1].used, Bytes(0));
    }

    #[test]
    fn a_hostile_ledger_is_a_fault_or_a_large_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        for length in [0, 8, LEDGER_LEN - 1, LEDGER_LEN + 1] {
            let mut bytes = initial_head().to_vec();
            bytes.resize(length, 0);
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(read(&path), Err(UsageError::Damaged(SnapshotError::Length))), "{length}");
        }
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&path).is_err(), "a ledger that is made huge");
        std::fs::write(&path, vec![0; LEDGER_LEN]).unwrap();
        assert!(matches!(read(&path), Err(UsageError::Damaged(SnapshotError::Magic))));
        let mut bytes = vec![0xff; LEDGER_LEN];
        bytes[..8].copy_from_slice(&initial_head());
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&path).unwrap().cards[0].used, Bytes(0), "nobody holds a lock");
        let _locks: Vec<File> = [0, 1, 2].map(|slot| lock(&path, slot)).into();
        let usage = read(&path).unwrap();
        assert_eq!((usage.cards[0].used, usage.cards[0].processes), (Bytes(u64::MAX), 3));
        assert!(matches!(read(&dir.path().join("none")), Err(UsageError::File(_))));
    }
}
