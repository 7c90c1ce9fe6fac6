//! Limits and ledger that are missing or damaged: nothing is handed out that was not granted, and nobody crashes. Numbers in names are those of the
//! scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, results};
use quota::ledger::Refusal;
use rustix::fs::FlockOperation;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;

/// What the ledger tells the host of processes that were refused for good.
fn told(case: &Case) -> Option<(Refusal, u64)> {
    case.with_ledger(|ledger| ledger.refusal())
}

/// Every way to allocate is refused, and nothing is said to be free.
fn refuses(case: &Case, why: &str) {
    let steps = [
        "ctx 0",
        "alloc 1",
        "async 1",
        "pool 1",
        "managed 1",
        "pitch 4 4",
        "create 2",
        "alloc_by 12040 1",
        "array 4 4 1 1",
        "mipmap 4 4 4 1 1 0 2",
        "new_pool 0",
        "info",
    ];
    let answers = case.run(&steps);
    assert_eq!(results(&answers[1..11]), [OUT_OF_MEMORY; 10], "{why}");
    assert_eq!((answers[11].result, answers[11].mib()[0]), (0, 0), "{why}");
}

#[test]
fn s38_limits_that_cannot_be_read() {
    let case = Case::default();
    let good = fs::read(case.limits()).unwrap();
    let damaged = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let mut count = 0;
    let mut refuses = |why: &str, reason: Refusal| {
        refuses(&case, why);
        count += 1;
        assert_eq!(told(&case), Some((reason, count)), "{why}");
    };
    assert_eq!(told(&case), None);
    fs::write(case.limits(), damaged(7)).unwrap();
    refuses("another version", Refusal::LimitsVersion);
    fs::write(case.limits(), damaged(40)).unwrap();
    refuses("a changed quota", Refusal::LimitsDamaged);
    fs::write(case.limits(), &good[..good.len() - 1]).unwrap();
    refuses("cut short", Refusal::LimitsDamaged);
    fs::write(case.limits(), [good.as_slice(), b"x"].concat()).unwrap();
    refuses("too long", Refusal::LimitsDamaged);
    fs::write(case.limits(), b"").unwrap();
    refuses("empty", Refusal::LimitsDamaged);
    fs::remove_file(case.limits()).unwrap();
    refuses("removed", Refusal::LimitsMissing);
    fs::create_dir(case.limits()).unwrap();
    refuses("a folder", Refusal::LimitsDamaged);
    fs::remove_dir(case.limits()).unwrap();
    std::os::unix::fs::symlink("limits", case.limits()).unwrap();
    refuses("a link to itself", Refusal::LimitsUnreadable);
    fs::remove_file(case.limits()).unwrap();
    fs::write(case.limits(), &good).unwrap();
    assert_eq!(results(&case.run(&["ctx 0", "alloc 1"])), [0, 0]);
}

#[test]
fn a_ledger_that_cannot_be_used() {
    let case = Case::default();
    let good = fs::read(case.ledger()).unwrap();
    fs::write(case.ledger(), &good[..4096]).unwrap();
    refuses(&case, "cut short");
    let mut other = good.clone();
    other[7] ^= 1;
    fs::write(case.ledger(), other).unwrap();
    refuses(&case, "another version");
    fs::remove_file(case.ledger()).unwrap();
    refuses(&case, "removed");
}

#[test]
fn a_process_that_found_no_place_tries_again() {
    let case = Case::default();
    let mut guest = case.live();
    let ledger = OpenOptions::new().write(true).open(case.ledger()).unwrap();
    // Every place is taken: a lock of the whole file covers each one's byte.
    rustix::fs::fcntl_lock(&ledger, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(guest.steps(&["ctx 0", "alloc 1", "create 2", "info"]), [0, OUT_OF_MEMORY, OUT_OF_MEMORY, 0]);
    assert_eq!(told(&case), Some((Refusal::NoSlot, 1)), "once, however often it was tried");
    drop(ledger);
    assert_eq!(guest.steps(&["alloc 1000", "alloc 100"]), [0, OUT_OF_MEMORY]);
    assert_eq!(guest.step("info").mib(), [24, 1024]);
    guest.end();
}

#[test]
fn without_the_folders_name_nothing_is_granted() {
    let case = Case::default();
    let mut command = case.held(&case.guest());
    command.env_remove("GPU_QUOTA_DIR").args(["ctx 0", "alloc 1"]);
    assert_eq!(results(&interposer_tests::answers(&mut command)), [0, OUT_OF_MEMORY]);
}

/// Bytes that are different in each run.
fn noise(length: usize) -> Vec<u8> {
    let state = RandomState::new();
    (0..length.div_ceil(8) as u64).flat_map(|at| state.hash_one(at).to_ne_bytes()).take(length).collect()
}

fn overwrite(case: &Case, from: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(case.ledger()).expect("the ledger");
    file.write_all_at(bytes, from).expect("a file that can be written");
}

/// All kinds of use of a process that holds 600 of 1,024 MiB; at most the quota is ever its.
fn lives_on(case: &Case, damage: impl Fn(&Case)) {
    let mut guest = case.live();
    assert_eq!(guest.steps(&["ctx 0", "alloc 600", "create 2", "map 0"]), [0; 4]);
    damage(case);
    let mut held = 602;
    for _ in 0..10 {
        held += if guest.step("alloc 100").result == 0 { 100 } else { 0 };
    }
    assert!(held <= 1024, "the process holds {held} MiB of 1024");
    let told = guest.step("info").mib();
    assert!(told[0] <= 1024, "{told:?}");
    assert_eq!(guest.step("nvml 0").result, 0);
    assert_eq!(guest.steps(&["free 0", "unmap 0", "release 0"]), [0; 3]);
    guest.end();
    // Whatever newcomers are told, they live too.
    let newcomer = case.run(&["ctx 0", "alloc 1025", "info", "nvml 0"]);
    assert_eq!(results(&newcomer), [0, OUT_OF_MEMORY, 0, 0]);
}

#[test]
fn s37_noise_in_the_ledger() {
    for _ in 0..8 {
        let case = Case::default();
        let length = usize::try_from(fs::metadata(case.ledger()).unwrap().len()).unwrap();
        lives_on(&case, |case| overwrite(case, 8, &noise(length - 8)));
    }
}

#[test]
fn s37_a_ledger_of_zeros() {
    let case = Case::default();
    let length = usize::try_from(fs::metadata(case.ledger()).unwrap().len()).unwrap();
    lives_on(&case, |case| overwrite(case, 0, &vec![0; length]));
}

#[test]
fn s37_a_ledger_of_zeros_behind_its_head() {
    let case = Case::default();
    let length = usize::try_from(fs::metadata(case.ledger()).unwrap().len()).unwrap();
    lives_on(&case, |case| overwrite(case, 8, &vec![0; length - 8]));
}

#[test]
fn s37_a_ledger_cut_short() {
    for length in [0, 8, 4096, 100_000] {
        let case = Case::default();
        lives_on(&case, |case| OpenOptions::new().write(true).open(case.ledger()).unwrap().set_len(length).unwrap());
    }
}
