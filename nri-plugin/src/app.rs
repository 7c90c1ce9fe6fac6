//! The only file that knows all parts and joins them: a container's request goes through the policy, its share into the book, its files into
//! place, and the edits into one answer. Any step that fails is an error to the runtime, so the container is not created.
use crate::audit::Auditor;
use crate::book::Book;
use crate::config::Config;
use crate::door::nri as door;
use crate::driver::Driver;
use crate::enforce::{Backend, LimitsFile};
use crate::events;
use crate::files::{self, FileError};
use crate::library::{self, Library, LibraryError};
use crate::metrics::{Counted, Metrics};
use crate::place::Places;
use crate::record::Record;
use async_trait::async_trait;
use containerd_nri::messages::{ConfigureRequest, Container, ContainerAdjustment, ContainerUpdate, PodSandbox};
use containerd_nri::{EventMask, Plugin, PluginError};
use inventory::Inventory;
use policy::{Grant, Node, NodeCard, Outcome, Placement, Request};
use quota::Bytes;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use tokio::sync::Mutex;
use tracing::{error, info, warn};

mod audit;
mod people;

pub use people::QuotaError;

/// The daemon's parts.
#[derive(Debug)]
pub struct App {
    config: Config,
    library: Library,
    places: Places,
    driver: Driver,
    backends: Vec<Box<dyn Backend>>,
    metrics: Metrics,
    auditor: std::sync::Mutex<Auditor>,
    book: Mutex<Book>,
    _alone: File,
}

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The interposer cannot be served.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The run folder cannot be used.
    #[error(transparent)]
    RunDir(#[from] FileError),
    /// Another daemon works in the same run folder and would take our containers for left-overs.
    #[error("another nri-plugin uses {0}; stop it, or give this one its own --run-dir")]
    NotAlone(std::path::PathBuf),
}

