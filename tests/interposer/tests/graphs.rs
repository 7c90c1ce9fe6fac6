//! Graphs that allocate: charged when their memory becomes physical, given back by a trim. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, results};

#[test]
fn s30_captured_memory_is_charged_when_it_is_launched() {
    let steps = [
        "ctx 0",
        "capture",
        "stream_alloc 700",
        "stream_alloc_ptsz 100",
        "capture_end",
        "alloc 1024",
        "free 2",
        "instantiate 0",
        "launch 0",
        "alloc 300",
        "free_async 0",
        "free_async 1",
        "alloc 300",
        "graph_trim 0",
        "alloc 1000",
    ];
    let right = [0, 0, 0, 0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, OUT_OF_MEMORY, 0, 0];
    assert_eq!(Case::agreed(1024).agrees(&steps), right);
}

#[test]
fn a_graph_that_cannot_fit_is_not_instantiated() {
    let steps =
        ["ctx 0", "graph_alloc 2000", "instantiate 0 0", "instantiate 0 1", "instantiate 0 2", "instantiate 0 3"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, OUT_OF_MEMORY, OUT_OF_MEMORY, OUT_OF_MEMORY, OUT_OF_MEMORY]);
}

#[test]
fn a_launch_that_does_not_fit_now_is_refused() {
    for launch in ["launch 0", "launch_ptsz 0", "upload 0"] {
        let steps =
            ["ctx 0", "graph_alloc_node 600", "instantiate 0 2", "alloc 600", launch, "free 1", launch, "alloc 600"];
        assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, OUT_OF_MEMORY], "{launch}");
    }
}

#[test]
fn graphs_share_the_memory_that_the_device_keeps_for_them() {
    let steps = [
        "ctx 0",
        "graph_alloc 600",
        "graph_free 0 0",
        "graph_alloc 600",
        "graph_free 1 1",
        "instantiate 0",
        "instantiate 1",
        "launch 0",
        "launch 1",
        "launch 0",
        "graph_state 0",
        "end_exec 0",
        "end_exec 1",
        "end_graph 0",
        "alloc 600",
        "graph_trim 0",
        "alloc 600",
    ];
    let right = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0];
    let case = Case::agreed(1024);
    assert_eq!(case.agrees(&steps), right);
    assert_eq!(case.run(&steps)[10].mib(), [600, 0]);
}

#[test]
fn memory_of_a_graph_that_is_in_use_is_not_counted_as_room() {
    let steps = [
        "ctx 0",
        "graph_alloc 600",
        "graph_alloc 600",
        "instantiate 0",
        "instantiate 1",
        "launch 0",
        "launch 1",
        "free_async 0",
        "launch 1",
    ];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0]);
}

#[test]
fn a_graph_without_memory_is_the_drivers_business() {
    let case = Case::agreed(1024);
    let steps =
        ["ctx 0", "capture", "capture_end", "instantiate 0", "launch 0", "launch 7", "end_exec 7", "instantiate 9"];
    assert_eq!(case.run(&steps), case.run_bare(&steps));
    assert_eq!(results(&case.run(&steps)), [0, 0, 0, 0, 0, 400, 400, 400]);
}

#[test]
fn a_page_that_passes_the_quota_is_refused() {
    let steps = [
        "ctx 0",
        "alloc 817",
        "graph_alloc 207",
        "instantiate 0",
        "upload 0",
        "launch 0",
        "graph_alloc 205",
        "instantiate 1",
        "launch 1",
    ];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, OUT_OF_MEMORY, OUT_OF_MEMORY, 0, 0, 0]);
}
