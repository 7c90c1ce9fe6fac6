//! What is written down about a container's share, so that a daemon that starts again knows what is booked.
//!
//! `record.json` lies in the container's folder on the host; the container never sees it.
use policy::Grant;
use quota::{Bytes, CardId};
use serde::{Deserialize, Serialize};

/// The layout of `record.json` that this program writes and reads.
const VERSION: u32 = 1;

/// One container's share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    version: u32,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container in the pod.
    pub container: String,
    /// Whether the interposer holds the container to its share.
    pub isolated: bool,
    /// What is booked, card by card.
    pub cards: Vec<BookedCard>,
}

/// A share of one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookedCard {
    /// `GPU-...` or `MIG-...`, as NVML prints it.
    pub uuid: String,
    /// Booked memory in bytes.
    pub bytes: u64,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not the JSON of a record.
    #[error("it is no record: {0}")]
    Json(#[from] serde_json::Error),
    /// Of another program version.
    #[error("it has version {0}, this program knows {VERSION}")]
    Version(u32),
    /// A card's name that is no UUID.
    #[error("card {0:?} is no UUID")]
    Card(String),
}

impl Record {
    /// The record of a decision's grants.
    #[must_use]
    pub fn new(namespace: &str, pod: &str, container: &str, isolated: bool, grants: &[Grant]) -> Self {
        Self {
            version: VERSION,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            isolated,
            cards: grants.iter().map(|g| BookedCard { uuid: g.id.to_string(), bytes: g.bytes.0 }).collect(),
        }
    }

    /// The bytes of `record.json`.
    ///
    /// # Errors
    /// [`RecordError::Json`] where the record cannot be written as JSON.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads `record.json`.
    ///
    /// # Errors
    /// [`RecordError`] for anything that [`Record::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_slice(bytes)?;
        if record.version != VERSION {
            return Err(RecordError::Version(record.version));
        }
        match record.cards.iter().find(|card| CardId::parse(&card.uuid).is_none()) {
            Some(card) => Err(RecordError::Card(card.uuid.clone())),
            None => Ok(record),
        }
    }

    /// The same with another share of a card that is booked already.
    #[must_use]
    pub fn with_share(&self, card: CardId, bytes: Bytes) -> Self {
        let mut changed = self.clone();
        for booked in changed.cards.iter_mut().filter(|booked| CardId::parse(&booked.uuid) == Some(card)) {
            booked.bytes = bytes.0;
        }
        changed
    }

    /// What is booked, card by card.
    pub fn shares(&self) -> impl Iterator<Item = (CardId, Bytes)> + '_ {
        self.cards.iter().filter_map(|card| Some((CardId::parse(&card.uuid)?, Bytes(card.bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        let id = CardId::parse("GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76").unwrap();
        let grant = Grant { index: 0, id, bytes: Bytes(3 << 30), total: Bytes(16_130 << 20) };
        let record = Record::new("ns", "pod", "main", true, &[grant]);
        assert_eq!(Record::decode(&record.encode().unwrap()).unwrap(), record);
        assert_eq!(record.shares().collect::<Vec<_>>(), [(id, Bytes(3 << 30))]);

        let text = String::from_utf8(record.encode().unwrap()).unwrap();
        for (from, to) in [("\"version\":1", "\"version\":2"), ("GPU-", "gpu-"), ("isolated", "isolation")] {
            assert!(text.contains(from));
            assert!(Record::decode(text.replace(from, to).as_bytes()).is_err(), "{from}");
        }
        assert!(Record::decode(b"").is_err());
    }
}
