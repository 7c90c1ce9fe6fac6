//! What people ask of the running daemon: the status, and another share for a container. Nothing here is on the way of a container's creation, but the
//! book's lock, which is held for as long as two small files are written.
use super::App;
use crate::control::{ChangedQuota, NewQuota};
use crate::enforce::EnforceError;
use crate::events;
use crate::find::{FindError, find, full_name};
use crate::place::PlaceError;
use crate::record::Record;
use crate::status::{self, CardStatus, Status};
use inventory::Inventory;
use quota::{Bytes, CardId};
use tracing::{error, info};

/// Why a share is not changed.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// The name means no container, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Nothing holds the container to a share.
    #[error(
        "{0} is not isolated: it may use the whole card, and what is booked for it is what its pod asked for; create it anew to change that"
    )]
    NotIsolated(String),
    /// The cards are not known.
    #[error("the cards are not known: {0}")]
    Driver(String),
    /// The container has shares of several cards, and none was named.
    #[error("{name} has shares of cards {cards}; name one with --card")]
    WhichCard {
        /// The container.
        name: String,
        /// The cards' indexes.
        cards: String,
    },
    /// It has no share of the named card.
    #[error("{name} has no share of card {card}; it has shares of cards {cards}")]
    NoShare {
        /// The container.
        name: String,
        /// What was named.
        card: u32,
        /// The cards' indexes.
        cards: String,
    },
    /// The card is lost, or its memory unknown.
    #[error("the memory of card {0} is not known now; see the daemon's log")]
    NoCard(String),
    /// Nothing at all.
    #[error("a share must be above zero; to take the card from a container, end the container")]
    Zero,
    /// More than the card has beside the others.
    #[error(
        "card {card} has room for {room} for this container ({total} in all, the rest is booked), so {asked} does not fit"
    )]
    NoRoom {
        /// The card's index.
        card: u32,
        /// What it could have.
        room: Bytes,
        /// The card's memory.
        total: Bytes,
        /// What was asked.
        asked: Bytes,
    },
    /// The record cannot be changed; nothing is changed then.
    #[error("nothing is changed: {0}")]
    Record(#[from] PlaceError),
    /// The record was changed and put back.
    #[error("nothing is changed, {by} cannot: {source}")]
    Enforce {
        /// The backend's name.
        by: &'static str,
        /// The cause.
        source: EnforceError,
    },
}

impl App {
    /// The status of all containers that hold a share.
    pub async fn status(&self) -> Status {
        let containers: Vec<(String, Record)> =
            self.book.lock().await.iter().map(|(id, record)| (id.to_owned(), record.clone())).collect();
        let (inventory, mut faults) = match self.driver.inventory().await {
            Ok(inventory) => (Some(inventory), Vec::new()),
            Err(error) => (None, vec![error.to_string()]),
        };
        let cards: Vec<CardStatus> = inventory.iter().flat_map(|found| card_statuses(found, &containers)).collect();
        let places = self.places.clone();
        let index: Vec<(String, u32)> = inventory.iter().flat_map(|found| indexes(found)).collect();
        let read = tokio::task::spawn_blocking(move || {
            let index_of = |uuid: &str| index.iter().find(|(known, _)| known == uuid).map(|(_, index)| *index);
            let one = |(id, record): &(String, Record)| status::of_container(&places, id, record, index_of);
            containers.iter().map(one).collect::<Vec<_>>()
        });
        let containers = read.await.unwrap_or_else(|broken| {
            faults.push(format!("the ledgers were not read: {broken}"));
            Vec::new()
        });
        let mut status = Status { version: status::VERSION, daemon: true, cards, containers, faults, audit: None };
        if let Some(report) = self.audit_report() {
            status.add_audit(report);
        }
        status
    }

    /// The metrics as text, with the containers and cards as they are now.
    pub async fn metrics(&self) -> String {
        let status = self.status().await;
        self.metrics.text(&status)
    }

