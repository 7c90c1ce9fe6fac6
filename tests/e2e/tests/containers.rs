//! What containers get, on real containerds with real runc: the promises of the README, one test each. They share one node for each release, and run one
//! by one.
use anyhow::{Context, Result, ensure};
use e2e::lab::{Ask, Lab, Pod};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

type Test = fn(&Lab) -> Result<()>;

const TESTS: [(&str, Test); 17] = [
    ("the_cdi_file_is_written_and_containerd_reads_it", the_cdi_file_is_written_and_containerd_reads_it),
    ("isolated_sees_and_uses_exactly_its_share", isolated_sees_and_uses_exactly_its_share),
    ("a_cleared_environment_changes_nothing", a_cleared_environment_changes_nothing),
    ("another_user_changes_nothing", another_user_changes_nothing),
    ("volumes_above_our_files_change_nothing", volumes_above_our_files_change_nothing),
    ("a_read_only_root_changes_nothing", a_read_only_root_changes_nothing),
    ("disabled_sees_and_uses_the_whole_card", disabled_sees_and_uses_the_whole_card),
    ("two_side_by_side_keep_to_their_own", two_side_by_side_keep_to_their_own),
    ("a_killed_process_gives_its_memory_back", a_killed_process_gives_its_memory_back),
    ("every_client_sees_the_share", every_client_sees_the_share),
    ("without_a_request_the_spec_is_untouched", without_a_request_the_spec_is_untouched),
    ("a_bad_quota_is_refused_with_a_sentence", a_bad_quota_is_refused_with_a_sentence),
    ("a_share_beside_a_foreign_device_is_refused", a_share_beside_a_foreign_device_is_refused),
    (
        "a_share_that_does_not_fit_is_refused_until_there_is_room",
        a_share_that_does_not_fit_is_refused_until_there_is_room,
    ),
    ("the_users_own_preload_is_kept", the_users_own_preload_is_kept),
    (
        "the_quota_holds_while_the_daemon_is_dead_and_the_book_comes_back",
        the_quota_holds_while_the_daemon_is_dead_and_the_book_comes_back,
    ),
    ("while_the_daemon_is_dead_nobody_gets_a_gpu", while_the_daemon_is_dead_nobody_gets_a_gpu),
];

/// The node with a release of containerd, brought up by the first test of the release, gone before the next and after the last. It is only ever used by
/// one thread at a time.
struct Shared(Mutex<Option<(String, Lab)>>);

