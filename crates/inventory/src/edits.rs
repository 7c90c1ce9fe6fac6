//! Card, files and nodes as CDI edits: the one place that says what a container needs.
use crate::files::TRIPLET;
use crate::nodes::Node;
use crate::{Card, Inventory};
use cdi::{ContainerEdits, DeviceNode, Mount};
use std::path::Path;

/// Read and write for all, as the driver makes its nodes.
const MODE: u32 = 0o666;
/// What the reference generator writes for files: nothing in them can be changed, run with more rights, or be a device.
const OPTIONS: [&str; 5] = ["ro", "nosuid", "nodev", "rbind", "rprivate"];

impl Inventory {
    /// What every container with a GPU gets: control nodes, driver libraries, `nvidia-smi`.
    ///
    /// A library is mounted at its soname in the default library folders of Debian-like and of Red-Hat-like images, so that programs find it without
    /// `ldconfig` and without a hook. The env stops NVIDIA's own runtime hook from acting a second time.
    #[must_use]
    pub fn common_edits(&self) -> ContainerEdits {
        let mut mounts = Vec::new();
        for folder in [format!("/usr/lib/{TRIPLET}"), "/usr/lib64".to_owned()] {
            for (soname, host) in &self.files.libraries {
                mounts.extend(mount(host, format!("{folder}/{soname}")));
            }
        }
        if let Some(smi) = &self.files.smi {
            mounts.extend(mount(smi, "/usr/bin/nvidia-smi".to_owned()));
        }
        ContainerEdits {
            env: vec!["NVIDIA_VISIBLE_DEVICES=void".to_owned()],
            device_nodes: self.nodes.0.iter().map(node).collect(),
            mounts,
            ..ContainerEdits::default()
        }
    }

    /// What a container with this card gets beside the common edits: its device node.
    #[must_use]
    pub fn card_edits(&self, card: &Card) -> ContainerEdits {
        ContainerEdits { device_nodes: vec![node(&card.node)], ..ContainerEdits::default() }
    }
}

/// `None` for a path that is no text, which the scan has refused before.
fn mount(host: &Path, container_path: String) -> Option<Mount> {
    Some(Mount {
        host_path: host.to_str()?.to_owned(),
        container_path,
        options: OPTIONS.map(str::to_owned).to_vec(),
        mount_type: None,
    })
}

fn node(node: &Node) -> DeviceNode {
    DeviceNode {
        path: node.path.clone(),
        device_type: Some("c".to_owned()),
        major: i64::from(node.major),
        minor: i64::from(node.minor),
        file_mode: Some(MODE),
        permissions: Some("rw".to_owned()),
        ..DeviceNode::default()
    }
}
