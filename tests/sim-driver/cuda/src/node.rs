//! The cards that this process sees: the node's, in the order of `CUDA_VISIBLE_DEVICES`, without those that are lost.
use sim_driver_cards::{Card, Scenario, State};
use std::sync::OnceLock;

/// A card that this process sees.
pub(crate) struct Visible {
    /// Its place in the node's list, under which its use is counted.
    pub(crate) place: usize,
    pub(crate) card: Card,
}

/// What this process sees of the node.
pub(crate) struct Node {
    pub(crate) scenario: Scenario,
    pub(crate) state: State,
    pub(crate) cards: Vec<Visible>,
}

/// The node, read at first use; `None` where its files are wrong.
pub(crate) fn node() -> Option<&'static Node> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    NODE.get_or_init(|| {
        let dir = sim_driver_cards::dir();
        let scenario = Scenario::read(&dir).ok()?;
        let state = State::open(&dir).ok()?;
        let cards = visible(&scenario, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref());
        Some(Node { scenario, state, cards })
    })
    .as_ref()
}

/// As the driver does: entries after the first that names no card are not seen.
fn visible(scenario: &Scenario, list: Option<&str>) -> Vec<Visible> {
    let healthy = || scenario.cards.iter().enumerate().filter(|(_, card)| !card.lost);
    let seen = |(place, card): (usize, &Card)| Visible { place, card: card.clone() };
    let Some(list) = list else { return healthy().map(seen).collect() };
    let named = |item: &str| {
        healthy().find(|(place, card)| item.parse() == Ok(*place) || (item.len() > 4 && card.uuid.starts_with(item)))
    };
    list.split(',').map(str::trim).map_while(named).map(seen).collect()
}

/// A card by its device number.
pub(crate) fn card(device: i32) -> Option<&'static Visible> {
    node()?.cards.get(usize::try_from(device).ok()?)
}
