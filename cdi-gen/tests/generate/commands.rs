//! The other commands: each on files as the field has them, with exit codes that programs can tell apart.
use crate::node::{NVIDIA, Node, UVM, ended};
use cdi_gen::report::{File, Report};
use std::fs;
use std::path::Path;
use std::process::Command;

fn run(args: &[&str]) -> (i32, String) {
    ended(Command::new(env!("CARGO_BIN_EXE_cdi-gen")).args(args).output().unwrap())
}

#[test]
fn check_says_what_is_stale() {
    let Some(node) = Node::new() else { return };
    let check = |node: &Node| node.run_as("check", &[]);
    let (code, said) = check(&node);
    assert_eq!((code, said.contains("no such file")), (10, true), "{said}");
    node.spec();
    assert_eq!(check(&node).0, 0);
    node.devices(&format!("{NVIDIA} nvidia\n{} nvidia-uvm\n", UVM - 1));
    let (code, said) = check(&node);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("/dev/nvidia-uvm has major 510") && said.contains("says 509"), "{said}");
    node.devices(&format!("{NVIDIA} nvidia\n{UVM} nvidia-uvm\n"));
    node.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10.01  Mon\n");
    let (code, said) = check(&node);
    assert!(code == 10 && said.contains("550.163.01") && said.contains("570.10.01"), "{code} {said}");
    fs::remove_file(node.path("proc/driver/nvidia/version")).unwrap();
    let smi = node.driver.join("usr/lib/nvidia/current/nvidia-smi");
    fs::rename(&smi, node.path("smi")).unwrap();
    let (code, said) = check(&node);
    assert!(code == 10 && said.contains("nvidia-smi is gone"), "{code} {said}");
    fs::rename(node.path("smi"), &smi).unwrap();
    // What only a new look finds.
    node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
    let (code, said) = check(&node);
    assert!(code == 10 && said.contains("nvidia-modeset"), "{code} {said}");
    assert!(said.contains("@@") && said.contains("+        \"path\": \"/dev/nvidia-modeset\""), "{said}");
    let before = fs::read(node.output()).unwrap();
    node.cards("[[card]]\nlost = true\n");
    let (code, said) = check(&node);
    assert!(code == 10 && said.contains("no GPU of this node is usable"), "{code} {said}");
    assert_eq!(fs::read(node.output()).unwrap(), before, "check changes nothing");
}

#[test]
fn check_tells_conflict_partial_and_invalid_apart() {
    let Some(node) = Node::new() else { return };
    node.spec();
    let other = node.path("etc/other.yaml");
    fs::write(
        &other,
        "cdiVersion: 0.5.0\nkind: gpu-quota.io/gpu\ndevices:\n- {name: '0', containerEdits: {env: [A=1]}}\n",
    )
    .unwrap();
    let (code, said) = node.run_as("check", &[]);
    assert!(code == 7 && said.contains("other.yaml") && said.contains("--kind"), "{code} {said}");
    fs::remove_file(other).unwrap();
    node.pci("0000:3b:00.0", "vfio-pci");
    let (code, said) = node.run_as("check", &[]);
    assert!(code == 6 && said.contains("vfio-pci"), "{code} {said}");
    let output = node.subcommand(None, "check").arg("--output").arg(node.output()).arg("--json").output().unwrap();
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report.exit_code, report.file, report.bad.len()), (6, File::UpToDate, 1));
    fs::write(node.output(), "{\"cdiVersion\": \"9.9.9\", \"kind\": \"gpu-quota.io/gpu\", \"devices\": []}").unwrap();
    let (code, said) = node.run_as("check", &[]);
    assert!(code == 11 && said.contains("9.9.9"), "{code} {said}");
}