    /// Whether shares can be given now, or why not.
    ///
    /// # Errors
    /// The words for whoever asked.
    pub async fn ready(&self) -> Result<(), String> {
        if !self.metrics.is_connected() {
            return Err("the runtime is not connected".to_owned());
        }
        match self.driver.inventory().await {
            Ok(found) if found.cards.is_empty() => Err("no usable card".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Gives a running container another share, at once. The record is changed first, so that a daemon that starts again in between makes it so.
    ///
    /// # Errors
    /// [`QuotaError`]; nothing is changed then.
    pub async fn set_quota(&self, new: &NewQuota) -> Result<ChangedQuota, QuotaError> {
        let inventory = self.driver.inventory().await.map_err(|error| QuotaError::Driver(error.to_string()))?;
        let mut book = self.book.lock().await;
        let (id, record) = find(&book, &new.container)?;
        let (id, record, name) = (id.to_owned(), record.clone(), full_name(record));
        if !record.isolated {
            return Err(QuotaError::NotIsolated(name));
        }
        let (card, before) = share(&record, &name, new.card, &inventory)?;
        let known = inventory.cards.iter().find(|known| known.id == card);
        let Some((index, total)) = known.and_then(|known| Some((known.index, known.memory?))) else {
            return Err(QuotaError::NoCard(card.to_string()));
        };
        let bytes = Bytes(new.bytes);
        if bytes.0 == 0 {
            return Err(QuotaError::Zero);
        }
        let others = Bytes(book.booked(card).0.saturating_sub(before.0));
        let room = room(total, others);
        // Who shrinks is never in the way, also where the card is over-booked already.
        if bytes > total || bytes > room && bytes > before {
            return Err(QuotaError::NoRoom { card: index, room, total, asked: bytes });
        }
        let changed = record.with_share(card, bytes);
        self.places.put_record(&id, &changed)?;
        for (at, backend) in self.backends.iter().enumerate() {
            if let Err(source) = backend.hold(&id, &changed) {
                for backend in &self.backends[..at] {
                    if let Err(error) = backend.hold(&id, &record) {
                        error!(
                            event = events::SHARE_HALF_CHANGED,
                            id,
                            backend = backend.name(),
                            "a share that was changed in part is not put back: {error}"
                        );
                    }
                }
                self.places.put_record(&id, &record)?;
                return Err(QuotaError::Enforce { by: backend.name(), source });
            }
        }
        book.book(&id, changed);
        info!(event = events::SHARE_CHANGED, id, name, card = index, %before, now = %bytes, "share changed");
        Ok(ChangedQuota { id, name, card: index, before: before.0, bytes: bytes.0 })
    }
}

/// What a container can have of a card beside what the others have booked. A rule that lets a card be over-booked has its say here.
fn room(total: Bytes, others: Bytes) -> Bytes {
    Bytes(total.0.saturating_sub(others.0))
}

/// The share that is meant: that of the named card, or the only one.
fn share(record: &Record, name: &str, card: Option<u32>, inventory: &Inventory) -> Result<(CardId, Bytes), QuotaError> {
    let shares: Vec<(CardId, Bytes)> = record.shares().collect();
    let index = |id: CardId| inventory.cards.iter().find(|card| card.id == id).map(|card| card.index);
    let cards = || {
        let words = shares.iter().map(|(id, _)| index(*id).map_or_else(|| id.to_string(), |index| index.to_string()));
        words.collect::<Vec<_>>().join(", ")
    };
    match (card, &shares[..]) {
        (None, [one]) => Ok(*one),
        (None, _) => Err(QuotaError::WhichCard { name: name.to_owned(), cards: cards() }),
        (Some(card), _) => shares
            .iter()
            .find(|(id, _)| index(*id) == Some(card))
            .copied()
            .ok_or_else(|| QuotaError::NoShare { name: name.to_owned(), card, cards: cards() }),
    }
}

fn card_statuses(found: &Inventory, containers: &[(String, Record)]) -> Vec<CardStatus> {
    let one = |card: &inventory::Card| {
        let total = card.memory?;
        let shares = containers.iter().flat_map(|(_, record)| record.shares());
        let booked = shares.filter(|(id, _)| *id == card.id).fold(0_u64, |sum, (_, bytes)| sum.saturating_add(bytes.0));
        Some(CardStatus {
            index: card.index,
            uuid: card.id.to_string(),
            total_bytes: total.0,
            booked_bytes: booked,
            free_bytes: total.0.saturating_sub(booked),
        })
    };
    found.cards.iter().filter_map(one).collect()
}

fn indexes(found: &Inventory) -> Vec<(String, u32)> {
    found.cards.iter().map(|card| (card.id.to_string(), card.index)).collect()
}