// SAFETY is not needed: Lab is Send, and the mutex gives it to one thread at a time.
fn main() {
    let mut arguments = Arguments::from_args();
    // The releases one after the other.
    arguments.test_threads = Some(1);
    let shared = Arc::new(Shared(Mutex::new(None)));
    let mut trials = Vec::new();
    for version in e2e::parts::containerd_versions() {
        for (name, test) in TESTS {
            let (shared, version) = (Arc::clone(&shared), version.clone());
            let label = format!("containerd_{}::{name}", version.replace('.', "_"));
            trials.push(Trial::test(label, move || run(&shared, &version, test)));
        }
    }
    trials.push(Trial::test("started_by_containerd_it_does_the_same", || {
        started_by_containerd_it_does_the_same().map_err(|error| Failed::from(format!("{error:#}")))
    }));
    let gpu = Path::new("/dev/nvidiactl").exists() && Path::new("/proc/driver/nvidia/version").exists();
    if !gpu {
        eprintln!("on_the_machines_own_gpu is skipped: this machine has no NVIDIA GPU with a loaded driver");
    }
    trials.push(Trial::test("on_the_machines_own_gpu", on_the_machines_own_gpu).with_ignored_flag(!gpu));
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(shared.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    conclusion.exit();
}

fn run(shared: &Shared, version: &str, test: Test) -> Result<(), Failed> {
    let mut shared = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error: anyhow::Error| Failed::from(format!("{error:#}"));
    if shared.as_ref().is_none_or(|(other, _)| other != version) {
        drop(shared.take());
        *shared = Some((version.to_owned(), Lab::start_with(version, false).map_err(failed)?));
    }
    shared.as_ref().map_or(Ok(()), |(_, lab)| test(lab).map_err(failed))
}

/// What the client must answer.
fn expect(container: &Pod<'_>, steps: &[(&str, Value)]) -> Result<()> {
    let words: Vec<&str> = steps.iter().map(|(step, _)| *step).collect();
    let answers = container.client(&words)?;
    for ((step, wanted), got) in steps.iter().zip(&answers) {
        ensure!(got == wanted, "{step} answered {got}, wanted {wanted}; all: {answers:?}");
    }
    ensure!(answers.len() == steps.len(), "only {} answers", answers.len());
    Ok(())
}

/// `used, total` in MiB, as nvidia-smi tells.
fn smi(container: &Pod<'_>) -> Result<String> {
    let query = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"];
    Ok(container.output(&query)?.trim().to_owned())
}

fn the_cdi_file_is_written_and_containerd_reads_it(lab: &Lab) -> Result<()> {
    let (said, file) = lab.generate_cdi()?;
    ensure!(said.contains("1 device(s)") && said.contains("550.163.01"), "{said}");
    let spec: cdi::Spec = serde_json::from_slice(&std::fs::read(&file)?)?;
    ensure!(cdi::validate(&spec).is_empty(), "{:?}", cdi::validate(&spec));
    let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
    ensure!(names == ["0", "GPU-5ba4538b-234f-2c18-6a7a-458d0a7fb348", "all"], "{names:?}");
    ensure!(spec.cdi_version == "0.5.0", "{}", spec.cdi_version);
    // A device by name is the whole card, without a share and without the daemon's doing.
    for name in names {
        let ask = Ask { cdi: vec![format!("gpu-quota.io/gpu={name}")], ..Ask::default() };
        ensure!(smi(&lab.run(&ask)?)? == "0, 16130", "device {name}");
    }
    Ok(())
}

fn isolated_sees_and_uses_exactly_its_share(lab: &Lab) -> Result<()> {
    let container = lab.run(&Ask::share("3"))?;
    ensure!(smi(&container)? == "0, 3072", "nvidia-smi: {}", smi(&container)?);
    let view = container.output(&["nvidia-smi"])?;
    ensure!(view.contains("0MiB /   3072MiB"), "{view}");
    expect(
        &container,
        &[
            ("total", json!(3072)),
            ("nvml", json!([3072, 0, 3072])),
            ("alloc:2900", json!(0)),
            ("nvml", json!([3072, 2900, 172])),
            ("info", json!([172, 3072])),
            ("alloc:200", json!(2)),
            ("free:0", json!(0)),
            ("alloc:3072", json!(0)),
            ("alloc:1", json!(2)),
            ("free:1", json!(0)),
            ("info", json!([3072, 3072])),
        ],
    )?;
    let ledger = std::fs::read(lab.folder(&container.id).join(quota::paths::LEDGER_FILE))?;
    let refused = quota::ledger::snapshot::Snapshot::read(&ledger)?.refused(0);
    ensure!(refused == 2, "the host sees {refused} refusals");
    Ok(())
}

fn a_cleared_environment_changes_nothing(lab: &Lab) -> Result<()> {
    let container = lab.run(&Ask::share("3"))?;
    let steps = ["total", "nvml", "alloc:2900", "alloc:200"];
    let command = [&["/usr/local/bin/env", "-i", "/usr/bin/python3.11", "/opt/client.py"][..], &steps].concat();
    let answers = e2e::lab::answers(&container.output(&command)?)?;
    ensure!(answers == [json!(3072), json!([3072, 0, 3072]), json!(0), json!(2)], "{answers:?}");
    let smi = ["/usr/local/bin/env", "-i", "/usr/bin/nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader"];
    ensure!(container.output(&smi)?.trim() == "3072 MiB");
    Ok(())
}

/// The ledger is root's file; any user of the container counts in it, and none can change the limits.
fn another_user_changes_nothing(lab: &Lab) -> Result<()> {
    let container = lab.run(&Ask::share("3"))?;
    let script = "import os, runpy, sys\n\
                  os.setgid(1000); os.setuid(1000)\n\
                  assert not os.access('/run/gpu-quota/limits', os.W_OK)\n\
                  sys.argv = ['client', 'total', 'nvml', 'alloc:2900', 'alloc:200']\n\
                  runpy.run_path('/opt/client.py')\n";
    let answers = e2e::lab::answers(&container.output(&["python3.11", "-c", script])?)?;
    ensure!(answers == [json!(3072), json!([3072, 0, 3072]), json!(0), json!(2)], "{answers:?}");
    let overwrite = container.exec(&["sh", "-c", "echo x > /run/gpu-quota/limits"])?;
    ensure!(overwrite.code != 0, "root of the container can write its limits");
    let remove = container.exec(&["python3.11", "-c", "import os; os.remove('/etc/ld.so.preload')"])?;
    ensure!(remove.code != 0, "root of the container can remove the preload list");
    expect(&container, &[("total", json!(3072)), ("alloc:3073", json!(2))])
}

/// A volume at /run or /etc is mounted before our files, or it would hide them, and the loader would go on without the interposer.
fn volumes_above_our_files_change_nothing(lab: &Lab) -> Result<()> {
    let (run, etc) = (lab.dir().join("volume-run"), lab.dir().join("volume-etc"));
    std::fs::create_dir_all(&run)?;
    std::fs::create_dir_all(&etc)?;
    let volumes = vec![(run.clone(), "/run".to_owned()), (etc.clone(), "/etc".to_owned())];
    let container = lab.run(&Ask { volumes, ..Ask::share("3") })?;
    expect(&container, &[("total", json!(3072)), ("alloc:2900", json!(0)), ("alloc:200", json!(2))])?;
    drop(container);
    // A volume over our own place is refused.
    for place in ["/run/gpu-quota", "/etc/ld.so.preload", "/var/run/gpu-quota/limits"] {
        let volumes = vec![(run.clone(), place.to_owned())];
        let words = lab.refused(&Ask { volumes, ..Ask::share("3") })?;
        ensure!(words.contains(place) && words.contains("mount it elsewhere"), "{words}");
    }
    Ok(())
}

fn a_read_only_root_changes_nothing(lab: &Lab) -> Result<()> {
    let container = lab.run(&Ask { readonly: true, ..Ask::share("3") })?;
    expect(&container, &[("total", json!(3072)), ("alloc:2900", json!(0)), ("alloc:200", json!(2))])
}

fn disabled_sees_and_uses_the_whole_card(lab: &Lab) -> Result<()> {
    let hold = ["alloc:15024", "said:/tmp/ready", "wait:/tmp/never"];
    let command = [&["python3.11", "/opt/client.py"][..], &hold].concat().into_iter().map(str::to_owned).collect();
    let container = lab.run(&Ask { command, ..Ask::share("3").disabled() })?;
    container.wait_for("/tmp/ready")?;
    // The reference scenario: the framework has taken 15,024 MiB, and its context the rest of what is in use.
    ensure!(smi(&container)? == "15453, 16130", "nvidia-smi: {}", smi(&container)?);
    let env = container.output(&["env"])?;
    ensure!(env.contains("ALIYUN_COM_GPU_MEM_CONTAINER=3") && env.contains("ALIYUN_COM_GPU_MEM_DEV=15"), "{env}");
    ensure!(container.exec(&["ls", "/run/gpu-quota"])?.code != 0, "a container that opted out has no interposer");
    ensure!(container.exec(&["ls", "/etc/ld.so.preload"])?.code != 0, "a container that opted out has no preload list");
    // The three stay booked: thirteen do not fit beside them.
    let refused = lab.refused(&Ask::share("13"))?;
    ensure!(refused.contains("card 0") && refused.contains("free"), "{refused}");
    Ok(())
}

/// A container whose main process holds an allocation.
fn holding<'a>(lab: &'a Lab, share: &str, allocation: &str) -> Result<Pod<'a>> {
    let steps = ["python3.11", "/opt/client.py", allocation, "said:/tmp/ready", "wait:/tmp/never"];
    let container = lab.run(&Ask { command: steps.map(str::to_owned).to_vec(), ..Ask::share(share) })?;
    container.wait_for("/tmp/ready")?;
    Ok(container)
}