#[test]
fn validate_names_file_line_and_rule() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let device = "- name: a\n  containerEdits: {env: [A=1]}\n";
    let good = put("good.yaml", &format!("cdiVersion: 0.5.0\nkind: a.b/gpu\ndevices:\n{device}"));
    let cases = [
        (
            put("field.yaml", &format!("cdiVersion: 0.5.0\nkind: a.b/gpu\ncolour: red\ndevices:\n{device}")),
            "field.yaml:3: ",
            "colour",
        ),
        (
            put(
                "version.json",
                "{\n\"cdiVersion\": \"9.9.9\",\n\"kind\": \"a.b/gpu\", \"devices\": [{\"name\": \"a\", \"containerEdits\": {\"env\": [\"A=1\"]}}]}",
            ),
            "version.json:2: ",
            "9.9.9",
        ),
        (
            put("twice.yaml", &format!("cdiVersion: 0.5.0\nkind: a.b/gpu\ndevices:\n{device}{device}")),
            "twice.yaml:6: ",
            "twice",
        ),
        (
            put("empty.yaml", "cdiVersion: 0.5.0\nkind: a.b/gpu\ndevices:\n- name: a\n  containerEdits: {}\n"),
            "empty.yaml:4: ",
            "no edits",
        ),
        (put("odd.yml", "x"), "odd.yml: ", "neither .json nor .yaml"),
    ];
    assert_eq!(run(&["validate", &good]).0, 0);
    for (file, place, rule) in &cases {
        let (code, said) = run(&["validate", &good, file]);
        assert_eq!(code, 11, "{said}");
        assert!(said.contains(place) && said.contains(rule) && said.contains("good.yaml: valid"), "{said}");
        assert!(said.contains("1 of 2 files"), "{said}");
    }
    let (code, said) = run(&["validate", "--json", &cases[2].0]);
    assert!(code == 11 && said.contains("\"line\": 6"), "{code} {said}");
    assert_eq!(run(&["validate", &dir.path().join("none.json").display().to_string()]).0, 8);
}

#[test]
fn list_shows_what_runtimes_would_give() {
    let Some(node) = Node::new() else { return };
    node.spec();
    let (cdi, etc) = (node.path("cdi"), node.path("etc"));
    let dirs = format!("{},{}", etc.display(), cdi.display());
    let (code, said) = run(&["list", "--spec-dirs", &dirs]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.lines().count(), 3);
    assert!(said.starts_with("gpu-quota.io/gpu=0 "), "{said}");
    let yaml = "cdiVersion: 0.5.0\nkind: gpu-quota.io/gpu\ndevices:\n- {name: all, containerEdits: {env: [A=1]}}\n";
    fs::write(etc.join("low.yaml"), yaml).unwrap();
    let (code, said) = run(&["list", "--spec-dirs", &dirs]);
    assert!(code == 0 && said.contains("counts more than that of") && said.contains("low.yaml"), "{code} {said}");
    fs::write(cdi.join("same.yaml"), yaml).unwrap();
    let (code, said) = run(&["list", "--spec-dirs", &dirs]);
    assert!(code == 7 && said.contains("runtimes give it to nobody"), "{code} {said}");
    fs::write(cdi.join("same.yaml"), "x: 1\n").unwrap();
    let (code, said) = run(&["list", "--json", "--spec-dirs", &dirs]);
    assert!(code == 11 && said.contains("unknown field"), "{code} {said}");
}

#[test]
fn status_tells_the_last_run_again() {
    let Some(node) = Node::new() else { return };
    let output = node.output().display().to_string();
    let (code, said) = run(&["status", "--output", &output]);
    assert!(code == 8 && said.contains("cdi-gen generate"), "{code} {said}");
    node.spec();
    let (code, said) = run(&["status", "--output", &output]);
    assert!(code == 0 && said.contains("is written") && said.contains("driver 550.163.01"), "{code} {said}");
    node.pci("0000:3b:00.0", "vfio-pci");
    node.run(&[]);
    let (code, said) = run(&["status", "--output", &output]);
    assert!(
        code == 6 && said.contains("is up to date") && said.contains("not usable: GPU at 0000:3b:00.0"),
        "{code} {said}"
    );
    fs::remove_file(node.path("dev/nvidia-uvm")).unwrap();
    node.run(&[]);
    let (code, said) = run(&["status", "--output", &output]);
    assert!(code == 4 && said.contains("left as it was") && said.contains("nvidia-uvm is missing"), "{code} {said}");
    let (_, said) = run(&["status", "--json", "--output", &output]);
    let report: Report = serde_json::from_str(&said).unwrap();
    assert_eq!((report.exit_code, report.file, report.schema), (4, File::Kept, 1));
    assert_eq!(fs::read_dir(node.path("cdi")).unwrap().count(), 1, "no runtime reads the status");
}

