//! Runs every check and every test, one after the other, and counts.
use crate::run::{Run, cargo};
use crate::{build, check, elf, fetch, oracles};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Where `#[ignore]` marks a fault that is known and open; elsewhere it marks what a machine lacks.
const OPEN_FAULTS_IN: &str = "interposer-tests";

#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Runs everything; the last line is the count.
pub(crate) fn run(root: &Path) -> Result<()> {
    let cache = fetch::run(root)?;
    let stage = build::run(root, false)?;
    oracles::judges(root, &cache)?;
    let mut count = Count::default();
    for (what, result) in [("check", check::run(root)), ("elf", elf::run(root, &stage.join("libgpu_quota.so")))] {
        match result {
            Ok(()) => count.passed += 1,
            Err(error) => {
                println!("{what} failed: {error:#}");
                count.failed += 1;
            }
        }
    }
    let staged =
        |arguments: &[&str]| cargo(root, arguments).env("GPU_QUOTA_STAGE", &stage).env("GPU_QUOTA_CACHE", &cache);
    // The big clients are not for every run: `cargo xtask clients`.
    let left_out = ["--exclude", "interposer", "--exclude", "e2e", "--exclude", "clients"];
    count_tests(staged(&[&["test", "--no-fail-fast", "--workspace"], &left_out[..]].concat()), &mut count)?;
    // Containers share the machine's cgroups and mounts, so these go one by one.
    count_tests(staged(&["test", "--no-fail-fast", "-p", "e2e", "--", "--test-threads=1"]), &mut count)?;
    open_faults(staged(&["test", "--no-fail-fast", "-p", OPEN_FAULTS_IN, "--", "--ignored"]), &mut count)?;
    println!();
    let skipped = if count.skipped > 0 { format!(", {} skipped", count.skipped) } else { String::new() };
    println!("{} passed, {} failed{skipped}", count.passed, count.failed);
    if count.failed > 0 { std::process::exit(1) } else { Ok(()) }
}

/// Runs cargo test, passes its output on, and adds up its `test result:` lines.
fn count_tests(run: Run, count: &mut Count) -> Result<()> {
    let mut child = run.command().stdout(Stdio::piped()).spawn().context("cannot run cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut results = 0;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        let Some(result) = line.strip_prefix("test result:") else { continue };
        results += 1;
        let number = |word: &str| {
            let part = result.split([';', '.']).find(|part| part.trim().ends_with(word))?;
            part.split_whitespace().find_map(|word| word.parse::<u64>().ok())
        };
        count.passed += number("passed").unwrap_or(0);
        count.failed += number("failed").unwrap_or(0);
        count.skipped += number("ignored").unwrap_or(0);
    }
    let status = child.wait()?;
    if results == 0 {
        bail!("cargo test ran no test ({status})");
    }
    if !status.success() && count.failed == 0 {
        count.failed += 1;
    }
    Ok(())
}

/// Runs the tests of open faults. They are counted as skipped already; one that passes is a failure, because its mark has to go.
fn open_faults(run: Run, count: &mut Count) -> Result<()> {
    let output = run.command().stderr(Stdio::null()).output().context("cannot run cargo test")?;
    let output = String::from_utf8_lossy(&output.stdout);
    if !output.contains("test result:") {
        bail!("cargo test ran no test of an open fault");
    }
    for (name, end) in output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... ")) {
        let mended = end == "ok";
        println!("open fault {name}: {}", if mended { "mended, so take its #[ignore] away" } else { "still there" });
        count.failed += u64::from(mended);
    }
    Ok(())
}
