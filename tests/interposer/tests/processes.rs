//! Several processes of one container, and their ends. Numbers in names are those of the scenarios.
use interposer_tests::{Case, Live, OUT_OF_MEMORY, last, results};
use quota::Bytes;
use quota::ledger::Owner;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

fn started(case: &Case) -> Live {
    let mut live = case.live();
    assert_eq!(live.step("ctx 0").result, 0);
    live
}

#[test]
fn processes_share_the_quota() {
    let case = Case::default();
    let (mut one, mut two) = (started(&case), started(&case));
    assert_eq!(one.step("alloc 600").result, 0);
    assert_eq!(two.steps(&["alloc 600", "alloc 400"]), [OUT_OF_MEMORY, 0]);
    assert_eq!(one.step("info").mib(), [24, 1024]);
    assert_eq!(two.step("nvml 0").mib(), [1024, 24, 1000]);
    one.end();
    assert_eq!(two.step("info").mib(), [624, 1024]);
    assert_eq!(two.step("alloc 600").result, 0);
    two.end();
}

#[test]
fn s22_of_two_that_race_one_is_served() {
    const ROUNDS: usize = 10_000;
    let case = Case::default();
    let path = case.dir().join("race");
    std::fs::write(&path, vec![0_u8; (ROUNDS + 1) * 8]).unwrap();
    let step = format!("race {} {ROUNDS} 700", path.display());
    let mut racers = [started(&case), started(&case)];
    for racer in &mut racers {
        racer.ask(&step);
    }
    let answers = racers.each_mut().map(Live::answer);
    assert_eq!(results(&answers), [0, 0]);
    let words = std::fs::read(&path).unwrap();
    let served: Vec<u64> =
        words.chunks_exact(8).skip(1).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    assert_eq!(served.len(), ROUNDS);
    let both = served.iter().filter(|count| **count > 1).count();
    let none = served.iter().filter(|count| **count == 0).count();
    assert_eq!((both, none), (0, 0), "rounds in which both, or none, were served");
    assert_eq!(racers[0].step("info").mib(), [1024, 1024]);
    racers.into_iter().for_each(Live::end);
}

#[test]
fn s23_a_killed_process_gives_all_back() {
    let case = Case::default();
    let steps = ["churn alloc 1000", "churn create 1000"].into_iter().cycle();
    for (round, step) in steps.take(40).enumerate() {
        let mut victim = started(&case);
        victim.ask(step);
        assert_eq!(victim.answer().step, "churning");
        // Nothing waits for this: the moment of the kill is to be another one each time.
        std::thread::sleep(Duration::from_micros(RandomState::new().hash_one(round) % 3000));
        victim.kill();
        let answers = case.run(&["ctx 0", "info", "alloc 1024", "info"]);
        assert_eq!(results(&answers), [0; 4], "round {round}");
        assert_eq!((answers[1].mib(), answers[3].mib()), (vec![1024, 1024], vec![0, 1024]), "round {round}");
    }
}

#[test]
fn a_process_that_kills_itself_gives_all_back() {
    let case = Case::default();
    let mut other = started(&case);
    let killed = case.run(&["ctx 0", "alloc 500", "fork alloc 300; kill", "info"]);
    assert_eq!(killed[2].step, "alloc 300");
    assert_eq!((killed[3].values.clone(), last(&killed).mib()), (vec![0, 9], vec![524, 1024]));
    assert_eq!(other.step("alloc 1024").result, 0);
    other.end();
}

#[test]
fn s24_many_processes_one_after_the_other() {
    let case = Case::default();
    let mut held = started(&case);
    assert_eq!(held.step("alloc 1000").result, 0);
    for round in 0..200 {
        let answers = case.run(&["ctx 0", "alloc 1", "alloc 24"]);
        assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY], "process {round}");
    }
    assert_eq!(held.step("info").mib(), [24, 1024]);
    held.end();
}