impl App {
    /// Puts the interposer in place and takes the run folder. The driver may still be absent: it is asked when a container wants a share.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn new(config: Config) -> Result<Self, StartError> {
        files::create_dir(&config.run_dir)?;
        let alone = take_alone(&config.run_dir)?;
        let library = library::place(&config.library, &config.library_dir)?;
        info!(event = events::LIBRARY_READY, library = %library.library.display(), run_dir = %config.run_dir.display(), "ready to serve the interposer");
        let places = Places::below(&config.run_dir).with_rules(config.managed, config.context);
        Ok(Self {
            book: Mutex::new(recorded(&places)),
            metrics: Metrics::default(),
            auditor: std::sync::Mutex::new(Auditor::new(config.audit)),
            backends: vec![Box::new(LimitsFile(places.clone()))],
            places,
            driver: Driver::new(config.sources.clone()),
            library,
            config,
            _alone: alone,
        })
    }

    /// Asks the driver before anyone waits for it; its absence is no error yet.
    pub async fn warm_up(&self) {
        match self.driver.inventory().await {
            Ok(found) => {
                for card in &found.cards {
                    info!(event = events::CARD_FOUND, index = card.index, id = %card.id, name = card.name, memory = ?card.memory, "card");
                }
                for bad in &found.bad {
                    warn!(event = events::CARD_BAD, ?bad, "card out of use");
                }
                for slice in &found.slices {
                    info!(event = events::MIG_INSTANCE, id = %slice.id, name = slice.name, "MIG instance; shares of it cannot be given yet");
                }
                for warning in &found.warnings {
                    warn!(event = events::DRIVER_WARNING, "{warning}");
                }
            }
            Err(error) => {
                warn!(
                    event = events::DRIVER_ABSENT,
                    "no cards yet, they are looked for when a container asks: {error}"
                );
            }
        }
    }

    /// The cards with what is booked on them, and the edits that give them to a container.
    fn node(&self, inventory: &Inventory, book: &Book) -> Node {
        let card = |card: &inventory::Card| {
            Some(NodeCard {
                index: card.index,
                id: card.id,
                memory: card.memory?,
                booked: book.booked(card.id),
                edits: inventory.card_edits(card),
            })
        };
        Node {
            unit: self.config.unit,
            cards: inventory.cards.iter().filter_map(card).collect(),
            common: inventory.common_edits(),
        }
    }

    async fn create(&self, id: &str, request: &Request) -> Result<(Counted, ContainerAdjustment), Unmet> {
        if !policy::asks_for_share(request) {
            return Ok((Counted::None, ContainerAdjustment::default()));
        }
        let inventory = self.driver.inventory().await.map_err(said)?;
        let mut book = self.book.lock().await;
        // A container id that comes again is a creation that the runtime repeats: its first share is not in the way.
        book.release(id);
        let node = self.node(&inventory, &book);
        let decision = policy::decide(request, &node, &self.config.rules);
        for warning in &decision.warnings {
            warn!(event = events::POLICY_WARNING, "{warning}");
        }
        let (grants, isolated) = match &decision.outcome {
            Outcome::NotOurs => return Ok((Counted::None, ContainerAdjustment::default())),
            Outcome::Deny(reason) => return Err(Unmet { counted: Counted::Refused, reason: reason.to_string() }),
            Outcome::Whole(grants) => (grants, false),
            Outcome::Share(grants) => (grants, true),
        };
        let placement = if isolated { Some(self.placement(id)?) } else { None };
        let edits = policy::adjust(&decision, request, &node, placement.as_ref()).map_err(said)?;
        let adjustment = door::adjustment(&edits).map_err(said)?;
        let record = Record::new(&request.namespace, &request.pod, &request.container, isolated, grants);
        self.places.create(id, &record, grants).map_err(said)?;
        book.book(id, record);
        info!(event = events::SHARE_GRANTED, isolated, grants = %summary(grants), "share granted");
        Ok((if isolated { Counted::Share } else { Counted::Whole }, adjustment))
    }

    fn placement(&self, id: &str) -> Result<Placement, Unmet> {
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| said(format!("the path {} is not UTF-8", path.display())))
        };
        Ok(Placement {
            library: text(&self.library.library)?,
            preload: text(&self.library.preload)?,
            limits: text(&self.places.limits(id).map_err(said)?)?,
            ledger: text(&self.places.ledger(id).map_err(said)?)?,
        })
    }

    /// Books a container that the runtime already has; what it holds is read from its record, or worked out again where that is damaged.
    async fn rebook(&self, pod: &PodSandbox, container: &Container, book: &mut Book) {
        let id = container.id.as_str();
        match self.places.record(id) {
            Ok(Some(record)) => book.book(id, record),
            // Created while this daemon was away: it got no GPU from anyone.
            Ok(None) => {}
            Err(damaged) => {
                error!(
                    event = events::RECORD_DAMAGED,
                    container = id,
                    "the record is damaged, the share is worked out again: {damaged}"
                );
                let request = door::request(pod, container);
                let Ok(inventory) = self.driver.inventory().await else {
                    error!(
                        event = events::SHARE_LOST,
                        container = id,
                        "the driver is away too, so this container's share is not booked"
                    );
                    return;
                };
                let decision = policy::decide(&request, &self.node(&inventory, &Book::default()), &self.config.rules);
                let (grants, isolated) = match &decision.outcome {
                    Outcome::Share(grants) => (grants, true),
                    Outcome::Whole(grants) => (grants, false),
                    Outcome::NotOurs | Outcome::Deny(_) => return,
                };
                book.book(id, Record::new(&request.namespace, &request.pod, &request.container, isolated, grants));
            }
        }
    }

    /// Removes the folders of containers that the runtime does not have.
    fn sweep(&self, known: &BTreeSet<&str>) {
        let names = match self.places.list() {
            Ok(names) => names,
            Err(error) => return error!(event = events::FOLDER_STUCK, "left-over folders stay: {error}"),
        };
        for name in names.iter().filter(|name| !known.contains(name.as_str())) {
            match self.places.sweep(name) {
                Ok(()) => info!(event = events::FOLDER_SWEPT, folder = name, "removed what an ended container left"),
                Err(error) => error!(event = events::FOLDER_STUCK, folder = name, "a left-over folder stays: {error}"),
            }
        }
    }
}

