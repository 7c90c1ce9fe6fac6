//! `cdi-gen watch` and the wait at boot: what changes on the node changes the file, and nothing else does.
use crate::node::{NVIDIA, Node, UVM, VERSION};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

struct Watcher(Child);

impl Watcher {
    fn start(node: &Node) -> Self {
        let mut command = node.subcommand(None, "watch");
        command.arg("--output").arg(node.output()).args(["--interval", "0.02"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn text(node: &Node) -> String {
    fs::read_to_string(node.output()).unwrap_or_default()
}

#[test]
fn every_change_is_followed_and_nothing_is_written_for_nothing() {
    let Some(node) = Node::new() else { return };
    let watcher = Watcher::start(&node);
    until("the first file", || node.output().exists());
    // A node appears, another goes.
    node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
    until("a new node", || text(&node).contains("nvidia-modeset"));
    fs::remove_file(node.path("dev/nvidia-modeset")).unwrap();
    until("a node that is gone", || !text(&node).contains("nvidia-modeset"));
    // The module is loaded again, and the node follows later.
    node.devices(&format!("{NVIDIA} nvidia\n{} nvidia-uvm\n", UVM + 1));
    until("the stale file is removed", || !node.output().exists());
    node.mknod("nvidia-uvm", UVM + 1, 0).unwrap();
    until("the new major", || text(&node).contains("\"major\": 511"));
    // Somebody damages or removes the file.
    fs::remove_file(node.output()).unwrap();
    until("the file is there again", || node.output().exists());
    // Another driver.
    node.install("535.261.03");
    node.cards("driver_version = \"535.261.03\"\n[[card]]\n");
    node.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Mon\n");
    until("the other driver's files", || text(&node).contains("libcuda.so.535.261.03"));
    assert!(!text(&node).contains(VERSION));
    // Instances of a card are made.
    node.cards(
        "driver_version = \"535.261.03\"\n[[card]]\nmig = true\n[[card.instance]]\nuuid = \"MIG-a1000000-0000-0000-0000-000000000011\"\n\
         gpu_instance = 1\ncompute_instance = 0\nprofile = \"1g.5gb\"\nmemory_mib = 4864\n",
    );
    node.devices(&format!("{NVIDIA} nvidia\n{} nvidia-uvm\n508 nvidia-caps\n", UVM + 1));
    node.put("proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n");
    fs::create_dir_all(node.path("dev/nvidia-caps")).unwrap();
    node.mknod("nvidia-caps/nvidia-cap12", 508, 12).unwrap();
    node.mknod("nvidia-caps/nvidia-cap13", 508, 13).unwrap();
    node.put("proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access", "DeviceFileMinor: 13\n");
    until("the instance", || text(&node).contains("\"0:0\""));
    // Nothing changes, after it has looked at what it wrote itself: nothing is written.
    std::thread::sleep(Duration::from_millis(500));
    let before = fs::metadata(node.output()).unwrap();
    let status = fs::metadata(node.path("cdi-gen/gpu.json.status.json")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let after = fs::metadata(node.output()).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(
        status.ino(),
        fs::metadata(node.path("cdi-gen/gpu.json.status.json")).unwrap().ino(),
        "and the driver is not asked"
    );
    // The last card goes.
    node.cards("driver_version = \"535.261.03\"\ncard = []\n");
    node.put("proc/driver/nvidia/gpus/changed/information", "");
    until("no file without a card", || !node.output().exists());
    drop(watcher);
}

#[test]
fn the_wait_for_the_driver_has_a_bound_and_ends_when_it_is_there() {
    let Some(node) = Node::new() else { return };
    node.pci("0000:00:1e.0", "nvidia");
    node.devices("");
    let start = |wait: &str| {
        let mut command = node.command(None);
        command.arg("--output").arg(node.output()).args(["--wait", wait]).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    assert_eq!(start("1").wait().unwrap().code(), Some(4), "it does not come");
    let mut waiting = start("30");
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    node.devices(&format!("{NVIDIA} nvidia\n{UVM} nvidia-uvm\n"));
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    // A node without a card is not kept waiting.
    fs::remove_dir_all(node.path("sys/bus/pci/devices/0000:00:1e.0")).unwrap();
    node.devices("");
    let began = Instant::now();
    assert_eq!(start("30").wait().unwrap().code(), Some(4));
    assert!(began.elapsed() < Duration::from_secs(20));
}
