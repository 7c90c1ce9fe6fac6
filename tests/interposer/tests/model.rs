//! Random steps of several processes, some of which are ended in the midst of them: after each step the ledger holds exactly what the driver has taken, and
//! never more than the quota.
use interposer_tests::{Case, Live};
use std::hash::{BuildHasher, RandomState};

const QUOTA: u64 = 1024;
const PROCESSES: usize = 3;
const STEPS: usize = 1500;

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    /// A number below `end` (xorshift64*).
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A step of any family. Places are drawn among the first ones, so that many are used twice, or not there.
fn step(random: &mut Random) -> String {
    let (mib, place) = (random.below(300), random.below(12));
    let (even, few) = (mib & !1, random.below(3));
    match random.below(44) {
        0..=3 => format!("alloc {mib}"),
        4..=7 => format!("free {place}"),
        8 => format!("managed {mib}"),
        9 => format!("pitch {} 4096", mib * 100),
        10 => format!("async {mib}"),
        11 => format!("async_ptsz {mib}"),
        12 => format!("new_pool 0 {}", random.below(2) * 256),
        13 => format!("pool_alloc {few} {mib}"),
        14 => format!("pool_keep {few} {mib}"),
        15 => format!("end_pool {few}"),
        16 => format!("trim {few} {mib}"),
        17 => format!("set_pool 0 {few}"),
        18 => format!("free_async {place}"),
        19 => format!("free_async_ptsz {place}"),
        20 | 21 => "sync".to_owned(),
        22 => format!("create {even}"),
        23 => format!("map {few}"),
        24 => format!("unmap {few}"),
        25 | 26 => format!("release {few}"),
        27 => format!("retain {few}"),
        28 => format!("export {few}"),
        29 => format!("import {few}"),
        30 => format!("array {} 1024 32 4", mib * 10),
        31 => format!("array3d 1024 1024 {mib} 32 1 {}", random.below(2) * 64),
        32 => format!("mipmap {} 1000 20 8 2 0 5", mib * 10),
        33 => format!("end_array {few}"),
        34 => format!("end_mipmap {few}"),
        35 => format!("map_array {few} {place}"),
        36 => format!("unmap_array {few}"),
        37 => format!("graph_alloc {mib}"),
        38 => format!("instantiate {few} {}", random.below(4)),
        39 => format!("launch {few}"),
        40 => format!("upload {few}"),
        41 => "graph_trim 0".to_owned(),
        42 => "new_ctx 0".to_owned(),
        _ => "reset 0".to_owned(),
    }
}

fn started(case: &Case) -> Live {
    let mut guest = case.live();
    assert_eq!(guest.step("ctx 0").result, 0);
    guest
}

/// The same few sequences in each run; `GPU_QUOTA_SEED=random` draws others, and a number repeats one that failed.
#[test]
fn ledger_and_driver_agree_whatever_is_done() {
    match std::env::var("GPU_QUOTA_SEED") {
        Ok(seed) => agree(seed.parse().unwrap_or_else(|_| RandomState::new().hash_one(0) | 1)),
        Err(_) => [1, 2, 3].into_iter().for_each(agree),
    }
}

fn agree(seed: u64) {
    let mut random = Random(seed);
    let case = Case::agreed(QUOTA);
    let mut guests: Vec<Live> = (0..PROCESSES).map(|_| started(&case)).collect();
    // What each process did with success.
    let mut done = vec![Vec::new(); PROCESSES];
    for _ in 0..STEPS {
        let who = usize::try_from(random.below(PROCESSES as u64)).expect("a few");
        let guest = &mut guests[who];
        if random.below(40) == 0 {
            // In the midst of a step, if it is not done yet.
            guest.ask(&step(&mut random));
            std::mem::replace(guest, started(&case)).kill();
            // The next report looks for the dead.
            done[who].clear();
            assert_eq!(guest.step("info").result, 0);
        } else {
            let step = step(&mut random);
            let result = guest.step(&step).result;
            if result == 0 {
                done[who].push(step);
            }
        }
        let truth = guests[who].step("truth 0").values[0];
        let charged = case.with_ledger(|ledger| ledger.used(0)).0;
        assert_eq!(charged, truth, "seed {seed}: {:?}", done[who]);
        assert!(truth <= QUOTA << 20, "seed {seed}: {:?}", done[who]);
    }
    guests.into_iter().for_each(Live::end);
    let mut last = started(&case);
    assert_eq!((last.step("truth 0").values[0], last.step("info").mib()), (0, vec![QUOTA, QUOTA]));
}
