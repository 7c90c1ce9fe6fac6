use super::*;
use quota::CardId;

#[test]
fn what_was_granted_before_counts_until_the_runtime_tells() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    assert!(recorded(&places).is_empty());
    let id = CardId::parse("GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76").unwrap();
    let grants = [Grant { index: 0, id, bytes: Bytes(9 << 30), total: Bytes(16_130 << 20) }];
    places.create("isolated", &Record::new("ns", "pod", "a", true, &grants), &grants).unwrap();
    places.create("whole", &Record::new("ns", "pod", "b", false, &grants), &grants).unwrap();
    places.create("damaged", &Record::new("ns", "pod", "c", true, &grants), &grants).unwrap();
    for entry in std::fs::read_dir(places.limits("damaged").unwrap().parent().unwrap()).unwrap().flatten() {
        std::fs::write(entry.path(), "{").unwrap();
    }
    let half_changed = places.record("isolated").unwrap().unwrap().with_share(id, Bytes(8 << 30));
    places.put_record("isolated", &half_changed).unwrap();
    let book = recorded(&places);
    assert_eq!((book.len(), book.booked(id)), (2, Bytes(17 << 30)));
    assert_eq!(places.read_limits("isolated").unwrap().cards()[0].quota, Bytes(8 << 30));
}
