//! Linear memory: what is refused, what goes back, and what the process is told. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, REFERENCE, Share, last, results};
use quota::Bytes;
use quota::limits::{CardLimit, Limits, Managed};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

#[test]
fn s01_what_exceeds_the_quota_is_refused() {
    let case = Case::default();
    let answers = case.run(&["ctx 0", "alloc 1000", "alloc 100", "info", "total 0", "nvml 0", "nvml2 0"]);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0, 0, 0]);
    assert_eq!(answers[3].mib(), [24, 1024], "free, total");
    assert_eq!(answers[4].mib(), [1024]);
    assert_eq!(answers[5].mib(), [1024, 24, 1000], "total, free, used");
    assert_eq!(answers[6].mib(), [1024, 0, 24, 1000], "total, reserved, free, used");
    let bare = case.run_bare(&["ctx 0", "alloc 1000", "alloc 100", "total 0"]);
    assert_eq!((results(&bare), last(&bare).mib()), (vec![0, 0, 0, 0], vec![16_130]));
}

#[test]
fn the_last_byte_counts() {
    let answers = Case::default().run(&["ctx 0", "alloc 1024", "alloc_bytes 1", "free 0", "alloc_bytes 1073741825"]);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, OUT_OF_MEMORY]);
}

#[test]
fn s02_what_is_freed_can_be_used_again() {
    let case = Case::default();
    let mut live = case.live();
    assert_eq!(live.step("ctx 0").result, 0);
    for round in 0..64 {
        assert_eq!(live.steps(&["alloc 600", &format!("free {round}")]), [0, 0], "round {round}");
    }
    assert_eq!(live.step("info").mib(), [1024, 1024]);
    live.end();
}

#[test]
fn s03_what_is_not_ours_is_the_drivers_business() {
    let case = Case::default();
    let steps = ["ctx 0", "free_at 0", "free_at 4096", "alloc 1", "free 0", "free 0", "alloc_bytes 0"];
    let held = case.run(&steps);
    assert_eq!(held, case.run_bare(&steps));
    assert_ne!(held[2].result, 0);
    assert_eq!(last(&case.run(&["ctx 0", "alloc 100", "free 0", "free 0", "info"])).mib(), [1024, 1024]);
}

#[test]
fn without_a_context_the_drivers_error_comes_back() {
    let case = Case::default();
    let steps = ["init", "alloc 1", "info", "ctx 0", "no_ctx", "alloc 1", "ctx 5"];
    assert_eq!(case.run(&steps), case.run_bare(&steps));
}

#[test]
fn s10_memory_of_streams_is_charged_and_goes_back() {
    let steps = ["ctx 0", "async 700", "async 700", "free_async 0", "sync", "async 700", "info"];
    let answers = Case::default().run(&steps);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0, 0, 0]);
    assert_eq!(last(&answers).mib(), [324, 1024]);
    let mixed = Case::default().run(&["ctx 0", "async 700", "free 0", "alloc 700", "free_async 1", "info"]);
    assert_eq!(
        (results(&mixed), last(&mixed).mib()),
        (vec![0; 6], vec![1024, 1024]),
        "either free takes either memory"
    );
}

#[test]
fn s19_null_out_pointers_are_legal() {
    let case = Case::default();
    let steps = ["ctx 0", "alloc 1000", "info null", "info free", "info total"];
    let answers = case.run(&steps);
    assert_eq!(results(&answers), results(&case.run_bare(&steps)));
    assert_eq!((answers[2].mib(), answers[3].mib(), answers[4].mib()), (vec![0, 0], vec![24, 0], vec![0, 1024]));
}

#[test]
fn s20_no_more_is_free_than_there_is() {
    let case = Case::default();
    let (mut other, mut own) = (case.live_bare(), case.live());
    assert_eq!(own.step("ctx 0").result, 0);
    // All but two contexts of 429 MiB and 500 MiB.
    assert_eq!(other.steps(&["ctx 0", "alloc 14772"]), [0, 0]);
    assert_eq!(own.step("info").mib(), [500, 1024]);
    assert_eq!(own.step("nvml 0").mib(), [1024, 500, 0]);
    assert_eq!(own.steps(&["alloc 600", "alloc 400"]), [OUT_OF_MEMORY, 0]);
    assert_eq!(own.step("info").mib(), [100, 1024]);
    other.end();
    assert_eq!(own.step("info").mib(), [624, 1024], "what the driver refused is not charged");
    own.end();
}

