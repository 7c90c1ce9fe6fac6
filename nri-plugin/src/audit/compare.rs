//! What the driver counts against what the ledgers count: pure, over what was read. A process's use by the driver is what it allocated, its context, and its code;
//! the ledger has the first, and the second where the node's owner gave a number.
use super::process::Process;
use crate::usage::Usage;
use inventory::CardUse;
use quota::limits::Limits;
use quota::{Bytes, CardId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a process may use beyond its ledger before it is odd: a context takes some hundred MiB, kernels and modules as much again.
pub const ALLOWANCE: Bytes = Bytes(1 << 30);

/// An isolated container at one moment.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its limits, whose order is the ledger's.
    pub limits: Limits,
    /// Its ledger; `None` where that is damaged, and then all that its processes use is unexplained.
    pub usage: Option<Usage>,
}

/// A process that uses a card, in an isolated container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its pid on the host.
    pub pid: u32,
    /// Who it is.
    pub process: Process,
    /// The card.
    pub card: CardId,
    /// What it uses by the driver's word; `None` where the driver does not tell.
    pub driver: Option<Bytes>,
    /// What its slot in the ledger holds; `None` where it has none.
    pub ledger: Option<Bytes>,
    /// Of that, what is charged for its context.
    pub context: Bytes,
}

/// What is wrong with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The interposer is not in it: a static program, or one that was started without the preload list.
    Unguarded,
    /// The interposer is in it, and it uses more than a context without a slot in the ledger.
    Unregistered,
    /// It has a slot, and uses far more than that says.
    Drift,
}

impl Fault {
    /// Whether the process is outside of its quota, so that it may be killed where the node's owner says so. Drift can be code and modules, so it is told only.
    #[must_use]
    pub fn is_outside(self) -> bool {
        self != Self::Drift
    }

    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unguarded => "uses the GPU without the interposer",
            Self::Unregistered => "uses the GPU without counting in the ledger",
            Self::Drift => "uses far more than the ledger says",
        }
    }
}

/// The processes of isolated containers that use a card. A process that is in none is not looked at further.
#[must_use]
pub fn seen(
    cards: &[CardUse],
    held: &BTreeMap<String, Held>,
    mut look: impl FnMut(u32) -> Option<Process>,
) -> Vec<Seen> {
    let uses = cards.iter().flat_map(|card| card.processes.iter().map(move |used| (card.id, used)));
    let one = |(card, used): (CardId, &inventory::ProcessUse)| {
        let process = look(used.pid)?;
        let of = held.get(&process.container)?;
        let at = of.limits.cards().iter().position(|limit| limit.id == card);
        let slots = of.usage.iter().flat_map(|usage| &usage.processes);
        let slot = slots.into_iter().find(|slot| slot.owner == Some(process.owner));
        let ledger = slot.map(|slot| at.and_then(|at| slot.held.get(at)).copied().unwrap_or_default());
        let context = at.and_then(|at| of.limits.cards().get(at)).map(|limit| limit.context).unwrap_or_default();
        let context = if ledger.is_some() { context } else { Bytes(0) };
        Some(Seen { pid: used.pid, process, card, driver: used.memory, ledger, context })
    };
    uses.filter_map(one).collect()
}

/// What is wrong with a process, if anything.
#[must_use]
pub fn fault(seen: &Seen) -> Option<Fault> {
    if !seen.process.interposed {
        return Some(Fault::Unguarded);
    }
    // Where the driver does not tell amounts, only the interposer's absence can be seen.
    let driver = seen.driver?;
    match seen.ledger {
        None => (driver > ALLOWANCE).then_some(Fault::Unregistered),
        Some(ledger) => (driver.0 > ledger.0.saturating_add(ALLOWANCE.0)).then_some(Fault::Drift),
    }
}

