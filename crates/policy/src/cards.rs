//! Which cards: what the scheduler, the device plugin or the container's author names, in the order in which they are believed.
use crate::contract::{
    ALLOCATION, FAILED_IDX, FAILURE_PREFIX, MEM_ASSIGNED, MEM_IDX, NVIDIA_VISIBLE_DEVICES, VISIBLE_DEVICES, index,
    yes_or_no,
};
use crate::node::Node;
use crate::reason::{Quoted, Reason, Warning};
use crate::request::Request;
use quota::CardId;
use std::collections::BTreeMap;

/// How the message of a warning or refusal calls the pod's annotation, which has the name of the env.
const IDX_ANNOTATION: &str = "pod annotation ALIYUN_COM_GPU_MEM_IDX";

/// Who names which cards.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// These cards with these parts of the quota.
    Parts(Vec<(u32, u64)>),
    /// These cards, from this source; perhaps more than are needed.
    Cards(&'static str, Vec<u32>),
    /// Nobody chose.
    Nobody,
}

/// The cards for a quota, by the first source that has a say.
pub(crate) fn named(request: &Request, node: &Node, quota: u64, warnings: &mut Vec<Warning>) -> Result<Named, Reason> {
    let env_index = request.env_unique(MEM_IDX)?;
    let annotated = match request.pod_annotations.get(MEM_IDX) {
        Some(text) => Some(annotated_index(text, node)?),
        None => None,
    };
    if annotated.is_some()
        && request.pod_annotations.get(MEM_ASSIGNED).is_some_and(|said| yes_or_no(said) == Some(false))
    {
        warnings.push(Warning::NotAssigned { key: MEM_ASSIGNED });
    }
    let by_scheduler = match request.pod_annotations.get(ALLOCATION) {
        Some(text) => Some((ALLOCATION, allocation(text, node, quota, annotated, env_index)?)),
        None => annotated.map(|card| (IDX_ANNOTATION, Named::Cards(IDX_ANNOTATION, vec![card]))),
    };
    if let Some((source, named)) = by_scheduler {
        compare(source, &named, env_index, request, warnings);
        return Ok(named);
    }
    if let Some(text) = request.env_seen(NVIDIA_VISIBLE_DEVICES).filter(|text| failed(text)) {
        return Err(Reason::AllocationFailed { key: NVIDIA_VISIBLE_DEVICES, value: Quoted::new(text) });
    }
    if let Some(text) = env_index {
        let card = known_index(MEM_IDX, text, node)?;
        return Ok(Named::Cards(MEM_IDX, vec![card]));
    }
    if let Some(text) = request.env_unique(VISIBLE_DEVICES)?
        && let Some(cards) = device_list(VISIBLE_DEVICES, text, node)?
    {
        return Ok(Named::Cards(VISIBLE_DEVICES, cards));
    }
    if let Some(text) = request.env_seen(NVIDIA_VISIBLE_DEVICES)
        && let Some(cards) = device_list(NVIDIA_VISIBLE_DEVICES, text, node)?
    {
        return Ok(Named::Cards(NVIDIA_VISIBLE_DEVICES, cards));
    }
    Ok(Named::Nobody)
}

/// Warns where the env says something else than the scheduler; the peer's device plugin is known to swap pods of equal size.
fn compare(
    source: &'static str,
    named: &Named,
    env_index: Option<&str>,
    request: &Request,
    warnings: &mut Vec<Warning>,
) {
    let cards: Vec<u32> = match named {
        Named::Parts(parts) => parts.iter().map(|(card, _)| *card).collect(),
        Named::Cards(_, cards) => cards.clone(),
        Named::Nobody => return,
    };
    let Some(&card) = cards.first() else { return };
    let mut differs = |other, text: &str| {
        warnings.push(Warning::Differs { believed: source, card, other, value: Quoted::new(text) });
    };
    if let Some(text) = env_index.filter(|text| index(text).is_none_or(|said| !cards.contains(&said))) {
        differs(MEM_IDX, text);
    }
    if let Some(text) = request.env_seen(NVIDIA_VISIBLE_DEVICES).filter(|text| failed(text)) {
        differs(NVIDIA_VISIBLE_DEVICES, text);
    }
}

