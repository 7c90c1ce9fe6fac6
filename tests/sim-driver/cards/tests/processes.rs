//! Several processes on one simulated card: one truth for all, and what a process held is free the moment it is gone.
use sim_driver_cards::{Scenario, State};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;

/// A process that holds memory, and whether it got it.
fn hold(dir: &Path, mib: u64) -> (Child, bool) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sim-hold"))
        .arg(mib.to_string())
        .env(sim_driver_cards::DIR_ENV, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built with this test");
    let mut line = String::new();
    let output = child.stdout.take().expect("piped above");
    BufReader::new(output).read_line(&mut line).expect("it prints one line");
    (child, line == "got\n")
}

#[test]
fn all_processes_share_one_card() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Scenario::default().cards[0].memory();
    let state = State::open(dir.path()).unwrap();
    let (mut first, got) = hold(dir.path(), 10_000);
    assert!(got);
    assert_eq!(state.used(0), 10_000 * MIB);
    let (mut second, got) = hold(dir.path(), 7_000);
    assert!(!got, "17,000 of 16,130 MiB were given out");
    assert!(state.take(0, memory, 6_131 * MIB).is_err());
    assert!(state.take(0, memory, 6_130 * MIB).is_ok());
    let mut users: Vec<_> = state.users(0).iter().map(|user| (user.pid, user.bytes / MIB)).collect();
    users.sort_unstable();
    let mut wanted = vec![(first.id(), 10_000), (std::process::id(), 6_130)];
    wanted.sort_unstable();
    assert_eq!(users, wanted);
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(state.used(0), 6_130 * MIB, "SIGKILL gives back at once");
    let (mut third, got) = hold(dir.path(), 10_000);
    assert!(got);
    drop(third.stdin.take());
    third.wait().unwrap();
    assert_eq!(state.used(0), 6_130 * MIB, "an ordinary end gives back too");
}

#[test]
fn two_states_in_one_process_see_each_other() {
    // As libcuda and NVML in one process: locks are not seen by the process that holds them.
    let dir = tempfile::tempdir().unwrap();
    let (cuda, nvml) = (State::open(dir.path()).unwrap(), State::open(dir.path()).unwrap());
    cuda.take(0, 100, 60).unwrap();
    assert_eq!(nvml.used(0), 60);
    assert_eq!(nvml.users(0)[0].pid, std::process::id());
}
