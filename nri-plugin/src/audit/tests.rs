use super::*;
use quota::ledger::Owner;

const MIB: u64 = 1 << 20;
const GRACE: Duration = Duration::from_mins(1);

fn auditor(policy: Policy) -> Auditor {
    Auditor::new(Rules { policy, interval: Duration::from_secs(30), grace: GRACE })
}

fn seen(pid: u32, interposed: bool, driver: u64, ledger: Option<u64>) -> Seen {
    let owner = Owner { pid: 1, start: 5, namespace: 9 };
    Seen {
        pid,
        process: process::Process { container: "c1".to_owned(), owner, interposed },
        card: CardId::parse("GPU-00000001-0000-0000-0000-000000000000").unwrap(),
        driver: Some(Bytes(driver * MIB)),
        ledger: ledger.map(|mib| Bytes(mib * MIB)),
        context: Bytes(0),
    }
}

/// What is done at one look after another, each half the grace after the one before: (told, killed).
fn looks(auditor: &mut Auditor, looks: &[&[Seen]]) -> Vec<(usize, usize)> {
    let start = Instant::now();
    let look = |(at, seen): (usize, &&[Seen])| {
        let acts = auditor.step(start + GRACE / 2 * u32::try_from(at).unwrap(), seen);
        let killed = acts.iter().filter(|act| matches!(act, Act::Kill(..))).count();
        (acts.len() - killed, killed)
    };
    looks.iter().enumerate().map(look).collect()
}

#[test]
fn who_stays_outside_is_told_once_and_killed_after_the_grace() {
    let outside: &[Seen] = &[seen(10, false, 100, None)];
    let many = [outside; 4];
    assert_eq!(looks(&mut auditor(Policy::Kill), &many), [(0, 0), (1, 0), (0, 1), (0, 1)]);
    for policy in [Policy::Log, Policy::Event] {
        assert_eq!(looks(&mut auditor(policy), &many), [(0, 0), (1, 0), (0, 0), (0, 0)], "{policy:?}");
    }
    let mut auditor = auditor(Policy::Kill);
    looks(&mut auditor, &many);
    let findings = &auditor.report().findings;
    assert_eq!((findings.len(), findings[0].pid, findings[0].fault), (1, 10, Fault::Unguarded));
}

#[test]
fn nobody_is_killed_for_drift_or_for_a_moment() {
    let drift: &[Seen] = &[seen(10, true, 2000, Some(100))];
    assert_eq!(looks(&mut auditor(Policy::Kill), &[drift; 5]).iter().map(|(_, killed)| killed).sum::<usize>(), 0);
    let (late, registered): (&[Seen], &[Seen]) = (&[seen(10, true, 2000, None)], &[seen(10, true, 2000, Some(1900))]);
    let done = looks(&mut auditor(Policy::Kill), &[late, registered, late, registered, late, registered]);
    assert_eq!(done, [(0, 0); 6], "a process that registers in between");
    // Another process under the same pid has a grace of its own.
    let mut other = seen(10, false, 100, None);
    let first = [other.clone()];
    other.process.owner.start = 6;
    let second = [other];
    assert_eq!(
        looks(&mut auditor(Policy::Kill), &[&first, &first, &second, &second]),
        [(0, 0), (1, 0), (0, 0), (1, 0)]
    );
    // From drift to being outside is another fault, with a grace of its own.
    let done = looks(&mut auditor(Policy::Kill), &[drift, drift, late, late, late]);
    assert_eq!(done.iter().map(|(_, killed)| *killed).collect::<Vec<_>>(), [0, 0, 0, 0, 1]);
}

#[test]
fn the_context_is_learned_from_those_that_stand_still() {
    let mut auditor = auditor(Policy::Log);
    let at = Instant::now();
    let learned = |auditor: &Auditor| auditor.report().contexts.values().copied().collect::<Vec<_>>();
    auditor.step(at, &[seen(10, true, 529, Some(100))]);
    auditor.step(at, &[seen(10, true, 629, Some(100))]);
    assert!(learned(&auditor).is_empty(), "its numbers still change");
    auditor.step(at, &[seen(10, true, 629, Some(100)), seen(11, true, 929, Some(500))]);
    assert_eq!(learned(&auditor), [529 * MIB]);
    auditor.step(at, &[seen(10, true, 629, Some(100)), seen(11, true, 929, Some(500))]);
    assert_eq!(learned(&auditor), [429 * MIB]);
    let uses = &auditor.report().uses;
    assert_eq!((uses.len(), uses[0].driver_bytes, uses[0].ledger_bytes), (1, 1558 * MIB, 600 * MIB));
    auditor.failed(Some("the driver is away".to_owned()));
    assert_eq!((learned(&auditor), auditor.report().uses.len()), (vec![429 * MIB], 0));
    assert!(auditor.report().error.is_some());
}
