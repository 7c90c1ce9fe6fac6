//! Our reader and rules against two that we did not write: the reference loader (Go, `tests/oracle/go`) and the validator of the published Rust crate.
//! What they refuse we refuse. Where we are stricter, the case says why. `cargo xtask test` builds both; without them the tests say that they are skipped.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic too")]

use cdi::Format;
use cdi::spec::{ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
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
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    let writer = std::thread::spawn(move || input.write_all(names.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<_> = text.lines().map(|line| (line != "ok").then(|| line.to_owned())).collect();
    assert_eq!(verdicts.len(), files.len(), "{text}");
    verdicts
}

/// A spec that has something of everything.
fn whole() -> Value {
    json!({
        "cdiVersion": "1.1.0", "kind": "vendor.com/class", "annotations": {"a": "b"},
        "devices": [{"name": "dev1", "annotations": {"c": "d"}, "containerEdits": {
            "env": ["A=1"],
            "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b", "type": "c", "major": 1, "minor": 2, "fileMode": 438,
                "permissions": "rw", "uid": 1, "gid": 2}],
            "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"], "type": "bind"}],
            "hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h"], "env": ["A=1"], "timeout": 3}],
            "netDevices": [{"hostInterfaceName": "eth0", "name": "e"}],
            "intelRdt": {"closID": "x", "l3CacheSchema": "y", "memBwSchema": "z", "schemata": ["s"], "enableMonitoring": true},
            "additionalGids": [44]
        }}],
        "containerEdits": {"env": ["B=2"]}
    })
}

/// Places of [`whole`], and what is put there; `null` takes the key away.
fn changes() -> Vec<(&'static str, Value)> {
    const EDITS: &str = "/devices/0/containerEdits";
    let mut all: Vec<(&'static str, Value)> = Vec::new();
    for version in
        ["0.1.0", "0.3.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "v1.1.0", "1.2.0", "9.9.9", "", "1.1", "x"]
    {
        all.push(("/cdiVersion", json!(version)));
    }
    for kind in [
        "a/b",
        "vendor.com/cl.ass",
        "vendor",
        "vendor/",
        "/class",
        "1v/c",
        "v/1c",
        "v-/c",
        "v/c_",
        "v_x/c-y",
        "a b/c",
        "a/b/c",
        "",
    ] {
        all.push(("/kind", json!(kind)));
    }
    for name in ["0", "0:1", "a.b-c_d:e", "GPU-1", "-a", "a-", ":a", "a:", "", "a b", "\u{e4}", "a/b"] {
        all.push(("/devices/0/name", json!(name)));
    }
    all.push(("/devices", json!([])));
    all.push(("/devices", json!(null)));
    all.push(("/devices/0/containerEdits", json!({})));
    all.push(("/devices/0/containerEdits", json!(null)));
    all.push(("/containerEdits", json!({})));
    all.push(("/annotations", json!({})));
    all.push(("/kind", json!(null)));
    all.push(("/cdiVersion", json!(null)));
    for place in ["/extra", "/devices/0/extra", "/devices/0/containerEdits/extra", "/containerEdits/extra"] {
        all.push((place, json!(1)));
    }
    for (place, values) in [
        (
            "env",
            vec![json!(["A"]), json!(["=1"]), json!(["A="]), json!(["A=1=2"]), json!([""]), json!("A=1"), json!([1])],
        ),
        ("deviceNodes/0/path", vec![json!(""), json!("relative"), json!(1)]),
        ("deviceNodes/0/type", vec![json!(""), json!("b"), json!("u"), json!("p"), json!("x"), json!("cc")]),
        (
            "deviceNodes/0/permissions",
            vec![json!(""), json!("r"), json!("rwm"), json!("mrw"), json!("x"), json!("rr"), json!("none")],
        ),
        ("deviceNodes/0/major", vec![json!(0), json!(-1), json!("1"), json!(1.5)]),
        (
            "deviceNodes/0/fileMode",
            vec![json!(0), json!(-1), json!("0666"), json!(4_294_967_295_u32), json!(4_294_967_296_u64)],
        ),
        ("deviceNodes/0/uid", vec![json!(0), json!(-1)]),
        ("deviceNodes/0/extra", vec![json!(1)]),
        ("mounts/0/hostPath", vec![json!(""), json!("relative"), json!(null)]),
        ("mounts/0/containerPath", vec![json!(""), json!(null)]),
        ("mounts/0/options", vec![json!([]), json!("ro")]),
        ("mounts/0/extra", vec![json!(1)]),
        (
            "hooks/0/hookName",
            vec![
                json!("prestart"),
                json!("createRuntime"),
                json!("startContainer"),
                json!("poststart"),
                json!("poststop"),
                json!("x"),
                json!(""),
            ],
        ),
        ("hooks/0/path", vec![json!(""), json!("relative")]),
        ("hooks/0/env", vec![json!(["A"]), json!(["=1"]), json!([])]),
        ("hooks/0/timeout", vec![json!(0), json!(-1), json!(1)]),
        ("hooks/0/extra", vec![json!(1)]),
        ("netDevices/0/name", vec![json!(""), json!(null)]),
        ("netDevices/0/hostInterfaceName", vec![json!("")]),
        (
            "netDevices",
            vec![
                json!([{"hostInterfaceName": "a", "name": "x"}, {"hostInterfaceName": "b", "name": "x"}]),
                json!([{"hostInterfaceName": "a", "name": "x"}, {"hostInterfaceName": "a", "name": "y"}]),
            ],
        ),
        (
            "intelRdt/closID",
            vec![
                json!("/"),
                json!("."),
                json!(".."),
                json!("ab/cd"),
                json!("a\nb"),
                json!(""),
                json!("x".repeat(4096)),
                json!("x".repeat(4097)),
            ],
        ),
        ("intelRdt/enableCMT", vec![json!(true), json!(false)]),
        ("intelRdt/enableMBM", vec![json!(true)]),
        ("intelRdt/extra", vec![json!(1)]),
        ("additionalGids", vec![json!([0]), json!([-1]), json!(["44"]), json!([])]),
    ] {
        for value in values {
            all.push((Box::leak(format!("{EDITS}/{place}").into_boxed_str()), value));
        }
    }
    all
}

fn change(spec: &mut Value, place: &str, value: Value) {
    let (parent, key) = place.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap();
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(key)),
        value => parent[key] = value,
    }
}

