//! Arrays and mipmapped arrays. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, results};

/// `CU_AD_FORMAT_FLOAT`, `CUDA_ARRAY3D_SPARSE` and `_DEFERRED_MAPPING`.
const FLOAT: u32 = 0x20;
const SPARSE: u32 = 0x40;
const DEFERRED: u32 = 0x80;

#[test]
fn s29_sparse_and_deferred_arrays_cost_nothing() {
    // 1,024 x 1,024 x 128 x 4 bytes: 512 MiB.
    let cube = |flags: u32| format!("array3d 1024 1024 128 {FLOAT} 1 {flags}");
    let (sparse, deferred, plain) = (cube(SPARSE), cube(DEFERRED), cube(0));
    let steps =
        ["ctx 0", &sparse, &deferred, &plain, &plain, &plain, "end_array 2", "alloc 512", "end_array 0", "alloc 1"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0, OUT_OF_MEMORY]);
}

#[test]
fn every_format_is_charged_what_it_takes() {
    let mut steps = vec!["ctx 0".to_owned()];
    let per_channel = [1, 2, 3, 8, 9, 0x0a, 0x10, 0x20];
    let whole = (0x91..=0x9e).chain(0xc0..=0xcb).chain([0xb0]);
    for (format, channels) in
        per_channel.into_iter().flat_map(|format| [1, 2, 4].map(|c| (format, c))).chain(whole.map(|f| (f, 1)))
    {
        steps.push(format!("array 1000 700 {format} {channels}"));
        steps.push(format!("mipmap 100 300 7 {format} {channels} 0 20"));
        steps.push(format!("mipmap 100 300 7 {format} {channels} 1 3"));
        steps.push(format!("array3d 513 1 0 {format} {channels} 0"));
    }
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(Case::agreed(1024).agrees(&steps), vec![0; steps.len()]);
}

#[test]
fn an_unknown_format_is_taken_for_the_largest() {
    // 16 bytes for each of 64 Mi elements are the quota; the driver refuses the format, and nothing stays charged.
    let case = Case::agreed(1024);
    let answers = case.run(&["ctx 0", "array 65536 1025 999 1", "array 65536 1024 999 1", "info"]);
    assert_eq!(results(&answers), [0, OUT_OF_MEMORY, 1, 0]);
    assert_eq!(answers[3].mib(), [1024, 1024]);
}

#[test]
fn shapes_that_cannot_be() {
    let case = Case::agreed(1024);
    let huge = u64::MAX;
    let answers = case.run(&[
        "ctx 0",
        &format!("array {huge} {huge} 32 4"),
        "array 0 5 32 1",
        "array 5 5 32 3",
        "end_array 9",
        "info",
    ]);
    assert_eq!(results(&answers), [0, OUT_OF_MEMORY, 1, 1, 400, 0]);
    assert_eq!(answers[5].mib(), [1024, 1024]);
}

#[test]
fn contexts_take_their_arrays_along() {
    let plain = format!("array 16384 16384 {FLOAT} 1");
    assert_eq!(Case::agreed(1024).agrees(&["ctx 0", &plain, "reset 0", &plain, "new_ctx 0"]), [0; 5]);
    assert_eq!(
        Case::agreed(2048).agrees(&["ctx 0", "new_ctx 0", &plain, &plain, &plain, "end_ctx", "ctx 0", &plain]),
        [0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0]
    );
}

#[test]
fn memory_in_a_sparse_array_is_in_use_until_it_is_out() {
    let sparse = format!("array3d 1024 1024 128 {FLOAT} 1 {SPARSE}");
    let steps =
        ["ctx 0", &sparse, "create 512", "map_array 0 0", "release 0", "create 600", "unmap_array 0", "create 600"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0]);
    let steps = ["ctx 0", &sparse, "create 512", "map_array 0 0", "release 0", "end_array 0", "create 1024"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0; 7]);
    let steps =
        ["ctx 0", &sparse, "create 512", "map_array 0 0", "release 0", "create 512", "map_array 0 1", "create 512"];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0; 8]);
    for end in [["ctx 0", "reset 0"], ["new_ctx 0", "end_ctx"]] {
        let steps =
            ["ctx 0", end[0], &sparse, "create 512", "map_array 0 0", "release 0", end[1], "ctx 0", "create 1024"];
        assert_eq!(Case::agreed(1024).agrees(&steps), [0; 9], "{end:?}");
    }
}
