//! What people see and change while containers run: the status and the shares, on the newest containerd with real runc.
use anyhow::{Context, Result, ensure};
use e2e::containerd::wait_for;
use e2e::lab::{Ask, Lab, Pod, answers};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

type Test = fn(&Lab) -> Result<()>;

const TESTS: [(&str, Test); 6] = [
    ("a_running_process_sees_its_new_share", a_running_process_sees_its_new_share),
    ("shares_that_cannot_be_are_refused_in_words", shares_that_cannot_be_are_refused_in_words),
    ("the_status_is_told_with_and_without_the_daemon", the_status_is_told_with_and_without_the_daemon),
    ("metrics_and_health_are_served", metrics_and_health_are_served),
    ("a_damaged_ledger_is_told", a_damaged_ledger_is_told),
    ("the_audit_finds_and_ends_who_is_outside", the_audit_finds_and_ends_who_is_outside),
];

/// One node for all tests, which run one by one.
fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let shared: Arc<Mutex<Option<Lab>>> = Arc::default();
    let trial = |(name, test): (&'static str, Test)| {
        let shared = Arc::clone(&shared);
        Trial::test(name, move || run(&shared, test).map_err(|error| Failed::from(format!("{error:#}"))))
    };
    let conclusion = libtest_mimic::run(&arguments, TESTS.map(trial).into());
    drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
    conclusion.exit();
}

fn run(shared: &Mutex<Option<Lab>>, test: Test) -> Result<()> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.is_none() {
        *shared = Some(Lab::start(false)?);
    }
    shared.as_ref().map_or(Ok(()), test)
}

/// A container whose main process does these steps and writes its answers to `/tmp/out`.
fn doing<'a>(lab: &'a Lab, share: &str, steps: &str) -> Result<Pod<'a>> {
    let script = format!("exec python3.11 /opt/client.py {steps} wait:/tmp/never > /tmp/out 2>&1");
    lab.run(&Ask { command: ["sh", "-c", &script].map(str::to_owned).to_vec(), ..Ask::share(share) })
}

/// What a command that must succeed printed.
fn said(lab: &Lab, words: &[&str]) -> Result<String> {
    let (code, out, errors) = lab.ask(words)?;
    ensure!(code == Some(0), "{words:?} ended with {code:?}: {errors}");
    Ok(out)
}

/// What a command that must fail said.
fn refused(lab: &Lab, words: &[&str]) -> Result<String> {
    let (code, out, errors) = lab.ask(words)?;
    ensure!(code == Some(7), "{words:?} ended with {code:?}: {out}{errors}");
    Ok(errors)
}

fn status(lab: &Lab) -> Result<Value> {
    Ok(serde_json::from_str(&said(lab, &["status", "--json"])?)?)
}

/// A container in a status.
fn entry<'a>(status: &'a Value, id: &str) -> Result<&'a Value> {
    let all = status["containers"].as_array().context("no containers")?;
    all.iter().find(|one| one["id"] == *id).with_context(|| format!("{id} is not in {status}"))
}

fn a_running_process_sees_its_new_share(lab: &Lab) -> Result<()> {
    let steps = "alloc:2000 said:/tmp/ready until:5120 alloc:2500 said:/tmp/grown until:1024 info alloc:1 total said:/tmp/shrunk";
    let container = doing(lab, "3", steps)?;
    container.wait_for("/tmp/ready")?;
    let words = said(lab, &["set-quota", &container.name(), "5GiB"])?;
    ensure!(words == format!("{}: card 0: 5120 MiB, was 3072 MiB\n", container.name()), "{words}");
    container.wait_for("/tmp/grown")?;
    // Far below what it uses: nothing new is granted, and the process lives on.
    said(lab, &["set-quota", &container.id[..12], "1024MiB", "--card", "0"])?;
    container.wait_for("/tmp/shrunk")?;
    let told = answers(&container.output(&["cat", "/tmp/out"])?)?;
    let expected = json!([0, true, true, 0, true, true, [0, 1024], 2, 1024, true]);
    ensure!(Value::Array(told.clone()) == expected, "{told:?}");
    let seen = status(lab)?;
    let share = &entry(&seen, &container.id)?["shares"][0];
    for (key, value) in
        [("quota_bytes", 1024_u64 << 20), ("used_bytes", 4500 << 20), ("peak_bytes", 4500 << 20), ("processes", 1)]
    {
        ensure!(share[key] == json!(value), "{key}: {share}");
    }
    ensure!(share["refused_allocations"] == json!(1), "{share}");
    // A process that starts now reads the new share too, and a daemon that starts again keeps it.
    ensure!(container.client(&["total"])? == [json!(1024)]);
    lab.kill_plugin()?;
    lab.start_plugin()?;
    let seen = status(lab)?;
    ensure!(entry(&seen, &container.id)?["shares"][0]["quota_bytes"] == json!(1024_u64 << 20), "{seen}");
    ensure!(seen["cards"][0]["booked_bytes"] == json!(1024_u64 << 20), "{seen}");
    said(lab, &["set-quota", &container.id, "16130MiB"])?;
    ensure!(container.client(&["total"])? == [json!(16_130)]);
    Ok(())
}

