//! What a monitoring system reads: counts and times of the daemon's own work, and the shares as they are at the moment of the question. A container that is
//! gone is gone from the answer, so there are never more series than containers that exist.
use crate::status::{ContainerStatus, ShareStatus, Status};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub mod serve;

type Labels = Vec<(&'static str, String)>;
type Amounts = Family<Labels, Gauge<u64, AtomicU64>>;

/// What became of a container's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It asked for nothing.
    None,
    /// It got a share, isolated.
    Share,
    /// It got the whole card.
    Whole,
    /// The policy said no.
    Refused,
    /// A step failed, so it is not created either.
    Failed,
}

impl Counted {
    const ALL: [Self; 5] = [Self::None, Self::Share, Self::Whole, Self::Refused, Self::Failed];

    fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Share => "share",
            Self::Whole => "whole",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The counts of the daemon's own work.
#[derive(Debug)]
pub struct Metrics {
    own: Registry,
    requests: Family<[(&'static str, &'static str); 1], Counter>,
    created: Histogram,
    connected: AtomicBool,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut own = Registry::with_prefix("gpu_quota");
        let requests = Family::<[(&'static str, &'static str); 1], Counter>::default();
        // Every outcome has its series from the start, so that the first of its kind is seen as a rise.
        for counted in Counted::ALL {
            let _ = requests.get_or_create(&[("outcome", counted.label())]);
        }
        own.register("requests", "Containers that the runtime asked about, by what became of them", requests.clone());
        // From 50 microseconds to 1.6 seconds; the runtime waits two.
        let created = Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        let help = "Time to answer a container's creation";
        own.register_with_unit("create_container", help, Unit::Seconds, created.clone());
        own.register("build", "The program's version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        Self { own, requests, created, connected: AtomicBool::new(false) }
    }
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, counted: Counted, took: Duration) {
        self.requests.get_or_create(&[("outcome", counted.label())]).inc();
        self.created.observe(took.as_secs_f64());
    }

    /// Notes whether the runtime is there.
    pub fn connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    /// Whether the runtime is there.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// All of it in the OpenMetrics text format, with the shares and cards of a status.
    #[must_use]
    pub fn text(&self, status: &Status) -> String {
        let now = of_status(status, self.is_connected());
        let mut text = String::new();
        let encoded = encode_registry(&mut text, &self.own).and_then(|()| encode_registry(&mut text, &now));
        match encoded.and_then(|()| encode_eof(&mut text)) {
            Ok(()) => text,
            // A string takes everything, so this is never seen; half an answer would be worse than none.
            Err(_) => String::new(),
        }
    }
}

fn amounts(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> Amounts {
    let family = Amounts::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

/// The series that are as they are, not counted here.
fn of_status(status: &Status, connected: bool) -> Registry {
    let mut now = Registry::with_prefix("gpu_quota");
    let runtime = amounts(&mut now, "runtime_connected", "Whether the container runtime is connected", None);
    runtime.get_or_create(&Labels::new()).set(connected.into());
    cards(&mut now, status);
    let bytes = || Some(Unit::Bytes);
    let quota = amounts(&mut now, "container_quota", "What the container may use of the card", bytes());
    let used = amounts(&mut now, "container_used", "What its ledger counts", bytes());
    let peak = amounts(&mut now, "container_peak", "The most that its ledger ever counted at one time", bytes());
    let processes = amounts(&mut now, "container_processes", "Its processes that hold memory of the card", None);
    let refused = amounts(&mut now, "container_refused_allocations", "Allocations that did not fit", None);
    let nothing = amounts(&mut now, "container_refused_processes", "Processes that got no GPU memory at all", None);
    let driver = amounts(&mut now, "container_driver", "What the driver counts for it, at the last audit", bytes());
    let found = amounts(&mut now, "container_audit_findings", "Its processes that are outside of its quota", None);
    let isolated = amounts(&mut now, "container_isolated", "Whether it is held to its share", None);
    let fault = amounts(&mut now, "container_fault", "Whether its ledger is damaged or forged", None);
    for it in &status.containers {
        isolated.get_or_create(&labels(it)).set(it.isolated.into());
        fault.get_or_create(&labels(it)).set(it.fault.is_some().into());
        if let Some(report) = status.audit.as_ref().filter(|_| it.isolated) {
            let findings = report.findings.iter().filter(|finding| finding.container == it.id).count();
            found.get_or_create(&labels(it)).set(findings as u64);
        }
        nothing.get_or_create(&labels(it)).set(it.refused_processes);
        for share in &it.shares {
            let labels = share_labels(it, share);
            quota.get_or_create(&labels).set(share.quota_bytes);
            if let Some(bytes) = share.driver_bytes {
                driver.get_or_create(&labels).set(bytes);
            }
            // What a forged ledger says is not drawn into anybody's graphs.
            let told = |value: Option<u64>| value.filter(|_| it.fault.is_none());
            for (family, value) in [
                (&used, share.used_bytes),
                (&peak, share.peak_bytes),
                (&processes, share.processes),
                (&refused, share.refused_allocations),
            ] {
                if let Some(value) = told(value) {
                    family.get_or_create(&labels).set(value);
                }
            }
        }
    }
    now
}

fn cards(registry: &mut Registry, status: &Status) {
    let total = amounts(registry, "card_total", "The card's memory", Some(Unit::Bytes));
    let booked = amounts(registry, "card_booked", "What is booked of it", Some(Unit::Bytes));
    let free = amounts(registry, "card_free", "What is not booked", Some(Unit::Bytes));
    for card in &status.cards {
        let labels: Labels = vec![("card", card.index.to_string()), ("uuid", card.uuid.clone())];
        total.get_or_create(&labels).set(card.total_bytes);
        booked.get_or_create(&labels).set(card.booked_bytes);
        free.get_or_create(&labels).set(card.free_bytes);
    }
}

fn labels(it: &ContainerStatus) -> Labels {
    vec![
        ("namespace", it.namespace.clone()),
        ("pod", it.pod.clone()),
        ("container", it.container.clone()),
        ("id", it.id.clone()),
    ]
}

fn share_labels(it: &ContainerStatus, share: &ShareStatus) -> Labels {
    let mut labels = labels(it);
    labels.push(("card", share.card.map_or_else(String::new, |index| index.to_string())));
    labels.push(("uuid", share.uuid.clone()));
    labels
}

#[cfg(test)]
mod tests;
