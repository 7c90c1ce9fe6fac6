//! Device memory. An address is that of real, lazily backed memory of this process, so that copies and fills do what they say.
//!
//! # Safety
//! All addresses lie in one region that is mapped once, never unmapped, and far larger than any card; what is written through them is checked to
//! lie in a live allocation first.
#![expect(unsafe_code, reason = "memory of a region that is mapped by hand")]
use crate::context::Handle;
use crate::node::{Visible, card, node};
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Four TiB of addresses; memory is used only where it is touched.
const REGION: usize = 4 << 40;
/// What the driver aligns allocations to.
const ALIGN: u64 = 512;
/// The granularity of virtual memory management.
pub(crate) const VMM: u64 = 2 << 20;

struct Live {
    bytes: u64,
    device: Option<i32>,
    context: Handle,
}

struct Physical {
    bytes: u64,
    device: Option<i32>,
    handles: u32,
    mappings: u32,
}

#[derive(Default)]
struct Memory {
    base: u64,
    next: u64,
    live: BTreeMap<u64, Live>,
    /// Freed addresses by rounded size, reused last in, first out, as a driver does.
    freed: HashMap<u64, Vec<u64>>,
    physical: HashMap<u64, Physical>,
    /// Mapped address: length and physical handle.
    mapped: BTreeMap<u64, (u64, u64)>,
    next_handle: u64,
}

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn charge(device: Option<i32>, bytes: u64) -> Result<(), u32> {
    let Some(device) = device else { return Ok(()) };
    let (node, card) = (node().ok_or(3_u32)?, card(device).ok_or(101_u32)?);
    node.state.take(card.place, card.card.memory(), bytes).map_err(|_| 2)
}

fn give_back(device: Option<i32>, bytes: u64) {
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
    let mut memory = memory();
    match memory.addresses(bytes, ALIGN) {
        Ok(at) => {
            memory.live.insert(at, Live { bytes, device, context });
            Ok(at)
        }
        Err(error) => {
            give_back(device, bytes);
            Err(error)
        }
    }
}

/// Frees what [`allocate`] gave; the driver's own error for any other address.
pub(crate) fn free(at: u64) -> Result<(), u32> {
    let mut memory = memory();
    let live = memory.live.remove(&at).ok_or(1_u32)?;
    let size = live.bytes.next_multiple_of(ALIGN);
    forget(at, size);
    memory.freed.entry(size).or_default().push(at);
    drop(memory);
    give_back(live.device, live.bytes);
    Ok(())
}

/// Lets the pages of a freed range go, so that a simulated card costs only what is in use.
fn forget(at: u64, size: u64) {
    if size >= 64 << 10 {
        let (start, end) = (at.next_multiple_of(4096), (at + size) / 4096 * 4096);
        let Ok(length) = usize::try_from(end - start) else { return };
        // SAFETY: whole pages of our own region that no live allocation uses.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Frees all that was allocated in a context.
pub(crate) fn free_context(context: Handle) {
    let of_it = |(at, live): (&u64, &Live)| (live.context == context).then_some(*at);
    let all: Vec<u64> = memory().live.iter().filter_map(of_it).collect();
    for at in all {
        let _ = free(at);
    }
}

/// The allocation that an address lies in: its start and length.
pub(crate) fn range(at: u64) -> Option<(u64, u64)> {
    let memory = memory();
    let live = memory.live.range(..=at).next_back().map(|(start, live)| (*start, live.bytes));
    let mapped = memory.mapped.range(..=at).next_back().map(|(start, (length, _))| (*start, *length));
    live.into_iter().chain(mapped).find(|(start, length)| at < start + length)
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

/// Physical memory of virtual memory management; `None` is the host's.
pub(crate) fn create_physical(device: Option<i32>, bytes: u64) -> Result<u64, u32> {
    if bytes == 0 || !bytes.is_multiple_of(VMM) {
        return Err(1);
    }
    charge(device, bytes)?;
    let mut memory = memory();
    memory.next_handle += 1;
    let handle = memory.next_handle;
    memory.physical.insert(handle, Physical { bytes, device, handles: 1, mappings: 0 });
    Ok(handle)
}

/// Changes the references of physical memory; it is freed when neither handle nor mapping is left.
fn refer(memory: &mut Memory, handle: u64, change: impl FnOnce(&mut Physical) -> Result<(), u32>) -> Result<(), u32> {
    let physical = memory.physical.get_mut(&handle).ok_or(1_u32)?;
    change(physical)?;
    if physical.handles == 0 && physical.mappings == 0 {
        give_back(physical.device, physical.bytes);
        memory.physical.remove(&handle);
    }
    Ok(())
}

pub(crate) fn release_physical(handle: u64) -> Result<(), u32> {
    refer(&mut memory(), handle, |physical| {
        physical.handles = physical.handles.checked_sub(1).ok_or(1_u32)?;
        Ok(())
    })
}

/// One more handle of the memory that is mapped at an address.
pub(crate) fn retain_physical(at: u64) -> Result<u64, u32> {
    let mut memory = memory();
    let found = memory.mapped.range(..=at).next_back().filter(|(start, (length, _))| at < **start + length);
    let handle = found.ok_or(1_u32)?.1.1;
    refer(&mut memory, handle, |physical| {
        physical.handles += 1;
        Ok(())
    })?;
    Ok(handle)
}

pub(crate) fn reserve(bytes: u64) -> Result<u64, u32> {
    if bytes == 0 || !bytes.is_multiple_of(VMM) {
        return Err(1);
    }
    memory().addresses(bytes, VMM)
}

pub(crate) fn map(at: u64, bytes: u64, handle: u64) -> Result<(), u32> {
    let mut memory = memory();
    let overlaps = memory.mapped.range(..at.saturating_add(bytes)).next_back();
    if overlaps.is_some_and(|(start, (length, _))| start + length > at) {
        return Err(1);
    }
    refer(&mut memory, handle, |physical| {
        if bytes != physical.bytes || physical.handles == 0 {
            return Err(1);
        }
        physical.mappings += 1;
        Ok(())
    })?;
    memory.mapped.insert(at, (bytes, handle));
    Ok(())
}

/// Takes away every mapping that lies wholly in a range.
pub(crate) fn unmap(at: u64, bytes: u64) -> Result<(), u32> {
    let mut memory = memory();
    let inside = memory.mapped.range(at..at.saturating_add(bytes));
    let gone: Vec<(u64, u64, u64)> = inside.map(|(start, (length, handle))| (*start, *length, *handle)).collect();
    if gone.is_empty() || gone.iter().any(|(start, length, _)| start + length > at.saturating_add(bytes)) {
        return Err(1);
    }
    for (start, length, handle) in gone {
        memory.mapped.remove(&start);
        forget(start, length);
        refer(&mut memory, handle, |physical| {
            physical.mappings = physical.mappings.saturating_sub(1);
            Ok(())
        })?;
    }
    Ok(())
}
