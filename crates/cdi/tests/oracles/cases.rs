//! The files that every oracle judges: a spec with something of everything, changed at one place each, and texts that no such change gives.
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

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
    all.extend(edits());
    all
}

/// The same for the device's edits.
fn edits() -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&'static str, Value)> = Vec::new();
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
            all.push((Box::leak(format!("/devices/0/containerEdits/{place}").into_boxed_str()), value));
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
pub fn cases(dir: &Path) -> Vec<PathBuf> {
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
