extern crate std;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::thread;
use std::vec::Vec;

fn memory(size: usize) -> ([Shard; SHARDS], Vec<Entry>) {
    let entries = (0..size * SHARDS).map(|_| Entry::default()).collect();
    (core::array::from_fn(|_| Shard::default()), entries)
}

#[test]
fn memory_of_another_shape_is_no_table() {
    let (shards, entries) = memory(8);
    assert!(Table::new(&shards, &entries).is_some());
    assert!(Table::new(&shards, &entries[1..]).is_none());
    assert!(Table::new(&shards, &entries[..SHARDS * 4]).is_none());
    assert!(Table::new(&shards, &[]).is_none());
}

#[test]
fn a_million_addresses() {
    const COUNT: u64 = 1_000_000;
    let (shards, entries) = memory(1 << 15);
    let table = Table::new(&shards, &entries).unwrap();
    let address = |n: u64| 0x7f00_0000_0000 + n * 512;
    for n in 0..COUNT {
        table.insert(address(n), (n, n + 1)).unwrap();
    }
    assert_eq!(table.len(), COUNT);
    for n in 0..COUNT {
        assert_eq!(table.remove(address(n)), Some((n, n + 1)));
    }
    assert!(table.is_empty());
    assert!(entries.iter().all(|entry| entry.key.load(Ordering::Relaxed) == 0));
}

#[test]
fn a_full_table_says_so_and_still_gives_back() {
    let (shards, entries) = memory(8);
    let table = Table::new(&shards, &entries).unwrap();
    let stored: Vec<u64> = (1..=2000).filter(|key| table.insert(*key, (*key, 0)).is_ok()).collect();
    assert_eq!(stored.len(), SHARDS * 7, "seven of eight places are used in every shard");
    for key in stored {
        assert_eq!(table.remove(key), Some((key, 0)));
    }
    assert_eq!(table.insert(0, (1, 1)), Err(Full));
    assert_eq!(table.remove(0), None);
}

#[test]
fn retain_forgets_exactly_what_it_is_told() {
    for size in [8, 64] {
        let (shards, entries) = memory(size);
        let table = Table::new(&shards, &entries).unwrap();
        let stored: Vec<u64> = (1..=2000).filter(|key| table.insert(*key, (*key, key % 3)).is_ok()).collect();
        let mut gone = Vec::new();
        table.retain(|key, (first, second)| {
            assert_eq!(key, first);
            if second == 1 {
                gone.push(key);
            }
            second != 1
        });
        gone.sort_unstable();
        let (wanted, kept): (Vec<u64>, Vec<u64>) = stored.iter().partition(|key| **key % 3 == 1);
        assert_eq!(gone, wanted);
        assert_eq!(table.len(), kept.len() as u64);
        for key in kept {
            assert_eq!(table.remove(key), Some((key, key % 3)));
        }
        assert!(table.is_empty());
    }
}

#[test]
fn threads_do_not_lose_each_others_entries() {
    let (shards, entries) = memory(64);
    let table = Table::new(&shards, &entries).unwrap();
    thread::scope(|scope| {
        for thread in 1..=4_u64 {
            scope.spawn(move || {
                for round in 0..2_000_u64 {
                    let key = thread << 32 | (round % 97 + 1);
                    table.insert(key, (round, thread)).unwrap();
                    assert_eq!(table.remove(key), Some((round, thread)));
                }
            });
        }
    });
    assert!(table.is_empty());
}

proptest! {
    #[test]
    fn behaves_as_a_map(steps in proptest::collection::vec((any::<bool>(), 1_u64..200, any::<u64>()), 0..400)) {
        let (shards, entries) = memory(16);
        let table = Table::new(&shards, &entries).unwrap();
        let mut model = HashMap::new();
        for (insert, key, value) in steps {
            if insert {
                if table.insert(key, (value, key)).is_ok() {
                    model.insert(key, (value, key));
                }
            } else {
                prop_assert_eq!(table.remove(key), model.remove(&key));
            }
            prop_assert_eq!(table.len(), model.len() as u64);
        }
        for (key, value) in model {
            prop_assert_eq!(table.remove(key), Some(value));
        }
    }
}
