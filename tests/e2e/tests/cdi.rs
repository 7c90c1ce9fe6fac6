//! The CDI file of `cdi-gen generate` in the runtimes that read it, without our daemon: two releases of containerd through CRI, and podman. What they make
//! of it is looked at twice: in the OCI spec, and from inside a container.
use anyhow::{Context, Result, ensure};
use e2e::lab::{Ask, KIND, Lab};
use e2e::node::Node;
use e2e::parts;
use e2e::podman::Podman;
use e2e::scratch::Scratch;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const FIRST: &str = "GPU-11111111-0000-4000-8000-000000000001";
const CARDS: &str = "[[card]]\nuuid = \"GPU-11111111-0000-4000-8000-000000000001\"\n\
                     [[card]]\nuuid = \"GPU-22222222-0000-4000-8000-000000000002\"\npci_bus_id = \"00000000:00:1F.0\"\n";
/// Folder of a node whose paths are not plain.
const ODD: &str = "driver of Zoë";
/// The kind of that node's devices.
const ODD_KIND: &str = "gpu-quota.io/odd";
/// The kind of the devices that come with the opt-in hook.
const HOOKED_KIND: &str = "gpu-quota.io/hooked";
/// The hook.
const HOOK: &str = "gpu-quota-ldcache-hook";
/// The formats of CDI files that are tested, JSON first.
const FORMATS: [&str; 2] = ["json", "yaml"];
/// What looks around in a container.
const LOOK: [&str; 2] = ["/usr/bin/python3.11", "/opt/look.py"];

/// What a container got.
struct Seen {
    /// Its OCI spec.
    spec: Value,
    /// What it saw itself.
    inside: Value,
}

/// A runtime that has read the CDI files.
trait Runtime: Send {
    /// Makes a container with a CDI device, and looks at it.
    fn look(&self, device: &str) -> Result<Seen>;
    /// The folder of the CDI files.
    fn cdi(&self) -> PathBuf;
}

impl Runtime for Lab {
    fn look(&self, device: &str) -> Result<Seen> {
        let pod = self.run(&Ask { cdi: vec![device.to_owned()], ..Ask::default() })?;
        let spec = serde_json::from_str(&self.containerd.oci_spec(&pod.id)?)?;
        Ok(Seen { spec, inside: serde_json::from_str(&pod.output(&LOOK)?)? })
    }

    fn cdi(&self) -> PathBuf {
        cdi_folder(self.dir())
    }
}

struct PodmanOnNode {
    podman: Podman,
    sim: PathBuf,
    dir: Scratch,
}

impl Runtime for PodmanOnNode {
    fn look(&self, device: &str) -> Result<Seen> {
        let ended = self.podman.run(device, (&self.sim, "/run/sim-driver"), &LOOK)?;
        Ok(Seen { spec: serde_json::from_str(&ended.spec)?, inside: serde_json::from_str(&ended.stdout)? })
    }

    fn cdi(&self) -> PathBuf {
        cdi_folder(self.dir.path())
    }
}

type Start = fn() -> Result<Box<dyn Runtime>>;

const RUNTIMES: [(&str, Start); 3] = [
    ("containerd_1_7_24", || containerd("1.7.24")),
    ("containerd_2_1_9", || containerd("2.1.9")),
    ("podman_5_4_2", || podman("5.4.2")),
];

type Test = fn(&dyn Runtime) -> Result<()>;

const TESTS: [(&str, Test); 4] = [
    ("each_name_gives_its_cards", each_name_gives_its_cards),
    ("paths_with_spaces_and_letters_beyond_ascii_are_mounted", paths_with_spaces_and_letters_beyond_ascii_are_mounted),
    ("the_hook_adds_the_libraries_to_the_cache_and_nothing_else_does", the_hook_adds_the_libraries_to_the_cache),
    ("an_unknown_card_is_refused", an_unknown_card_is_refused),
];

/// The runtime under test, by its number. Started by its first test, and ended by the next one's: never two at once.
type Running = Arc<Mutex<Option<(usize, Box<dyn Runtime>)>>>;

