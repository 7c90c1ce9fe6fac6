//! What memory pools hold: the bytes that are live in a pool, and the bytes that are charged for it.
//!
//! A pool takes physical memory in steps and keeps it after a free, until a synchronisation or a trim gives it back (cuda.h, `CUmemPool_attribute`). So
//! an allocation is charged only as far as what is charged already does not hold it, a free gives nothing back, and whoever has asked the driver how much
//! a pool has reserved settles the difference. What is charged is never less than what is live.
use crate::table::{Full, Table};

/// The pools of one process.
#[derive(Clone, Copy, Debug)]
pub struct Pools<'a> {
    /// Pool: live bytes and marks, charged bytes.
    table: Table<'a>,
}

/// Amounts are multiples of 512 bytes, so that marks fit beside them: the card, and what kind of pool it is.
const CARD: u64 = 15;
const UNCHARGED: u64 = 16;
const ENDED: u64 = 32;
const MARKS: u64 = 511;

/// What is known of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its memory is the host's, which is not charged.
    Uncharged,
    /// Its memory is charged on a card, by its place in the limits.
    Card(usize),
}

/// Why an allocation was not charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The pool is not known.
    Unknown,
    /// The charge was refused.
    OverQuota,
}

/// The difference between what the driver has reserved and what is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing is left to do.
    Even,
    /// So many bytes are reserved, and their charge was refused.
    Short(u64),
}

impl<'a> Pools<'a> {
    /// The pools in a table, which is empty at first.
    #[must_use]
    pub fn new(table: Table<'a>) -> Self {
        Self { table }
    }

    /// Notes a pool of a card, or with `None` one of the host's memory. A pool that is known already is left as it is.
    ///
    /// # Errors
    /// [`Full`].
    pub fn add(&self, pool: u64, card: Option<usize>) -> Result<(), Full> {
        let marks = card.map_or(UNCHARGED, |card| card as u64 & CARD);
        self.table.with(pool, |stored| {
            stored.get_or_insert((marks, 0));
        })
    }

    /// What is known of a pool.
    #[must_use]
    pub fn known(&self, pool: u64) -> Option<Known> {
        let (first, _) = self.table.with(pool, |stored| *stored).ok().flatten()?;
        Some(if first & UNCHARGED != 0 {
            Known::Uncharged
        } else {
            Known::Card(usize::try_from(first & CARD).unwrap_or(0))
        })
    }

    /// Notes that `bytes` become live. What that takes beyond the pool's charge is passed to `charge`, and returned.
    ///
    /// # Errors
    /// [`Refused`]; nothing is noted then.
    pub fn take(&self, pool: u64, bytes: u64, charge: impl FnOnce(u64) -> bool) -> Result<u64, Refused> {
        let apply = |stored: &mut Option<(u64, u64)>| {
            let (first, charged) = stored.as_mut().ok_or(Refused::Unknown)?;
            let live = first.checked_add(bytes).ok_or(Refused::OverQuota)?;
            let need = (live & !MARKS).saturating_sub(*charged);
            if need > 0 && !charge(need) {
                return Err(Refused::OverQuota);
            }
            (*first, *charged) = (live, *charged + need);
            Ok(need)
        };
        self.table.with(pool, apply).unwrap_or(Err(Refused::Unknown))
    }

    /// Notes that `bytes` are no longer live. Of the charge `back` goes back now, as far as nothing live needs it. Returns what went back. A pool that has ended is
    /// forgotten with its last allocation, and all its charge goes back.
    #[must_use]
    pub fn freed(&self, pool: u64, bytes: u64, back: u64) -> u64 {
        let apply = |stored: &mut Option<(u64, u64)>| {
            let Some((first, charged)) = stored.as_mut() else { return 0 };
            let marks = *first & MARKS;
            let live = (*first & !MARKS).saturating_sub(bytes);
            *first = live | marks;
            if marks & ENDED != 0 && live == 0 {
                return stored.take().map_or(0, |(_, charged)| charged);
            }
            let back = charged.saturating_sub(live).min(back);
            *charged -= back;
            back
        };
        self.table.with(pool, apply).unwrap_or(0)
    }

    /// Brings the charge to what the driver has `reserved`: `give_back` gets what is charged too much, `charge` what is charged too little.
    pub fn settle(
        &self,
        pool: u64,
        reserved: u64,
        give_back: impl FnOnce(u64),
        charge: impl FnOnce(u64) -> bool,
    ) -> Settled {
        let apply = |stored: &mut Option<(u64, u64)>| {
            let Some((first, charged)) = stored.as_mut() else { return Settled::Even };
            // Of a pool that has ended nobody can say what it holds.
            if *first & (UNCHARGED | ENDED) != 0 {
                return Settled::Even;
            }
            let Some(reserved) = reserved.checked_next_multiple_of(MARKS + 1) else { return Settled::Even };
            let wanted = reserved.max(*first & !MARKS);
            if wanted < *charged {
                give_back(*charged - wanted);
            } else if wanted > *charged && !charge(wanted - *charged) {
                return Settled::Short(wanted - *charged);
            }
            *charged = wanted;
            Settled::Even
        };
        self.table.with(pool, apply).unwrap_or(Settled::Even)
    }

    /// Notes that a pool takes no more allocations. It can not be asked any more what it has reserved, so its charge goes back when its last allocation is freed:
    /// what is returned, or with [`Pools::freed`].
    #[must_use]
    pub fn ended(&self, pool: u64) -> u64 {
        let apply = |stored: &mut Option<(u64, u64)>| {
            let Some((first, _)) = stored.as_mut() else { return 0 };
            *first |= ENDED;
            if *first & !MARKS != 0 {
                return 0;
            }
            stored.take().map_or(0, |(_, charged)| charged)
        };
        self.table.with(pool, apply).unwrap_or(0)
    }

    /// Forgets a pool whose memory is gone, live or not. Returns what was charged for it.
    #[must_use]
    pub fn forget(&self, pool: u64) -> u64 {
        self.table.remove(pool).map_or(0, |(_, charged)| charged)
    }

    /// The pools of a card that may hold more than is live in them, at most as many as `found` takes, and how many those are.
    pub fn with_slack(&self, card: usize, found: &mut [u64]) -> usize {
        self.select(found, |first, charged| {
            first & (UNCHARGED | ENDED) == 0 && charged > first & !MARKS && first & CARD == card as u64 & CARD
        })
    }

    /// All pools of a card, at most as many as `found` takes, and how many those are.
    pub fn of_card(&self, card: usize, found: &mut [u64]) -> usize {
        self.select(found, |first, _| first & UNCHARGED == 0 && first & CARD == card as u64 & CARD)
    }

    fn select(&self, found: &mut [u64], wanted: impl Fn(u64, u64) -> bool) -> usize {
        let mut count = 0;
        self.table.retain(|pool, (first, charged)| {
            if wanted(first, charged)
                && let Some(place) = found.get_mut(count)
            {
                *place = pool;
                count += 1;
            }
            true
        });
        count
    }

    /// Live and charged bytes of a pool.
    #[must_use]
    pub fn held(&self, pool: u64) -> (u64, u64) {
        self.table
            .with(pool, |stored| *stored)
            .ok()
            .flatten()
            .map_or((0, 0), |(first, charged)| (first & !MARKS, charged))
    }
}

#[cfg(test)]
mod tests;
