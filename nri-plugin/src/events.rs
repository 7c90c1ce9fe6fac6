//! The stable names of what happens: the field `event` of each line of the log. What the message says may change, these do not; `docs/events.md` lists
//! them for who watches a log, and a test holds the list and the sources together.

/// The interposer lies where containers can mount it.
pub const LIBRARY_READY: &str = "library_ready";
/// The driver told of a card.
pub const CARD_FOUND: &str = "card_found";
/// A card or MIG instance cannot be given, and why.
pub const CARD_BAD: &str = "card_bad";
/// The driver told of a MIG instance.
pub const MIG_INSTANCE: &str = "mig_instance";
/// Something about the driver that costs no card.
pub const DRIVER_WARNING: &str = "driver_warning";
/// The driver did not answer at the start; it is asked again when a container wants a share.
pub const DRIVER_ABSENT: &str = "driver_absent";
/// The container runtime has registered the plugin.
pub const RUNTIME_CONNECTED: &str = "runtime_connected";
/// The connection to the runtime ended or could not be made; it is tried again.
pub const RUNTIME_LOST: &str = "runtime_lost";
/// The runtime handed over a configuration that is not used.
pub const CONFIGURATION_IGNORED: &str = "configuration_ignored";
/// The runtime has told which containers there are, and their shares are booked.
pub const BOOK_REBUILT: &str = "book_rebuilt";
/// A container gets a share, isolated or not.
pub const SHARE_GRANTED: &str = "share_granted";
/// A container ended, and its share is free.
pub const SHARE_RELEASED: &str = "share_released";
/// A person gave a running container another share.
pub const SHARE_CHANGED: &str = "share_changed";
/// A change of a share that a killed daemon had begun is done.
pub const SHARE_RESUMED: &str = "share_resumed";
/// A change of a share failed in part, and could not be put back.
pub const SHARE_HALF_CHANGED: &str = "share_half_changed";
/// A container runs whose share is not known, so its card looks emptier than it is.
pub const SHARE_LOST: &str = "share_lost";
/// A container is not created, and why.
pub const CONTAINER_REFUSED: &str = "container_refused";
/// What a container says is odd, and how it was understood.
pub const POLICY_WARNING: &str = "policy_warning";
/// A record cannot be read.
pub const RECORD_DAMAGED: &str = "record_damaged";
/// A container's limits file cannot be made to say what its record says.
pub const LIMITS_DAMAGED: &str = "limits_damaged";
/// What an ended container left is removed.
pub const FOLDER_SWEPT: &str = "folder_swept";
/// A folder of an ended container cannot be removed.
pub const FOLDER_STUCK: &str = "folder_stuck";
/// Metrics can be read.
pub const METRICS_SERVED: &str = "metrics_served";
/// The place for metrics cannot be had.
pub const METRICS_UNAVAILABLE: &str = "metrics_unavailable";
/// The daemon ends on a signal.
pub const DAEMON_ENDS: &str = "daemon_ends";
/// The daemon ends with an error; its exit code says of which kind.
pub const DAEMON_FAILED: &str = "daemon_failed";
/// A process in an isolated container uses a GPU outside of its quota, or far more than it counts.
pub const AUDIT_FINDING: &str = "audit_finding";
/// The driver does not tell who uses what.
pub const AUDIT_FAILED: &str = "audit_failed";
/// The audit has killed a process that was outside of its quota.
pub const PROCESS_KILLED: &str = "process_killed";
/// The audit could not kill a process, which may be gone.
pub const PROCESS_NOT_KILLED: &str = "process_not_killed";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_line_has_a_name_and_every_name_is_listed_and_used() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let list = fs::read_to_string(home.join("../docs/events.md")).unwrap();
        let listed = list.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
        let own = fs::read_to_string(home.join("src/events.rs")).unwrap();
        let name = |line: &str| Some(line.strip_prefix("pub const ")?.split_once(": &str")?.0.to_lowercase());
        let named: BTreeSet<String> = own.lines().filter_map(name).collect();
        assert_eq!(named, listed, "docs/events.md");

        let mut used = BTreeSet::new();
        for path in sources(&home.join("src")).iter().filter(|path| !path.ends_with("events.rs")) {
            let text = fs::read_to_string(path).unwrap();
            for call in
                ["trace!(", "debug!(", "info!(", "warn!(", "error!("].iter().flat_map(|call| text.split(call).skip(1))
            {
                let event = call.trim_start().strip_prefix("event = events::").and_then(|rest| rest.split(',').next());
                let what: String = call.chars().take(60).collect();
                used.insert(
                    event.unwrap_or_else(|| panic!("{}: a line without event: {what}", path.display())).to_lowercase(),
                );
            }
        }
        assert_eq!(used, named, "names that no source uses, or that have no constant");
    }
}