fn shares_that_cannot_be_are_refused_in_words(lab: &Lab) -> Result<()> {
    let (three, five) = (lab.run(&Ask::share("3"))?, lab.run(&Ask::share("5"))?);
    let whole = lab.run(&Ask::share("2").disabled())?;
    for (container, quota, part) in [
        (three.id.as_str(), "9GiB", "card 0 has room for 8962 MiB for this container (16130 MiB in all"),
        (&three.id, "17GiB", "does not fit"),
        (&three.id, "0GiB", "above zero"),
        (&whole.id, "3GiB", "not isolated"),
        ("default/no-such/main", "3GiB", &five.name()),
        ("", "3GiB", &three.name()),
    ] {
        let words = refused(lab, &["set-quota", container, quota])?;
        ensure!(words.contains(part), "{container} {quota}: {words}");
    }
    let words = refused(lab, &["set-quota", &three.id, "4GiB", "--card", "1"])?;
    ensure!(words.contains("no share of card 1") && words.contains("cards 0"), "{words}");
    let (code, _, words) = lab.ask(&["set-quota", &three.id, "4"])?;
    ensure!(code == Some(2) && words.contains("5GiB"), "{words}");
    ensure!(three.client(&["total"])? == [json!(3072)], "a refused change changed something");
    said(lab, &["set-quota", &three.id, "8GiB"])?;
    let words = lab.refused(&Ask::share("1"))?;
    ensure!(words.contains("card 0 has 770 MiB free"), "what is set is booked: {words}");
    // Limits that cannot be changed: the record is put back, so that it does not say more than is enforced.
    std::fs::write(lab.folder(&five.id).join(quota::paths::LIMITS_FILE), "damaged")?;
    let words = refused(lab, &["set-quota", &five.id, "1GiB"])?;
    ensure!(words.contains("nothing is changed, interposer cannot"), "{words}");
    ensure!(entry(&status(lab)?, &five.id)?["shares"][0]["quota_bytes"] == json!(5_u64 << 30));
    let record = std::fs::read_to_string(lab.folder(&five.id).join("record.json"))?;
    ensure!(record.contains(&(5_u64 << 30).to_string()), "{record}");
    Ok(())
}

fn the_status_is_told_with_and_without_the_daemon(lab: &Lab) -> Result<()> {
    let container = doing(lab, "3", "alloc:1000 said:/tmp/ready")?;
    container.wait_for("/tmp/ready")?;
    let whole = lab.run(&Ask::share("2").disabled())?;
    let table = said(lab, &["status"])?;
    let line = |table: &str, pod: &Pod<'_>| -> Result<Vec<String>> {
        let line = table.lines().find(|line| line.contains(&pod.id[..13])).context("no line")?;
        Ok(line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect())
    };
    let cells = line(&table, &container)?;
    ensure!(cells[4..] == ["0", "3072 MiB", "1000 MiB", "1000 MiB", "-", "1", "0", "on"], "{table}");
    let cells = line(&table, &whole)?;
    ensure!(cells[4..] == ["0", "2048 MiB", "-", "-", "-", "-", "-", "off"], "{table}");
    ensure!(table.contains("5120 MiB  11010 MiB  16130 MiB"), "{table}");
    // Again and again, until the reader has enough.
    let (program, run) = (lab.staged("nri-plugin"), lab.dir().join("run"));
    let watch = format!("{} status --json --watch 1 --run-dir {} | head -n 2", program.display(), run.display());
    let watched = std::process::Command::new("sh").args(["-c", &watch]).output()?;
    ensure!(String::from_utf8_lossy(&watched.stdout).matches(&container.id).count() == 2, "{watched:?}");
    lab.kill_plugin()?;
    let (told, refused) = (said(lab, &["status"]), lab.ask(&["set-quota", &container.id, "4GiB"]));
    lab.start_plugin()?;
    let (told, (code, _, words)) = (told?, refused?);
    ensure!(told.contains("the daemon does not answer") && line(&told, &container)?[5..7] == ["3072 MiB", "1000 MiB"]);
    ensure!(code == Some(7) && words.contains("control.sock") && words.contains("does the daemon run"), "{words}");
    Ok(())
}

fn metrics_and_health_are_served(lab: &Lab) -> Result<()> {
    let container = doing(lab, "3", "alloc:1000 said:/tmp/ready")?;
    container.wait_for("/tmp/ready")?;
    lab.refused(&Ask::share("99"))?;
    let text = lab.scrape("/metrics")?;
    let value = |name: &str, label: &str| {
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(label));
        line.and_then(|line| line.rsplit(' ').next()).with_context(|| format!("{name} {label}: {text}"))
    };
    let id = format!("id=\"{}\"", container.id);
    ensure!(value("gpu_quota_container_quota_bytes{", &id)? == "3221225472", "{text}");
    ensure!(value("gpu_quota_container_used_bytes{", &id)? == "1048576000", "{text}");
    ensure!(value("gpu_quota_card_booked_bytes{", "card=\"0\"")? == "3221225472", "{text}");
    ensure!(value("gpu_quota_requests_total{", "refused")? != "0", "{text}");
    ensure!(text.contains("application/openmetrics-text"), "{text}");
    for path in ["/healthz", "/readyz"] {
        ensure!(lab.scrape(path)?.starts_with("HTTP/1.1 200"), "{}", lab.scrape(path)?);
    }
    let id = container.id.clone();
    drop(container);
    ensure!(!lab.scrape("/metrics")?.contains(&id), "a container that is gone has series");
    Ok(())
}

