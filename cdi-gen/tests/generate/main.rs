//! `cdi-gen generate` as a program, on nodes as the field reports them. What needs root or the simulated driver says so when it is skipped.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic too")]

mod cards;
mod commands;
mod content;
mod drivers;
mod kill;
mod layouts;
mod node;
mod watch;
mod writing;

use node::{NVIDIA, Node, UVM, VERSION};
use std::fs;

const TWO: &str = "\
[[card]]
uuid = \"GPU-00000000-0000-0000-0000-000000000001\"
pci_bus_id = \"00000000:3B:00.0\"
minor = 1
[[card]]
uuid = \"GPU-00000000-0000-0000-0000-000000000002\"
pci_bus_id = \"00000000:AF:00.0\"
minor = 0
";

fn names(spec: &cdi::Spec) -> Vec<&str> {
    spec.devices.iter().map(|device| device.name.as_str()).collect()
}

fn nodes(spec: &cdi::Spec, device: &str) -> Vec<String> {
    let device = spec.devices.iter().find(|known| known.name == device).unwrap();
    device.container_edits.device_nodes.iter().map(|node| node.path.clone()).collect()
}

#[test]
fn an_index_is_no_minor() {
    let Some(node) = Node::new() else { return };
    node.mknod("nvidia1", NVIDIA, 1).unwrap();
    node.cards(TWO);
    let spec = node.spec();
    let (first, second) = ("GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000002");
    assert_eq!(names(&spec), ["0", first, "1", second, "all"]);
    assert_eq!(nodes(&spec, "0"), ["/dev/nvidia1"]);
    assert_eq!(nodes(&spec, first), ["/dev/nvidia1"]);
    assert_eq!(nodes(&spec, "1"), ["/dev/nvidia0"]);
    assert_eq!(nodes(&spec, "all"), ["/dev/nvidia1", "/dev/nvidia0"]);
}

#[test]
fn without_nvidia_uvm_an_earlier_file_stays() {
    let Some(node) = Node::new() else { return };
    let before = node.spec();
    fs::remove_file(node.path("dev/nvidia-uvm")).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("/dev/nvidia-uvm is missing") && said.contains("nvidia-modprobe"), "{said}");
    assert_eq!(node.read(), before);
}

#[test]
fn a_module_that_is_not_loaded_is_named() {
    let Some(node) = Node::new() else { return };
    node.devices(&format!("{NVIDIA} nvidia\n"));
    let (code, said) = node.run(&[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("modprobe nvidia-uvm"), "{said}");
    assert!(!node.output().exists());
}

#[test]
fn majors_are_those_of_the_running_kernel() {
    let Some(node) = Node::new() else { return };
    node.mknod("nvidia-uvm", UVM - 1, 0).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("509:0") && said.contains("510:0"), "{said}");
    node.mknod("nvidia-uvm", UVM - 1, 0).unwrap();
    node.mknod("nvidia-uvm-tools", UVM - 1, 1).unwrap();
    node.devices(&format!("{NVIDIA} nvidia-frontend\n{} nvidia-uvm\n", UVM - 1));
    let uvm = node.spec().container_edits.device_nodes.into_iter().find(|node| node.path == "/dev/nvidia-uvm");
    assert_eq!(uvm.unwrap().major, i64::from(UVM - 1));
}

#[test]
fn optional_nodes_are_given_where_they_are() {
    let Some(node) = Node::new() else { return };
    let paths = |node: &Node| -> Vec<String> {
        node.spec().container_edits.device_nodes.into_iter().map(|node| node.path).collect()
    };
    fs::remove_file(node.path("dev/nvidia-uvm-tools")).unwrap();
    assert_eq!(paths(&node), ["/dev/nvidiactl", "/dev/nvidia-uvm"]);
    node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
    assert_eq!(paths(&node), ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset"]);
}

#[test]
fn a_lost_card_costs_that_card() {
    let Some(node) = Node::new() else { return };
    node.mknod("nvidia1", NVIDIA, 1).unwrap();
    node.cards(&TWO.replace("00.0\"\nminor = 0\n", "00.0\"\nminor = 0\nlost = true\n"));
    for address in ["0000:3b:00.0", "0000:af:00.0"] {
        fs::create_dir_all(node.path("proc/driver/nvidia/gpus").join(address)).unwrap();
    }
    let (code, said) = node.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("without 1 of 2 GPUs") && said.contains("GPU 1 (0000:af:00.0): the GPU is lost"), "{said}");
    let spec = node.read();
    assert_eq!(names(&spec), ["0", "GPU-00000000-0000-0000-0000-000000000001", "all"]);
    assert_eq!(nodes(&spec, "all"), ["/dev/nvidia1"]);
}

