use super::snapshot::{Snapshot, SnapshotError};
use super::*;
extern crate std;
use std::sync::Barrier;
use std::thread;
use std::vec::Vec;

const QUOTA: Bytes = Bytes(1024);

fn words() -> Vec<AtomicU64> {
    let words: Vec<_> = (0..LEDGER_WORDS).map(|_| AtomicU64::new(0)).collect();
    words[0].store(MAGIC, Ordering::Relaxed);
    words
}

fn bytes(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::SeqCst).to_ne_bytes()).collect()
}

#[test]
fn a_slot_holds_what_it_reserves_and_the_quota_is_exact() {
    let words = words();
    let ledger = Ledger::new(&words).unwrap();
    ledger.open_slot(0, Owner::default());
    ledger.open_slot(5, Owner::default());
    assert_eq!(ledger.reserve(0, 0, Bytes(1000), QUOTA), Ok(()));
    assert_eq!(ledger.reserve(0, 0, Bytes(25), QUOTA), Err(OverQuota));
    assert_eq!(ledger.reserve(0, 5, Bytes(25), QUOTA), Err(OverQuota));
    assert_eq!(ledger.reserve(0, 5, Bytes(24), QUOTA), Ok(()));
    assert_eq!(ledger.used(0), QUOTA);
    assert_eq!(ledger.reserve(1, 5, QUOTA, QUOTA), Ok(()), "another card has a quota of its own");
    ledger.release(0, 0, Bytes(1000));
    assert_eq!(ledger.used(0), Bytes(24));
    assert_eq!(ledger.charged_slots(0).collect::<Vec<_>>(), [5]);
    ledger.clear_slot(5);
    assert_eq!((ledger.used(0), ledger.used(1)), (Bytes(0), Bytes(0)));
}

#[test]
fn the_last_slot_and_what_is_beyond() {
    let words = words();
    let ledger = Ledger::new(&words).unwrap();
    ledger.open_slot(SLOTS - 1, Owner::default());
    assert_eq!(ledger.reserve(MAX_CARDS - 1, SLOTS - 1, Bytes(1), QUOTA), Ok(()));
    assert_eq!(ledger.reserve(0, SLOTS, Bytes(1), QUOTA), Err(OverQuota));
    assert_eq!(ledger.reserve(MAX_CARDS, 0, Bytes(1), QUOTA), Err(OverQuota));
    assert_eq!(ledger.reserve(0, SLOTS - 1, Bytes(u64::MAX), QUOTA), Err(OverQuota));
    ledger.release(0, SLOTS - 1, Bytes(u64::MAX));
    assert_eq!(ledger.used(0), Bytes(0));
}

