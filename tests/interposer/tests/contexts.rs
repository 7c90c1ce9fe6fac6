//! Contexts that end take their memory with them, and only theirs. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, last, results};

#[test]
fn s27_a_reset_gives_all_back() {
    let answers = Case::default().run(&["ctx 0", "alloc 300", "alloc 200", "reset 0", "info", "alloc 1024"]);
    assert_eq!(results(&answers), [0; 6]);
    assert_eq!(answers[4].mib(), [1024, 1024]);
}

#[test]
fn s28_contexts_come_and_go_without_drift() {
    let round = ["new_ctx 0", "alloc 700", "alloc 1", "end_ctx"];
    let steps: Vec<&str> = ["ctx 0", "alloc 100"].into_iter().chain(round.repeat(500)).chain(["info"]).collect();
    let answers = Case::default().run(&steps);
    assert!(results(&answers).iter().all(|result| *result == 0));
    assert_eq!(last(&answers).mib(), [924, 1024], "what the other context holds stays");
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