#[test]
fn s21_a_quota_above_the_card_is_the_card() {
    let cards = format!("[[card]]\nuuid = \"{REFERENCE}\"\nmemory_mib = 8000\n");
    let case = Case::new(&cards, &[Share { card: REFERENCE, quota: 12_000, total: 16_130 }]);
    let answers = case.run(&["ctx 0", "info", "total 0", "nvml 0", "alloc 7000", "alloc 3000"]);
    assert_eq!((answers[1].mib(), answers[2].mib()), (vec![7571, 8000], vec![8000]));
    assert_eq!(answers[3].mib(), [8000, 7571, 0], "the context is not the container's use, but it is not free either");
    assert_eq!(results(&answers[4..]), [0, OUT_OF_MEMORY]);
}

#[test]
fn s32_managed_memory_is_held_to_the_quota() {
    let answers = Case::default().run(&["ctx 0", "managed 2048", "managed 1000", "alloc 100", "free 0", "alloc 100"]);
    assert_eq!(results(&answers), [0, OUT_OF_MEMORY, 0, OUT_OF_MEMORY, 0, 0]);
}

#[test]
fn pitched_memory_is_charged_with_its_padding() {
    let case = Case::default();
    // A row of 4 bytes takes 512: 2,097,152 rows are 1 GiB.
    let answers = case.run(&["ctx 0", "pitch 4 2097153", "pitch 4 2097152", "info", "free 0", "info"]);
    assert_eq!(results(&answers), [0, OUT_OF_MEMORY, 0, 0, 0, 0]);
    assert_eq!((answers[3].mib(), last(&answers).mib()), (vec![0, 1024], vec![1024, 1024]));
}

#[test]
fn an_address_that_comes_again_is_charged_once() {
    let case = Case::default();
    let steps = ["ctx 0", "alloc 400", "reset 0", "alloc 400", "info", "free 1", "info"];
    let answers = case.run(&steps);
    assert_eq!(results(&answers), [0; 7]);
    assert_eq!((answers[4].mib(), last(&answers).mib()), (vec![624, 1024], vec![1024, 1024]));
}

#[test]
fn s32_managed_memory_counts_unless_the_nodes_owner_says_otherwise() {
    let steps = ["ctx 0", "managed 2048", "info", "free 0", "alloc 1024", "alloc 1"];
    assert_eq!(results(&Case::default().run(&steps)), [0, OUT_OF_MEMORY, 0, 0, 0, OUT_OF_MEMORY]);
    let loose = Case::default().with_limits(|limits| limits.with_managed(Managed::Uncounted));
    let answers = loose.run(&steps);
    assert_eq!(results(&answers), [0, 0, 0, 0, 0, OUT_OF_MEMORY]);
    assert_eq!(answers[2].mib(), [1024, 1024]);
}

#[test]
fn a_quota_that_changes_holds_at_once() {
    let case = Case::quota(1024);
    let mut guest = case.live();
    assert_eq!(guest.steps(&["ctx 0", "alloc 1000", "alloc 100"]), [0, 0, OUT_OF_MEMORY]);
    let set = |mib: u64| {
        let limits = Limits::decode(&fs::read(case.limits()).unwrap()).unwrap();
        let card = CardLimit { quota: Bytes(mib << 20), ..limits.cards()[0] };
        // In place and in one call, as the host does it.
        let file = OpenOptions::new().write(true).open(case.limits()).unwrap();
        file.write_all_at(&Limits::new(&[card]).unwrap().encode(), 0).unwrap();
    };
    set(2048);
    assert_eq!(guest.steps(&["alloc 1000", "alloc 100"]), [0, OUT_OF_MEMORY]);
    assert_eq!((guest.step("info").mib(), guest.step("total 0").mib()), (vec![48, 2048], vec![2048]));
    set(1500);
    assert_eq!((guest.step("info").mib(), guest.step("nvml 0").mib()), (vec![0, 1500], vec![1500, 0, 1500]));
    assert_eq!(guest.steps(&["alloc 1", "free 0", "alloc 500", "alloc 1"]), [OUT_OF_MEMORY, 0, 0, OUT_OF_MEMORY]);
}
