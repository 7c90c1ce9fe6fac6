//! The audit: what the driver counts for each process, held against the ledgers. From outside of the containers, now and then, and never on the way of a
//! container's creation. It finds what the interposer cannot: programs that it is not in.
use crate::place::Places;
use crate::usage;
use clap::ValueEnum;
use compare::{Fault, Held, Seen};
use inventory::Sources;
use quota::{Bytes, CardId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

pub mod cgroup;
pub mod compare;
pub mod process;

/// The procfs in which the driver's pids are found.
pub const PROC: &str = "/proc";

/// What is done about a process that is outside of its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// nothing is looked at
    Off,
    /// the status shows it, and a line of level info
    #[default]
    Log,
    /// the status shows it, and a warning
    Event,
    /// as event, and the process is killed after the time of grace
    Kill,
}

/// How the node's owner wants it.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What is done.
    pub policy: Policy,
    /// How often is looked.
    pub interval: Duration,
    /// How long a process may be outside before it is killed.
    pub grace: Duration,
}

/// What the last look found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What is done about findings.
    pub policy: Policy,
    /// Whether the driver could hold cgroups to a limit by itself. It is not used yet.
    pub native_limits: Option<bool>,
    /// Why the last look found nothing out.
    pub error: Option<String>,
    /// What a process's context takes on each card, as learned from processes that had settled: the least that was seen. `context_mib` charges it.
    pub contexts: BTreeMap<String, u64>,
    /// What isolated containers use of each card, by the driver's word.
    pub uses: Vec<Use>,
    /// The processes with which something is wrong.
    pub findings: Vec<Finding>,
}

/// What a container uses of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// The container's id.
    pub container: String,
    /// The card.
    pub uuid: String,
    /// By the driver.
    pub driver_bytes: u64,
    /// By the slots of the same processes in the ledger.
    pub ledger_bytes: u64,
}

/// A process with which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The container's id.
    pub container: String,
    /// The process's pid on the host.
    pub pid: u32,
    /// The card.
    pub uuid: String,
    /// What is wrong.
    pub fault: Fault,
    /// What it uses by the driver's word.
    pub driver_bytes: Option<u64>,
    /// What it counts in the ledger.
    pub ledger_bytes: Option<u64>,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Say it, once for each process.
    Tell(Finding),
    /// End it.
    Kill(Finding, process::Process),
}

/// What is known from one look to the next.
#[derive(Debug)]
pub struct Auditor {
    rules: Rules,
    known: BTreeMap<(u32, u64, CardId), Known>,
    report: Report,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    amounts: (Option<Bytes>, Option<Bytes>),
    /// Since when it has its fault.
    faulty: Option<(Fault, Instant)>,
    told: bool,
}

impl Auditor {
    /// An auditor that has seen nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, known: BTreeMap::new(), report: Report { policy: rules.policy, ..Report::default() } }
    }

    /// What the last look found.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Notes whether the driver has limits of its own.
    pub fn note_native_limits(&mut self, native: Option<bool>) {
        self.report.native_limits = native;
    }

    /// Notes that a look failed; what was known is not believed any longer, but for what was learned.
    pub fn failed(&mut self, error: Option<String>) {
        self.known.clear();
        self.report = Report { error, uses: Vec::new(), findings: Vec::new(), ..std::mem::take(&mut self.report) };
    }

    /// Takes a look's result, and says what is to be done. A fault counts from the second look on: between two reads a process may have started or grown.
    pub fn step(&mut self, now: Instant, seen: &[Seen]) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut known = BTreeMap::new();
        let (mut findings, mut uses) = (Vec::new(), BTreeMap::<_, (u64, u64)>::new());
        for one in seen {
            let key = (one.pid, one.process.owner.start, one.card);
            let before = self.known.get(&key).copied();
            let amounts = (one.driver, one.ledger);
            if before.is_some_and(|before| before.amounts == amounts) {
                self.learn(one);
            }
            let total = uses.entry((one.process.container.clone(), one.card)).or_default();
            total.0 = total.0.saturating_add(one.driver.unwrap_or_default().0);
            total.1 = total.1.saturating_add(one.ledger.unwrap_or_default().0);
            let fault = compare::fault(one);
            let since = |fault| match before.and_then(|before| before.faulty) {
                Some((same, since)) if same == fault => since,
                _ => now,
            };
            let faulty = fault.map(|fault| (fault, since(fault)));
            let mut told = before.is_some_and(|before| before.told) && faulty.is_some();
            if let Some((fault, since)) = faulty.filter(|_| before.is_some_and(|before| before.faulty.is_some())) {
                let finding = finding(one, fault);
                if !told {
                    acts.push(Act::Tell(finding.clone()));
                    told = true;
                }
                let late = now.saturating_duration_since(since) >= self.rules.grace;
                if self.rules.policy == Policy::Kill && fault.is_outside() && late {
                    acts.push(Act::Kill(finding.clone(), one.process.clone()));
                }
                findings.push(finding);
            }
            known.insert(key, Known { amounts, faulty, told });
        }
        self.known = known;
        let told = |((container, card), (driver_bytes, ledger_bytes)): ((String, CardId), (u64, u64))| Use {
            container,
            uuid: card.to_string(),
            driver_bytes,
            ledger_bytes,
        };
        self.report.uses = uses.into_iter().map(told).collect();
        self.report.findings = findings;
        self.report.error = None;
        acts
    }

    /// Learns from a process whose numbers stand still what a context takes: the least that was seen is nearest to it, since code and modules only add.
    fn learn(&mut self, seen: &Seen) {
        if let Some(overhead) = compare::overhead(seen).filter(|overhead| seen.process.interposed && overhead.0 > 0) {
            let least = self.report.contexts.entry(seen.card.to_string()).or_insert(overhead.0);
            *least = overhead.0.min(*least);
        }
    }
}

fn finding(seen: &Seen, fault: Fault) -> Finding {
    Finding {
        container: seen.process.container.clone(),
        pid: seen.pid,
        uuid: seen.card.to_string(),
        fault,
        driver_bytes: seen.driver.map(|bytes| bytes.0),
        ledger_bytes: seen.ledger.map(|bytes| bytes.0),
    }
}

/// Asks the driver, and looks at the processes of these isolated containers and at their ledgers.
///
/// # Errors
/// The words for the status.
pub fn look(sources: &Sources, places: &Places, isolated: &[String]) -> Result<Vec<Seen>, String> {
    let cards = sources.in_use().map_err(|error| error.to_string())?;
    let one = |id: &String| {
        let limits = places.read_limits(id).ok()?;
        let usage = places.ledger(id).ok().and_then(|path| usage::read(&path).ok());
        Some((id.clone(), Held { limits, usage }))
    };
    let held: BTreeMap<String, Held> = isolated.iter().filter_map(one).collect();
    Ok(compare::seen(&cards, &held, |pid| process::look(Path::new(PROC), pid, |name| held.contains_key(name))))
}

#[cfg(test)]
mod tests;
