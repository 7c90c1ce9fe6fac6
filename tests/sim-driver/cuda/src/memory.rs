//! Device memory. An address is that of real, lazily backed memory of this process, so that copies and fills do what they say.
//!
//! # Safety
//! All addresses lie in one region that is mapped once, never unmapped, and far larger than any card; what is written through them is checked to
//! lie in a live allocation first.
#![expect(unsafe_code, reason = "memory of a region that is mapped by hand")]
use crate::context::Handle;
use crate::node::{Visible, card, node};
use crate::{graphs, physical, pools};
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Four TiB of addresses; memory is used only where it is touched.
const REGION: usize = 4 << 40;
/// What the driver aligns allocations to.
const ALIGN: u64 = 512;
/// The granularity of virtual memory management.
pub(crate) const VMM: u64 = 2 << 20;

/// What is charged for an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The allocation itself; a context ends it.
    Context(Handle),
    /// The pool that it is of.
    Pool(Handle),
    /// The graph memory of its device.
    Graphs,
    /// Nobody: it is another's memory.
    Nobody,
}

struct Live {
    bytes: u64,
    device: Option<i32>,
    owner: Owner,
}

#[derive(Default)]
struct Memory {
    base: u64,
    next: u64,
    live: BTreeMap<u64, Live>,
    /// Freed addresses by rounded size, reused last in, first out, as a driver does.
    freed: HashMap<u64, Vec<u64>>,
}

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes physical memory of a device's card; the host's (`None`) is not counted.
pub(crate) fn charge(device: Option<i32>, bytes: u64) -> Result<(), u32> {
    let Some(device) = device else { return Ok(()) };
    let (node, card) = (node().ok_or(3_u32)?, card(device).ok_or(101_u32)?);
    node.state.take(card.place, card.card.memory(), bytes).map_err(|_| 2)
}

/// Gives back what [`charge`] took.
pub(crate) fn give_back(device: Option<i32>, bytes: u64) {
    if let (Some(node), Some(card)) = (node(), device.and_then(card)) {
        node.state.give(card.place, bytes);
    }
}

impl Memory {
    /// Fresh or reused addresses for `bytes`.
    fn addresses(&mut self, bytes: u64, align: u64) -> Result<u64, u32> {
        if self.base == 0 {
            // SAFETY: an anonymous private mapping at a place of the kernel's choice.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    REGION,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if at == libc::MAP_FAILED {
                return Err(2);
            }
            self.base = at as u64;
            self.next = self.base.next_multiple_of(VMM);
        }
        let size = bytes.checked_next_multiple_of(align).ok_or(2_u32)?;
        if let Some(at) = self.freed.get_mut(&size).and_then(Vec::pop) {
            return Ok(at);
        }
        let at = self.next.next_multiple_of(align);
        let end = at.checked_add(size).filter(|end| *end <= self.base + REGION as u64).ok_or(2_u32)?;
        self.next = end;
        Ok(at)
    }
}

/// Allocates for the current context's device, or, with `None`, memory of the host.
pub(crate) fn allocate(device: Option<i32>, context: Handle, bytes: u64) -> Result<u64, u32> {
    if bytes == 0 {
        return Err(1);
    }
    charge(device, bytes)?;
    place(bytes, device, Owner::Context(context)).inspect_err(|_| give_back(device, bytes))
}

/// Addresses for memory that is charged elsewhere.
fn place(bytes: u64, device: Option<i32>, owner: Owner) -> Result<u64, u32> {
    let mut memory = memory();
    let at = memory.addresses(bytes, ALIGN)?;
    memory.live.insert(at, Live { bytes, device, owner });
    Ok(at)
}

/// An allocation of a pool, which is charged for it.
pub(crate) fn allocate_of_pool(device: Option<i32>, pool: Handle, bytes: u64) -> Result<u64, u32> {
    place(bytes, device, Owner::Pool(pool))
}

/// Memory of another process or library, at addresses of this one.
pub(crate) fn allocate_of_another(device: i32, bytes: u64) -> Result<u64, u32> {
    if bytes == 0 {
        return Err(1);
    }
    place(bytes, Some(device), Owner::Nobody)
}

/// Addresses for an allocation of a graph, which are its own for good.
pub(crate) fn graph_addresses(bytes: u64) -> Result<u64, u32> {
    memory().addresses(bytes, ALIGN)
}