fn failed(text: &str) -> bool {
    text.trim_start().starts_with(FAILURE_PREFIX)
}

fn annotated_index(text: &str, node: &Node) -> Result<u32, Reason> {
    known_index(IDX_ANNOTATION, text, node)
}

fn known_index(key: &'static str, text: &str, node: &Node) -> Result<u32, Reason> {
    if text.trim() == FAILED_IDX {
        return Err(Reason::AllocationFailed { key, value: Quoted::new(text) });
    }
    let card = index(text).ok_or_else(|| Reason::BadValue {
        key,
        value: Quoted::new(text),
        allowed: "the index of a card, 0 or above",
    })?;
    node.card(card).map(|card| card.index).ok_or_else(|| unknown(key, text, node))
}

fn unknown(key: &'static str, text: &str, node: &Node) -> Reason {
    Reason::UnknownCard { key, value: Quoted::new(text), has: node.cards.iter().map(|card| card.index).collect() }
}

/// The cards of a comma-separated list of indexes and UUIDs; `None` where it leaves the choice open (`all`) or says nothing (`none`, `void`, empty).
fn device_list(key: &'static str, text: &str, node: &Node) -> Result<Option<Vec<u32>>, Reason> {
    if matches!(text.trim(), "" | "all" | "none" | "void") {
        return Ok(None);
    }
    let mut cards = Vec::new();
    for item in text.split(',').map(str::trim) {
        let found = match (index(item), CardId::parse(item)) {
            (Some(index), _) => node.card(index),
            (None, Some(id)) => node.cards.iter().find(|card| card.id == id),
            (None, None) => {
                let allowed = "card indexes or UUIDs (GPU-... or MIG-...), separated by commas";
                return Err(Reason::BadValue { key, value: Quoted::new(item), allowed });
            }
        };
        let card = found.ok_or_else(|| unknown(key, item, node))?.index;
        if !cards.contains(&card) {
            cards.push(card);
        }
    }
    Ok(Some(cards))
}

/// The parts that the scheduler's allocation gives to a container of this quota.
///
/// Its keys are container indexes, which NRI does not tell. So the entries whose parts add up to the quota are the candidates; if they do not agree,
/// the one that the next source names is taken.
fn allocation(
    text: &str,
    node: &Node,
    quota: u64,
    annotated: Option<u32>,
    env_index: Option<&str>,
) -> Result<Named, Reason> {
    let entries: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_str(text).map_err(|_| Reason::BadValue {
            key: ALLOCATION,
            value: Quoted::new(text),
            allowed: r#"JSON such as {"0": {"1": 3}}: container index, card index, quota"#,
        })?;
    let no_entry = || Reason::NoAllocation { key: ALLOCATION, quota, value: Quoted::new(text) };
    let mut candidates: Vec<Vec<(u32, u64)>> = Vec::new();
    for parts in entries.values() {
        let sum = parts.values().try_fold(0_u64, |sum, part| sum.checked_add(*part));
        if sum != Some(quota) || parts.values().any(|part| *part == 0) {
            continue;
        }
        let mut named = Vec::new();
        for (card, part) in parts {
            named.push((known_index(ALLOCATION, card, node)?, *part));
        }
        named.sort_unstable();
        if named.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(no_entry());
        }
        if !candidates.contains(&named) {
            candidates.push(named);
        }
    }
    if candidates.len() > 1 {
        let next = annotated.or_else(|| env_index.and_then(index)).ok_or_else(no_entry)?;
        candidates.retain(|parts| parts.iter().any(|(card, _)| *card == next));
    }
    match (candidates.pop(), candidates.is_empty()) {
        (Some(parts), true) => Ok(Named::Parts(parts)),
        _ => Err(no_entry()),
    }
}
