//! A runtime that does not give what it should: the exit code is 0 and the reason is said.
use crate::bundle::{Bundle, HOOK, LIB64, run, said};
use std::process::{Command, Stdio};
use std::time::Instant;

#[test]
fn arguments() {
    let bundle = Bundle::new();
    for (args, reason) in [
        (vec![], "the first argument is \"\""),
        (vec!["--help"], "usage: "),
        (vec!["update"], "no folder is named"),
        (vec!["update", "--folder", "usr"], "is not an absolute path"),
        (vec!["update", "--folder"], "lacks its value"),
        (vec!["update", "--x\ny"], "unknown"),
    ] {
        let said = bundle.hook(&args);
        assert!(said.contains(reason), "{said}");
    }
    assert!(!bundle.cache().exists());
}

#[test]
fn state_and_configuration() {
    let hook = |state: &[u8]| run(Command::new(HOOK).args(LIB64), state);
    let deep = format!("{{\"annotations\":{}", "[".repeat(1 << 19));
    let long = " ".repeat((1 << 20) + 1);
    for (state, reason) in [
        ("", "the OCI state on stdin is not as"),
        ("{", "is not as"),
        ("{}", "missing field `bundle`"),
        (deep.as_str(), "EOF while parsing a list"),
        (long.as_str(), "more than 1048576 bytes"),
        (r#"{"bundle":"a"}"#, "is not an absolute path"),
        (r#"{"bundle":"/none/at all"}"#, "No such file"),
        ("{\"bundle\":\"/a\\u0000b\"}", "config.json"),
    ] {
        let said = hook(state.as_bytes());
        assert!(said.contains(reason), "{said}");
    }
    assert!(hook(b"{\"bundle\":\"\xff\"}").contains("is not as"));
    let bundle = Bundle::new();
    let config = bundle.dir.path().join("config.json");
    for (text, reason) in [
        ("", "config.json is not as"),
        (r#"{"root":{}}"#, "missing field `path`"),
        (r#"{"root":{"path":"none"}}"#, "cannot open the container's root"),
        (r#"{"root":{"path":"config.json"}}"#, "Not a directory"),
        (r#"{"root":{"path":"/"}}"#, "is this machine's own"),
        (r#"{"root":{"path":"/proc/self/root"}}"#, "is this machine's own"),
    ] {
        std::fs::write(&config, text).unwrap();
        let said = bundle.hook(&LIB64);
        assert!(said.contains(reason), "{said}");
    }
    std::fs::remove_file(&config).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &config, 0o600.into()).unwrap();
    assert!(bundle.hook(&LIB64).contains("not a regular file"));
}

#[test]
fn an_absolute_root() {
    let bundle = Bundle::new();
    let root = bundle.at("");
    std::fs::write(bundle.dir.path().join("config.json"), format!(r#"{{"root":{{"path":{root:?}}}}}"#)).unwrap();
    assert_eq!(bundle.hook(&LIB64), "");
    bundle.assert_added();
}

#[test]
fn a_state_that_never_ends() {
    let started = Instant::now();
    let mut child = Command::new(HOOK)
        .args(LIB64)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let open = child.stdin.take();
    let out = child.wait_with_output().unwrap();
    drop(open);
    assert!(said(&out).starts_with("gave up after 10s"));
    assert!(started.elapsed().as_secs() < 60);
}

#[test]
fn nobody_listens() {
    let bundle = Bundle::new();
    let file = bundle.dir.path().join("state");
    std::fs::write(&file, bundle.state()).unwrap();
    for closed in ["2>&-", "1>&- 2>&-", "2>/dev/full", "0<&-", "0<&- 1>&- 2>&-"] {
        let shell = format!("\"$0\" update --folder /usr/lib64 --folder relative < '{}' {closed}", file.display());
        let status = Command::new("sh").args(["-c", &shell, HOOK]).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{closed}");
    }
}
