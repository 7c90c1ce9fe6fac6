//! Our reader and rules against two that we did not write: the reference loader (Go, `tests/oracle/go`) and the validator of the published Rust crate.
//! What they refuse we refuse. Where we are stricter, the case says why. `cargo xtask test` builds both; without them the tests say that they are skipped.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic too")]

mod cases;
mod random;

use cases::cases;
use cdi::{Format, Spec};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many random specs are judged.
const RANDOM: usize = 2000;

fn tool(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home).map(|cache| cache.join("gpu-quota"));
    let cache = std::env::var_os("GPU_QUOTA_CACHE").map(PathBuf::from).or(cache)?;
    let program = cache.join("oracle/bin").join(name);
    if program.exists() {
        return Some(program);
    }
    eprintln!("SKIPPED: no {} (cargo xtask test builds it; the Go one only where go is)", program.display());
    None
}

/// What the reference loader says of each file: `None` for a file that it loads.
fn reference(program: &Path, files: &[PathBuf]) -> Vec<Option<String>> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let names = names.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(names.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<_> = text.lines().map(|line| (line != "ok").then(|| line.to_owned())).collect();
    assert_eq!(verdicts.len(), files.len(), "{text}");
    verdicts
}

/// Where we refuse what the reference loader takes: a part of the file's name, and why.
const STRICTER: [(&str, &str); 10] = [
    ("case.json", "only Go takes keys in another case"),
    ("trailing.json", "the reference reads JSON as YAML, which ends earlier"),
    ("yaml in.json", "the reference reads JSON as YAML"),
    ("bom.json", "RFC 8259 lets a reader refuse it, and others do"),
    ("two documents.yaml", "the reference drops all but the first in silence"),
    ("octal.yaml", "0666 is octal in YAML 1.1 and decimal in 1.2, so readers differ"),
    ("nulls.json", "the specification knows no null"),
    ("merge.yaml", "merge keys are of YAML 1.1 only"),
    (
        "hooks.0.timeout=",
        "OCI says that a timeout must be above zero, and runc ends a container's creation at once for less",
    ),
    ("deviceNodes.0.path=1.json", "the reference reads JSON as YAML and turns the number into text"),
];

#[test]
fn the_reference_loader_refuses_what_we_refuse() {
    let Some(program) = tool("cdi-oracle") else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = cases(dir.path());
    let (mut wrong, mut used, mut refused) = (Vec::new(), [false; STRICTER.len()], 0);
    for (file, theirs) in files.iter().zip(reference(&program, &files)) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let ours = cdi::read(file).err().map(|error| error.to_string());
        refused += u32::from(theirs.is_some());
        match (ours, theirs) {
            (None, None) | (Some(_), Some(_)) => {}
            (None, Some(theirs)) => wrong.push(format!("{name}: we accept it, and the reference {theirs}")),
            (Some(ours), None) => match STRICTER.iter().position(|(part, _)| name.contains(part)) {
                Some(at) => used[at] = true,
                None => wrong.push(format!("{name}: the reference accepts it, and we say {ours}")),
            },
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(used.iter().all(|used| *used), "a difference is none any more: {used:?}");
    println!("{} files, {refused} refused by both", files.len());
}

#[test]
fn random_specs_get_one_verdict_in_both_formats() {
    let Some(program) = tool("cdi-oracle") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut runner = TestRunner::new(Config::default());
    let mut files = Vec::new();
    for nth in 0..RANDOM {
        let made = random::spec().new_tree(&mut runner).unwrap().current();
        let (format, end) = if nth % 2 == 0 { (Format::Json, "json") } else { (Format::Yaml, "yaml") };
        let path = dir.path().join(format!("{nth}.{end}"));
        fs::write(&path, format.encode(&made).unwrap()).unwrap();
        files.push(path);
    }
    let mut good = 0;
    for (file, theirs) in files.iter().zip(reference(&program, &files)) {
        let ours = cdi::read(file).err().map(|error| error.to_string());
        good += u32::from(ours.is_none());
        let text = || fs::read_to_string(file).unwrap();
        assert_eq!(ours.is_some(), theirs.is_some(), "ours: {ours:?}\ntheirs: {theirs:?}\n{}", text());
    }
    println!("{good} of {RANDOM} random specs are valid");
    assert!(good as usize > RANDOM / 100, "{good}");
}

#[test]
fn the_validator_of_the_rust_crate_takes_what_we_write() {
    let Some(program) = tool("validate") else { return };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cdi-gen/tests/golden/reference.json");
    let spec: Spec = serde_json::from_slice(&fs::read(golden).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.json", "a.yaml"] {
        let path = dir.path().join(name);
        cdi::write(&spec, &path).unwrap();
        let run = |path: &Path| Command::new(&program).arg(path).output().unwrap();
        let output = run(&path);
        assert!(output.status.success(), "{name}: {output:?}");
        fs::write(&path, "{\"cdiVersion\": ").unwrap();
        let output = run(&path);
        assert!(!output.status.success(), "a judge that refuses nothing: {output:?}");
    }
}
