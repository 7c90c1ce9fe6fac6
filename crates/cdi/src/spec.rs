//! The types of a CDI specification file. An unknown field is refused when read, as the reference loader does.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One CDI file: the devices of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The version of the CDI specification that a reader must know.
    pub cdi_version: String,
    /// `vendor/class`.
    pub kind: String,
    /// Free information; needs CDI 0.6.0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The devices, each with its own edits.
    pub devices: Vec<Device>,
    /// Edits for every container that gets a device of this file.
    #[serde(default, skip_serializing_if = "ContainerEdits::is_empty")]
    pub container_edits: ContainerEdits,
}

/// A named device of a [`Spec`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// The name after `vendor/class=`.
    pub name: String,
    /// Free information; needs CDI 0.6.0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What a container with this device gets.
    pub container_edits: ContainerEdits,
}

/// What a container gets. The one vocabulary for this in the whole project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerEdits {
    /// `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
    /// Bind mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// OCI hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// Network devices that move into the container; needs CDI 1.1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub net_devices: Vec<NetDevice>,
    /// Intel RDT class; needs CDI 0.7.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intel_rdt: Option<IntelRdt>,
    /// Extra groups of the container's process; needs CDI 0.7.0.
    #[serde(default, rename = "additionalGids", skip_serializing_if = "Vec::is_empty")]
    pub additional_gids: Vec<u32>,
}

impl ContainerEdits {
    /// Whether nothing is edited. A device with empty edits makes a file unloadable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Adds the edits of `other` after those of `self`; what is already there word for word is not repeated.
    pub fn merge(&mut self, other: &Self) {
        fn extend<T: Clone + PartialEq>(to: &mut Vec<T>, from: &[T]) {
            for item in from {
                if !to.contains(item) {
                    to.push(item.clone());
                }
            }
        }
        extend(&mut self.env, &other.env);
        extend(&mut self.device_nodes, &other.device_nodes);
        extend(&mut self.mounts, &other.mounts);
        extend(&mut self.hooks, &other.hooks);
        extend(&mut self.net_devices, &other.net_devices);
        extend(&mut self.additional_gids, &other.additional_gids);
        if self.intel_rdt.is_none() {
            self.intel_rdt.clone_from(&other.intel_rdt);
        }
    }
}

/// A device node in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceNode {
    /// Path in the container.
    pub path: String,
    /// Path on the host, where it differs; needs CDI 0.5.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// `c`, `b`, `u` or `p`. With a type and a major, a runtime needs no look at the host.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// Major number; 0 is not written, as in the reference library.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub major: i64,
    /// Minor number; 0 is not written, as in the reference library.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub minor: i64,
    /// Mode bits, as a decimal number (438 is 0666).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Some of `r`, `w`, `m`; absent means all three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Owner in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// A bind mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mount {
    /// Path on the host.
    pub host_path: String,
    /// Path in the container.
    pub container_path: String,
    /// Mount options, as `mount(8)` names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Filesystem type; needs CDI 0.4.0.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub mount_type: Option<String>,
}

/// A network device of the host that moves into the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetDevice {
    /// Name on the host.
    pub host_interface_name: String,
    /// Name in the container.
    pub name: String,
}

/// Intel Resource Director Technology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IntelRdt {
    /// Class of service.
    #[serde(default, rename = "closID", skip_serializing_if = "Option::is_none")]
    pub clos_id: Option<String>,
    /// L3 cache schema.
    #[serde(default, rename = "l3CacheSchema", skip_serializing_if = "Option::is_none")]
    pub l3_cache_schema: Option<String>,
    /// Memory bandwidth schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_bw_schema: Option<String>,
    /// Schemata lines as the kernel takes them; needs CDI 1.1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemata: Vec<String>,
    /// A monitoring group for the container; needs CDI 1.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_monitoring: Option<bool>,
}

/// An OCI hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// The OCI name of the moment, such as `createContainer`.
    pub hook_name: String,
    /// Absolute path of the program on the host.
    pub path: String,
    /// The argument vector, program name first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment; an empty one lets the container image's own through (CVE-2025-23266).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
