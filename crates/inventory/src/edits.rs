//! Card, files and nodes as CDI edits: the one place that says what a container needs.
use crate::nodes::Node;
use crate::{Card, Inventory, MigSlice};
use cdi::{ContainerEdits, DeviceNode, Mount};
use std::path::Path;

/// What the reference generator writes for files: nothing in them can be changed, run with more rights, or be a device.
const OPTIONS: [&str; 5] = ["ro", "nosuid", "nodev", "rbind", "rprivate"];
/// And for sockets, which must be written to.
const SOCKET_OPTIONS: [&str; 5] = ["nosuid", "nodev", "rbind", "rprivate", "noexec"];
/// The default library folders of Debian-like and of Red-Hat-like images.
const LIBRARY_FOLDERS: [&str; 2] = [DEBIAN_FOLDER, "/usr/lib64"];
const DEBIAN_FOLDER: &str =
    if cfg!(target_arch = "aarch64") { "/usr/lib/aarch64-linux-gnu" } else { "/usr/lib/x86_64-linux-gnu" };

impl Inventory {
    /// The folders of the container in which its libraries are.
    #[must_use]
    pub fn library_folders() -> [&'static str; 2] {
        LIBRARY_FOLDERS
    }

    /// What every container with a GPU gets: control nodes, driver libraries, `nvidia-smi`, and what else the profile asks for.
    ///
    /// A library is mounted at its soname in the default library folders of Debian-like and of Red-Hat-like images, so that programs find it without
    /// `ldconfig` and without a hook. The env stops NVIDIA's own runtime hook from acting a second time.
    #[must_use]
    pub fn common_edits(&self) -> ContainerEdits {
        let mut mounts = Vec::new();
        for folder in LIBRARY_FOLDERS {
            for (name, host) in &self.files.libraries {
                mounts.extend(mount(host, format!("{folder}/{name}"), OPTIONS));
            }
        }
        for (path, host) in &self.files.others {
            mounts.extend(mount(host, path.clone(), OPTIONS));
        }
        for (path, host) in &self.files.sockets {
            mounts.extend(mount(host, path.clone(), SOCKET_OPTIONS));
        }
        ContainerEdits {
            env: vec!["NVIDIA_VISIBLE_DEVICES=void".to_owned()],
            device_nodes: self.nodes.nodes.iter().map(node).collect(),
            mounts,
            ..ContainerEdits::default()
        }
    }

    /// What a container with this card gets beside the common edits: its device node, and its DRM nodes for graphics.
    #[must_use]
    pub fn card_edits(&self, card: &Card) -> ContainerEdits {
        nodes([&card.node].into_iter().chain(&card.drm))
    }

    /// The same for a MIG instance: the card's node and the instance's capability nodes.
    #[must_use]
    pub fn slice_edits(&self, slice: &MigSlice) -> ContainerEdits {
        nodes(slice.nodes.iter().chain(&slice.drm))
    }

    /// The groups that may use the nodes where others may not, such as `video`; a container's user must be in them.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        let cards = self.cards.iter().flat_map(|card| [&card.node].into_iter().chain(&card.drm));
        let slices = self.slices.iter().flat_map(|slice| slice.nodes.iter().chain(&slice.drm));
        let mut groups: Vec<u32> =
            self.nodes.nodes.iter().chain(cards).chain(slices).filter_map(|node| node.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

fn nodes<'a>(nodes: impl Iterator<Item = &'a Node>) -> ContainerEdits {
    ContainerEdits { device_nodes: nodes.map(node).collect(), ..ContainerEdits::default() }
}

/// `None` for a path that is no text, which the scan has refused before.
fn mount(host: &Path, container_path: String, options: [&str; 5]) -> Option<Mount> {
    Some(Mount {
        host_path: host.to_str()?.to_owned(),
        container_path,
        options: options.map(str::to_owned).to_vec(),
        mount_type: None,
    })
}

fn node(node: &Node) -> DeviceNode {
    DeviceNode {
        path: node.path.clone(),
        device_type: Some("c".to_owned()),
        major: i64::from(node.major),
        minor: i64::from(node.minor),
        file_mode: Some(node.mode),
        permissions: Some("rw".to_owned()),
        ..DeviceNode::default()
    }
}
