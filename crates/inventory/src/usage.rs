//! Who uses how much of which card now, by the driver's word. Asked anew each time, in a session of its own: one that stays open would hold the driver's
//! modules in the kernel.
use crate::{InventoryError, Sources, nvml};
use quota::{Bytes, CardId};

/// A card and the processes that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardUse {
    /// The card.
    pub id: CardId,
    /// Its processes, each once.
    pub processes: Vec<ProcessUse>,
}

/// A process that uses a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// Its pid as this process's namespace has it.
    pub pid: u32,
    /// What it uses, context and code included; `None` where the driver does not tell.
    pub memory: Option<Bytes>,
}

impl Sources {
    /// Who uses which card. A card that fails is left out, and so is one with MIG on, which has no shares.
    ///
    /// # Errors
    /// [`InventoryError`] where the driver does not answer.
    pub fn in_use(&self) -> Result<Vec<CardUse>, InventoryError> {
        nvml::in_use(self, &self.place()?)
    }

    /// Whether the driver can hold a cgroup to an amount of GPU memory by itself (drivers 615 and later); `None` where its library cannot be read.
    #[must_use]
    pub fn has_native_limits(&self) -> Option<bool> {
        nvml::has_native_limits(self, &self.place().ok()?)
    }
}