#[test]
fn a_card_without_its_node_costs_that_card() {
    let Some(node) = Node::new() else { return };
    node.cards(TWO);
    let (code, said) = node.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("GPU 0 (00000000:3B:00.0)") && said.contains("/dev/nvidia1 is missing"), "{said}");
    assert_eq!(names(&node.read()), ["1", "GPU-00000000-0000-0000-0000-000000000002", "all"]);
}

#[test]
fn without_a_usable_card_no_file_is_left() {
    let Some(node) = Node::new() else { return };
    node.spec();
    node.cards("[[card]]\nlost = true\n");
    // Not even the modules are needed then.
    node.devices("");
    let (code, said) = node.run(&[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("the old file is removed") && said.contains("GPU 0 (unknown PCI address)"), "{said}");
    assert!(!node.output().exists());
    let (code, said) = node.run(&[]);
    assert_eq!((code, said.contains("removed")), (5, false), "{said}");
}

#[test]
fn a_file_of_another_kind_is_neither_changed_nor_removed() {
    let Some(node) = Node::new() else { return };
    let theirs = r#"{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": []}"#;
    fs::write(node.output(), theirs).unwrap();
    for cards in ["", "[[card]]\nlost = true\n"] {
        node.cards(cards);
        let (code, said) = node.run(&[]);
        assert_eq!(code, 7, "{said}");
        assert!(said.contains("nvidia.com/gpu") && said.contains("--output"), "{said}");
        assert_eq!(fs::read_to_string(node.output()).unwrap(), theirs);
    }
}

#[test]
fn another_file_with_the_same_devices_is_a_conflict() {
    let Some(node) = Node::new() else { return };
    let yaml = "cdiVersion: 0.5.0\nkind: gpu-quota.io/gpu\ndevices:\n- {name: all, containerEdits: {env: [A=1]}}\n";
    for folder in ["etc", "cdi"] {
        let other = node.path(folder).join("other.yaml");
        fs::write(&other, yaml).unwrap();
        let (code, said) = node.run(&[]);
        assert_eq!(code, 7, "{said}");
        assert!(said.contains(other.to_str().unwrap()) && said.contains("--kind"), "{said}");
        assert!(!node.output().exists());
        let (code, said) = node.run(&["--kind", "example.com/gpu"]);
        assert_eq!(code, 0, "{said}");
        assert_eq!(node.read().kind, "example.com/gpu");
        fs::remove_file(node.output()).unwrap();
        fs::remove_file(other).unwrap();
    }
}

#[test]
fn files_of_another_version_are_refused_or_left_out() {
    let Some(node) = Node::new() else { return };
    node.install("470.57.02");
    for mount in node.spec().container_edits.mounts {
        assert!(!mount.host_path.contains("470"), "{}", mount.host_path);
    }
    node.uninstall();
    node.install("535.261.03");
    let (code, said) = node.run(&[]);
    assert_eq!(code, 9, "{said}");
    assert!(said.contains(VERSION) && said.contains("535.261.03") && said.contains("install"), "{said}");
}

#[test]
fn memory_that_nvml_does_not_tell_costs_no_card() {
    let Some(mut node) = Node::new() else { return };
    let (_, said) = node.run(&[]);
    assert!(said.contains("16130 MiB"), "{said}");
    // A driver before 510 lacks the second version of the call.
    node.rename_in_nvml("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo_xx");
    let (code, said) = node.run(&[]);
    assert_eq!((code, said.contains("16130 MiB")), (0, true), "{said}");
    node.rename_in_nvml("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryNone");
    let (code, said) = node.run(&[]);
    assert_eq!((code, said.contains("memory unknown")), (0, true), "{said}");
    assert_eq!(names(&node.read()).len(), 3);
}

#[test]
fn a_wrong_flag_is_said_before_anything_is_done() {
    let program = env!("CARGO_BIN_EXE_cdi-gen");
    let run = |args: &[&str]| node::ended(std::process::Command::new(program).args(args).output().unwrap());
    let (code, said) = run(&["generate", "--kind", "1x/gpu"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("vendor/class"), "{said}");
    let (code, said) = run(&["--help"]);
    assert_eq!(code, 0);
    assert!(said.contains("Exit codes:") && said.contains("partial"), "{said}");
}
