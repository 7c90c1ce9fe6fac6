//! The book's tables: everything that grows with use, in one mapping of zeros that is made with the slot.
//!
//! # Safety
//! The mapping is never unmapped in the process that made it, and a child after fork does not get it.
#![expect(unsafe_code, reason = "the tables lie in memory that is mapped by hand")]
use super::Share;
use account::table::{SHARDS, Shard};
use account::{Entry, Physical, Pools, Table};
use core::sync::atomic::{AtomicU64, Ordering};

/// Live allocations of one process: 64 shards of 32,768 places, seven of eight used.
const ALLOCATIONS: usize = SHARDS << 15;
/// Handles, objects, mappings and exports of virtual memory management.
const PHYSICAL: usize = SHARDS << 10;
/// Pools, graphs that allocate, and contexts that are attached more than once.
const FEW: usize = SHARDS << 6;

#[repr(C)]
pub(super) struct Tables {
    shards: [[Shard; SHARDS]; 8],
    next: AtomicU64,
    allocations: [Entry; ALLOCATIONS],
    physical: [[Entry; PHYSICAL]; 4],
    few: [[Entry; FEW]; 3],
}

impl Share {
    fn tables(&self) -> Option<&'static Tables> {
        // SAFETY: NULL, or a mapping of that size that is never unmapped in this process; zeros are Tables.
        unsafe { self.page.tables.load(Ordering::Relaxed).as_ref() }
    }

    /// Which address, array or context holds how much; `None` before the first allocation.
    pub(crate) fn allocations(&self) -> Option<Table<'static>> {
        let tables = self.tables()?;
        Table::new(tables.shards.first()?, &tables.allocations)
    }

    /// The memory behind handles and mappings; `None` before the first allocation.
    pub(crate) fn physical(&self) -> Option<Physical<'static>> {
        let tables = self.tables()?;
        let table = |at: usize| Table::new(tables.shards.get(at + 1)?, tables.physical.get(at)?);
        Some(Physical::new([table(0)?, table(1)?, table(2)?, table(3)?], &tables.next))
    }

    /// What pools hold; `None` before the first allocation.
    pub(crate) fn pools(&self) -> Option<Pools<'static>> {
        let tables = self.tables()?;
        Some(Pools::new(Table::new(tables.shards.get(5)?, tables.few.first()?)?))
    }

    /// What executable graphs may take; `None` before the first allocation.
    pub(crate) fn graphs(&self) -> Option<Table<'static>> {
        let tables = self.tables()?;
        Table::new(tables.shards.get(6)?, tables.few.get(1)?)
    }

    /// How often contexts are attached; `None` before the first allocation.
    pub(crate) fn attachments(&self) -> Option<Table<'static>> {
        let tables = self.tables()?;
        Table::new(tables.shards.get(7)?, tables.few.get(2)?)
    }
}
