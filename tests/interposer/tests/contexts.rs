//! Contexts that end take their memory with them, and only theirs. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, REFERENCE, Share, last, results};
use quota::Bytes;
use quota::limits::{CardLimit, Limits};

#[test]
fn s27_a_reset_gives_all_back() {
    let answers = Case::default().run(&["ctx 0", "alloc 300", "alloc 200", "reset 0", "info", "alloc 1024"]);
    assert_eq!(results(&answers), [0; 6]);
    assert_eq!(answers[4].mib(), [1024, 1024]);
}

#[test]
fn s28_contexts_come_and_go_without_drift() {
    let case = Case::agreed(1024);
    let mut guest = case.live();
    assert_eq!(guest.steps(&["ctx 0", "alloc 100"]), [0, 0]);
    for _ in 0..10_000 {
        assert_eq!(guest.steps(&["new_ctx 0", "alloc 700", "alloc 1", "end_ctx"]), [0; 4]);
    }
    assert_eq!(guest.step("info").mib(), [924, 1024], "what the other context holds stays");
}

/// A share of 1,024 MiB where the driver takes 300 MiB for a process's first context, and the host knows that.
fn measured() -> Case {
    let case = Case::new("context_mib = 300\n", &[Share { card: REFERENCE, quota: 1024, total: 16_130 }]);
    case.with_limits(|limits| {
        let cards = limits.cards().iter().map(|card| CardLimit { context: Bytes(300 << 20), ..*card });
        Limits::new(&cards.collect::<Vec<_>>()).expect("the same shares")
    })
}

#[test]
fn the_first_context_of_a_process_is_charged_once() {
    let steps = [
        "ctx 0",
        "alloc 724",
        "alloc 1",
        "ctx 0",
        "new_ctx 0",
        "end_ctx",
        "ctx 0",
        "release_ctx 0",
        "release_ctx 0",
        "release_ctx 0",
        "ctx 0",
        "alloc 724",
        "free 1",
        "new_ctx 0",
        "release_ctx 0",
        "alloc 724",
        "end_ctx",
    ];
    let right = [0, 0, OUT_OF_MEMORY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(measured().agrees(&steps), right);
}

#[test]
fn a_context_that_does_not_fit_is_refused() {
    let case = measured();
    let (mut one, mut other) = (case.live(), case.live());
    assert_eq!(one.steps(&["ctx 0", "alloc 500", "info"]), [0; 3]);
    assert_eq!(other.steps(&["ctx 0", "new_ctx 0"]), [OUT_OF_MEMORY; 2]);
    assert_eq!(one.steps(&["free 0"]), [0]);
    assert_eq!(other.steps(&["ctx 0", "alloc 424", "alloc 1"]), [0, 0, OUT_OF_MEMORY]);
    one.kill();
    assert_eq!(
        other.steps(&["alloc 300", "alloc 1"]),
        [0, OUT_OF_MEMORY],
        "what the dead one's context took came back"
    );
}

#[test]
fn a_context_that_is_attached_ends_with_its_last_use() {
    let steps = ["ctx 0", "new_ctx 0", "alloc 700", "attach", "detach", "alloc 700", "detach", "ctx 0", "alloc 1024"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0]);
}

#[test]
fn the_last_release_of_the_primary_context_gives_all_back() {
    // The guest retains it twice, as two libraries in one process do.
    let steps = ["ctx 0", "ctx 0", "alloc 600", "release_ctx 0", "info", "release_ctx 0", "ctx 0", "info"];
    let answers = Case::default().run(&steps);
    assert_eq!(results(&answers), [0; 8]);
    assert_eq!(answers[4].mib(), [424, 1024]);
    assert_eq!(last(&answers).mib(), [1024, 1024]);
}

#[test]
fn virtual_memory_outlives_a_context() {
    let steps = ["ctx 0", "new_ctx 0", "create 600", "map 0", "end_ctx", "ctx 0", "info", "alloc 500"];
    let answers = Case::default().run(&steps);
    assert_eq!(results(&answers), [0, 0, 0, 0, 0, 0, 0, OUT_OF_MEMORY]);
    assert_eq!(answers[6].mib(), [424, 1024]);
}
