//! The interposer is a guest in other programs: it prints nothing and changes nothing. Numbers in names are those of the scenarios.
use interposer_tests::{Case, output, results};
use std::path::Path;

#[test]
fn s39_programs_without_a_gpu_do_not_notice() {
    let case = Case::default();
    for _ in 0..1000 {
        assert_eq!(output(&mut case.held(Path::new("/bin/true"))), "");
    }
    assert_eq!(case.held(Path::new("/bin/false")).status().unwrap().code(), Some(1));
    let script = "test -z \"$(trap)\" && umask && echo done | cat && exit 7";
    let run = case.held(Path::new("/bin/sh")).args(["-c", script]).output().unwrap();
    let bare = case.bare(Path::new("/bin/sh")).args(["-c", script]).output().unwrap();
    assert_eq!((run.status.code(), &run), (Some(7), &bare));
}

#[test]
fn s42_the_first_use_changes_nothing() {
    let case = Case::default();
    // What the driver opens for itself is open before.
    let steps = [
        "ctx 0",
        "nvml_init",
        "nvml_uuid 0",
        "world",
        "info",
        "alloc 1",
        "alloc 2000",
        "create 2",
        "map 0",
        "nvml 0",
        "free 0",
        "world",
        "fork alloc 1; world",
    ];
    let answers = case.run(&steps);
    assert_eq!(results(&answers), [0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (before, after, child) = (&answers[3].text, &answers[11].text, &answers[13].text);
    assert!(before.contains("Umask") && before.contains("SigCgt") && before.contains("; 0 "), "{before}");
    assert_eq!(before, after);
    assert_eq!(before, child, "nor does the first use in a child");
}

#[test]
fn s42_errno_stays() {
    let case = Case::default();
    let steps = ["ctx 0", "errno 1", "errno 1", "errno 2000"];
    let (held, bare) = (case.run(&steps), case.run_bare(&steps));
    assert_eq!((held[1].values.clone(), held[2].values.clone()), (bare[1].values.clone(), bare[2].values.clone()));
    assert_eq!((held[3].result, held[3].values.clone()), (2, vec![77]));
}
