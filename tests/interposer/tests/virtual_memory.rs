//! Physical memory and mappings. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, REFERENCE, Share, last, results};

#[test]
fn s04_released_while_mapped_is_still_in_use() {
    let steps = ["ctx 0", "create 512", "map 0", "release 0", "create 512", "map 1", "release 1", "create 512", "info"];
    let answers = Case::default().run(&steps);
    assert_eq!(results(&answers), [0, 0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0]);
    assert_eq!(last(&answers).mib(), [0, 1024]);
}

#[test]
fn s05_unmapped_and_released_goes_back() {
    let steps = [
        "ctx 0",
        "create 512",
        "map 0",
        "release 0",
        "create 512",
        "map 1",
        "release 1",
        "unmap 0",
        "create 512",
        "release 2",
        "unmap 1",
        "info",
    ];
    let answers = Case::default().run(&steps);
    assert_eq!(results(&answers), [0; 12]);
    assert_eq!(last(&answers).mib(), [1024, 1024]);
}

#[test]
fn s06_memory_of_the_host_is_not_charged() {
    let answers = Case::default().run(&["ctx 0", "create 4096 2", "create 4096 3", "info", "create 4096", "release 0"]);
    assert_eq!(results(&answers), [0, 0, 0, 0, OUT_OF_MEMORY, 0]);
    assert_eq!(answers[3].mib(), [1024, 1024]);
}

#[test]
fn s07_the_location_is_charged_not_the_context() {
    let other = "GPU-00000000-1111-2222-3333-444444444444";
    let cards = format!("[[card]]\nuuid = \"{REFERENCE}\"\n[[card]]\nuuid = \"{other}\"\nmemory_mib = 8000\n");
    let shares =
        [Share { card: other, quota: 512, total: 8000 }, Share { card: REFERENCE, quota: 1024, total: 16_130 }];
    let case = Case::new(&cards, &shares);
    let steps = ["ctx 0", "create 400 1 1", "create 400 1 1", "info", "ctx 1", "info", "release 0", "info"];
    let answers = case.run(&steps);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0, 0, 0, 0]);
    assert_eq!(answers[3].mib(), [1024, 1024]);
    assert_eq!((answers[5].mib(), answers[7].mib()), (vec![112, 512], vec![512, 512]));
}

#[test]
fn s08_no_context_is_needed() {
    let answers = Case::default().run(&["init", "create 512", "create 600", "ctx 0", "info"]);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0]);
    assert_eq!(last(&answers).mib(), [512, 1024]);
}

#[test]
fn s09_a_retained_handle_holds_too() {
    let steps = ["ctx 0", "create 512", "map 0", "retain 0", "unmap 0", "release 0", "info", "release 1", "info"];
    let answers = Case::default().run(&steps);
    assert_eq!(results(&answers), [0; 9]);
    assert_eq!((answers[6].mib(), answers[8].mib()), (vec![512, 1024], vec![1024, 1024]));
}

#[test]
fn what_the_driver_refuses_is_not_charged() {
    let case = Case::default();
    // The second create has a size that is no multiple of the granularity; the last location is no device.
    let steps = ["ctx 0", "create 1", "create 2 1 7", "create 2 9 0", "release 5", "unmap 5", "info"];
    let answers = case.run(&steps);
    assert!(results(&answers[1..6]).iter().all(|result| *result != 0), "{answers:?}");
    assert_eq!(last(&answers).mib(), [1024, 1024]);
}

#[test]
fn parts_and_ranges_of_mappings() {
    let steps = [
        "ctx 0",
        "create 512",
        "map_part 0 0 256",
        "map_part 0 256 256",
        "create 100",
        "map_part 1 0 100",
        "release 0",
        "release 1",
        "unmap 0",
        "create 512",
        "unmap_range 1 356",
        "create 512",
        "release 2",
        "release 3",
    ];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, 0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0, 1]);
}

#[test]
fn a_handles_value_is_given_out_again_while_its_memory_is_mapped() {
    // The driver gives the second memory the first one's handle value.
    let steps = [
        "ctx 0",
        "create 300",
        "map 0",
        "release 0",
        "create 200",
        "map 1",
        "release 1",
        "unmap 0",
        "unmap 1",
        "create 1024",
    ];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0; 10]);
}

#[test]
fn memory_that_goes_out_and_comes_back_is_charged_once() {
    let steps = [
        "ctx 0",
        "create 600",
        "export 0",
        "import 0",
        "release 0",
        "create 600",
        "map 0",
        "release 1",
        "create 1024",
        "close 0",
        "create 424",
    ];
    assert_eq!(Case::agreed(1024).agrees(&steps), [0, 0, 0, 0, 0, OUT_OF_MEMORY, 1, 0, 0, 0, OUT_OF_MEMORY]);
}
