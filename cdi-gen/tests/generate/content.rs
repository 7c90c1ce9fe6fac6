//! What is written is what was asked for: devices, names, versions, formats, the hook, roots.
use crate::node::{NVIDIA, Node, UVM, VERSION, ended};
use crate::{TWO, names, nodes};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const SECOND: &str = "GPU-00000000-0000-0000-0000-000000000002";

fn two() -> Option<Node> {
    let node = Node::new()?;
    node.mknod("nvidia1", NVIDIA, 1).unwrap();
    node.cards(TWO);
    Some(node)
}

#[test]
fn only_the_devices_that_are_asked_for_are_given() {
    let Some(node) = two() else { return };
    for device in ["1", SECOND, "gpu1"] {
        let (code, said) = node.run(&["--device", device]);
        assert_eq!(code, 0, "{said}");
        assert_eq!(names(&node.read()), ["1", SECOND, "all"], "{device}");
    }
    assert_eq!(node.run(&["--device", "0,1"]).0, 0);
    assert_eq!(names(&node.read()).len(), 5);
    let before = node.read();
    let (code, said) = node.run(&["--device", "7"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--device 7") && said.contains("gpu0"), "{said}");
    assert_eq!(node.read(), before);
    // A lost card that was not asked for is not missed, one that was is.
    node.cards(&TWO.replace("minor = 0\n", "minor = 0\nlost = true\n"));
    assert_eq!(node.run(&["--device", "0"]).0, 0);
    assert_eq!(node.run(&["--device", "0,1"]).0, 6);
}

#[test]
fn names_are_those_of_the_strategies() {
    let Some(node) = two() else { return };
    assert_eq!(node.run(&["--name-strategy", "type-index", "--name-strategy", "uuid"]).0, 0);
    assert_eq!(names(&node.read()), ["gpu0", "GPU-00000000-0000-0000-0000-000000000001", "gpu1", SECOND, "all"]);
    assert_eq!(node.read().cdi_version, "0.3.0", "no name begins with a digit");
}

#[test]
fn what_needs_a_later_version_is_left_out_or_refused_by_name() {
    let Some(node) = two() else { return };
    let (code, said) = node.run(&["--max-cdi-version", "0.4.0"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("left out: the device names 0, 1 need CDI 0.5.0"), "{said}");
    assert_eq!(names(&node.read()), ["GPU-00000000-0000-0000-0000-000000000001", SECOND, "all"]);
    assert_eq!(node.read().cdi_version, "0.3.0");
    let before = node.read();
    let (code, said) = node.run(&["--max-cdi-version", "0.4.0", "--name-strategy", "index"]);
    assert_eq!(code, 9, "{said}");
    assert!(said.contains("need") && said.contains("--name-strategy uuid"), "{said}");
    assert_eq!(node.read(), before);
    let other = node.path("dotted.json");
    let mut command = node.command(None);
    command.arg("--output").arg(&other).args(["--kind", "a.b/c.d", "--max-cdi-version", "0.5.0"]);
    let (code, said) = ended(command.output().unwrap());
    assert!(code == 9 && said.contains("\"a.b/c.d\"") && said.contains("0.6.0") && !other.exists(), "{code} {said}");
    assert_eq!(node.run(&["--max-cdi-version", "0.10"]).0, 2);
}

#[test]
fn the_profiles_of_libraries_are_nested() {
    let Some(node) = Node::new() else { return };
    let mounts = |profile: &str| {
        assert_eq!(node.run(&["--profile", profile]).0, 0);
        node.read().container_edits.mounts.len()
    };
    let (compute, graphics, full) = (mounts("compute"), mounts("graphics"), mounts("full"));
    assert!(compute <= graphics && graphics <= full, "{compute} {graphics} {full}");
}

#[test]
fn both_formats_say_the_same() {
    let Some(mut node) = Node::new() else { return };
    node.driver = node.path("driver root: \u{fc}\u{4e2d} 'x' # y");
    node.install(VERSION);
    let json = node.spec();
    let yaml = node.path("cdi/other.yaml");
    let write = |more: &[&str]| {
        let mut command = node.command(None);
        ended(command.arg("--output").arg(&yaml).args(["--kind", "other.io/gpu"]).args(more).output().unwrap())
    };
    let (code, said) = write(&[]);
    assert_eq!(code, 0, "{said}");
    assert!(fs::read_to_string(&yaml).unwrap().starts_with("---\ncdiVersion: 0.5.0\nkind: other.io/gpu\n"));
    let mut same = cdi::read(&yaml).unwrap();
    same.kind.clone_from(&json.kind);
    assert_eq!(same, json);
    let (code, said) = write(&["--format", "json"]);
    assert_eq!((code, said.contains("--format")), (2, true), "{said}");
    // Printed, in either format; nothing is written then.
    let before = fs::metadata(&yaml).unwrap().modified().unwrap();
    for (format, start) in [("yaml", "---\n"), ("json", "{\n")] {
        let output = node.command(None).args(["--output", "-", "--format", format]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().starts_with(start));
    }
    assert_eq!(fs::metadata(&yaml).unwrap().modified().unwrap(), before);
}

#[test]
fn host_paths_are_below_the_driver_root_and_container_paths_are_not() {
    let Some(mut node) = Node::new() else { return };
    node.driver = node.path("run/nvidia/driver");
    node.install(VERSION);
    let spec = node.spec();
    for mount in &spec.container_edits.mounts {
        assert!(Path::new(&mount.host_path).starts_with(&node.driver), "{mount:?}");
        assert!(!mount.container_path.contains("nvidia/driver"), "{mount:?}");
    }
    assert_eq!(nodes(&spec, "0"), ["/dev/nvidia0"]);
}

#[test]
fn a_search_path_finds_what_no_layout_knows() {
    let Some(node) = Node::new() else { return };
    let (from, to) = (node.driver.join("usr/lib"), node.driver.join("strange/place"));
    fs::create_dir_all(node.driver.join("strange")).unwrap();
    fs::rename(from, &to).unwrap();
    assert_eq!(node.run(&[]).0, 9);
    let folder = format!("/strange/place/{}/nvidia/current", crate::node::TRIPLET);
    let (code, said) = node.run(&["--library-search-path", &folder]);
    assert_eq!(code, 0, "{said}");
    assert!(node.read().container_edits.mounts.iter().any(|mount| mount.host_path.contains("strange/place")));
    let (code, said) = node.run(&["--library-search-path", "/none"]);
    assert_eq!((code, said.contains("--library-search-path")), (9, true), "{said}");
}

#[test]
fn nodes_are_made_with_the_majors_of_the_running_kernel() {
    let Some(node) = Node::new() else { return };
    let before = node.spec();
    fs::remove_file(node.path("dev/nvidia-uvm")).unwrap();
    assert_eq!(node.run(&[]).0, 4);
    assert_eq!(node.read(), before);
    // One is missing, one is of an earlier load of the module, one is no device.
    node.mknod("nvidia-uvm-tools", UVM - 1, 1).unwrap();
    fs::remove_file(node.path("dev/nvidia0")).unwrap();
    fs::write(node.path("dev/nvidia0"), "").unwrap();
    let mut command = node.command(Some("umask 077; exec \"$@\""));
    command.arg("--output").arg(node.output()).arg("--create-device-nodes");
    let (code, said) = ended(command.output().unwrap());
    assert_eq!(code, 0, "{said}");
    assert_eq!(node.read(), node.spec(), "and without the flag they are right now");
    for (name, major, minor) in
        [("nvidia-uvm", UVM, 0), ("nvidia-uvm-tools", UVM, 1), ("nvidia0", NVIDIA, 0), ("nvidia-modeset", NVIDIA, 254)]
    {
        let it = fs::metadata(node.path("dev").join(name)).unwrap();
        let rdev = std::os::unix::fs::MetadataExt::rdev(&it);
        assert_eq!((rustix::fs::major(rdev), rustix::fs::minor(rdev)), (major, minor), "{name}");
        assert_eq!(it.permissions().mode() & 0o777, 0o666, "{name}");
    }
    assert_eq!(node.read(), {
        let mut with = before;
        with.container_edits.device_nodes = node.read().container_edits.device_nodes;
        with
    });
}

#[test]
fn an_optional_node_that_is_wrong_costs_only_itself() {
    let Some(node) = Node::new() else { return };
    node.mknod("nvidia-uvm-tools", UVM - 1, 1).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: left out") && said.contains("nvidia-uvm-tools"), "{said}");
    let paths: Vec<_> = node.read().container_edits.device_nodes.into_iter().map(|node| node.path).collect();
    assert_eq!(paths, ["/dev/nvidiactl", "/dev/nvidia-uvm"]);
}

#[test]
fn no_hook_unless_asked_for_and_then_only_one_that_nothing_can_be_loaded_into() {
    let Some(node) = Node::new() else { return };
    assert_eq!(node.spec().container_edits.hooks, []);
    for (program, what) in [("bin/hook", "absolute"), ("/none", "not there"), ("/bin/sh", "statically linked")] {
        let (code, said) = node.run(&[&format!("--with-ldcache-hook={program}")]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(what), "{said}");
    }
    let Some(program) = node.hook() else { return };
    let (code, said) = node.run(&[&format!("--with-ldcache-hook={}", program.display())]);
    assert_eq!(code, 0, "{said}");
    let hook = node.read().container_edits.hooks.remove(0);
    assert_eq!((hook.hook_name.as_str(), hook.path.as_str()), ("createContainer", program.to_str().unwrap()));
    assert!(!hook.env.is_empty(), "an empty one lets the image's own through");
    assert_eq!(hook.args[1..3], ["update", "--folder"]);
}

#[test]
fn a_file_that_is_known_to_be_stale_does_not_outlive_a_failure() {
    let Some(node) = Node::new() else { return };
    let wrong = |node: &Node| {
        node.spec();
        node.uninstall();
        node.install("535.261.03");
    };
    // The same driver, whose files are gone: nobody knows that the old file is wrong.
    wrong(&node);
    let (code, said) = node.run(&[]);
    assert!(code == 9 && node.output().exists(), "{code} {said}");
    // Another kernel module.
    let version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10.01  Mon\n";
    node.put("proc/driver/nvidia/version", version);
    let (code, said) = node.run(&[]);
    assert_eq!(code, 9, "{said}");
    assert!(said.contains("is removed") && said.contains("570.10.01") && said.contains(VERSION), "{said}");
    assert!(!node.output().exists());
    // Another major.
    let Some(node) = Node::new() else { return };
    node.spec();
    node.devices(&format!("{NVIDIA} nvidia\n{} nvidia-uvm\n", UVM + 1));
    let (code, said) = node.run(&[]);
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("is removed") && said.contains("510") && said.contains("511") && !node.output().exists(),
        "{said}"
    );
}
