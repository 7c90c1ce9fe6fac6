//! The folder of one container on the host: limits file, ledger, record. There before the runtime has its answer, gone with the container.
use crate::files::{self, FileError};
use crate::record::{Record, RecordError};
use policy::Grant;
use quota::limits::{CardLimit, LIMITS_LEN, Limits, LimitsError, Managed};
use quota::paths::{CONTAINERS, LEDGER_FILE, LIMITS_FILE};
use quota::{Bytes, ledger};
use std::path::{Path, PathBuf};

const RECORD_FILE: &str = "record.json";
/// A record of sixteen cards is under 2 KiB.
const MAX_RECORD: u64 = 64 << 10;

/// The folders of all containers.
#[derive(Clone, Debug)]
pub struct Places {
    dir: PathBuf,
    managed: Managed,
    context: Bytes,
}

/// Why a container's folder cannot be made, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A file or folder failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The runtime's id of the container is no file name.
    #[error(
        "container id {0:?} cannot name a folder; it must be 1 to 128 of A-Z a-z 0-9 _ . - and start with a letter or digit"
    )]
    Id(String),
    /// The share has no valid limits file.
    #[error("limits file: {0}")]
    Limits(#[from] LimitsError),
    /// The record cannot be written or read.
    #[error("{path}: {source}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: RecordError,
    },
}

impl Places {
    /// The folders below the daemon's run folder.
    #[must_use]
    pub fn below(run_dir: &Path) -> Self {
        Self { dir: run_dir.join(CONTAINERS), managed: Managed::Counted, context: Bytes(0) }
    }

    /// The same with the node's rules: whether managed memory counts, and what is charged for a process's first context on a card.
    #[must_use]
    pub fn with_rules(self, managed: Managed, context: Bytes) -> Self {
        Self { managed, context, ..self }
    }

    /// The limits file of a container.
    ///
    /// # Errors
    /// [`PlaceError::Id`].
    pub fn limits(&self, id: &str) -> Result<PathBuf, PlaceError> {
        Ok(self.home(id)?.join(LIMITS_FILE))
    }

    /// The ledger of a container.
    ///
    /// # Errors
    /// [`PlaceError::Id`].
    pub fn ledger(&self, id: &str) -> Result<PathBuf, PlaceError> {
        Ok(self.home(id)?.join(LEDGER_FILE))
    }

    /// Makes a container's folder. With isolation it holds the limits file and an empty ledger; the record always.
    ///
    /// # Errors
    /// [`PlaceError`]; nothing is left then.
    pub fn create(&self, id: &str, record: &Record, grants: &[Grant]) -> Result<(), PlaceError> {
        let home = self.home(id)?;
        let record_bytes =
            record.encode().map_err(|source| PlaceError::Record { path: home.join(RECORD_FILE), source })?;
        let mut parts: Vec<(&str, &[u8], u32)> = vec![(RECORD_FILE, &record_bytes, 0o600)];
        let limits;
        let mut empty = Vec::new();
        if record.isolated {
            let limit = |g: &Grant| CardLimit { id: g.id, quota: g.bytes, total: g.total, context: self.context };
            let cards: Vec<_> = grants.iter().map(limit).collect();
            limits = Limits::new(&cards)?.with_managed(self.managed).encode();
            empty.extend(ledger::initial_head());
            empty.resize(ledger::LEDGER_LEN, 0);
            parts.push((LIMITS_FILE, &limits, 0o444));
            // Any user of the container may allocate, so any may write its count.
            parts.push((LEDGER_FILE, &empty, 0o666));
        }
        files::create_dir(&self.dir)?;
        files::remove_dir(&home)?;
        Ok(files::create_filled_dir(&home, &parts)?)
    }

