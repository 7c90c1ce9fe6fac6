//! Contexts: one primary for each device, and any number of others; each thread has a stack of them. The first context of a process on a card costs
//! what the scenario says, the last one's end gives it back.
use crate::node::{card, node};
use crate::{arrays, memory, pools};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A context's handle; never 0.
pub(crate) type Handle = usize;

#[derive(Default)]
struct Contexts {
    next: Handle,
    /// Device of each context.
    device: HashMap<Handle, i32>,
    /// Handle of each device's primary context, the same whether it is retained or not.
    of_primary: HashMap<i32, Handle>,
    /// Primary context of each device that is retained, and how often.
    primary: HashMap<i32, (Handle, u32)>,
    flags: HashMap<i32, u32>,
    /// Uses of a context beyond its first.
    attached: HashMap<Handle, u32>,
}

static CONTEXTS: LazyLock<Mutex<Contexts>> = LazyLock::new(Mutex::default);

thread_local! {
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn contexts() -> MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contexts {
    fn new_handle(&mut self) -> Handle {
        self.next += 0x1000;
        self.next
    }

    fn primary_handle(&mut self, device: i32) -> Handle {
        if let Some(handle) = self.of_primary.get(&device) {
            return *handle;
        }
        let handle = self.new_handle();
        self.of_primary.insert(device, handle);
        handle
    }

    fn add(&mut self, device: i32, handle: Handle) -> Result<(), u32> {
        let (node, card) = (node().ok_or(3_u32)?, card(device).ok_or(101_u32)?);
        if !self.device.values().any(|other| *other == device) {
            let cost = node.scenario.context_mib << 20;
            node.state.take(card.place, card.card.memory(), cost).map_err(|_| 2_u32)?;
        }
        self.device.insert(handle, device);
        Ok(())
    }

    fn end(&mut self, handle: Handle) -> Result<(), u32> {
        let device = self.device.remove(&handle).ok_or(201_u32)?;
        memory::free_context(handle);
        arrays::free_context(handle);
        if !self.device.values().any(|other| *other == device)
            && let (Some(node), Some(card)) = (node(), card(device))
        {
            node.state.give(card.place, node.scenario.context_mib << 20);
        }
        Ok(())
    }
}

pub(crate) fn create(device: i32) -> Result<Handle, u32> {
    let mut contexts = contexts();
    let handle = contexts.new_handle();
    contexts.add(device, handle)?;
    drop(contexts);
    push(handle)?;
    Ok(handle)
}

pub(crate) fn destroy(handle: Handle) -> Result<(), u32> {
    contexts().end(handle)?;
    STACK.with_borrow_mut(|stack| stack.retain(|other| *other != handle));
    Ok(())
}

/// The primary context's handle. Nothing is made: until it is retained it is no context.
pub(crate) fn primary(device: i32) -> Result<Handle, u32> {
    card(device).ok_or(101_u32)?;
    Ok(contexts().primary_handle(device))
}

pub(crate) fn retain_primary(device: i32) -> Result<Handle, u32> {
    let mut contexts = contexts();
    if let Some((handle, count)) = contexts.primary.get_mut(&device) {
        *count += 1;
        return Ok(*handle);
    }
    let handle = contexts.primary_handle(device);
    contexts.add(device, handle)?;
    contexts.primary.insert(device, (handle, 1));
    Ok(handle)
}

pub(crate) fn release_primary(device: i32) -> Result<(), u32> {
    let mut contexts = contexts();
    let (handle, count) = contexts.primary.get_mut(&device).ok_or(201_u32)?;
    *count -= 1;
    if *count > 0 {
        return Ok(());
    }
    let handle = *handle;
    contexts.primary.remove(&device);
    contexts.end(handle)
}

/// Frees all that the primary context holds; those who retained it keep a fresh one.
pub(crate) fn reset_primary(device: i32) -> Result<(), u32> {
    card(device).ok_or(101_u32)?;
    if let Some((handle, _)) = contexts().primary.get(&device) {
        memory::free_context(*handle);
        arrays::free_context(*handle);
        pools::reset(device);
    }
    Ok(())
}

/// One more use of the current context.
pub(crate) fn attach() -> Result<Handle, u32> {
    let (handle, _) = here()?;
    *contexts().attached.entry(handle).or_default() += 1;
    Ok(handle)
}

/// One use less; the last one ends the context.
pub(crate) fn detach(handle: Handle) -> Result<(), u32> {
    let mut contexts = contexts();
    if let Some(more @ 1..) = contexts.attached.get_mut(&handle) {
        *more -= 1;
        Ok(())
    } else {
        drop(contexts);
        destroy(handle)
    }
}

pub(crate) fn primary_state(device: i32) -> (u32, bool) {
    let contexts = contexts();
    (contexts.flags.get(&device).copied().unwrap_or(0), contexts.primary.contains_key(&device))
}

pub(crate) fn set_primary_flags(device: i32, flags: u32) -> Result<(), u32> {
    card(device).ok_or(101_u32)?;
    contexts().flags.insert(device, flags);
    Ok(())
}

/// A primary context may become current before it is retained, as cudart has it; what needs a context then fails.
pub(crate) fn push(handle: Handle) -> Result<(), u32> {
    let contexts = contexts();
    if !contexts.device.contains_key(&handle) && !contexts.of_primary.values().any(|primary| *primary == handle) {
        return Err(201);
    }
    drop(contexts);
    STACK.with_borrow_mut(|stack| stack.push(handle));
    Ok(())
}

pub(crate) fn pop() -> Result<Handle, u32> {
    STACK.with_borrow_mut(Vec::pop).ok_or(201)
}

/// Replaces the top of this thread's stack; 0 takes it away.
pub(crate) fn set_current(handle: Handle) -> Result<(), u32> {
    STACK.with_borrow_mut(Vec::pop);
    if handle == 0 { Ok(()) } else { push(handle) }
}

/// The context on top of this thread's stack; 0 where there is none.
pub(crate) fn current() -> Handle {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// The current context and its device.
pub(crate) fn here() -> Result<(Handle, i32), u32> {
    let handle = current();
    contexts().device.get(&handle).map(|device| (handle, *device)).ok_or(201)
}

/// A context's device; of 0, the current one's.
pub(crate) fn device_of(handle: Handle) -> Result<i32, u32> {
    if handle == 0 { here().map(|(_, device)| device) } else { contexts().device.get(&handle).copied().ok_or(201) }
}
