//! The decision, step by step in the order that the crate's page tells.
use crate::cards::{Named, named};
use crate::contract::{DISABLE, GPU_COUNT, MEM_CONTAINER, MEM_DEV, MEM_POD, MOST_GIB, positive, yes_or_no};
use crate::decision::{Decision, Grant, Outcome};
use crate::node::{Node, NodeCard};
use crate::reason::{Quoted, Reason, Warning};
use crate::request::Request;
use crate::rules::{Isolation, Rules};
use quota::{Bytes, Unit, paths};

/// Whether the container asks for a share at all. Most do not, and for them nothing else is looked at.
#[must_use]
pub fn asks_for_share(request: &Request) -> bool {
    request.env_values(MEM_CONTAINER).next().is_some()
}

/// What the container gets.
#[must_use]
pub fn decide(request: &Request, node: &Node, rules: &Rules) -> Decision {
    let mut warnings = Vec::new();
    let outcome = match grants(request, node, *rules, &mut warnings) {
        Ok(None) => Outcome::NotOurs,
        Err(reason) => Outcome::Deny(reason),
        Ok(Some(grants)) if opts_out(request, &mut warnings) || rules.isolation == Isolation::OffOnNode => {
            Outcome::Whole(grants)
        }
        Ok(Some(grants)) => match check_conflicts(request) {
            Ok(()) => Outcome::Share(grants),
            Err(reason) => Outcome::Deny(reason),
        },
    };
    Decision { outcome, warnings }
}

