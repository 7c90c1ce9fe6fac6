//! The lowest version of the CDI specification that can say a spec. A reader refuses a file that declares less, and an older reader one that declares more.
use crate::spec::{ContainerEdits, Spec};

/// All versions that readers know, lowest first.
pub const VERSIONS: [&str; 10] =
    ["0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"];

/// The lowest version for the content of `spec`, whatever it declares. 0.3.0 is the floor of the reference library.
#[must_use]
pub fn minimum_version(spec: &Spec) -> &'static str {
    let edits = || spec.devices.iter().map(|device| &device.container_edits).chain([&spec.container_edits]);
    let any = |test: fn(&ContainerEdits) -> bool| edits().any(test);
    let class = spec.kind.split_once('/').map_or("", |(_, class)| class);
    let annotated = !spec.annotations.is_empty() || spec.devices.iter().any(|d| !d.annotations.is_empty());
    let digit_first = spec.devices.iter().any(|d| d.name.starts_with(|c: char| c.is_ascii_digit()));
    let new_rdt = |e: &ContainerEdits| {
        e.intel_rdt.as_ref().is_some_and(|rdt| !rdt.schemata.is_empty() || rdt.enable_monitoring.is_some())
    };
    if any(|e| !e.net_devices.is_empty()) || edits().any(new_rdt) {
        "1.1.0"
    } else if any(|e| !e.additional_gids.is_empty() || e.intel_rdt.is_some()) {
        "0.7.0"
    } else if annotated || class.contains('.') {
        "0.6.0"
    } else if digit_first || any(|e| e.device_nodes.iter().any(|node| said(&node.host_path))) {
        "0.5.0"
    } else if any(|e| e.mounts.iter().any(|mount| said(&mount.mount_type))) {
        "0.4.0"
    } else {
        "0.3.0"
    }
}

/// Whether a text is given; the reference library takes an empty one for none.
#[expect(clippy::ref_option, reason = "a field is asked as it is")]
fn said(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

/// The place of a version among all, a leading `v` allowed; `None` where readers do not know it.
#[must_use]
pub fn rank(version: &str) -> Option<usize> {
    let version = version.strip_prefix('v').unwrap_or(version);
    VERSIONS.iter().position(|known| *known == version)
}
