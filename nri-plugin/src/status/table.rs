//! The status as a table for people. Names come from whoever made the container: what is not printable is shown escaped.
use super::{ContainerStatus, ShareStatus, Status};
use crate::audit::{Finding, Report};
use quota::Bytes;
use std::fmt::Write as _;

const HEAD: [&str; 12] = [
    "NAMESPACE",
    "POD",
    "CONTAINER",
    "ID",
    "CARD",
    "QUOTA",
    "USED",
    "PEAK",
    "DRIVER",
    "PROCESSES",
    "REFUSED",
    "ISOLATION",
];
/// As `crictl ps` shows ids.
const ID: usize = 13;

/// The table, with the cards below it, and what is wrong.
#[must_use]
pub fn print(status: &Status) -> String {
    let mut out = String::new();
    if !status.daemon {
        out.push_str("the daemon does not answer; this is what the run folder says\n\n");
    }
    let shares = status.containers.iter().flat_map(|it| it.shares.iter().map(move |share| row(it, share)));
    rows(&mut out, &HEAD, &shares.collect::<Vec<_>>());
    if !status.cards.is_empty() {
        out.push('\n');
        let card = |card: &super::CardStatus| {
            let [total, booked, free] =
                [card.total_bytes, card.booked_bytes, card.free_bytes].map(|bytes| Bytes(bytes).to_string());
            vec![card.index.to_string(), plain(&card.uuid), booked, free, total]
        };
        let cards: Vec<_> = status.cards.iter().map(card).collect();
        rows(&mut out, &["CARD", "UUID", "BOOKED", "FREE", "TOTAL"], &cards);
    }
    if let Some(report) = &status.audit {
        out.push_str(&audit(report));
    }
    let notes = status.containers.iter().flat_map(notes).chain(status.faults.iter().map(|fault| plain(fault)));
    let notes: Vec<String> = notes.chain(status.audit.iter().flat_map(|report| findings(status, report))).collect();
    if !notes.is_empty() {
        out.push('\n');
        for note in &notes {
            let _ = writeln!(out, "! {note}");
        }
    }
    out
}

fn row(it: &ContainerStatus, share: &ShareStatus) -> Vec<String> {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let bytes = |value: Option<u64>| known(value.map(|bytes| Bytes(bytes).to_string()));
    let number = |value: Option<u64>| known(value.map(|number| number.to_string()));
    vec![
        plain(&it.namespace),
        plain(&it.pod),
        plain(&it.container),
        it.id.chars().take(ID).collect(),
        share.card.map_or_else(|| plain(&share.uuid), |index| index.to_string()),
        Bytes(share.quota_bytes).to_string(),
        bytes(share.used_bytes),
        bytes(share.peak_bytes),
        bytes(share.driver_bytes),
        number(share.processes),
        number(share.refused_allocations),
        if it.isolated { "on" } else { "off" }.to_owned(),
    ]
}

fn notes(it: &ContainerStatus) -> Vec<String> {
    let name = format!("{}/{}/{}", plain(&it.namespace), plain(&it.pod), plain(&it.container));
    let refused = it.refused_reason.as_ref().map(|reason| {
        format!("{name}: {} process(es) got no GPU memory, the last because {}", it.refused_processes, plain(reason))
    });
    let fault = it.fault.as_ref().map(|fault| format!("{name}: {}", plain(fault)));
    refused.into_iter().chain(fault).collect()
}

/// What the audit has learned, where it has something to say.
fn audit(report: &Report) -> String {
    let mut out = String::new();
    for (uuid, bytes) in &report.contexts {
        let (uuid, bytes) = (plain(uuid), Bytes(*bytes));
        let _ = writeln!(out, "a process's context takes {bytes} on {uuid}, as learned; context_mib charges it");
    }
    if report.native_limits == Some(true) {
        out.push_str("the driver has memory limits of its own; they are not used yet\n");
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

fn findings(status: &Status, report: &Report) -> Vec<String> {
    let name = |id: &str| {
        let it = status.containers.iter().find(|it| it.id == id);
        it.map_or_else(
            || plain(id),
            |it| format!("{}/{}/{}", plain(&it.namespace), plain(&it.pod), plain(&it.container)),
        )
    };
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Bytes(bytes).to_string());
    let one = |finding: &Finding| {
        let (driver, ledger) = (bytes(finding.driver_bytes), finding.ledger_bytes.map_or(Bytes(0), Bytes));
        let words = finding.fault.words();
        format!(
            "{}: process {} {words}: {driver} by the driver, {ledger} by the ledger",
            name(&finding.container),
            finding.pid
        )
    };
    let failed = report.error.iter().map(|error| format!("the audit failed: {}", plain(error)));
    report.findings.iter().map(one).chain(failed).collect()
}

/// Without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Columns separated by two blanks, as wide as their widest cell.
fn rows(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let head: Vec<String> = head.iter().map(|&word| word.to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width = |at: usize| all.iter().map(|row| row.get(at).map_or(0, |cell| cell.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in all {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
}
