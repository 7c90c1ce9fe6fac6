//! The node's cards by their NVML handles.
use crate::out::{INVALID_ARGUMENT, NOT_FOUND};
use sim_driver_cards::{Card, Scenario, State, Use};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// `nvmlDevice_t`: never NULL; the card's place above a base.
pub(crate) type Handle = usize;
const BASE: Handle = 0x5000_0000;
/// `NVML_ERROR_UNINITIALIZED`, `NVML_ERROR_GPU_IS_LOST`, `NVML_ERROR_UNKNOWN`.
const UNINITIALIZED: u32 = 1;
const GPU_IS_LOST: u32 = 15;
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
    if cards[place].lost { Err(GPU_IS_LOST) } else { Ok(BASE + place) }
}

/// The card of a handle.
pub(crate) fn card(handle: Handle) -> Result<(usize, &'static Card), u32> {
    let place = handle.wrapping_sub(BASE);
    let card = node()?.scenario.cards.get(place).ok_or(INVALID_ARGUMENT)?;
    if card.lost { Err(GPU_IS_LOST) } else { Ok((place, card)) }
}

/// Total and used bytes of a card.
pub(crate) fn memory(handle: Handle) -> Result<(u64, u64), u32> {
    let (place, card) = card(handle)?;
    Ok((card.memory(), node()?.state.used(place).min(card.memory())))
}

/// The processes that use a card.
pub(crate) fn users(handle: Handle) -> Result<Vec<Use>, u32> {
    let (place, _) = card(handle)?;
    Ok(node()?.state.users(place))
}
