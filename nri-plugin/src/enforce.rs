//! What holds running containers to their shares. The daemon decides and books; a backend makes it so, for containers that run already.
//!
//! One backend is in use: the limits file that the interposer follows. A driver that can hold a cgroup to an amount by itself (drivers 615 and later) is
//! found by the audit and told in the status; it becomes a second backend once it can be tried on hardware.
use crate::place::{PlaceError, Places};
use crate::record::Record;
use std::fmt::Debug;

/// A way to hold a container to its share.
pub trait Backend: Send + Sync + Debug {
    /// Its name in logs and errors.
    fn name(&self) -> &'static str;

    /// Holds a running container to what its record says from now on. What it uses already stays with it.
    ///
    /// # Errors
    /// [`EnforceError`]; the container is held as before then.
    fn hold(&self, id: &str, record: &Record) -> Result<(), EnforceError>;
}

/// Why a container cannot be held otherwise.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    /// Its files cannot be changed.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// The limits file, which processes of the container map.
#[derive(Debug)]
pub struct LimitsFile(pub Places);

impl Backend for LimitsFile {
    fn name(&self) -> &'static str {
        "interposer"
    }

    fn hold(&self, id: &str, record: &Record) -> Result<(), EnforceError> {
        self.0.enforce(id, record)?;
        Ok(())
    }
}