#[test]
fn of_two_that_race_exactly_one_wins() {
    const ROUNDS_OF_RACE: usize = 2_000;
    let words = words();
    let ledger = Ledger::new(&words).unwrap();
    ledger.open_slot(0, Owner::default());
    ledger.open_slot(1, Owner::default());
    let start = Barrier::new(2);
    let wins: Vec<Vec<bool>> = thread::scope(|scope| {
        let run = |slot: usize| {
            let start = &start;
            scope.spawn(move || {
                let mut wins = Vec::new();
                for _ in 0..ROUNDS_OF_RACE {
                    start.wait();
                    let won = ledger.reserve(0, slot, Bytes(700), QUOTA).is_ok();
                    wins.push(won);
                    start.wait();
                    if won {
                        ledger.release(0, slot, Bytes(700));
                    }
                }
                wins
            })
        };
        let both = [run(0), run(1)];
        both.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (round, (a, b)) in wins[0].iter().zip(&wins[1]).enumerate() {
        assert_ne!(a, b, "round {round}");
    }
    assert_eq!(ledger.used(0), Bytes(0));
}

#[test]
fn threads_of_many_slots_never_pass_the_quota() {
    let words = words();
    let ledger = Ledger::new(&words).unwrap();
    thread::scope(|scope| {
        for slot in 0..8 {
            ledger.open_slot(slot, Owner::default());
            scope.spawn(move || {
                for round in 0..2_000_u64 {
                    let amount = Bytes(1 + (round * 37 + slot as u64 * 101) % 400);
                    if ledger.reserve(0, slot, amount, QUOTA).is_ok() {
                        ledger.release(0, slot, amount);
                    }
                }
            });
        }
    });
    assert_eq!(ledger.used(0), Bytes(0));
}

#[test]
fn a_forged_file_neither_panics_nor_opens_the_quota() {
    let words = words();
    for word in words.iter().skip(1) {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    let ledger = Ledger::new(&words).unwrap();
    assert_eq!(ledger.used(0), Bytes(u64::MAX));
    assert_eq!(ledger.reserve(0, 3, Bytes(1), QUOTA), Err(OverQuota));
    ledger.count_refusal(3);
    let file = bytes(&words);
    ledger.note_refusal(Refusal::Kernel);
    ledger.reserve_anyway(0, 3, Bytes(1));
    let snapshot = Snapshot::read(&file).unwrap();
    assert_eq!((snapshot.used(0), snapshot.refusal()), (Bytes(u64::MAX), None));
    words[0].store(1, Ordering::Relaxed);
    assert!(Ledger::new(&words).is_none());
    assert!(Ledger::new(&words[1..]).is_none());
    assert!(Ledger::new(&[]).is_none());
}

#[test]
fn the_host_sees_what_was_charged() {
    let words = words();
    let ledger = Ledger::new(&words).unwrap();
    let owner = Owner { pid: 7, start: 123_456, namespace: 4_026_531_836 };
    ledger.open_slot(2, owner);
    ledger.open_slot(SLOTS - 1, owner);
    ledger.open_slot(SLOTS, owner);
    ledger.reserve(1, 2, Bytes(100), QUOTA).unwrap();
    ledger.release(1, 2, Bytes(23));
    ledger.count_refusal(1);
    ledger.count_refusal(MAX_CARDS);
    let file = bytes(&words);
    let snapshot = Snapshot::read(&file).unwrap();
    assert_eq!((snapshot.used(1), snapshot.held(1, 2), snapshot.processes(1)), (Bytes(77), Bytes(77), 1));
    assert_eq!((snapshot.refused(1), snapshot.refused(0), snapshot.refused(99)), (1, 0, 0));
    assert_eq!(snapshot.held(99, 99_999), Bytes(0));
    assert_eq!((snapshot.peak(1), snapshot.peak(0), snapshot.peak(99)), (Bytes(100), Bytes(0), Bytes(0)));
    assert_eq!((snapshot.owner(2), snapshot.owner(1), snapshot.owner(99_999)), (Some(owner), None, None));
    assert_eq!((snapshot.owner(SLOTS - 1), snapshot.refusal()), (Some(owner), None));
    for n in 1..=2 {
        ledger.note_refusal(Refusal::LimitsDamaged);
        assert_eq!(Snapshot::read(&bytes(&words)).unwrap().refusal(), Some((Refusal::LimitsDamaged, n)));
    }
    ledger.reserve_anyway(1, 2, Bytes(2000));
    assert_eq!(ledger.used(1), Bytes(2077));
    assert_eq!(ledger.reserve(1, 2, Bytes(1), QUOTA), Err(OverQuota), "what is above the quota already grows no more");
    assert_eq!(Snapshot::read(&bytes(&words)).unwrap().peak(1), Bytes(2077));
    assert_eq!(Snapshot::read(&file[1..]).unwrap_err(), SnapshotError::Length);
    assert_eq!(Snapshot::read(&std::vec![0; LEDGER_LEN]).unwrap_err(), SnapshotError::Magic);
    let mut empty = initial_head().to_vec();
    empty.resize(LEDGER_LEN, 0);
    assert_eq!(Snapshot::read(&empty).unwrap().used(0), Bytes(0));
}