fn main() {
    let mut arguments = Arguments::from_args();
    // Tests of one runtime after the other.
    arguments.test_threads = Some(1);
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("the tests are skipped: containers need root");
    }
    let running = Running::default();
    let mut trials = Vec::new();
    for (number, (runtime, start)) in RUNTIMES.into_iter().enumerate() {
        for (name, test) in TESTS {
            let running = Arc::clone(&running);
            let run = move || run(&running, number, start, test).map_err(|error| Failed::from(format!("{error:#}")));
            trials.push(Trial::test(format!("{runtime}::{name}"), run).with_ignored_flag(!root));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(running.lock().unwrap_or_else(PoisonError::into_inner).take());
    conclusion.exit();
}

fn run(running: &Running, number: usize, start: Start, test: Test) -> Result<()> {
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    if running.as_ref().is_none_or(|(other, _)| *other != number) {
        drop(running.take());
        *running = Some((number, start()?));
    }
    running.as_ref().map_or(Ok(()), |(_, runtime)| test(runtime.as_ref()))
}

fn containerd(version: &str) -> Result<Box<dyn Runtime>> {
    let (dir, node) = site()?;
    Ok(Box::new(Lab::without_daemon(dir, node, version)?))
}

fn podman(version: &str) -> Result<Box<dyn Runtime>> {
    let (dir, node) = site()?;
    let sim = node.sim.context("a simulated node")?;
    Ok(Box::new(PodmanOnNode { podman: Podman::new(dir.path(), version, &cdi_folder(dir.path()))?, sim, dir }))
}

/// Where the runtimes look for CDI files.
fn cdi_folder(dir: &Path) -> PathBuf {
    dir.join("c/cdi")
}

/// A node of two cards, the same on paths that are not plain, and the CDI files of both.
fn site() -> Result<(Scratch, Node)> {
    let dir = Scratch::new()?;
    let (stage, cache) = (parts::stage()?, parts::cache()?);
    let folder = cdi_folder(dir.path());
    fs::create_dir_all(&folder)?;
    let node = Node::simulated(dir.path(), &stage, &cache, Some(CARDS))?;
    let odd = Node::simulated(&dir.path().join(ODD), &stage, &cache, Some(CARDS))?;
    for format in FORMATS {
        node.generate_cdi(&stage, &kind(KIND, format), &folder.join(format!("gpu.{format}")), &[])?;
        odd.generate_cdi(&stage, &kind(ODD_KIND, format), &folder.join(format!("odd.{format}")), &[])?;
    }
    // Where every runtime of the test finds it.
    let hook = dir.path().join(HOOK);
    fs::copy(stage.join(HOOK), &hook).context("the staged hook")?;
    let flag = format!("--with-ldcache-hook={}", hook.display());
    node.generate_cdi(&stage, HOOKED_KIND, &folder.join("hooked.json"), &[flag])?;
    Ok((dir, node))
}

/// The kind of a file's devices: no two files of a folder may define the same.
fn kind(kind: &str, format: &str) -> String {
    if format == FORMATS[0] { kind.to_owned() } else { format!("{kind}-{format}") }
}

fn each_name_gives_its_cards(runtime: &dyn Runtime) -> Result<()> {
    let spec = read(&runtime.cdi().join("gpu.json"))?;
    for (name, minors) in [("0", &[0][..]), (FIRST, &[0]), ("1", &[1]), ("all", &[0, 1])] {
        gives(runtime, &spec, &format!("{KIND}={name}"), minors)?;
    }
    for format in &FORMATS[1..] {
        gives(runtime, &spec, &format!("{}=0", kind(KIND, format)), &[0])?;
    }
    Ok(())
}

fn paths_with_spaces_and_letters_beyond_ascii_are_mounted(runtime: &dyn Runtime) -> Result<()> {
    let spec = read(&runtime.cdi().join("odd.json"))?;
    let odd = spec.container_edits.mounts.iter().all(|mount| mount.host_path.contains(ODD));
    ensure!(odd && !spec.container_edits.mounts.is_empty(), "{:?}", spec.container_edits.mounts);
    for format in FORMATS {
        gives(runtime, &spec, &format!("{}=0", kind(ODD_KIND, format)), &[0])?;
    }
    Ok(())
}

/// Whether a container with a device has what the file says, and just the cards with these minors.
fn gives(runtime: &dyn Runtime, spec: &cdi::Spec, device: &str, minors: &[u32]) -> Result<()> {
    let name = device.rsplit('=').next().unwrap_or_default();
    let seen = runtime.look(device).with_context(|| device.to_owned())?;
    applied(spec, name, &seen.spec).with_context(|| device.to_owned())?;
    works(&seen.inside, minors).with_context(|| device.to_owned())
}

fn the_hook_adds_the_libraries_to_the_cache(runtime: &dyn Runtime) -> Result<()> {
    for (kind, cached) in [(KIND, false), (HOOKED_KIND, true)] {
        let seen = runtime.look(&format!("{kind}=0"))?;
        ensure!(seen.inside["cached"] == cached, "{kind}: {}", seen.inside);
        works(&seen.inside, &[0])?;
        let hooks = seen.spec.pointer("/hooks/createContainer").and_then(Value::as_array).map_or(0, Vec::len);
        ensure!(hooks == usize::from(cached), "{kind}: {hooks} hooks");
    }
    Ok(())
}

fn an_unknown_card_is_refused(runtime: &dyn Runtime) -> Result<()> {
    let device = format!("{KIND}=7");
    let words = runtime.look(&device).err().context("the container was created")?;
    let words = format!("{words:#}");
    ensure!(words.contains("unresolvable CDI devices") && words.contains(&device), "{words}");
    Ok(())
}

fn read(file: &Path) -> Result<cdi::Spec> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

/// Whether the OCI spec has what the CDI file says of a device.
fn applied(spec: &cdi::Spec, name: &str, oci: &Value) -> Result<()> {
    let device = spec.devices.iter().find(|device| device.name == name).context("no such device in the file")?;
    let list = |at: &str| oci.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
    let (envs, nodes, mounts) = (list("/process/env"), list("/linux/devices"), list("/mounts"));
    let rules = list("/linux/resources/devices");
    for edits in [&spec.container_edits, &device.container_edits] {
        for env in &edits.env {
            ensure!(envs.contains(&json!(env)), "no {env} in {envs:?}");
        }
        for node in &edits.device_nodes {
            let numbers = |other: &Value| other["major"] == node.major && other["minor"] == node.minor;
            let same = |other: &&Value| other["path"] == node.path && other["type"] == "c" && numbers(other);
            let found = nodes.iter().find(same).with_context(|| format!("no {node:?} in {nodes:?}"))?;
            ensure!(found["fileMode"] == json!(node.file_mode), "{found}");
            let allows = |rule: &Value| rule["allow"] == true && rule["access"] == "rw" && numbers(rule);
            ensure!(rules.iter().any(allows), "nothing in {rules:?} allows {}", node.path);
        }
        for mount in &edits.mounts {
            let same = |other: &&Value| other["destination"] == mount.container_path;
            let found: Vec<_> = mounts.iter().filter(same).collect();
            let [found] = found[..] else { anyhow::bail!("{} is mounted {} times", mount.container_path, found.len()) };
            ensure!(found["source"] == mount.host_path, "{found}");
            let options = found["options"].as_array().cloned().unwrap_or_default();
            ensure!(mount.options.iter().all(|option| options.contains(&json!(option))), "{found}");
        }
    }
    Ok(())
}

/// Whether a container has just these cards, and the driver's libraries.
fn works(inside: &Value, minors: &[u32]) -> Result<()> {
    let mut nodes =
        json!({"/dev/nvidiactl": [195, 255], "/dev/nvidia-uvm": [510, 0], "/dev/nvidia-uvm-tools": [510, 1]});
    for minor in minors {
        nodes[format!("/dev/nvidia{minor}")] = json!([195, minor]);
    }
    ensure!(inside["nodes"] == nodes, "wanted {nodes}, got {}", inside["nodes"]);
    // Without a driver in the kernel an allowed node is ENXIO, and one that the container may not use EPERM.
    let allowed = |said: &Value| said == "ENXIO" || said == "ok";
    let opens = inside["opens"].as_object().context("opens")?;
    ensure!(opens.values().all(allowed), "opening said {opens:?}");
    ensure!(inside["env"] == "void", "NVIDIA_VISIBLE_DEVICES is {}", inside["env"]);
    for soname in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        let place = format!("/usr/lib/x86_64-linux-gnu/{soname}");
        ensure!(inside["libraries"][soname] == place, "{soname} is loaded from {}", inside["libraries"][soname]);
    }
    // The simulated libraries know the node's cards without looking at the device nodes.
    ensure!(inside["cuda"] == 2 && inside["smi"].as_str().is_some_and(|smi| smi.contains(FIRST)), "{inside}");
    Ok(())
}