    /// A container's record; `None` where it has no folder.
    ///
    /// # Errors
    /// [`PlaceError`] where there is a record that cannot be used.
    pub fn record(&self, id: &str) -> Result<Option<Record>, PlaceError> {
        let path = self.home(id)?.join(RECORD_FILE);
        match files::read_at_most(&path, MAX_RECORD) {
            Ok(bytes) => Record::decode(&bytes).map(Some).map_err(|source| PlaceError::Record { path, source }),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts another record in the place of a container's.
    ///
    /// # Errors
    /// [`PlaceError`]; the record is as it was then.
    pub fn put_record(&self, id: &str, record: &Record) -> Result<(), PlaceError> {
        let path = self.home(id)?.join(RECORD_FILE);
        let bytes = record.encode().map_err(|source| PlaceError::Record { path: path.clone(), source })?;
        Ok(files::replace_file(&path, &bytes, 0o600)?)
    }

    /// A container's limits as they are now.
    ///
    /// # Errors
    /// [`PlaceError`] where there are none, or damaged ones.
    pub fn read_limits(&self, id: &str) -> Result<Limits, PlaceError> {
        let bytes = files::read_at_most(&self.limits(id)?, LIMITS_LEN as u64)?;
        Ok(Limits::decode(&bytes)?)
    }

    /// Makes the limits of an isolated container say what its record says, in place, so that its processes follow at once. Whether something was changed.
    ///
    /// # Errors
    /// [`PlaceError`] where there are no limits, damaged ones, or a share cannot be said.
    pub fn enforce(&self, id: &str, record: &Record) -> Result<bool, PlaceError> {
        let old = self.read_limits(id)?;
        let share = |limit: &CardLimit| record.shares().find(|(card, _)| *card == limit.id).map(|(_, bytes)| bytes);
        let one = |limit: &CardLimit| CardLimit { quota: share(limit).unwrap_or(limit.quota), ..*limit };
        let cards: Vec<_> = old.cards().iter().map(one).collect();
        let new = Limits::new(&cards)?.with_managed(old.managed());
        if new != old {
            files::overwrite(&self.limits(id)?, &new.encode())?;
        }
        Ok(new != old)
    }

    /// Removes a container's folder; one that is not there is no error.
    ///
    /// # Errors
    /// [`PlaceError`] where that fails.
    pub fn remove(&self, id: &str) -> Result<(), PlaceError> {
        Ok(files::remove_dir(&self.home(id)?)?)
    }

    /// The names of all folders, those of unfinished ones too.
    ///
    /// # Errors
    /// [`PlaceError::File`] where the folders cannot be listed.
    pub fn list(&self) -> Result<Vec<String>, PlaceError> {
        let fail = |source| FileError::new("list", &self.dir, source);
        let entries = match std::fs::read_dir(&self.dir) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(fail)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(fail)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    /// Removes what [`Places::list`] named, whatever the name.
    ///
    /// # Errors
    /// [`PlaceError::File`] where that fails.
    pub fn sweep(&self, name: &str) -> Result<(), PlaceError> {
        Ok(files::remove_dir(&self.dir.join(name))?)
    }

    fn home(&self, id: &str) -> Result<PathBuf, PlaceError> {
        let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
        let first = id.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if first && id.len() <= 128 && id.bytes().all(good) {
            Ok(self.dir.join(id))
        } else {
            Err(PlaceError::Id(id.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota::CardId;
    use std::os::unix::fs::PermissionsExt;

    fn grants() -> Vec<Grant> {
        let id = CardId::parse("GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76").unwrap();
        vec![Grant { index: 0, id, bytes: Bytes(3 << 30), total: Bytes(16_130 << 20) }]
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn an_isolated_container_has_limits_ledger_and_record() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let record = Record::new("ns", "pod", "main", true, &grants());
        places.create("c1", &record, &grants()).unwrap();
        let bytes = std::fs::read(places.limits("c1").unwrap()).unwrap();
        let limits = Limits::decode(&bytes).unwrap();
        assert_eq!(limits.cards()[0].quota, Bytes(3 << 30));
        assert_eq!(mode(&places.limits("c1").unwrap()), 0o444);
        assert_eq!(mode(&places.ledger("c1").unwrap()), 0o666);
        assert_eq!(std::fs::read(places.ledger("c1").unwrap()).unwrap().len(), ledger::LEDGER_LEN);
        assert_eq!(places.record("c1").unwrap(), Some(record));
        assert_eq!(places.list().unwrap(), ["c1"]);
        places.remove("c1").unwrap();
        places.remove("c1").unwrap();
        assert_eq!(places.record("c1").unwrap(), None);
    }

    #[test]
    fn the_nodes_rules_are_in_the_limits() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path()).with_rules(Managed::Uncounted, Bytes(300 << 20));
        places.create("c1", &Record::new("ns", "pod", "main", true, &grants()), &grants()).unwrap();
        let limits = Limits::decode(&std::fs::read(places.limits("c1").unwrap()).unwrap()).unwrap();
        assert_eq!((limits.managed(), limits.cards()[0].context), (Managed::Uncounted, Bytes(300 << 20)));
    }

    #[test]
    fn limits_follow_the_record_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path()).with_rules(Managed::Uncounted, Bytes(7));
        let record = Record::new("ns", "pod", "main", true, &grants());
        places.create("c1", &record, &grants()).unwrap();
        assert!(!places.enforce("c1", &record).unwrap());
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        let before = inode(&places.limits("c1").unwrap());
        let changed = record.with_share(grants()[0].id, Bytes(5 << 30));
        places.put_record("c1", &changed).unwrap();
        assert_eq!(places.record("c1").unwrap(), Some(changed.clone()));
        assert!(places.enforce("c1", &changed).unwrap());
        let limits = places.read_limits("c1").unwrap();
        assert_eq!((limits.cards()[0].quota, limits.managed()), (Bytes(5 << 30), Managed::Uncounted));
        assert_eq!((limits.cards()[0].context, inode(&places.limits("c1").unwrap())), (Bytes(7), before));
        let more = record.with_share(grants()[0].id, Bytes(16_131 << 20));
        assert!(places.enforce("c1", &more).unwrap_err().to_string().contains("at most the card's memory"));
        assert_eq!(places.read_limits("c1").unwrap(), limits);
        std::fs::write(places.limits("c1").unwrap(), "x").unwrap();
        assert!(places.enforce("c1", &changed).is_err());
    }

    #[test]
    fn a_whole_card_has_a_record_only() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let record = Record::new("ns", "pod", "main", false, &grants());
        places.create("c1", &record, &grants()).unwrap();
        assert!(!places.limits("c1").unwrap().exists());
        assert_eq!(places.record("c1").unwrap(), Some(record));
    }

    #[test]
    fn ids_that_are_no_file_names_are_refused() {
        let places = Places::below(Path::new("/run/gpu-quota"));
        for id in ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a b", "a\0", &"x".repeat(129)] {
            assert!(matches!(places.limits(id), Err(PlaceError::Id(_))), "{id:?}");
        }
    }

    #[test]
    fn a_damaged_record_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        places.create("c1", &Record::new("ns", "pod", "main", true, &grants()), &grants()).unwrap();
        std::fs::write(dir.path().join("containers/c1/record.json"), "{}").unwrap();
        let error = places.record("c1").unwrap_err().to_string();
        assert!(error.contains("containers/c1/record.json"), "{error}");
    }
}