fn grants(
    request: &Request,
    node: &Node,
    rules: Rules,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Vec<Grant>>, Reason> {
    let Some(text) = request.env_unique(MEM_CONTAINER)? else { return Ok(None) };
    let dev = card_count(request, warnings)?;
    let unit = unit(node, dev);
    let most =
        node.cards.iter().map(|card| unit.count(card.memory)).max().ok_or(Reason::NoCards { key: MEM_CONTAINER })?;
    check_unit(node, unit, dev)?;
    let count = cards_asked(request)?;
    let quota = positive(text)
        .filter(|quota| {
            *quota <= most.saturating_mul(count) && dev.is_none_or(|(_, dev)| *quota <= dev.saturating_mul(count))
        })
        .ok_or_else(|| Reason::BadQuota {
            key: MEM_CONTAINER,
            value: Quoted::new(text),
            most: dev.map_or(most, |(_, dev)| dev.min(most)).saturating_mul(count),
            unit,
        })?;
    check_pod(request, quota, warnings)?;
    let part = match quota.checked_rem(count) {
        Some(0) => quota / count,
        _ => return Err(Reason::DoesNotDivide { quota, count }),
    };
    let bytes = |card: &NodeCard, part| grant(card, part, unit, dev, rules);
    let chosen = match named(request, node, quota, warnings)? {
        Named::Parts(parts) => parts.iter().map(|(card, part)| (*card, *part)).collect(),
        Named::Cards(source, cards) if (cards.len() as u64) < count => {
            return Err(Reason::CardCount { key: source, named: cards.len(), count });
        }
        Named::Cards(_, cards) if cards.len() as u64 == count => cards.iter().map(|card| (*card, part)).collect(),
        Named::Cards(_, cards) => best_fit(node, &cards, count, part, bytes)?,
        Named::Nobody => {
            let all: Vec<_> = node.cards.iter().map(|card| card.index).collect();
            best_fit(node, &all, count, part, bytes)?
        }
    };
    let mut grants = Vec::new();
    for (index, part) in chosen {
        let card = node.card(index).ok_or(Reason::NoCards { key: MEM_CONTAINER })?;
        warn_other_count(card, unit, dev, warnings);
        let grant = bytes(card, part)?;
        if grant.bytes > card.free() {
            return Err(Reason::NoRoom {
                index,
                free: card.free(),
                memory: card.memory,
                asked: grant.bytes,
                booked: card.booked,
            });
        }
        grants.push(grant);
    }
    Ok(Some(grants))
}

/// What one card is said to count, and by whom. The annotation is the scheduler's, so it is over the env.
fn card_count(request: &Request, warnings: &mut Vec<Warning>) -> Result<Option<(&'static str, u64)>, Reason> {
    let by_env = request.env_unique(MEM_DEV)?;
    let by_pod = request.pod_annotations.get(MEM_DEV).map(String::as_str);
    for text in by_pod.into_iter().chain(by_env) {
        match positive(text) {
            Some(dev) => return Ok(Some((MEM_DEV, dev))),
            None => warnings.push(Warning::Unread { key: MEM_DEV, value: Quoted::new(text) }),
        }
    }
    Ok(None)
}

/// The unit of the container's numbers.
pub(crate) fn unit(node: &Node, dev: Option<(&'static str, u64)>) -> Unit {
    let guess = if dev.is_some_and(|(_, dev)| dev > MOST_GIB) { Unit::MiB } else { Unit::GiB };
    node.unit.unwrap_or(guess)
}

/// Refuses a card count that is plainly in the other unit: 3 of 16130 must not become 3 GiB on a node that counts in GiB.
fn check_unit(node: &Node, unit: Unit, dev: Option<(&'static str, u64)>) -> Result<(), Reason> {
    let Some((key, value)) = dev else { return Ok(()) };
    let count = node.cards.iter().map(|card| unit.count(card.memory)).max().unwrap_or(0);
    let far = value / 16 > count || count / 16 > value;
    if far { Err(Reason::UnitMismatch { key, value, count, unit }) } else { Ok(()) }
}

fn warn_other_count(card: &NodeCard, unit: Unit, dev: Option<(&'static str, u64)>, warnings: &mut Vec<Warning>) {
    let count = unit.count(card.memory);
    if let Some((key, said)) = dev.filter(|(_, said)| *said != count) {
        warnings.push(Warning::OtherCount { key, said, index: card.index, count });
    }
}

/// Over how many cards the share goes.
fn cards_asked(request: &Request) -> Result<u64, Reason> {
    let Some(text) = request.pod_labels.get(GPU_COUNT) else { return Ok(1) };
    positive(text).ok_or_else(|| Reason::BadValue {
        key: GPU_COUNT,
        value: Quoted::new(text),
        allowed: "the number of cards, 1 or above",
    })
}

fn check_pod(request: &Request, quota: u64, warnings: &mut Vec<Warning>) -> Result<(), Reason> {
    let Some(text) = request.pod_annotations.get(MEM_POD) else { return Ok(()) };
    match positive(text) {
        Some(pod) if quota > pod => Err(Reason::AbovePod { quota, container: MEM_CONTAINER, pod, key: MEM_POD }),
        Some(_) => Ok(()),
        None => {
            warnings.push(Warning::Unread { key: MEM_POD, value: Quoted::new(text) });
            Ok(())
        }
    }
}

/// A quota and an unguarded device node must not meet, and nothing may lie over the files that hold the quota.
fn check_conflicts(request: &Request) -> Result<(), Reason> {
    for path in &request.mounts {
        let at = plain(path);
        let ours = [paths::IN_PRELOAD, paths::IN_LIMITS, paths::IN_LEDGER, paths::IN_LIBRARY];
        // Over one of our files, below it, or over our folder. A folder above (`/run`, `/etc`) is mounted before our files are.
        let over = |ours: &&str| at == *ours || at == paths::HOST_RUN || at.starts_with(&format!("{ours}/"));
        if let Some(ours) = ours.into_iter().find(over) {
            return Err(Reason::MountConflict { path: Quoted::new(path), ours });
        }
    }
    match request.devices.iter().find(|path| is_gpu_node(path)) {
        Some(path) => Err(Reason::DeviceConflict { path: Quoted::new(path) }),
        None => Ok(()),
    }
}

/// A path without `.`, `..` and doubled slashes, and with `/var/run` as the `/run` that it is in images.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.starts_with(&["var", "run"]) {
        parts.remove(0);
    }
    format!("/{}", parts.join("/"))
}

/// `/dev/nvidia0`, `/dev/nvidiactl`, `/dev/nvidia-uvm`, `/dev/nvidia-caps/...`: every node of the NVIDIA driver.
fn is_gpu_node(path: &str) -> bool {
    path.starts_with("/dev/nvidia")
}

/// The bytes of a part on a card.
///
/// The proportional rule divides by what a card counts; a smaller count in the env would make a share of 1 the whole card, so the larger is taken.
fn grant(
    card: &NodeCard,
    part: u64,
    unit: Unit,
    dev: Option<(&'static str, u64)>,
    rules: Rules,
) -> Result<Grant, Reason> {
    let count = unit.count(card.memory);
    let dev = dev.map_or(count, |(_, dev)| dev.max(count));
    let bytes = rules.share.bytes(part, unit, dev, card.memory).unwrap_or(Bytes(u64::MAX));
    if bytes > card.memory || bytes.0 == 0 {
        return Err(Reason::AboveCard {
            key: MEM_CONTAINER,
            asked: bytes,
            index: card.index,
            memory: card.memory,
            count,
        });
    }
    Ok(Grant { index: card.index, id: card.id, bytes, total: card.memory })
}

/// The cards on which the least stays free; of equal ones the first.
fn best_fit(
    node: &Node,
    candidates: &[u32],
    count: u64,
    part: u64,
    bytes: impl Fn(&NodeCard, u64) -> Result<Grant, Reason>,
) -> Result<Vec<(u32, u64)>, Reason> {
    let cards = || node.cards.iter().filter(|card| candidates.contains(&card.index));
    let mut fitting: Vec<_> =
        cards().filter(|card| bytes(card, part).is_ok_and(|grant| grant.bytes <= card.free())).collect();
    fitting.sort_by_key(|card| (card.free(), card.index));
    if (fitting.len() as u64) < count {
        let asked = cards().find_map(|card| bytes(card, part).ok()).map_or(Bytes(u64::MAX), |grant| grant.bytes);
        let free: Vec<_> = cards().map(|card| format!("card {} has {} free", card.index, card.free())).collect();
        return Err(Reason::NoCardFits { asked, cards: free.join(", ") });
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(fitting.iter().take(count).map(|card| (card.index, part)).collect())
}

/// Whether the container opts out of isolation. Whatever is not clearly a yes isolates.
fn opts_out(request: &Request, warnings: &mut Vec<Warning>) -> bool {
    let mut answers = Vec::new();
    for value in request.env_values(DISABLE) {
        let answer = yes_or_no(value);
        if answer.is_none() {
            warnings.push(Warning::UnknownWord { key: DISABLE, value: Quoted::new(value) });
        }
        answers.push(answer == Some(true));
    }
    if answers.contains(&true) && answers.contains(&false) {
        warnings.push(Warning::Contradiction { key: DISABLE });
    }
    !answers.is_empty() && answers.iter().all(|yes| *yes)
}
