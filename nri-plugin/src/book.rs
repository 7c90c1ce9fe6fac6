//! Who holds which share on this node. One owner, no files: it is rebuilt from the runtime's list and the records.
use crate::record::Record;
use quota::{Bytes, CardId};
use std::collections::BTreeMap;

/// The shares of all containers that exist, by container id.
#[derive(Debug, Default)]
pub struct Book {
    containers: BTreeMap<String, Record>,
}

impl Book {
    /// Books a container's share; a container that is known already is booked anew.
    pub fn book(&mut self, id: &str, record: Record) {
        self.containers.insert(id.to_owned(), record);
    }

    /// Gives back a container's share, and says what it was.
    pub fn release(&mut self, id: &str) -> Option<Record> {
        self.containers.remove(id)
    }

    /// All containers that hold a share, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.containers.iter().map(|(id, record)| (id.as_str(), record))
    }

    /// What is booked on a card. Saturates, so that a wrong record can only make the card look fuller.
    #[must_use]
    pub fn booked(&self, card: CardId) -> Bytes {
        let shares = self.containers.values().flat_map(Record::shares);
        Bytes(shares.filter(|(id, _)| *id == card).fold(0, |sum, (_, bytes)| sum.saturating_add(bytes.0)))
    }

    /// How many containers hold a share.
    #[must_use]
    pub fn len(&self) -> usize {
        self.containers.len()
    }

    /// Whether nobody holds a share.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Grant;

    fn grant(card: u8, bytes: u64) -> Grant {
        let id = CardId::parse(&format!("GPU-0000000{card}-0000-0000-0000-000000000000")).unwrap();
        Grant { index: 0, id, bytes: Bytes(bytes), total: Bytes(100) }
    }

    #[test]
    fn counts_by_card_and_gives_back() {
        let mut book = Book::default();
        book.book("a", Record::new("n", "p", "c", true, &[grant(0, 3), grant(1, 5)]));
        book.book("b", Record::new("n", "p", "c", false, &[grant(0, 4)]));
        book.book("b", Record::new("n", "p", "c", false, &[grant(0, 6)]));
        assert_eq!(book.booked(grant(0, 0).id), Bytes(9));
        assert_eq!(book.booked(grant(1, 0).id), Bytes(5));
        assert!(book.release("b").is_some());
        assert!(book.release("b").is_none());
        assert_eq!(book.booked(grant(0, 0).id), Bytes(3));
        book.book("c", Record::new("n", "p", "c", true, &[grant(0, u64::MAX)]));
        assert_eq!(book.booked(grant(0, 0).id), Bytes(u64::MAX));
    }
}
