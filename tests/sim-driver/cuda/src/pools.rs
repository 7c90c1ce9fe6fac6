//! Pools of stream-ordered memory. A pool takes physical memory in steps, and keeps it after a free until a synchronisation or a trim gives it back.
use crate::context::Handle;
use crate::memory::{allocate_of_pool, charge, free_pool, give_back};
use crate::node::card;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// In what steps a pool grows and shrinks.
const STEP: u64 = 2 << 20;
/// What allocations are rounded up to.
const ALIGN: u64 = 512;
/// The default pool of device N has this handle plus N; pools that programs make follow from [`MADE`] on.
const DEFAULT: Handle = 0x7000_0000;
const MADE: Handle = 0x7100_0000;

#[derive(Clone, Copy, Default)]
struct Pool {
    device: Option<i32>,
    most: u64,
    keep: u64,
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
    ended: bool,
}

#[derive(Default)]
struct Pools {
    all: HashMap<Handle, Pool>,
    current: HashMap<i32, Handle>,
    made: Handle,
}

static POOLS: LazyLock<Mutex<Pools>> = LazyLock::new(Mutex::default);

fn pools() -> MutexGuard<'static, Pools> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pools {
    fn get(&mut self, handle: Handle) -> Result<&mut Pool, u32> {
        if let Ok(device) = i32::try_from(handle.wrapping_sub(DEFAULT))
            && handle < MADE
            && card(device).is_some()
        {
            self.all.entry(handle).or_insert(Pool { device: Some(device), ..Pool::default() });
        }
        self.all.get_mut(&handle).filter(|pool| !pool.ended).ok_or(1)
    }
}

/// The default pool of a device.
pub(crate) fn default_of(device: i32) -> Result<Handle, u32> {
    card(device).ok_or(101_u32)?;
    Ok(DEFAULT + usize::try_from(device).map_err(|_| 101_u32)?)
}

/// The pool from which a device allocates.
pub(crate) fn current_of(device: i32) -> Result<Handle, u32> {
    let default = default_of(device)?;
    Ok(pools().current.get(&device).copied().unwrap_or(default))
}

pub(crate) fn set_current(device: i32, pool: Handle) -> Result<(), u32> {
    let mut pools = pools();
    if pools.get(pool)?.device != Some(device) {
        return Err(1);
    }
    pools.current.insert(device, pool);
    Ok(())
}

pub(crate) fn create(device: Option<i32>, most: u64) -> Handle {
    let mut pools = pools();
    let handle = MADE + pools.made * 0x10;
    pools.made += 1;
    pools.all.insert(handle, Pool { device, most, ..Pool::default() });
    handle
}

/// A pool that ends keeps what it holds then until its last allocation is freed; a device goes back to its default pool.
pub(crate) fn destroy(handle: Handle) -> Result<(), u32> {
    let mut pools = pools();
    if handle < MADE {
        return Err(1);
    }
    let pool = pools.get(handle)?;
    pool.ended = true;
    let used = pool.used;
    shrink(pool, 0);
    if used == 0 {
        pools.all.remove(&handle);
    }
    pools.current.retain(|_, current| *current != handle);
    Ok(())
}

fn shrink(pool: &mut Pool, keep: u64) {
    let left = pool.used.max(keep).checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
    if left < pool.reserved {
        give_back(pool.device, pool.reserved - left);
        pool.reserved = left;
    }
}

pub(crate) fn allocate(handle: Handle, bytes: u64) -> Result<u64, u32> {
    if bytes == 0 {
        return Err(1);
    }
    let mut pools = pools();
    let pool = pools.get(handle)?;
    let used = bytes.checked_next_multiple_of(ALIGN).and_then(|size| size.checked_add(pool.used)).ok_or(2_u32)?;
    if used > pool.reserved {
        let grown = used.checked_next_multiple_of(STEP).ok_or(2_u32)?;
        if pool.most > 0 && grown > pool.most {
            return Err(2);
        }
        charge(pool.device, grown - pool.reserved)?;
        pool.reserved = grown;
    }
    let at = allocate_of_pool(pool.device, handle, bytes)?;
    pool.used = used;
    (pool.used_high, pool.reserved_high) = (pool.used_high.max(used), pool.reserved_high.max(pool.reserved));
    Ok(at)
}

/// An allocation is gone; what it took stays the pool's.
pub(crate) fn freed(handle: Handle, bytes: u64) {
    let mut pools = pools();
    let Some(pool) = pools.all.get_mut(&handle) else { return };
    pool.used = pool.used.saturating_sub(bytes.next_multiple_of(ALIGN));
    if pool.ended && pool.used == 0 {
        shrink(pool, 0);
        pools.all.remove(&handle);
    }
}

/// Streams have come to rest: pools give back what they need not keep.
pub(crate) fn synchronized() {
    for pool in pools().all.values_mut().filter(|pool| !pool.ended) {
        shrink(pool, pool.keep);
    }
}

pub(crate) fn trim(handle: Handle, keep: u64) -> Result<(), u32> {
    shrink(pools().get(handle)?, keep);
    Ok(())
}

/// The device is reset: its pools are empty.
pub(crate) fn reset(device: i32) {
    let of_it: Vec<Handle> =
        pools().all.iter().filter(|(_, pool)| pool.device == Some(device)).map(|(h, _)| *h).collect();
    for handle in of_it {
        free_pool(handle);
        let _ = trim(handle, 0);
    }
}

/// `CUmemPool_attribute` of cuda.h: release threshold 4, reserved 5 and 6, used 7 and 8; each pair is current and high.
pub(crate) fn attribute(handle: Handle, which: u32) -> Result<u64, u32> {
    let mut pools = pools();
    let pool = pools.get(handle)?;
    match which {
        4 => Ok(pool.keep),
        5 => Ok(pool.reserved),
        6 => Ok(pool.reserved_high),
        7 => Ok(pool.used),
        8 => Ok(pool.used_high),
        _ => Err(1),
    }
}

pub(crate) fn set_attribute(handle: Handle, which: u32, value: u64) -> Result<(), u32> {
    let mut pools = pools();
    let pool = pools.get(handle)?;
    match (which, value) {
        (4, keep) => pool.keep = keep,
        (6, 0) => pool.reserved_high = pool.reserved,
        (8, 0) => pool.used_high = pool.used,
        (1..=3, _) => {}
        _ => return Err(1),
    }
    Ok(())
}