#[test]
fn many_processes_at_the_same_time() {
    let case = Case::quota(64);
    // Without a context of their own, which would fill the card.
    let start = || {
        let mut live = case.live();
        assert_eq!(live.steps(&["init", "create 2"]), [0, 0]);
        live
    };
    let mut all: Vec<Live> = (0..32).map(|_| start()).collect();
    assert_eq!(all[0].step("create 2").result, OUT_OF_MEMORY);
    all.drain(16..).for_each(Live::kill);
    assert_eq!(all[0].steps(&["create 32", "create 2"]), [0, OUT_OF_MEMORY]);
    all.into_iter().for_each(Live::end);
}

#[test]
fn s25_a_child_is_counted_by_itself() {
    let case = Case::default();
    let steps = ["ctx 0", "alloc 500", "fork info; alloc 600; alloc 500; info", "info", "alloc 500", "free 0", "info"];
    let answers = case.run(&steps);
    let say: Vec<(&str, i64)> = answers.iter().map(|answer| (answer.step.as_str(), answer.result)).collect();
    let child = [("info", 0), ("alloc 600", OUT_OF_MEMORY), ("alloc 500", 0), ("info", 0)];
    assert_eq!(say[2..6], child);
    assert_eq!((answers[2].mib(), answers[5].mib()), (vec![524, 1024], vec![24, 1024]));
    assert_eq!(answers[6].values, [0, 0], "the child ended well");
    assert_eq!(answers[7].mib(), [524, 1024], "the parent's charge stays");
    assert_eq!(results(&answers[8..]), [0, 0, 0]);
    assert_eq!(last(&answers).mib(), [524, 1024]);
}

#[test]
fn a_child_does_not_give_back_its_parents_memory() {
    let answers = Case::default().run(&["ctx 0", "alloc 1000", "fork free 0; info; alloc 100", "info"]);
    assert_eq!(answers[3].mib(), [24, 1024]);
    assert_eq!(answers[4].result, OUT_OF_MEMORY);
    assert_eq!(last(&answers).mib(), [24, 1024]);
}

#[test]
fn a_child_of_a_process_that_used_nothing_yet() {
    let answers = Case::default().run(&["fork ctx 0; alloc 1000; alloc 100", "ctx 0", "info", "alloc 1024"]);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0, 0, 0]);
}

#[test]
fn a_new_program_in_the_same_process_starts_with_nothing() {
    let answers = Case::default().run(&["ctx 0", "alloc 1000", "exec ctx 0;info;alloc 1024"]);
    assert_eq!(results(&answers), [0; 5]);
    assert_eq!(answers[3].mib(), [1024, 1024]);
}

#[test]
fn threads_do_not_lose_count() {
    let case = Case::default();
    let answers = case.run(&["ctx 0", "threads 8 2000 100", "info", "alloc 1024"]);
    assert_eq!(answers[1].values, [16_000, 0, 0], "8 times 100 MiB always fit");
    assert_eq!(answers[2].mib(), [1024, 1024]);
    assert_eq!(last(&answers).result, 0);
    let answers = case.run(&["ctx 0", "threads 8 2000 300", "info", "alloc 1024"]);
    let [served, refused, failed] = answers[1].values[..] else { panic!("{answers:?}") };
    assert_eq!((served + refused, failed), (16_000, 0));
    assert!(served > 0);
    assert_eq!((answers[2].mib(), last(&answers).result), (vec![1024, 1024], 0));
}

#[test]
fn the_ledger_says_who_holds_what_and_how_much_it_was_at_most() {
    let case = Case::default();
    let mut guest = case.live();
    assert_eq!(guest.steps(&["ctx 0", "alloc 700", "free 0", "alloc 100", "alloc 1000"]), [0, 0, 0, 0, OUT_OF_MEMORY]);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", guest.pid())).unwrap();
    let begun =
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).and_then(|word| word.parse().ok());
    let namespace =
        std::fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().replace(|c: char| !c.is_ascii_digit(), "");
    let owner = Owner { pid: guest.pid().into(), start: begun.unwrap(), namespace: namespace.parse().unwrap() };
    let seen = case
        .with_ledger(|ledger| (ledger.held(0, 0), ledger.peak(0), ledger.refused(0), ledger.owner(0), ledger.owner(1)));
    assert_eq!(seen, (Bytes(100 << 20), Bytes(700 << 20), 1, Some(owner), None));
}