/// Whole texts that no change of a value gives: name, text.
const TEXTS: [(&str, &str); 22] = [
    ("empty.json", ""),
    ("empty.yaml", ""),
    ("list.json", "[]"),
    ("word.yaml", "word"),
    ("null.json", "null"),
    (
        "twice.json",
        "{\"cdiVersion\":\"0.3.0\",\"kind\":\"ab/cd\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}},{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}}]}",
    ),
    (
        "key twice.json",
        "{\"cdiVersion\":\"0.3.0\",\"cdiVersion\":\"0.3.0\",\"kind\":\"ab/cd\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}}]}",
    ),
    (
        "key twice.yaml",
        "cdiVersion: 0.3.0\ncdiVersion: 0.3.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: {env: [A=1]}}]\n",
    ),
    (
        "case.json",
        "{\"CDIVERSION\":\"0.3.0\",\"kind\":\"ab/cd\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}}]}",
    ),
    (
        "trailing.json",
        "{\"cdiVersion\":\"0.3.0\",\"kind\":\"ab/cd\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}}]} x",
    ),
    ("yaml in.json", "cdiVersion: 0.3.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: {env: [A=1]}}]\n"),
    (
        "json in.yaml",
        "{\"cdiVersion\":\"0.3.0\",\"kind\":\"ab/cd\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}}]}",
    ),
    ("mark.yaml", "---\ncdiVersion: 0.3.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: {env: [A=1]}}]\n"),
    (
        "two documents.yaml",
        "cdiVersion: 0.3.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: {env: [A=1]}}]\n---\nx: 1\n",
    ),
    (
        "anchor.yaml",
        "cdiVersion: 0.3.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: &e {env: [A=1]}}, {name: y, containerEdits: *e}]\n",
    ),
    ("tab.yaml", "cdiVersion: 0.3.0\nkind: ab/cd\ndevices:\n\t- name: x\n"),
    ("number name.yaml", "cdiVersion: 0.5.0\nkind: ab/cd\ndevices: [{name: 0, containerEdits: {env: [A=1]}}]\n"),
    ("yes name.yaml", "cdiVersion: 0.5.0\nkind: ab/cd\ndevices: [{name: yes, containerEdits: {env: [A=1]}}]\n"),
    (
        "octal.yaml",
        "cdiVersion: 0.5.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: {deviceNodes: [{path: /dev/x, fileMode: 0666}]}}]\n",
    ),
    (
        "bom.json",
        "\u{feff}{\"cdiVersion\":\"0.3.0\",\"kind\":\"ab/cd\",\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"]}}]}",
    ),
    (
        "nulls.json",
        "{\"cdiVersion\":\"0.3.0\",\"kind\":\"ab/cd\",\"annotations\":null,\"containerEdits\":null,\"devices\":[{\"name\":\"x\",\"containerEdits\":{\"env\":[\"A=1\"],\"mounts\":null}}]}",
    ),
    ("merge.yaml", "cdiVersion: 0.3.0\nkind: ab/cd\ndevices: [{name: x, containerEdits: {<<: {env: [A=1]}}}]\n"),
];

