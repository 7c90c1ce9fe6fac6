use super::*;
use policy::Grant;
use quota::CardId;
use std::os::unix::fs::FileExt;

const CARD: &str = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76";

fn grants() -> Vec<Grant> {
    vec![Grant { index: 0, id: CardId::parse(CARD).unwrap(), bytes: Bytes(3 << 30), total: Bytes(16_130 << 20) }]
}

fn places() -> (tempfile::TempDir, Places) {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    places.create("a1", &Record::new("ns", "pod", "main", true, &grants()), &grants()).unwrap();
    places.create("b2", &Record::new("ns", "pod-\u{1b}[2J", "whole", false, &grants()), &grants()).unwrap();
    (dir, places)
}

fn put(places: &Places, at: u64, value: u64) {
    let ledger = std::fs::OpenOptions::new().write(true).open(places.ledger("a1").unwrap()).unwrap();
    ledger.write_all_at(&value.to_ne_bytes(), at * 8).unwrap();
}

#[test]
fn the_run_folder_alone_tells_shares_and_use() {
    let (_dir, places) = places();
    put(&places, 32, 700 << 20);
    put(&places, 16, 2);
    put(&places, 2, 4);
    put(&places, 3, 5);
    let status = without_daemon(&places);
    assert_eq!((status.daemon, status.containers.len(), status.faults.len()), (false, 2, 0));
    let isolated = &status.containers[0];
    assert_eq!((isolated.id.as_str(), isolated.isolated, isolated.refused_processes), ("a1", true, 5));
    assert!(isolated.refused_reason.as_ref().unwrap().contains("damaged"));
    let share = &isolated.shares[0];
    assert_eq!((share.quota_bytes, share.used_bytes, share.peak_bytes), (3 << 30, Some(0), Some(700 << 20)));
    assert_eq!((share.refused_allocations, share.processes, share.card), (Some(2), Some(0), None));
    assert_eq!((status.containers[1].isolated, status.containers[1].shares[0].used_bytes), (false, None));
    let again: Status = serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
    assert_eq!(again, status);
}

#[test]
fn damaged_files_are_told_and_the_rest_is_shown() {
    let (dir, places) = places();
    put(&places, 32, 16_131 << 20);
    let fault = |places: &Places| without_daemon(places).containers[0].fault.clone().unwrap_or_default();
    assert!(fault(&places).contains("forged") && fault(&places).contains("16131 MiB"), "{}", fault(&places));
    std::fs::write(places.ledger("a1").unwrap(), "short").unwrap();
    assert!(fault(&places).contains("wrong length"), "{}", fault(&places));
    std::fs::remove_file(places.ledger("a1").unwrap()).unwrap();
    assert!(fault(&places).contains("containers/a1/ledger"), "{}", fault(&places));
    std::fs::write(places.limits("a1").unwrap(), "x").unwrap();
    assert!(fault(&places).contains("limits file"), "{}", fault(&places));
    std::fs::write(dir.path().join("containers/a1/record.json"), "{").unwrap();
    let status = without_daemon(&places);
    assert_eq!((status.containers.len(), status.faults.len()), (1, 1));
    assert!(status.faults[0].contains("a1/record.json"), "{}", status.faults[0]);
    let nothing = without_daemon(&Places::below(std::path::Path::new("/no/such/folder")));
    assert_eq!((nothing.containers.len(), nothing.faults.len()), (0, 0));
}

#[test]
fn the_table_is_aligned_and_obeys_nobody() {
    let (_dir, places) = places();
    put(&places, 32, u64::MAX);
    let mut status = without_daemon(&places);
    let text = table::print(&status);
    assert!(text.contains("the daemon does not answer"));
    assert!(!text.contains('\u{1b}') && text.contains("pod-\\u{1b}[2J"), "{text}");
    assert!(text.contains("! ns/pod/main: the ledger is forged"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let column = |line: &str, word: &str| line.find(word).unwrap();
    assert_eq!(column(lines[2], "QUOTA"), column(lines[3], "3072 MiB"), "{text}");
    assert_eq!(column(lines[2], "QUOTA"), column(lines[4], "3072 MiB"), "{text}");
    assert!(lines[3].ends_with("on") && lines[4].ends_with("off"), "{text}");

    status.daemon = true;
    status.cards.push(CardStatus {
        index: 0,
        uuid: CARD.to_owned(),
        total_bytes: 16_130 << 20,
        booked_bytes: 6 << 30,
        free_bytes: (16_130 << 20) - (6 << 30),
    });
    let text = table::print(&status);
    assert!(!text.contains("does not answer") && text.contains("9986 MiB"), "{text}");
}
