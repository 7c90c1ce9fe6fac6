//! The rules by which runtimes refuse a file, each with its name. A runtime drops the whole file for one broken rule.
use crate::name;
use crate::spec::{ContainerEdits, Spec};
use crate::version::{minimum_version, rank};
use std::collections::BTreeSet;

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Readers do not know the declared version.
    #[error("cdiVersion {0:?} is not known to any reader")]
    UnknownVersion(String),
    /// The content needs a higher version than is declared.
    #[error("cdiVersion is {declared}, but the content needs {needed}")]
    VersionTooLow {
        /// What the file declares.
        declared: String,
        /// What it needs.
        needed: &'static str,
    },
    /// A kind that is no `vendor/class`.
    #[error(
        "kind {0:?} is no vendor/class, each of two or more letters, digits, _ - . that begins with a letter and ends with a letter or digit"
    )]
    Kind(String),
    /// A file without a device.
    #[error("no device is defined")]
    NoDevices,
    /// A device name outside the grammar.
    #[error("device name {0:?} must begin and end with a letter or digit and hold only those and _ - . :")]
    DeviceName(String),
    /// The same device twice.
    #[error("device {0:?} is defined twice")]
    DeviceTwice(String),
    /// A device that changes nothing.
    #[error("device {0:?} has no edits")]
    EmptyDevice(String),
    /// An environment entry without a name or `=`.
    #[error("{place}: env {entry:?} is no NAME=value")]
    Env {
        /// The device, or the whole file.
        place: String,
        /// The entry.
        entry: String,
    },
    /// A device node without a path, or with an unknown type or permission.
    #[error("{place}: device node {path:?} has {what}")]
    DeviceNode {
        /// The device, or the whole file.
        place: String,
        /// The node's path.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// A mount without a path.
    #[error("{place}: a mount of {host:?} at {container:?} lacks a path")]
    Mount {
        /// The device, or the whole file.
        place: String,
        /// Path on the host.
        host: String,
        /// Path in the container.
        container: String,
    },
    /// A hook with an unknown moment, no path or a bad environment.
    #[error("{place}: hook {hook:?} has {what}")]
    Hook {
        /// The device, or the whole file.
        place: String,
        /// The hook's name.
        hook: String,
        /// What is wrong.
        what: String,
    },
    /// A network device without a name, or with one that is taken.
    #[error("{place}: network device {host:?} as {name:?} lacks a name or takes one twice")]
    NetDevice {
        /// The device, or the whole file.
        place: String,
        /// Name on the host.
        host: String,
        /// Name in the container.
        name: String,
    },
    /// A class of service that cannot be a folder's name.
    #[error("{place}: closID {id:?} is no folder name")]
    ClosId {
        /// The device, or the whole file.
        place: String,
        /// The class.
        id: String,
    },
}

/// The longest class of service that the reference loader takes, in bytes.
const LONGEST_CLOS_ID: usize = 4095;
/// The moments that OCI knows.
const HOOKS: [&str; 6] = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// All rules that `spec` breaks.
#[must_use]
pub fn validate(spec: &Spec) -> Vec<Broken> {
    let mut broken = Vec::new();
    let needed = minimum_version(spec);
    match rank(&spec.cdi_version) {
        None => broken.push(Broken::UnknownVersion(spec.cdi_version.clone())),
        Some(declared) if Some(declared) < rank(needed) => {
            broken.push(Broken::VersionTooLow { declared: spec.cdi_version.clone(), needed });
        }
        Some(_) => {}
    }
    if !name::is_kind(&spec.kind) {
        broken.push(Broken::Kind(spec.kind.clone()));
    }
    if spec.devices.is_empty() {
        broken.push(Broken::NoDevices);
    }
    let mut names = BTreeSet::new();
    for device in &spec.devices {
        if !name::is_device(&device.name) {
            broken.push(Broken::DeviceName(device.name.clone()));
        }
        if !names.insert(&device.name) {
            broken.push(Broken::DeviceTwice(device.name.clone()));
        }
        if device.container_edits.is_empty() {
            broken.push(Broken::EmptyDevice(device.name.clone()));
        }
        edits(&format!("device {:?}", device.name), &device.container_edits, &mut broken);
    }
    edits("containerEdits", &spec.container_edits, &mut broken);
    broken
}

fn edits(place: &str, edits: &ContainerEdits, broken: &mut Vec<Broken>) {
    let place = || place.to_owned();
    for entry in edits.env.iter().filter(|entry| !name::is_env(entry)) {
        broken.push(Broken::Env { place: place(), entry: entry.clone() });
    }
    for node in &edits.device_nodes {
        let kind = node.device_type.as_deref().unwrap_or("");
        let permissions = node.permissions.as_deref().unwrap_or("");
        let what = if node.path.is_empty() {
            "no path".to_owned()
        } else if !matches!(kind, "" | "b" | "c" | "u" | "p") {
            format!("type {kind:?}, which is none of b, c, u, p")
        } else if !permissions.chars().all(|c| matches!(c, 'r' | 'w' | 'm')) {
            format!("permissions {permissions:?}, which are not of r, w, m")
        } else {
            continue;
        };
        broken.push(Broken::DeviceNode { place: place(), path: node.path.clone(), what });
    }
    for mount in &edits.mounts {
        if mount.host_path.is_empty() || mount.container_path.is_empty() {
            let (host, container) = (mount.host_path.clone(), mount.container_path.clone());
            broken.push(Broken::Mount { place: place(), host, container });
        }
    }
    for hook in &edits.hooks {
        let what = if !HOOKS.contains(&hook.hook_name.as_str()) {
            "a name that OCI does not know".to_owned()
        } else if hook.path.is_empty() {
            "no path".to_owned()
        } else if hook.timeout.is_some_and(|seconds| seconds <= 0) {
            "a timeout that is not above zero".to_owned()
        } else if let Some(entry) = hook.env.iter().find(|entry| !name::is_env(entry)) {
            format!("env {entry:?}, which is no NAME=value")
        } else {
            continue;
        };
        broken.push(Broken::Hook { place: place(), hook: hook.hook_name.clone(), what });
    }
    let (mut hosts, mut names) = (BTreeSet::new(), BTreeSet::new());
    for device in &edits.net_devices {
        let (host, name) = (device.host_interface_name.as_str(), device.name.as_str());
        let (new_host, new_name) = (hosts.insert(host), names.insert(name));
        if host.is_empty() || name.is_empty() || !new_host || !new_name {
            broken.push(Broken::NetDevice { place: place(), host: host.to_owned(), name: name.to_owned() });
        }
    }
    if let Some(id) = edits.intel_rdt.as_ref().and_then(|rdt| rdt.clos_id.as_ref()) {
        let folder = id.len() <= LONGEST_CLOS_ID && !matches!(id.as_str(), "." | "..") && !id.contains(['/', '\n']);
        // An empty one is none at all.
        if !id.is_empty() && id != "/" && !folder {
            broken.push(Broken::ClosId { place: place(), id: id.clone() });
        }
    }
}