#[test]
fn dry_run_and_diff_show_and_do_nothing() {
    let Some(node) = Node::new() else { return };
    let (code, said) = node.run(&["--dry-run"]);
    assert_eq!(code, 0, "{said}");
    let printed: cdi::Spec = serde_json::from_str(&said).unwrap();
    assert!(!node.output().exists() && !node.path("cdi-gen").exists(), "not even a status");
    assert_eq!(printed, node.spec());
    assert_eq!(node.run(&["--dry-run", "--diff"]), (0, String::new()));
    node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
    let before = fs::read(node.output()).unwrap();
    let (code, said) = node.run(&["--dry-run", "--diff"]);
    assert!(code == 0 && said.contains("+        \"path\": \"/dev/nvidia-modeset\","), "{code} {said}");
    assert_eq!(fs::read(node.output()).unwrap(), before);
    let (code, said) = node.run(&["--diff"]);
    assert!(code == 0 && said.contains("@@") && said.contains("is written"), "{code} {said}");
    // A dry run makes no device node.
    fs::remove_file(node.path("dev/nvidia-uvm")).unwrap();
    assert_eq!(node.run(&["--dry-run", "--create-device-nodes"]).0, 4);
    assert!(!node.path("dev/nvidia-uvm").exists());
}

#[test]
fn transform_moves_roots_there_and_back() {
    let Some(node) = Node::new() else { return };
    let spec = node.spec();
    let (from, to) = (node.driver.display().to_string(), node.path("moved.yaml"));
    let moved = to.display().to_string();
    let file = node.output().display().to_string();
    let (code, said) = run(&["transform", &file, "--from", &from, "--to", "/opt/driver", "--output", &moved]);
    assert_eq!(code, 0, "{said}");
    let there = cdi::read(&to).unwrap();
    assert!(there.container_edits.mounts.iter().all(|mount| Path::new(&mount.host_path).starts_with("/opt/driver")));
    let (code, said) = run(&["transform", &moved, "--from", "/opt/driver", "--to", &from]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(cdi::read::parse(said.as_bytes(), cdi::Format::Yaml).unwrap(), spec);
    let (code, said) = run(&["transform", &file, "--from", "/usr", "--to", "/opt", "--relative-to", "container"]);
    assert!(code == 0 && said.contains("\"containerPath\": \"/opt/lib64/libcuda.so.1\""), "{code} {said}");
    assert_eq!(run(&["transform", &file, "--from", "usr", "--to", "/opt"]).0, 2);
}

#[test]
fn completions_and_the_manual_page_name_every_command() {
    let commands = ["generate", "check", "validate", "list", "status", "watch", "transform"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, said) = run(&["completions", shell]);
        assert!(code == 0 && commands.iter().all(|command| said.contains(command)), "{shell}");
    }
    let (code, said) = run(&["man"]);
    assert_eq!(code, 0);
    for command in commands {
        assert!(
            said.contains(&format!("cdi\\-gen {command}")) || said.contains(&format!("cdi\\-gen\\-{command}")),
            "{command}"
        );
    }
    assert!(said.contains(".TH") && said.contains("max\\-cdi\\-version") && said.contains("Exit codes"), "{said}");
}

#[test]
fn every_flag_of_generate_is_an_environment_variable() {
    let (_, help) = run(&["generate", "--help"]);
    let flags = help.lines().filter(|line| line.trim_start().starts_with("--")).filter(|line| !line.contains("--help"));
    let names: Vec<&str> = flags.filter_map(|line| line.trim().split([' ', '=', '[']).next()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let variable = format!("CDI_GEN_{}", name.trim_start_matches('-').to_uppercase().replace('-', "_"));
        assert!(help.contains(&format!("[env: {variable}=")), "{name} has no {variable}");
    }
    let Some(node) = Node::new() else { return };
    let mut command = node.command(None);
    command
        .env("CDI_GEN_OUTPUT", node.output())
        .env("CDI_GEN_NAME_STRATEGY", "type-index,uuid")
        .env("CDI_GEN_JSON", "true");
    let output = command.output().unwrap();
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.devices[0].names[0], "gpu0");
}
