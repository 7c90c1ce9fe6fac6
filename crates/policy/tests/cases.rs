//! The contract as tables: `cases.json`, and `more-cases.json` for what it leaves out. The tables are the documentation.
#![expect(clippy::unwrap_used, reason = "a broken table or fixture must fail the test")]

use cdi::{ContainerEdits, DeviceNode};
use policy::{Decision, Isolation, Node, NodeCard, Outcome, Placement, Request, Rules, adjust, decide};
use quota::{Bytes, CardId, ShareRule, Unit, paths};
use serde_json::Value;
use std::collections::BTreeMap;

fn map(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn request(case: &Value) -> Request {
    let container = &case["container"];
    let mut env: Vec<(String, String)> = map(&container["image_env"]).into_iter().collect();
    env.extend(map(&container["env"]));
    for entry in strings(&container["env_list"]) {
        let (key, value) = entry.split_once('=').unwrap();
        env.push((key.to_owned(), value.to_owned()));
    }
    Request {
        namespace: "default".to_owned(),
        pod: "pod".to_owned(),
        container: "main".to_owned(),
        env,
        pod_annotations: map(&case["pod"]["annotations"]),
        container_annotations: BTreeMap::new(),
        pod_labels: map(&case["pod"]["labels"]),
        mounts: strings(&container["mounts"]),
        devices: strings(&container["devices"]),
    }
}

fn reference_node() -> Value {
    serde_json::json!({"unit": "GiB", "gpus": [
        {"index": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000", "memory_mib": 16130}]})
}

fn node(case: &Value) -> (Node, Rules) {
    let reference = reference_node();
    let node = if case["node"].is_null() { &reference } else { &case["node"] };
    let card = |card: &Value| {
        let index = u32::try_from(card["index"].as_u64().unwrap()).unwrap();
        let booked = node["booked_mib"][index.to_string()].as_u64().unwrap_or(0);
        NodeCard {
            index,
            id: CardId::parse(card["uuid"].as_str().unwrap()).unwrap(),
            memory: Bytes::from_mib(card["memory_mib"].as_u64().unwrap()).unwrap(),
            booked: Bytes::from_mib(booked).unwrap(),
            edits: device(&format!("/dev/nvidia{index}")),
        }
    };
    let unit = match node["unit"].as_str() {
        Some("GiB") => Some(Unit::GiB),
        Some("MiB") => Some(Unit::MiB),
        None => None,
        Some(other) => panic!("unit {other}"),
    };
    let share = match node["share"].as_str() {
        None => ShareRule::Exact,
        Some("proportional") => ShareRule::Proportional,
        Some(other) => panic!("share {other}"),
    };
    let off = node["disable_isolation"].as_bool().unwrap_or(false);
    let isolation = if off { Isolation::OffOnNode } else { Isolation::PerContainer };
    let cards = node["gpus"].as_array().unwrap().iter().map(card).collect();
    (Node { unit, cards, common: device("/dev/nvidiactl") }, Rules { share, isolation })
}

fn device(path: &str) -> ContainerEdits {
    let node = DeviceNode { path: path.to_owned(), ..DeviceNode::default() };
    ContainerEdits { device_nodes: vec![node], ..ContainerEdits::default() }
}

fn placement() -> Placement {
    let at = |name: &str| format!("/host/{name}");
    Placement { library: at("library"), preload: at("preload"), limits: at("limits"), ledger: at("ledger") }
}

fn check(case: &Value) -> Result<(), String> {
    let (request, (node, rules), expect) = (request(case), node(case), &case["expect"]);
    let decision = decide(&request, &node, &rules);
    let (outcome, grants) = match &decision.outcome {
        Outcome::NotOurs => ("untouched", &[][..]),
        Outcome::Deny(_) => ("deny", &[][..]),
        Outcome::Whole(grants) => ("whole", grants.as_slice()),
        Outcome::Share(grants) => ("share", grants.as_slice()),
    };
    let same = |what: &str, got: String, wanted: String| {
        if got == wanted { Ok(()) } else { Err(format!("{what}: got {got}, wanted {wanted} ({decision:?})")) }
    };
    same("outcome", outcome.to_owned(), expect["outcome"].as_str().unwrap().to_owned())?;
    let wanted: Vec<_> = expect["cards"].as_array().into_iter().flatten().collect();
    same("cards", grants.len().to_string(), wanted.len().to_string())?;
    for (grant, card) in grants.iter().zip(wanted) {
        same("card", grant.index.to_string(), card["index"].to_string())?;
        if let Some(bytes) = card["bytes"].as_u64() {
            same("bytes", grant.bytes.0.to_string(), bytes.to_string())?;
        }
    }
    if let Some(booked) = expect["booked_bytes"].as_u64() {
        same("booked", grants.iter().map(|g| g.bytes.0).sum::<u64>().to_string(), booked.to_string())?;
    }
    let warns = expect["warns"].as_bool().unwrap_or(false);
    same("warns", (!decision.warnings.is_empty()).to_string(), warns.to_string())?;
    if let Outcome::Deny(reason) = &decision.outcome {
        let message = reason.to_string();
        if let Some(code) = expect["code"].as_str() {
            same("code", reason.code().to_owned(), code.to_owned())?;
        }
        for part in strings(&expect["message_mentions"]) {
            if !message.contains(&part) {
                return Err(format!("the message does not mention {part}: {message}"));
            }
        }
        if message.len() > 500 || message.chars().any(char::is_control) {
            return Err(format!("the message is too long or not printable: {message:?}"));
        }
    }
    check_edits(&request, &node, &decision, &map(&expect["env_after"]))
}

/// Devices only with a grant, and with isolation only together with all four files.
fn check_edits(
    request: &Request,
    node: &Node,
    decision: &Decision,
    env_after: &BTreeMap<String, String>,
) -> Result<(), String> {
    let edits = adjust(decision, request, node, Some(&placement())).map_err(|error| error.to_string())?;
    let nodes: Vec<_> = edits.device_nodes.iter().map(|node| node.path.clone()).collect();
    let mounts: Vec<_> = edits.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    let wanted_nodes = match &decision.outcome {
        Outcome::NotOurs | Outcome::Deny(_) => Vec::new(),
        Outcome::Whole(grants) | Outcome::Share(grants) => {
            let cards = grants.iter().map(|grant| format!("/dev/nvidia{}", grant.index));
            std::iter::once("/dev/nvidiactl".to_owned()).chain(cards).collect()
        }
    };
    let isolated = matches!(decision.outcome, Outcome::Share(_));
    let ours = [paths::IN_LIBRARY, paths::IN_PRELOAD, paths::IN_LIMITS, paths::IN_LEDGER];
    let wanted_mounts = if isolated { ours.to_vec() } else { Vec::new() };
    if nodes != wanted_nodes || mounts != wanted_mounts {
        return Err(format!("edits: {edits:?}"));
    }
    if edits.env.iter().any(|entry| entry.starts_with("LD_PRELOAD=")) {
        return Err("LD_PRELOAD is not ours to set".to_owned());
    }
    for mount in &edits.mounts {
        let access = if mount.container_path == paths::IN_LEDGER { "rw" } else { "ro" };
        if !mount.options.iter().any(|option| option == access) {
            return Err(format!("{} must be {access}", mount.container_path));
        }
    }
    let mut env: BTreeMap<_, _> = request.env.iter().cloned().collect();
    env.extend(edits.env.iter().map(|e| e.split_once('=').unwrap()).map(|(k, v)| (k.to_owned(), v.to_owned())));
    for (key, wanted) in env_after {
        if env.get(key) != Some(wanted) {
            return Err(format!("env {key} is {:?} after, wanted {wanted:?}", env.get(key)));
        }
    }
    Ok(())
}

fn run(table: &str, at_least: usize) {
    let table: Value = serde_json::from_str(table).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() >= at_least, "only {} cases", cases.len());
    let failed: Vec<_> =
        cases.iter().filter_map(|case| check(case).err().map(|why| format!("{}: {why}", case["name"]))).collect();
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn the_shared_table() {
    run(include_str!("cases.json"), 36);
}

#[test]
fn our_own_table() {
    run(include_str!("more-cases.json"), 80);
}

#[test]
fn an_isolated_container_without_files_is_an_error() {
    let case = serde_json::json!({"container": {"env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "3"}}});
    let (request, (node, rules)) = (request(&case), node(&case));
    let decision = decide(&request, &node, &rules);
    assert!(matches!(decision.outcome, Outcome::Share(_)));
    assert!(adjust(&decision, &request, &node, None).is_err());
    let other = Node { cards: Vec::new(), ..node };
    assert!(adjust(&decision, &request, &other, Some(&placement())).is_err());
}
