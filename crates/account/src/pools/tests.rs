extern crate std;
use super::*;
use crate::table::{Entry, SHARDS, Shard};
use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;

const P: u64 = 0x7f00;
const KIB: u64 = 1024;

fn pools() -> Pools<'static> {
    let shards: &'static [Shard; SHARDS] = Box::leak(Box::new(core::array::from_fn(|_| Shard::default())));
    let entries: Vec<Entry> = (0..SHARDS * 8).map(|_| Entry::default()).collect();
    Pools::new(Table::new(shards, entries.leak()).unwrap())
}

/// A pool of card 3 beside others.
fn one() -> Pools<'static> {
    let pools = pools();
    pools.add(P, Some(3)).unwrap();
    pools.add(1, Some(0)).unwrap();
    pools
}

fn settle(pools: &Pools<'_>, reserved: u64) -> (Settled, i64) {
    let moved = core::cell::Cell::new(0_i64);
    let signed = |bytes: u64| i64::try_from(bytes).unwrap();
    let charge = |more| {
        moved.set(moved.get() + signed(more));
        true
    };
    let said = pools.settle(P, reserved, |back| moved.set(moved.get() - signed(back)), charge);
    (said, moved.get())
}

#[test]
fn what_a_pool_keeps_stays_charged_and_serves_the_next() {
    let pools = one();
    assert_eq!(pools.known(P), Some(Known::Card(3)));
    assert_eq!(pools.take(P, 700 * KIB, |need| need == 700 * KIB), Ok(700 * KIB));
    assert_eq!(pools.freed(P, 700 * KIB, 0), 0);
    assert_eq!(pools.held(P), (0, 700 * KIB));
    assert_eq!(pools.take(P, 500 * KIB, |_| panic!("it is charged already")), Ok(0));
    assert_eq!(pools.take(P, 300 * KIB, |need| need == 100 * KIB), Ok(100 * KIB));
    assert_eq!(settle(&pools, 0), (Settled::Even, 0), "what is live stays charged, whatever the driver says");
    assert_eq!(pools.freed(P, 500 * KIB, 0), 0);
    assert_eq!(settle(&pools, 400 * KIB), (Settled::Even, -400 * 1024));
    assert_eq!(pools.held(P), (300 * KIB, 400 * KIB));
}

#[test]
fn a_refused_charge_changes_nothing() {
    let pools = one();
    assert_eq!(pools.take(P, KIB, |_| false), Err(Refused::OverQuota));
    assert_eq!(pools.take(99, KIB, |_| true), Err(Refused::Unknown));
    assert_eq!(pools.take(P, u64::MAX, |_| true), Err(Refused::OverQuota));
    assert_eq!(pools.held(P), (0, 0));
    assert_eq!(pools.settle(P, 4 * KIB, |_| panic!("nothing is charged"), |_| false), Settled::Short(4 * KIB));
    assert_eq!(settle(&pools, 4 * KIB), (Settled::Even, 4096));
}

#[test]
fn what_the_driver_refused_goes_back_unless_another_lives_on_it() {
    let pools = one();
    assert_eq!(pools.take(P, 10 * KIB, |_| true), Ok(10 * KIB));
    assert_eq!(pools.freed(P, 10 * KIB, 10 * KIB), 10 * KIB);
    assert_eq!(pools.take(P, 10 * KIB, |_| true), Ok(10 * KIB));
    assert_eq!(pools.freed(P, 4 * KIB, 10 * KIB), 4 * KIB);
    assert_eq!(pools.held(P), (6 * KIB, 6 * KIB));
}

#[test]
fn an_ended_pool_gives_back_when_it_is_empty() {
    let pools = one();
    assert_eq!(pools.take(P, 10 * KIB, |_| true), Ok(10 * KIB));
    assert_eq!(settle(&pools, 32 * KIB), (Settled::Even, 22 * 1024));
    assert_eq!(pools.ended(P), 0);
    assert_eq!(settle(&pools, 0), (Settled::Even, 0), "nobody can ask any more");
    assert_eq!(pools.freed(P, 6 * KIB, 6 * KIB), 6 * KIB, "what the driver refused goes back at once");
    assert_eq!(pools.freed(P, 4 * KIB, 0), 26 * KIB);
    assert_eq!(pools.known(P), None);
    assert_eq!(pools.ended(1), 0);
    assert_eq!(pools.known(1), None);
}

#[test]
fn memory_of_the_host_is_not_charged() {
    let pools = pools();
    pools.add(P, None).unwrap();
    pools.add(P, Some(0)).unwrap();
    assert_eq!(pools.known(P), Some(Known::Uncharged));
    assert_eq!(settle(&pools, 1 << 30), (Settled::Even, 0));
}

#[test]
fn pools_with_slack_are_found_by_card() {
    let pools = one();
    let mut found = [0; 1];
    assert_eq!(pools.with_slack(3, &mut found), 0);
    assert_eq!(settle(&pools, 32 * KIB).0, Settled::Even);
    assert_eq!((pools.with_slack(0, &mut found), pools.with_slack(3, &mut found), found), (0, 1, [P]));
    assert_eq!(pools.with_slack(3, &mut []), 0);
    assert_eq!((pools.of_card(0, &mut found), found), (1, [1]));
    assert_eq!(pools.forget(P), 32 * KIB);
    assert_eq!(pools.known(P), None);
}

proptest! {
    #[test]
    fn the_ledger_follows(steps in prop::collection::vec((0..4_u8, 1..64_u64), 0..200)) {
        let pools = one();
        let (mut ledger, mut live) = (0_u64, Vec::new());
        for (step, amount) in steps {
            let bytes = amount * 512;
            match step {
                0 | 1 => if let Ok(need) = pools.take(P, bytes, |need| ledger + need <= 40 * 512) {
                    ledger += need;
                    live.push(bytes);
                },
                2 => if let Some(bytes) = live.pop() {
                    ledger -= pools.freed(P, bytes, 0);
                },
                _ => {
                    let (mut back, mut more) = (0, 0);
                    pools.settle(P, bytes, |bytes| back = bytes, |bytes| { more = bytes; true });
                    ledger = ledger - back + more;
                }
            }
            let sum = live.iter().sum::<u64>();
            prop_assert_eq!(pools.held(P), (sum, ledger));
            prop_assert!(ledger >= sum);
        }
    }
}