/// What a process's context takes, as far as its own numbers tell: what the driver counts beyond what it allocated.
#[must_use]
pub fn overhead(seen: &Seen) -> Option<Bytes> {
    let allocated = seen.ledger?.0.saturating_sub(seen.context.0);
    seen.driver?.0.checked_sub(allocated).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage;
    use inventory::ProcessUse;
    use quota::CardId;
    use quota::ledger::Owner;
    use quota::limits::{CardLimit, MAX_CARDS};

    const MIB: u64 = 1 << 20;

    fn card(n: u8) -> CardId {
        CardId::parse(&format!("GPU-0000000{n}-0000-0000-0000-000000000000")).unwrap()
    }

    fn owner(pid: u64) -> Owner {
        Owner { pid, start: 5, namespace: 9 }
    }

    /// A container with shares of cards 1 and 2, in which process 7 holds 100 MiB of card 2, 30 of them for its context.
    fn held() -> BTreeMap<String, Held> {
        let limit = |n| CardLimit { id: card(n), quota: Bytes(1), total: Bytes(1 << 34), context: Bytes(30 * MIB) };
        let mut amounts = [Bytes(0); MAX_CARDS];
        amounts[1] = Bytes(100 * MIB);
        let slot = usage::Process { owner: Some(owner(7)), held: amounts };
        let usage = Usage { cards: Default::default(), processes: vec![slot], refusal: None };
        let held = Held { limits: Limits::new(&[limit(1), limit(2)]).unwrap(), usage: Some(usage) };
        [("c1".to_owned(), held)].into()
    }

    fn one(inner: u64, interposed: bool, mib: Option<u64>) -> Seen {
        let used = ProcessUse { pid: 1000, memory: mib.map(|mib| Bytes(mib * MIB)) };
        let cards = [CardUse { id: card(2), processes: vec![used] }];
        let process = Process { container: "c1".to_owned(), owner: owner(inner), interposed };
        let mut all = seen(&cards, &held(), |pid| (pid == 1000).then(|| process.clone()));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_process_is_held_against_its_own_slot() {
        let at_home = one(7, true, Some(500));
        assert_eq!((at_home.ledger, at_home.context), (Some(Bytes(100 * MIB)), Bytes(30 * MIB)));
        assert_eq!((fault(&at_home), overhead(&at_home)), (None, Some(Bytes(430 * MIB))));
        for (inner, interposed, mib, expected) in [
            (7, true, Some(1124), None),
            (7, true, Some(1125), Some(Fault::Drift)),
            (7, true, None, None),
            (7, false, Some(100), Some(Fault::Unguarded)),
            (8, true, Some(1024), None),
            (8, true, Some(1025), Some(Fault::Unregistered)),
            (8, false, None, Some(Fault::Unguarded)),
        ] {
            assert_eq!(fault(&one(inner, interposed, mib)), expected, "{inner} {interposed} {mib:?}");
        }
        assert_eq!(overhead(&one(7, true, Some(60))), None, "memory that the driver has not given yet");
        assert_eq!(overhead(&one(8, true, Some(60))), None);
    }

    #[test]
    fn a_slot_is_another_processes_where_anything_differs() {
        let mut other = held();
        for wrong in [Owner { pid: 8, ..owner(7) }, Owner { start: 6, ..owner(7) }, Owner { namespace: 1, ..owner(7) }]
        {
            other.get_mut("c1").unwrap().usage.as_mut().unwrap().processes[0].owner = Some(wrong);
            let used = ProcessUse { pid: 1000, memory: None };
            let cards = [CardUse { id: card(2), processes: vec![used] }];
            let process = Process { container: "c1".to_owned(), owner: owner(7), interposed: true };
            assert_eq!(seen(&cards, &other, |_| Some(process.clone()))[0].ledger, None);
        }
    }

    #[test]
    fn who_is_in_no_isolated_container_is_not_looked_at() {
        let cards = [CardUse { id: card(1), processes: vec![ProcessUse { pid: 1, memory: None }] }];
        assert!(seen(&cards, &held(), |_| None).is_empty());
        let process = Process { container: "other".to_owned(), owner: owner(7), interposed: false };
        assert!(seen(&cards, &held(), |_| Some(process.clone())).is_empty());
    }
}
