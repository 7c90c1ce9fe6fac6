//! Who holds and uses which share of which card: what `nri-plugin status` prints and its JSON says. Made from records and ledgers, by the daemon or,
//! where none runs, by whoever may read the run folder.
use crate::audit::Report;
use crate::place::Places;
use crate::record::Record;
use crate::usage;
use quota::Bytes;
use quota::limits::Limits;
use serde::{Deserialize, Serialize};

pub mod table;

/// The layout of the JSON; it changes where a field changes its meaning or goes, not where one is added.
pub const VERSION: u32 = 1;

/// The node's shares at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The layout of this JSON.
    pub version: u32,
    /// Whether the daemon answered. Without it, cards and audit are not known.
    pub daemon: bool,
    /// The cards whose memory is known.
    pub cards: Vec<CardStatus>,
    /// The containers that hold a share.
    pub containers: Vec<ContainerStatus>,
    /// What could not be read.
    pub faults: Vec<String>,
    /// What the driver says of the containers' processes; `None` where nobody looks.
    #[serde(default)]
    pub audit: Option<Report>,
}

/// A card of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardStatus {
    /// NVML's index.
    pub index: u32,
    /// `GPU-...`.
    pub uuid: String,
    /// The card's memory.
    pub total_bytes: u64,
    /// What is booked of it.
    pub booked_bytes: u64,
    /// What is not.
    pub free_bytes: u64,
}

/// A container that holds a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// The runtime's id.
    pub id: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container in the pod.
    pub container: String,
    /// Whether the interposer holds it to its share.
    pub isolated: bool,
    /// Its shares.
    pub shares: Vec<ShareStatus>,
    /// How many processes got no GPU memory at all.
    pub refused_processes: u64,
    /// Why the last of them did not.
    pub refused_reason: Option<String>,
    /// What is wrong with its files; where it is the ledger, the use is not known.
    pub fault: Option<String>,
}

/// A container's share of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// NVML's index of the card, where it is known.
    pub card: Option<u32>,
    /// The card.
    pub uuid: String,
    /// What the container may use; without isolation, what is booked for it.
    pub quota_bytes: u64,
    /// What its ledger counts; `None` without isolation, or where the ledger cannot be read.
    pub used_bytes: Option<u64>,
    /// The most that its ledger ever counted at one time.
    pub peak_bytes: Option<u64>,
    /// Its processes that hold memory of the card.
    pub processes: Option<u64>,
    /// Allocations that were refused because they did not fit.
    pub refused_allocations: Option<u64>,
    /// What the driver counts for its processes, contexts and code included, at the last audit.
    #[serde(default)]
    pub driver_bytes: Option<u64>,
    /// How much more that is than the same processes' ledger at that moment.
    #[serde(default)]
    pub drift_bytes: Option<i64>,
}

/// What is known of one container: its record, and what its ledger says now. Any ledger gives an answer.
#[must_use]
pub fn of_container(
    places: &Places,
    id: &str,
    record: &Record,
    index: impl Fn(&str) -> Option<u32>,
) -> ContainerStatus {
    let share = |card: &crate::record::BookedCard| ShareStatus {
        card: index(&card.uuid),
        uuid: card.uuid.clone(),
        quota_bytes: card.bytes,
        ..ShareStatus::default()
    };
    let mut status = ContainerStatus {
        id: id.to_owned(),
        namespace: record.namespace.clone(),
        pod: record.pod.clone(),
        container: record.container.clone(),
        isolated: record.isolated,
        shares: record.cards.iter().map(share).collect(),
        refused_processes: 0,
        refused_reason: None,
        fault: None,
    };
    if record.isolated
        && let Err(fault) = add_usage(places, id, &mut status)
    {
        status.fault = Some(fault);
    }
    status
}

fn add_usage(places: &Places, id: &str, status: &mut ContainerStatus) -> Result<(), String> {
    let limits = places.read_limits(id).map_err(|error| error.to_string())?;
    let ledger = places.ledger(id).map_err(|error| error.to_string())?;
    let usage = usage::read(&ledger).map_err(|error| error.to_string())?;
    if let Some((reason, count)) = usage.refusal {
        (status.refused_processes, status.refused_reason) = (count, Some(reason.to_string()));
    }
    // A card's place in the limits is its place in the ledger.
    for (limit, seen) in limits.cards().iter().zip(&usage.cards) {
        let uuid = limit.id.to_string();
        let Some(share) = status.shares.iter_mut().find(|share| share.uuid == uuid) else { continue };
        share.used_bytes = Some(seen.used.0);
        share.peak_bytes = Some(seen.peak.0);
        share.processes = Some(seen.processes as u64);
        share.refused_allocations = Some(seen.refused);
    }
    match impossible(&limits, &usage) {
        Some(what) => Err(what),
        None => Ok(()),
    }
}

/// What no honest ledger says: the interposer never counts more than the card has, whatever the quota is changed to.
fn impossible(limits: &Limits, usage: &usage::Usage) -> Option<String> {
    let wrong = limits.cards().iter().zip(&usage.cards).find_map(|(limit, seen)| {
        let most: Bytes = seen.used.max(seen.peak);
        (most > limit.total).then_some((limit, most))
    });
    wrong.map(|(limit, most)| {
        format!(
            "the ledger is forged: it counts {most} on {}, which has {}; a process of the container wrote it",
            limit.id, limit.total
        )
    })
}

impl Status {
    /// Adds what the last audit found.
    pub fn add_audit(&mut self, report: Report) {
        for used in &report.uses {
            let container = self.containers.iter_mut().find(|it| it.id == used.container);
            let share = container.and_then(|it| it.shares.iter_mut().find(|share| share.uuid == used.uuid));
            if let Some(share) = share {
                share.driver_bytes = Some(used.driver_bytes);
                share.drift_bytes = Some(used.driver_bytes.wrapping_sub(used.ledger_bytes).cast_signed());
            }
        }
        self.audit = Some(report);
    }
}

/// The status by the run folder alone: for when no daemon answers.
#[must_use]
pub fn without_daemon(places: &Places) -> Status {
    let mut status = Status {
        version: VERSION,
        daemon: false,
        cards: Vec::new(),
        containers: Vec::new(),
        faults: Vec::new(),
        audit: None,
    };
    let mut names = places.list().unwrap_or_else(|error| {
        status.faults.push(error.to_string());
        Vec::new()
    });
    names.sort();
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        match places.record(name) {
            Ok(Some(record)) => status.containers.push(of_container(places, name, &record, |_| None)),
            Ok(None) => {}
            Err(error) => status.faults.push(error.to_string()),
        }
    }
    status
}

#[cfg(test)]
mod tests;