/// The files of every case, in a folder.
fn cases(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut put = |name: String, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        files.push(path);
    };
    put("whole.json".to_owned(), whole().to_string().as_bytes());
    for (nth, (place, value)) in changes().into_iter().enumerate() {
        let mut spec = whole();
        let short: String = value.to_string().chars().take(24).filter(|c| *c != '/' && *c != '\n').collect();
        let name = format!("{nth:03} {}={short}", place.replace('/', "."));
        change(&mut spec, place, value);
        put(format!("{name}.json"), spec.to_string().as_bytes());
        put(format!("{name}.yaml"), serde_norway::to_string(&spec).unwrap().as_bytes());
    }
    for (name, text) in TEXTS {
        put(name.to_owned(), text.as_bytes());
    }
    files
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

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-zA-Z0-9][a-zA-Z0-9._:/=-]{0,6}", 1 => "[ -~]{0,6}", 1 => Just(String::new()), 1 => "\\PC{0,4}"]
}

fn env() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop_oneof![6 => "[A-Z]{1,3}=[ -~]{0,6}", 1 => word()], 0..3)
}

fn node() -> impl Strategy<Value = DeviceNode> {
    let device_type = prop::option::of(
        prop_oneof![4 => prop::sample::select(vec!["b", "c", "u", "p"]).prop_map(str::to_owned), 1 => word()],
    );
    let permissions = prop::option::of(prop_oneof![4 => "[rwm]{0,3}", 1 => word()]);
    let number = || prop_oneof![Just(0_i64), 1_i64..300];
    (word(), prop::option::of(word()), device_type, number(), number(), prop::option::of(0_u32..512), permissions)
        .prop_map(|(path, host_path, device_type, major, minor, file_mode, permissions)| DeviceNode {
            path,
            host_path,
            device_type,
            major,
            minor,
            file_mode,
            permissions,
            uid: None,
            gid: None,
        })
}

fn edits() -> impl Strategy<Value = ContainerEdits> {
    let mount = (word(), word(), prop::collection::vec(word(), 0..2), prop::option::of(word()));
    let mount = mount.prop_map(|(host_path, container_path, options, mount_type)| Mount {
        host_path,
        container_path,
        options,
        mount_type,
    });
    let names = vec!["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop", "x"];
    let hook = (prop::sample::select(names), word(), env(), prop::option::of(1_i64..9));
    let hook = hook.prop_map(|(name, path, env, timeout)| Hook {
        hook_name: name.to_owned(),
        path,
        args: Vec::new(),
        env,
        timeout,
    });
    let net = (word(), word()).prop_map(|(host_interface_name, name)| NetDevice { host_interface_name, name });
    let rdt = prop::option::of(word()).prop_map(|clos_id| IntelRdt { clos_id, ..IntelRdt::default() });
    (
        env(),
        prop::collection::vec(node(), 0..3),
        prop::collection::vec(mount, 0..3),
        prop::collection::vec(hook, 0..2),
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(net, 0..3)],
        prop_oneof![4 => Just(None), 1 => rdt.prop_map(Some)],
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(0_u32..100, 0..2)],
    )
        .prop_map(|(env, device_nodes, mounts, hooks, net_devices, intel_rdt, additional_gids)| ContainerEdits {
            env,
            device_nodes,
            mounts,
            hooks,
            net_devices,
            intel_rdt,
            additional_gids,
        })
}

fn spec() -> impl Strategy<Value = Spec> {
    let device = (prop_oneof![6 => "[a-zA-Z0-9][a-z0-9:]{0,3}[a-z0-9]", 1 => word()], edits());
    let device = device.prop_map(|(name, container_edits)| Device { name, container_edits, ..Device::default() });
    let version = prop_oneof![6 => Just("1.1.0"), 1 => prop::sample::select(cdi::version::VERSIONS.to_vec())];
    let kind = prop_oneof![6 => Just("a.b/gpu".to_owned()), 1 => (word(), word()).prop_map(|(vendor, class)| format!("{vendor}/{class}"))];
    (version, kind, prop::collection::vec(device, 0..3), edits()).prop_map(
        |(version, kind, devices, container_edits)| Spec {
            cdi_version: version.to_owned(),
            kind,
            devices,
            container_edits,
            ..Spec::default()
        },
    )
}

#[test]
fn random_specs_get_one_verdict_in_both_formats() {
    let Some(program) = tool("cdi-oracle") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut runner = TestRunner::new(Config::default());
    let mut files = Vec::new();
    for nth in 0..RANDOM {
        let made = spec().new_tree(&mut runner).unwrap().current();
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
