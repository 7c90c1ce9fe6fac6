//! The real nvidia-smi of three driver branches, on the simulated NVML: with the interposer it shows the share, without it the card.
use interposer_tests::{Case, REFERENCE, output, parts};
use std::path::PathBuf;

const VERSIONS: [&str; 3] = ["470.256.02", "535.261.03", "550.163.01"];

fn program(version: &str) -> PathBuf {
    parts::cache().join("driver").join(version).join("usr/lib/nvidia/current/nvidia-smi")
}

/// What a view says without and with the interposer, white space squeezed: its width depends on the numbers.
fn views(version: &str, arguments: &[&str]) -> (String, String) {
    let case = Case::quota(3072);
    let mut user = case.live();
    assert_eq!(user.steps(&["ctx 0", "alloc 1000"]), [0, 0]);
    let squeeze = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bare = squeeze(output(case.bare(&program(version)).args(arguments)));
    let held = squeeze(output(case.held(&program(version)).args(arguments)));
    user.end();
    (bare, held)
}

#[test]
fn the_table_shows_the_share() {
    for version in VERSIONS {
        let (bare, held) = views(version, &[]);
        assert!(bare.contains("1429MiB / 16130MiB"), "{version}: {bare}");
        assert!(held.contains("1000MiB / 3072MiB"), "{version}: {held}");
    }
}

#[test]
fn the_list_is_the_same() {
    for version in VERSIONS {
        let (bare, held) = views(version, &["-L"]);
        assert!(bare.contains(REFERENCE), "{version}: {bare}");
        assert_eq!(bare, held, "{version}");
    }
}

#[test]
fn the_query_of_memory_shows_the_share() {
    for version in VERSIONS {
        let (bare, held) = views(version, &["-q", "-d", "MEMORY"]);
        assert!(bare.contains("Total : 16130 MiB") && bare.contains("Used : 1429 MiB"), "{version}: {bare}");
        assert!(held.contains("Total : 3072 MiB") && held.contains("Used : 1000 MiB"), "{version}: {held}");
        assert!(held.contains("Free : 2072 MiB"), "{version}: {held}");
    }
}

#[test]
fn the_query_by_name_shows_the_share() {
    for version in VERSIONS {
        let (bare, held) = views(version, &["--query-gpu=memory.total,memory.used", "--format=csv,noheader"]);
        assert_eq!((bare.as_str(), held.as_str()), ("16130 MiB, 1429 MiB", "3072 MiB, 1000 MiB"), "{version}");
    }
}