fn a_damaged_ledger_is_told(lab: &Lab) -> Result<()> {
    let container = lab.run(&Ask::share("3"))?;
    let damage = |code: &str| container.output(&["python3.11", "-c", code]);
    damage("f = open('/run/gpu-quota/ledger', 'r+b'); f.seek(8 * 32); f.write(b'\\xff' * 8)")?;
    let fault = |seen: &Value| Ok::<_, anyhow::Error>(entry(seen, &container.id)?["fault"].to_string());
    let words = fault(&status(lab)?)?;
    ensure!(words.contains("forged"), "{words}");
    damage("open('/run/gpu-quota/ledger', 'r+b').truncate(5)")?;
    let words = fault(&status(lab)?)?;
    ensure!(words.contains("wrong length"), "{words}");
    damage("open('/run/gpu-quota/ledger', 'r+b').truncate(1 << 40)")?;
    let words = fault(&status(lab)?)?;
    ensure!(words.contains("wrong length"), "{words}");
    ensure!(said(lab, &["status"])?.contains("! default/pod-"));
    Ok(())
}

/// A static program in an isolated container: the interposer is not in it, so only the driver sees what it uses.
fn the_audit_finds_and_ends_who_is_outside(lab: &Lab) -> Result<()> {
    let script = "busybox mkfifo /tmp/f; /opt/hold 700 <> /tmp/f > /tmp/hold; touch /tmp/ended; exec sleep 1000000";
    let volumes = vec![(lab.staged("sim/hold-static"), "/opt/hold".to_owned())];
    let client = "python3.11 /opt/client.py alloc:1000 said:/tmp/ready wait:/tmp/never > /tmp/out &";
    let command = ["sh", "-c", &format!("{client} {script}")].map(str::to_owned).to_vec();
    let held = lab.run(&Ask { command, volumes: volumes.clone(), ..Ask::share("3") })?;
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let free = lab.run(&Ask { command, volumes, ..Ask::share("3").disabled() })?;
    held.wait_for("/tmp/ready")?;
    for pod in [&held, &free] {
        wait_for("the static program", || Ok(pod.output(&["cat", "/tmp/hold"])? == "got\n"))?;
    }
    lab.restart_plugin_with(&["--audit", "event", "--audit-interval", "1"])?;
    let seen = || -> Result<Value> {
        let mut seen = Value::Null;
        wait_for("two audits", || {
            seen = status(lab)?;
            Ok(seen["audit"]["contexts"].as_object().is_some_and(|learned| !learned.is_empty()))
        })?;
        Ok(seen)
    };
    let seen = seen()?;
    let findings = seen["audit"]["findings"].as_array().context("no findings")?;
    ensure!(findings.len() == 1, "{findings:?}");
    for (key, value) in [
        ("container", json!(held.id)),
        ("fault", json!("unguarded")),
        ("driver_bytes", json!(700_u64 << 20)),
        ("ledger_bytes", Value::Null),
    ] {
        ensure!(findings[0][key] == value, "{key}: {findings:?}");
    }
    let share = &entry(&seen, &held.id)?["shares"][0];
    // What was allocated, the context of the reference scenario, and what the static program took.
    ensure!(share["driver_bytes"] == json!(2129_u64 << 20) && share["drift_bytes"] == json!(1129_u64 << 20), "{share}");
    let learned = seen["audit"]["contexts"].as_object().and_then(|learned| learned.values().next());
    ensure!(learned == Some(&json!(429_u64 << 20)), "{learned:?}");
    ensure!(seen["audit"]["native_limits"] == json!(false), "{seen}");
    ensure!(said(lab, &["status"])?.contains("without the interposer: 700 MiB by the driver"));
    ensure!(lab.plugin_said("event=\"audit_finding\"") && held.exec(&["ls", "/tmp/ended"])?.code != 0);

    lab.restart_plugin_with(&["--audit", "kill", "--audit-interval", "1", "--audit-grace", "1"])?;
    held.wait_for("/tmp/ended")?;
    ensure!(lab.plugin_said("event=\"process_killed\""));
    // Nobody else: not the process that counts, nor one that was never held.
    wait_for("an audit without findings", || Ok(status(lab)?["audit"]["findings"] == json!([])))?;
    let seen = status(lab)?;
    ensure!(entry(&seen, &held.id)?["shares"][0]["processes"] == json!(1), "{seen}");
    ensure!(
        free.output(&["cat", "/tmp/hold"])? == "got\n" && free.exec(&["ls", "/tmp/ended"])?.code != 0,
        "a process of a container that opted out was killed"
    );
    lab.restart_plugin_with(&[])
}
