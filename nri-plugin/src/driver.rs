//! What the node has, asked of the driver once and kept: NVML takes seconds on some nodes, and the runtime waits two for an answer.
use inventory::{Inventory, InventoryError, Sources};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The runtime drops a plugin that takes two seconds (NRI's `plugin_request_timeout`); a scan gets less than that.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The driver behind its cache.
#[derive(Debug)]
pub struct Driver {
    sources: Sources,
    found: Arc<Mutex<Option<Arc<Inventory>>>>,
    scanning: Arc<tokio::sync::Mutex<()>>,
}

/// Why the node's cards are not known.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The scan failed.
    #[error(transparent)]
    Scan(#[from] InventoryError),
    /// The driver takes longer than the runtime waits.
    #[error("the NVIDIA driver has not answered in {} ms; the scan goes on, so try again", PATIENCE.as_millis())]
    Slow,
    /// The scan's task ended without a result.
    #[error("the scan of the NVIDIA driver broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl Driver {
    /// A driver that is asked at the first [`Driver::inventory`].
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        Self { sources, found: Arc::default(), scanning: Arc::default() }
    }

    /// What the node has. A scan that found no usable card is done again at the next call.
    ///
    /// # Errors
    /// [`DriverError`]; a scan that is only slow goes on behind the error, and a later call finds its result.
    pub async fn inventory(&self) -> Result<Arc<Inventory>, DriverError> {
        if let Some(found) = kept(&self.found) {
            return Ok(found);
        }
        let scan = async {
            let alone = Arc::clone(&self.scanning).lock_owned().await;
            if let Some(found) = kept(&self.found) {
                return Ok(found);
            }
            let (sources, keep) = (self.sources.clone(), Arc::clone(&self.found));
            tokio::task::spawn_blocking(move || {
                let _alone = alone;
                let found = Arc::new(sources.scan()?);
                if !found.cards.is_empty() {
                    *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&found));
                }
                Ok(found)
            })
            .await?
        };
        tokio::time::timeout(PATIENCE, scan).await.map_err(|_| DriverError::Slow)?
    }
}

fn kept(found: &Mutex<Option<Arc<Inventory>>>) -> Option<Arc<Inventory>> {
    found.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
