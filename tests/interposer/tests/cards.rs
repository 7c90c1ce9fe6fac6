//! Which card a quota lands on, by whatever number it has. Numbers in names are those of the scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, Share, results};

const A: &str = "GPU-aaaaaaaa-0000-1111-2222-333333333333";
const B: &str = "GPU-bbbbbbbb-0000-1111-2222-333333333333";

fn cards() -> String {
    format!(
        "[[card]]\nuuid = \"{A}\"\n[[card]]\nuuid = \"{B}\"\nmemory_mib = 8000\npci_bus_id = \"00000000:00:1F.0\"\n"
    )
}

/// Shares in another order than the cards'.
fn both() -> Case {
    let shares = [Share { card: B, quota: 512, total: 8000 }, Share { card: A, quota: 1024, total: 16_130 }];
    Case::new(&cards(), &shares)
}

#[test]
fn s33_each_quota_lands_on_its_card() {
    let steps = ["ctx 0", "uuid 0", "total 0", "total 1", "alloc 600", "alloc 500", "info", "nvml 0", "nvml 1"];
    for visible in ["1,0", &format!("{B},{A}")] {
        let answers = both().visible(visible).run(&steps);
        assert_eq!(answers[1].text, "bbbbbbbb000011112222333333333333", "{visible}");
        assert_eq!(results(&answers), [0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0, 0], "{visible}");
        assert_eq!((answers[2].mib(), answers[3].mib()), (vec![512], vec![1024]));
        assert_eq!(answers[6].mib(), [12, 512]);
        // NVML numbers all cards, whatever CUDA shows.
        assert_eq!((answers[7].mib(), answers[8].mib()), (vec![1024, 1024, 0], vec![512, 12, 500]));
    }
    let answers = both().run(&steps);
    assert_eq!(results(&answers), [0, 0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0]);
    assert_eq!((answers[7].mib(), answers[8].mib()), (vec![1024, 424, 600], vec![512, 512, 0]));
}

#[test]
fn a_thread_that_changes_cards_is_followed() {
    let steps = ["ctx 0", "alloc 1000", "ctx 1", "alloc 500", "alloc 100", "free 0", "info", "ctx 0", "info"];
    let answers = both().run(&steps);
    assert_eq!(results(&answers), [0, 0, 0, 0, OUT_OF_MEMORY, 0, 0, 0, 0]);
    assert_eq!((answers[6].mib(), answers[8].mib()), (vec![12, 512], vec![1024, 1024]));
}

#[test]
fn s34_a_card_without_a_share() {
    let case = Case::new(&cards(), &[Share { card: A, quota: 1024, total: 16_130 }]);
    let answers = case.run(&["nvml 0", "nvml 1", "nvml2 1", "ctx 1", "alloc 1", "managed 1", "create 2 1 1", "info"]);
    assert_eq!((answers[0].mib()[0], answers[1].mib(), answers[2].mib()[0]), (1024, vec![8000, 8000, 0], 8000));
    assert_eq!(results(&answers[4..7]), [OUT_OF_MEMORY; 3], "nothing can be allocated there");
    assert_eq!(answers[7].mib(), [0, 8000], "and nothing is said to be free");
}

#[test]
fn s35_nvml_refuses_what_it_refuses() {
    let case = both();
    let steps = ["nvml2 0 5", "nvml2 0 1", "nvml 7", "nvml2 7"];
    let held = case.run(&steps);
    assert_eq!(held, case.run_bare(&steps));
    assert_eq!(held[0].result, 25);
}
