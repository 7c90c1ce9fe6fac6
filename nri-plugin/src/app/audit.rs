//! The daemon's audit: looks now and then, tells, and ends processes where the node's owner says so. The book is only read, and never while the driver is asked.
use super::App;
use crate::audit::{self, Act, Finding, PROC, Policy, Report, look, process};
use crate::events;
use quota::Bytes;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tracing::{error, info, warn};

impl App {
    /// Audits until the task is dropped; returns at once where it is off.
    pub async fn audit_forever(self: Arc<Self>) {
        let rules = self.config.audit;
        if rules.policy == Policy::Off {
            return;
        }
        let sources = self.config.sources.clone();
        let native = tokio::task::spawn_blocking(move || sources.has_native_limits()).await;
        self.auditor().note_native_limits(native.ok().flatten());
        loop {
            tokio::time::sleep(rules.interval).await;
            self.audit().await;
        }
    }

    /// What the last look found; `None` where nobody looks.
    pub(super) fn audit_report(&self) -> Option<Report> {
        (self.config.audit.policy != Policy::Off).then(|| self.auditor().report().clone())
    }

    fn auditor(&self) -> std::sync::MutexGuard<'_, audit::Auditor> {
        self.auditor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn audit(&self) {
        let book = self.book.lock().await;
        let isolated = book.iter().filter(|(_, record)| record.isolated).map(|(id, _)| id.to_owned());
        let isolated: Vec<String> = isolated.collect();
        drop(book);
        // Nobody to look at, so the driver is left asleep.
        if isolated.is_empty() {
            return self.auditor().failed(None);
        }
        let (sources, places) = (self.config.sources.clone(), self.places.clone());
        let looked = tokio::task::spawn_blocking(move || look(&sources, &places, &isolated)).await;
        let acts = match looked.map_err(|broken| broken.to_string()).and_then(|looked| looked) {
            Ok(seen) => self.auditor().step(Instant::now(), &seen),
            Err(why) => return self.audit_failed(why),
        };
        for act in acts {
            match act {
                Act::Tell(finding) => tell(&finding, self.config.audit.policy),
                Act::Kill(finding, process) => kill(&finding, &process),
            }
        }
    }

    /// Says it once, and again only after a look that went well.
    fn audit_failed(&self, why: String) {
        let mut auditor = self.auditor();
        if auditor.report().error.is_none() {
            warn!(event = events::AUDIT_FAILED, "use by the driver's word is not known: {why}");
        }
        auditor.failed(Some(why));
    }
}

fn tell(finding: &Finding, policy: Policy) {
    let Finding { container, pid, uuid, fault, driver_bytes, ledger_bytes } = finding;
    let mib = |bytes: &Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
    let (driver, ledger, words) = (mib(driver_bytes), mib(ledger_bytes), fault.words());
    if policy == Policy::Log {
        info!(
            event = events::AUDIT_FINDING,
            id = container,
            pid,
            card = uuid,
            ?fault,
            driver,
            ledger,
            "a process {words}"
        );
    } else {
        warn!(
            event = events::AUDIT_FINDING,
            id = container,
            pid,
            card = uuid,
            ?fault,
            driver,
            ledger,
            "a process {words}"
        );
    }
}

fn kill(finding: &Finding, process: &process::Process) {
    let Finding { container, pid, fault, .. } = finding;
    match process::kill(Path::new(PROC), *pid, process) {
        Ok(()) => warn!(
            event = events::PROCESS_KILLED,
            id = container,
            pid,
            ?fault,
            "a process is killed: it {}",
            fault.words()
        ),
        Err(why) => {
            error!(event = events::PROCESS_NOT_KILLED, id = container, pid, ?fault, "a process is not killed: {why}");
        }
    }
}
