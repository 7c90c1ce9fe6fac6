//! How a run ended, for people and as JSON: the status file, which lies beside the CDI folder and not in it, so that no runtime reads it.
use crate::exit::Failure;
use crate::generate::Unit;
use cdi::{WriteError, Written};
use inventory::BadCard;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The version of the status file's fields. It grows when one changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Program and version.
    pub program: String,
    /// Seconds since 1970.
    pub at: u64,
    /// The CDI file.
    pub output: String,
    /// `vendor/class`.
    pub kind: String,
    /// What became of the CDI file.
    pub file: File,
    /// See [`crate::exit::TABLE`].
    pub exit_code: u8,
    /// What went wrong.
    pub error: Option<String>,
    /// The running driver's version.
    pub driver_version: Option<String>,
    /// The version that the CDI file declares.
    pub cdi_version: Option<String>,
    /// What the CDI file gives.
    pub devices: Vec<Given>,
    /// GPUs and MIG instances that cannot be given.
    pub bad: Vec<Left>,
    /// GPUs that are left out on purpose.
    pub left_out: Vec<Left>,
    /// What is worth knowing and costs no GPU.
    pub warnings: Vec<String>,
}

/// What became of the CDI file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum File {
    /// It is new or has new content.
    Written,
    /// It had this content already.
    UpToDate,
    /// It is as it was.
    Kept,
    /// It is removed, because what it said is no longer so.
    Removed,
    /// There is none.
    None,
}

/// A GPU or MIG instance of the CDI file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its devices' names.
    pub names: Vec<String>,
    /// `GPU-...` or `MIG-...`.
    pub uuid: String,
    /// Product name.
    pub product: String,
    /// PCI address.
    pub pci_bus_id: String,
    /// In bytes; `null` where NVML does not tell it.
    pub memory: Option<u64>,
}

/// A GPU or MIG instance that is not given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// NVML's index, where NVML knows it.
    pub index: Option<u32>,
    /// PCI address, where it could be found out.
    pub pci_bus_id: Option<String>,
    /// Why.
    pub reason: String,
}

impl From<&BadCard> for Left {
    fn from(card: &BadCard) -> Self {
        Self { index: card.index, pci_bus_id: card.pci_bus_id.clone(), reason: card.reason.clone() }
    }
}

impl From<&Unit> for Given {
    fn from(unit: &Unit) -> Self {
        Self {
            names: unit.names.clone(),
            uuid: unit.known_as[1].clone(),
            product: unit.product.clone(),
            pci_bus_id: unit.pci_bus_id.clone(),
            memory: unit.memory,
        }
    }
}

impl Report {
    /// A report of a run that has done nothing yet.
    #[must_use]
    pub fn new(output: &Path, kind: &str) -> Self {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            schema: SCHEMA,
            program: concat!("cdi-gen ", env!("CARGO_PKG_VERSION")).to_owned(),
            at,
            output: output.display().to_string(),
            kind: kind.to_owned(),
            file: File::None,
            exit_code: 0,
            error: None,
            driver_version: None,
            cdi_version: None,
            devices: Vec::new(),
            bad: Vec::new(),
            left_out: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds how the run ended.
    pub fn end(&mut self, failure: Option<&Failure>) {
        self.exit_code = failure.map_or(0, Failure::code);
        self.error = failure.map(ToString::to_string);
    }

    /// Writes the status file.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn write(&self, path: &Path) -> Result<Written, WriteError> {
        cdi::write_bytes(self.json().as_bytes(), path)
    }

    /// Reads a status file.
    ///
    /// # Errors
    /// [`Failure::NoStatus`].
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |reason: String| Failure::NoStatus { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }

    /// As programs read it.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// As people read it: a line on the file and one on each GPU. The error is not in it.
    #[must_use]
    pub fn text(&self) -> String {
        let file = match self.file {
            File::Written => "is written",
            File::UpToDate => "is up to date",
            File::Kept => "is left as it was",
            File::Removed => "is removed",
            File::None => "does not exist",
        };
        let mut text = format!("{} {file}", self.output);
        if let (Some(driver), Some(cdi)) = (&self.driver_version, &self.cdi_version) {
            let _ = write!(text, ": {} device(s), driver {driver}, CDI {cdi}", self.devices.len());
        }
        for given in &self.devices {
            let memory = given.memory.map_or("memory unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
            let names = given.names.iter().filter(|name| **name != given.uuid).map(String::as_str);
            let names = names.collect::<Vec<_>>().join(", ");
            let dash = if names.is_empty() { "" } else { ": " };
            let _ = write!(text, "\n  {names}{dash}{}, {}, {}, {memory}", given.uuid, given.product, given.pci_bus_id);
        }
        for (what, cards) in [("not usable", &self.bad), ("left out", &self.left_out)] {
            for card in cards {
                let _ = write!(text, "\n  {what}: {}", card.said());
            }
        }
        for warning in &self.warnings {
            let _ = write!(text, "\n  warning: {warning}");
        }
        text
    }
}

impl Left {
    /// `GPU 1 (0000:af:00.0): the reason`.
    #[must_use]
    pub fn said(&self) -> String {
        let address = self.pci_bus_id.as_deref();
        match self.index {
            Some(index) => format!("GPU {index} ({}): {}", address.unwrap_or("unknown PCI address"), self.reason),
            None => format!("GPU at {}: {}", address.unwrap_or("an unknown PCI address"), self.reason),
        }
    }
}

/// The status file of a CDI file: in the folder `cdi-gen` beside the CDI folder.
#[must_use]
pub fn path_for(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let beside = output.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    beside.join("cdi-gen").join(format!("{name}.status.json"))
}
