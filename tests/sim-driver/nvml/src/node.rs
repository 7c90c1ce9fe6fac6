//! The node's cards by their NVML handles.
use crate::out::{INVALID_ARGUMENT, NOT_FOUND};
use sim_driver_cards::{Card, Instance, Scenario, State, Use};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// `nvmlDevice_t`: never NULL; the card's place above a base. A MIG instance's is its place (plus one) in the bits above.
pub(crate) type Handle = usize;
const BASE: Handle = 0x5000_0000;
const INSTANCE_SHIFT: u32 = 8;
/// `NVML_ERROR_UNINITIALIZED`, `NVML_ERROR_NOT_SUPPORTED`, `NVML_ERROR_GPU_IS_LOST`, `NVML_ERROR_RESET_REQUIRED`, `NVML_ERROR_UNKNOWN`.
const UNINITIALIZED: u32 = 1;
pub(crate) const NOT_SUPPORTED: u32 = 3;
const GPU_IS_LOST: u32 = 15;
const RESET_REQUIRED: u32 = 16;
const UNKNOWN: u32 = 999;

static STARTS: AtomicU32 = AtomicU32::new(0);

/// The node's files.
pub(crate) struct Node {
    pub(crate) scenario: Scenario,
    state: State,
}

fn read() -> Option<&'static Node> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    NODE.get_or_init(|| {
        let dir = sim_driver_cards::dir();
        Some(Node { scenario: Scenario::read(&dir).ok()?, state: State::open(&dir).ok()? })
    })
    .as_ref()
}

pub(crate) fn start() -> u32 {
    if read().is_none() {
        return UNKNOWN;
    }
    STARTS.fetch_add(1, Ordering::SeqCst);
    0
}

pub(crate) fn stop() -> u32 {
    let stopped = STARTS.try_update(Ordering::SeqCst, Ordering::SeqCst, |starts| starts.checked_sub(1));
    if stopped.is_ok() { 0 } else { UNINITIALIZED }
}

/// The node, between start and stop.
pub(crate) fn node() -> Result<&'static Node, u32> {
    if STARTS.load(Ordering::SeqCst) == 0 { Err(UNINITIALIZED) } else { read().ok_or(UNKNOWN) }
}

/// The handle of the first card that `is` accepts.
pub(crate) fn handle(is: impl Fn(usize, &Card) -> bool) -> Result<Handle, u32> {
    let cards = &node()?.scenario.cards;
    let place = cards.iter().enumerate().position(|(place, card)| is(place, card)).ok_or(NOT_FOUND)?;
    std::thread::sleep(Duration::from_millis(cards[place].slow_ms));
    if cards[place].lost { Err(GPU_IS_LOST) } else { Ok(BASE + place) }
}

/// The handle of a card's MIG instance that `is` accepts.
pub(crate) fn instance_handle(is: impl Fn(usize, usize, &Instance) -> bool) -> Result<Handle, u32> {
    for (place, card) in node()?.scenario.cards.iter().enumerate() {
        let on = card.mig == Some(true) && !card.lost;
        if let (true, Some(at)) = (on, card.instances.iter().enumerate().position(|(at, known)| is(place, at, known))) {
            return Ok(BASE + place + ((at + 1) << INSTANCE_SHIFT));
        }
    }
    Err(NOT_FOUND)
}

/// The card of a handle, or the card that a MIG instance is part of.
pub(crate) fn card(handle: Handle) -> Result<(usize, &'static Card), u32> {
    let place = handle.wrapping_sub(BASE) & ((1 << INSTANCE_SHIFT) - 1);
    let card = node()?.scenario.cards.get(place).ok_or(INVALID_ARGUMENT)?;
    if card.lost { Err(GPU_IS_LOST) } else { Ok((place, card)) }
}

/// The MIG instance of a handle; `None` where it is a whole card.
pub(crate) fn instance(handle: Handle) -> Result<Option<&'static Instance>, u32> {
    let (_, card) = card(handle)?;
    match handle.wrapping_sub(BASE) >> INSTANCE_SHIFT {
        0 => Ok(None),
        at => card.instances.get(at - 1).map(Some).ok_or(INVALID_ARGUMENT),
    }
}

/// The card of a handle, where it works.
pub(crate) fn working(handle: Handle) -> Result<(usize, &'static Card), u32> {
    let (place, card) = card(handle)?;
    if card.needs_reset { Err(RESET_REQUIRED) } else { Ok((place, card)) }
}

/// Total and used bytes of a card or MIG instance. The simulated driver keeps no count for an instance.
pub(crate) fn memory(handle: Handle) -> Result<(u64, u64), u32> {
    let (place, card) = working(handle)?;
    if card.memory_unsupported {
        return Err(NOT_SUPPORTED);
    }
    match instance(handle)? {
        Some(instance) => Ok((instance.memory_mib << 20, 0)),
        None => Ok((card.memory(), node()?.state.used(place).min(card.memory()))),
    }
}

/// The processes that use a card.
pub(crate) fn users(handle: Handle) -> Result<Vec<Use>, u32> {
    let (place, _) = card(handle)?;
    Ok(node()?.state.users(place))
}