fn two_side_by_side_keep_to_their_own(lab: &Lab) -> Result<()> {
    let three = holding(lab, "3", "alloc:2000")?;
    let five = holding(lab, "5", "alloc:4000")?;
    ensure!(smi(&three)? == "2000, 3072", "{}", smi(&three)?);
    ensure!(smi(&five)? == "4000, 5120", "{}", smi(&five)?);
    let more = |info: [u64; 2], fits: &'static str| {
        [("info", json!(info)), (fits, json!(0)), ("alloc:1", json!(2)), ("free:0", json!(0))]
    };
    expect(&three, &more([1072, 3072], "alloc:1072"))?;
    expect(&five, &more([1120, 5120], "alloc:1120"))
}

fn a_killed_process_gives_its_memory_back(lab: &Lab) -> Result<()> {
    let script =
        "python3.11 /opt/client.py alloc:2900 said:/tmp/ready wait:/tmp/never & echo $! > /tmp/pid; sleep 1000000";
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let container = lab.run(&Ask { command, ..Ask::share("3") })?;
    container.wait_for("/tmp/ready")?;
    expect(&container, &[("alloc:200", json!(2))])?;
    container.output(&["sh", "-c", "kill -9 $(cat /tmp/pid)"])?;
    let gone = "while ls /proc/$(cat /tmp/pid)/exe; do sleep 0.01; done";
    container.output(&["sh", "-c", gone])?;
    expect(&container, &[("nvml", json!([3072, 0, 3072])), ("alloc:2900", json!(0))])
}

