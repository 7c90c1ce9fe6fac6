//! Stream-ordered memory: what a pool holds is charged, live or not, until the driver has it back. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, last, results};

#[test]
fn s10_s11_what_a_pool_keeps_stays_charged() {
    let case = Case::agreed(1024);
    let steps = ["ctx 0", "pool_of 0", "async 700", "free_async 0", "sync", "alloc 700", "free 1"];
    assert_eq!(case.agrees(&steps), [0; 7]);
    let steps = [
        "ctx 0",
        "pool_of 0",
        "pool_keep 0 -1",
        "async 700",
        "free_async 0",
        "sync",
        "alloc 700",
        "info",
        "trim 0 0",
        "alloc 700",
        "info",
    ];
    assert_eq!(case.agrees(&steps), [0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0, 0]);
    let answers = Case::default().run(&steps);
    assert_eq!((answers[7].mib(), answers[10].mib()), (vec![324, 1024], vec![324, 1024]));
}

#[test]
fn s12_memory_of_a_pool_is_charged() {
    let steps = ["ctx 0", "pool 4096", "pool 1000", "alloc 100", "free_async 0", "alloc 100", "sync", "alloc 100"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, OUT_OF_MEMORY, 0, OUT_OF_MEMORY, 0, OUT_OF_MEMORY, 0, 0]);
}

#[test]
fn what_a_pool_holds_serves_its_next_allocations() {
    let steps = [
        "ctx 0",
        "new_pool 0",
        "pool_keep 0 600",
        "pool_alloc 0 1000",
        "free_async 0",
        "pool_alloc 0 900",
        "pool_alloc 0 200",
        "free_async 1",
        "sync",
        "alloc 500",
        "alloc 424",
        "pool_alloc 0 600",
        "pool_alloc_ptsz 0 1",
    ];
    let right = [0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, OUT_OF_MEMORY, 0, 0, OUT_OF_MEMORY];
    assert_eq!(Case::agreed(1024).agrees(&steps), right);
}

#[test]
fn a_pool_that_ends_gives_back_when_it_is_empty() {
    let steps = [
        "ctx 0",
        "new_pool 0",
        "pool_keep 0 -1",
        "pool_alloc 0 300",
        "pool_alloc 0 300",
        "free_async 0",
        "sync",
        "end_pool 0",
        "free_async 1",
        "alloc 1024",
    ];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0; 10]);
}

#[test]
fn a_pool_of_its_own_can_be_the_current_one() {
    let steps = [
        "ctx 0",
        "new_pool 0 512",
        "set_pool 0 0",
        "async 512",
        "pool_state 0",
        "async 2",
        "free_async 0",
        "sync",
        "alloc 1024",
    ];
    let case = Case::agreed(1024);
    assert_eq!(case.agrees(&steps), [0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0]);
    assert_eq!(case.run(&steps[..5])[4].mib(), [512, 512]);
}

#[test]
fn a_pool_of_the_host_costs_nothing() {
    let steps = ["ctx 0", "new_pool 0 0 2", "pool_alloc 0 4096", "alloc 1024", "free_async 0", "free 1"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0; 6]);
}

#[test]
fn memory_of_a_pool_that_is_not_whole_mib_rounds_with_the_pool() {
    let case = Case::agreed(1024);
    let mut guest = case.live();
    assert_eq!(guest.steps(&["ctx 0", "pool_of 0", "async 1"]), [0; 3]);
    // The driver takes memory in steps of 2 MiB: all of it counts.
    assert_eq!(guest.step("info").mib(), [1022, 1024]);
    assert_eq!(guest.steps(&["async 1", "alloc 1022", "async 1"]), [0, 0, OUT_OF_MEMORY]);
    assert_eq!(guest.step("info").mib(), [0, 1024]);
}

#[test]
fn a_step_that_passes_the_quota_is_refused_and_goes_back() {
    // One MiB is left; the pool's first MiB would take 2.
    let case = Case::agreed(1023);
    assert_eq!(case.agrees(&["ctx 0", "alloc 1022", "async 1", "alloc 1", "sync"]), [0, 0, OUT_OF_MEMORY, 0, 0]);
    let answers = case.run(&["ctx 0", "alloc 1022", "async 1", "sync", "alloc 1", "info"]);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0, 0]);
    assert_eq!(last(&answers).mib(), [0, 1023]);
}

#[test]
fn a_reset_ends_what_pools_hold() {
    let steps =
        ["ctx 0", "pool_of 0", "pool_keep 0 -1", "async 700", "async 100", "free_async 0", "reset 0", "alloc 1024"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0; 8]);
}

#[test]
fn another_process_gets_what_a_pool_gave_back() {
    let case = Case::agreed(1024);
    let (mut one, mut other) = (case.live(), case.live());
    assert_eq!(one.steps(&["ctx 0", "async 700", "free_async 0"]), [0; 3]);
    assert_eq!(other.steps(&["ctx 0", "alloc 700"]), [0, OUT_OF_MEMORY]);
    assert_eq!(one.step("sync").result, 0);
    assert_eq!(other.step("alloc 700").result, 0);
}

#[test]
fn pools_of_a_card_without_a_share() {
    let cards = "[[card]]\nuuid = \"GPU-aaaaaaaa-0000-1111-2222-333333333333\"\n[[card]]\nuuid = \"GPU-bbbbbbbb-0000-1111-2222-333333333333\"\n";
    let share =
        interposer_tests::Share { card: "GPU-aaaaaaaa-0000-1111-2222-333333333333", quota: 1024, total: 16_130 };
    let case = Case::new(cards, &[share]);
    let answers = case.run(&[
        "ctx 0",
        "new_pool 1",
        "pool_of 1",
        "ctx 1",
        "async 1",
        "pool_alloc 0 1",
        "ctx 0",
        "pool_alloc 0 2000",
    ]);
    let right = [0, OUT_OF_MEMORY, 0, 0, OUT_OF_MEMORY, OUT_OF_MEMORY, 0, OUT_OF_MEMORY];
    assert_eq!(results(&answers), right);
}

#[test]
fn memory_of_others_is_not_charged() {
    let case = Case::agreed(1024);
    let (mut maker, mut user) = (case.live(), case.live());
    assert_eq!(maker.steps(&["ctx 0", "alloc 600"]), [0, 0]);
    let handle = maker.step("ipc_get 0").text;
    // Scenario 31: in the same container, charged once.
    assert_eq!(user.steps(&["ctx 0", &format!("ipc_open {handle}"), "external 4096", "alloc 424"]), [0; 4]);
    assert_eq!(user.steps(&["ipc_close 0", "free 1", "free 2"]), [0; 3]);
    assert_eq!(user.step("info").mib(), [424, 1024]);
    assert_eq!(maker.steps(&["free 0"]), [0]);
    assert_eq!(user.step("info").mib(), [1024, 1024]);
}