#[async_trait]
impl Plugin for App {
    fn events(&self) -> EventMask {
        EventMask::CREATE_CONTAINER | EventMask::STOP_CONTAINER | EventMask::REMOVE_CONTAINER
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), PluginError> {
        self.metrics.connected(true);
        info!(
            event = events::RUNTIME_CONNECTED,
            runtime = request.runtime_name,
            version = request.runtime_version,
            "connected"
        );
        if !request.config.trim().is_empty() {
            warn!(
                event = events::CONFIGURATION_IGNORED,
                "the configuration text that the runtime hands over is not used; name a file with --config"
            );
        }
        Ok(())
    }

    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, PluginError> {
        // Held to the end: a share that is changed meanwhile would be booked as it was.
        let mut held = self.book.lock().await;
        let mut book = Book::default();
        let nobody = PodSandbox::default();
        for container in containers.iter().filter(|container| door::may_run(container)) {
            let pod = pods.iter().find(|pod| pod.id == container.pod_sandbox_id).unwrap_or(&nobody);
            self.rebook(pod, container, &mut book).await;
        }
        self.sweep(&containers.iter().map(|container| container.id.as_str()).collect());
        info!(event = events::BOOK_REBUILT, containers = containers.len(), shares = book.len(), "the book is rebuilt");
        *held = book;
        Ok(Vec::new())
    }

    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<(ContainerAdjustment, Vec<ContainerUpdate>), PluginError> {
        let request = door::request(&pod, &container);
        let span = tracing::info_span!(
            "create",
            namespace = request.namespace,
            pod = request.pod,
            container = request.container,
            id = container.id
        );
        let started = Instant::now();
        let answer = tracing::Instrument::instrument(self.create(&container.id, &request), span.clone()).await;
        let counted = answer.as_ref().map_or_else(|unmet| unmet.counted, |(counted, _)| *counted);
        self.metrics.answered(counted, started.elapsed());
        answer.map(|(_, adjustment)| (adjustment, Vec::new())).map_err(|Unmet { reason, .. }| {
            span.in_scope(|| warn!(event = events::CONTAINER_REFUSED, "refused: {reason}"));
            PluginError::new(format!("gpu-quota refuses container {:?}: {reason}", request.container))
        })
    }

    async fn stop_container(
        &self,
        _pod: PodSandbox,
        container: Container,
    ) -> Result<Vec<ContainerUpdate>, PluginError> {
        self.give_back(&container.id).await;
        Ok(Vec::new())
    }

    async fn remove_container(&self, _pod: PodSandbox, container: Container) -> Result<(), PluginError> {
        self.give_back(&container.id).await;
        // The runtime cannot do anything about a folder that stays; the next start sweeps it.
        if let Err(error) = self.places.remove(&container.id) {
            error!(event = events::FOLDER_STUCK, id = container.id, "a container's folder stays: {error}");
        }
        Ok(())
    }
}

impl App {
    /// The runtime is gone, until it configures the plugin anew.
    pub fn disconnected(&self) {
        self.metrics.connected(false);
    }

    async fn give_back(&self, id: &str) {
        if let Some(record) = self.book.lock().await.release(id) {
            info!(
                event = events::SHARE_RELEASED,
                id,
                pod = record.pod,
                container = record.container,
                "share given back"
            );
        }
    }
}

/// The book by the records alone, until the runtime tells what runs. A runtime with NRI before 0.7 (containerd before 2.0) never tells the plugins that it
/// starts itself, and what was granted before a restart must not be granted twice.
fn recorded(places: &Places) -> Book {
    let mut book = Book::default();
    let names = places.list().unwrap_or_else(|error| {
        warn!(
            event = events::RECORD_DAMAGED,
            "the shares of before are not known until the runtime tells them: {error}"
        );
        Vec::new()
    });
    for id in names {
        match places.record(&id) {
            Ok(Some(record)) => {
                follow(places, &id, &record);
                book.book(&id, record);
            }
            Ok(None) => {}
            Err(error) => warn!(event = events::RECORD_DAMAGED, id, "a record of before is not read: {error}"),
        }
    }
    book
}

/// Makes the limits say what the record says: a daemon that changes a share changes the record first, and may have been killed before the limits.
fn follow(places: &Places, id: &str, record: &Record) {
    if record.isolated {
        match places.enforce(id, record) {
            Ok(true) => info!(event = events::SHARE_RESUMED, id, "a share that was being changed is changed now"),
            Ok(false) => {}
            Err(error) => warn!(event = events::LIMITS_DAMAGED, id, "the limits do not follow the record: {error}"),
        }
    }
}

/// Why a container is not created.
struct Unmet {
    counted: Counted,
    reason: String,
}

/// A step that failed; the policy's own no is told apart.
fn said(error: impl Display) -> Unmet {
    Unmet { counted: Counted::Failed, reason: error.to_string() }
}

fn summary(grants: &[Grant]) -> String {
    let one = |g: &Grant| format!("card {}: {} of {}", g.index, Bytes(g.bytes.0), g.total);
    grants.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn take_alone(run_dir: &Path) -> Result<File, StartError> {
    let path = run_dir.join("lock");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| FileError::new("open", &path, source))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| StartError::NotAlone(run_dir.to_owned()))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