fn every_client_sees_the_share(lab: &Lab) -> Result<()> {
    let container = lab.run(&Ask::share("3"))?;
    let gpustat = container.output(&["python3.11", "-m", "gpustat", "--no-color"])?;
    ensure!(gpustat.contains("0 /  3072 MB"), "{gpustat}");
    let nvitop = container.output(&["python3.11", "-m", "nvitop", "-1", "--no-unicode", "--colorful"])?;
    ensure!(nvitop.contains("3072MiB"), "{nvitop}");
    let numba = "import numpy, numba.cuda as cuda\n\
                 host = numpy.arange(1 << 20, dtype=numpy.int32)\n\
                 card = cuda.to_device(host)\n\
                 assert (card.copy_to_host() == host).all()\n\
                 print(cuda.current_context().get_memory_info().total >> 20)\n\
                 try:\n    cuda.device_array(3200 << 20, dtype=numpy.uint8)\n\
                 except Exception as error:\n    print(error)\n";
    let output =
        container.output(&["env", "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING=1", "python3.11", "-c", numba])?;
    ensure!(output.starts_with("3072\n") && output.contains("OUT_OF_MEMORY"), "{output}");
    Ok(())
}

fn without_a_request_the_spec_is_untouched(lab: &Lab) -> Result<()> {
    let ask = Ask::env(&[("NVIDIA_VISIBLE_DEVICES", "all"), ("CGPU_DISABLE", "true"), ("FOO", "bar")]);
    let with = lab.run(&ask)?.plain_spec()?;
    lab.kill_plugin()?;
    let without = lab.run(&ask)?.plain_spec();
    lab.start_plugin()?;
    let without = without?;
    ensure!(with.len() > 1000 && !with.contains("nvidia0"), "{with}");
    ensure!(with == without, "with the daemon:\n{with}\nwithout:\n{without}");
    // The comparison sees what the daemon does where it does something.
    ensure!(lab.run(&Ask::share("3"))?.plain_spec()? != without);
    Ok(())
}

fn a_bad_quota_is_refused_with_a_sentence(lab: &Lab) -> Result<()> {
    for value in ["abc", "0", "-1", "99"] {
        let words = lab.refused(&Ask::share(value))?;
        for part in ["ALIYUN_COM_GPU_MEM_CONTAINER", &format!("\"{value}\""), "from 1 to 15", "GiB", "main"] {
            ensure!(words.contains(part), "quota {value}: {words:?} does not mention {part}");
        }
    }
    let folders = std::fs::read_dir(lab.dir().join("run/containers")).map_or(0, Iterator::count);
    ensure!(folders == 0, "{folders} folders are left");
    Ok(())
}

fn a_share_beside_a_foreign_device_is_refused(lab: &Lab) -> Result<()> {
    lab.generate_cdi()?;
    let words = lab.refused(&Ask { cdi: vec!["gpu-quota.io/gpu=0".to_owned()], ..Ask::share("3") })?;
    ensure!(words.contains("/dev/nvidia") && words.contains("someone else"), "{words}");
    Ok(())
}

