//! Takes memory of a simulated card, says whether it got it, and holds it until its standard input ends. For tests of several processes.
use sim_driver_cards::{Scenario, State, dir};
use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mib: u64 = arguments.next().ok_or("usage: sim-hold MIB [CARD]")?.parse()?;
    let card: usize = arguments.next().map_or(Ok(0), |card| card.parse())?;
    let (scenario, state) = (Scenario::read(&dir())?, State::open(&dir())?);
    let memory = scenario.cards.get(card).ok_or("no such card")?.memory();
    let got = state.take(card, memory, mib << 20).is_ok();
    println!("{}", if got { "got" } else { "full" });
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