/// A graph that runs makes its allocation live; an error where it is live still.
pub(crate) fn graph_allocates(at: u64, device: i32, bytes: u64) -> Result<(), u32> {
    let mut memory = memory();
    if memory.live.contains_key(&at) {
        return Err(1);
    }
    memory.live.insert(at, Live { bytes, device: Some(device), owner: Owner::Graphs });
    Ok(())
}

/// Frees what any of these gave; the driver's own error for any other address.
pub(crate) fn free(at: u64) -> Result<(), u32> {
    let mut memory = memory();
    let live = memory.live.remove(&at).ok_or(1_u32)?;
    let size = live.bytes.next_multiple_of(ALIGN);
    forget(at, size);
    if live.owner != Owner::Graphs {
        memory.freed.entry(size).or_default().push(at);
    }
    drop(memory);
    match live.owner {
        Owner::Context(_) => give_back(live.device, live.bytes),
        Owner::Pool(pool) => pools::freed(pool, live.bytes),
        Owner::Graphs => graphs::freed(live.device.unwrap_or(0), live.bytes),
        Owner::Nobody => {}
    }
    Ok(())
}

/// Lets the pages of a freed range go, so that a simulated card costs only what is in use.
pub(crate) fn forget(at: u64, size: u64) {
    if size >= 64 << 10 {
        let (start, end) = (at.next_multiple_of(4096), (at + size) / 4096 * 4096);
        let Ok(length) = usize::try_from(end - start) else { return };
        // SAFETY: whole pages of our own region that no live allocation uses.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Frees all that was allocated in a context.
pub(crate) fn free_context(context: Handle) {
    free_all(Owner::Context(context));
}

/// Frees all that was allocated from a pool.
pub(crate) fn free_pool(pool: Handle) {
    free_all(Owner::Pool(pool));
}

fn free_all(owner: Owner) {
    let of_it = |(at, live): (&u64, &Live)| (live.owner == owner).then_some(*at);
    let all: Vec<u64> = memory().live.iter().filter_map(of_it).collect();
    for at in all {
        let _ = free(at);
    }
}

/// Addresses for a reservation, without memory.
pub(crate) fn reserve(bytes: u64) -> Result<u64, u32> {
    if bytes == 0 || !bytes.is_multiple_of(VMM) {
        return Err(1);
    }
    memory().addresses(bytes, VMM)
}

/// The allocation that an address lies in: its start and length.
pub(crate) fn range(at: u64) -> Option<(u64, u64)> {
    let memory = memory();
    let live = memory.live.range(..=at).next_back().map(|(start, live)| (*start, live.bytes));
    drop(memory);
    live.into_iter().chain(physical::range(at)).find(|(start, length)| at < start + length)
}

/// The device of the allocation that an address lies in.
pub(crate) fn device(at: u64) -> Option<i32> {
    let memory = memory();
    memory.live.range(..=at).next_back().filter(|(start, live)| at < **start + live.bytes)?.1.device
}

/// Whether `bytes` from `at` on are memory that copies may touch: any host memory, or the inside of one allocation.
fn touchable(at: u64, bytes: u64) -> bool {
    let memory = memory();
    let ours = memory.base != 0 && at >= memory.base && at < memory.base + REGION as u64;
    drop(memory);
    !ours || range(at).is_some_and(|(start, length)| bytes <= start + length - at)
}

/// Copies, between any two of device and host.
pub(crate) fn copy(to: u64, from: u64, bytes: usize) -> u32 {
    if bytes == 0 {
        return 0;
    }
    if to == 0 || from == 0 || !touchable(to, bytes as u64) || !touchable(from, bytes as u64) {
        return 1;
    }
    // SAFETY: device ranges were checked; host ranges are the caller's promise, as for the real driver. They may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    0
}

/// Fills with a pattern of 1, 2 or 4 bytes.
pub(crate) fn fill(to: u64, pattern: &[u8], count: usize) -> u32 {
    let bytes = pattern.len() * count;
    if bytes == 0 {
        return 0;
    }
    if range(to).is_none_or(|(start, length)| bytes as u64 > start + length - to) {
        return 1;
    }
    // SAFETY: the range lies in one live allocation of our region.
    let range = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes) };
    range.chunks_mut(pattern.len()).for_each(|part| part.copy_from_slice(pattern));
    0
}

/// Free and total memory of a card.
pub(crate) fn info(card: &Visible) -> Result<(u64, u64), u32> {
    let total = card.card.memory();
    let used = node().ok_or(3_u32)?.state.used(card.place);
    Ok((total.saturating_sub(used), total))
}