fn a_share_that_does_not_fit_is_refused_until_there_is_room(lab: &Lab) -> Result<()> {
    let nine = lab.run(&Ask::share("9"))?;
    let words = lab.refused(&Ask::share("9"))?;
    ensure!(words.contains("card 0 has 6914 MiB free of 16130 MiB"), "{words}");
    let six = lab.run(&Ask::share("6"))?;
    drop(nine);
    // Stopping gives the share back, before the container is removed.
    lab.containerd.cri.stop(&six.id)?;
    let whole = lab.run(&Ask::share("15"))?;
    expect(&whole, &[("total", json!(15_360))])
}

fn the_users_own_preload_is_kept(lab: &Lab) -> Result<()> {
    let mut ask = Ask::share("3");
    ask.env.push(("LD_PRELOAD".to_owned(), "libm.so.6".to_owned()));
    let container = lab.run(&ask)?;
    ensure!(container.output(&["env"])?.contains("LD_PRELOAD=libm.so.6\n"));
    expect(&container, &[("total", json!(3072)), ("alloc:3073", json!(2))])
}

fn the_quota_holds_while_the_daemon_is_dead_and_the_book_comes_back(lab: &Lab) -> Result<()> {
    let nine = holding(lab, "9", "alloc:9000")?;
    lab.kill_plugin()?;
    let held = expect(&nine, &[("total", json!(9216)), ("alloc:217", json!(2)), ("alloc:216", json!(0))]);
    lab.start_plugin()?;
    held?;
    ensure!(lab.plugin_said("shares=1"), "the book is not rebuilt");
    let words = lab.refused(&Ask::share("9"))?;
    ensure!(words.contains("free"), "{words}");
    let five = lab.run(&Ask::share("5"))?;
    expect(&five, &[("total", json!(5120)), ("alloc:5121", json!(2)), ("alloc:5120", json!(0))])?;
    expect(&nine, &[("nvml", json!([9216, 9000, 216]))])
}

fn while_the_daemon_is_dead_nobody_gets_a_gpu(lab: &Lab) -> Result<()> {
    lab.kill_plugin()?;
    let container = lab.run(&Ask::share("3"));
    let device = container.as_ref().map(|container| container.exec(&["ls", "/dev/nvidia0"]));
    lab.start_plugin()?;
    let device = device.map_err(|error| anyhow::anyhow!("{error:#}"))??;
    ensure!(device.code != 0, "a container got a GPU without the interposer");
    let id = container?.id.clone();
    ensure!(!lab.folder(&id).exists());
    Ok(())
}

/// containerd hands a plugin of its folder a connected socket instead of a path. Only the newest release: those with NRI before 0.7, containerd 1.7.24
/// among them, never tell a plugin of their folder which containers there are.
fn started_by_containerd_it_does_the_same() -> Result<()> {
    let lab = Lab::start_with_installed_plugin()?;
    let container = lab.run(&Ask::share("3"))?;
    expect(&container, &[("total", json!(3072)), ("alloc:2900", json!(0)), ("alloc:200", json!(2))])?;
    let words = lab.refused(&Ask::share("abc"))?;
    ensure!(words.contains("\"abc\""), "{words}");
    Ok(())
}

/// The same promises on real hardware, where there is any: the share is a quarter of the card, at least 1 GiB.
fn on_the_machines_own_gpu() -> Result<(), Failed> {
    let test = || -> Result<()> {
        let lab = Lab::start(true)?;
        let ask = Ask::env(&[("ALIYUN_COM_GPU_MEM_CONTAINER", "1")]);
        let container = lab.run(&ask)?;
        expect(&container, &[("total", json!(1024)), ("alloc:900", json!(0)), ("alloc:200", json!(2))])?;
        ensure!(smi(&container)?.ends_with(", 1024"), "{}", smi(&container)?);
        let whole = lab.run(&ask.disabled())?;
        let total = whole.client(&["total"])?.pop().and_then(|total| total.as_u64()).context("no total")?;
        ensure!(total > 1024, "a container that opted out sees {total} MiB");
        Ok(())
    };
    test().map_err(|error| Failed::from(format!("{error:#}")))
}
