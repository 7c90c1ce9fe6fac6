//! The NRI door: a container as containerd tells it becomes a [`Request`], and CDI edits become an adjustment. It decides nothing.
use cdi::ContainerEdits;
use containerd_nri::adjust::Device;
use containerd_nri::messages::{Container, ContainerAdjustment, ContainerState, PodSandbox};
use containerd_nri::{Adjustment, AdjustmentError};
use policy::Request;

/// Why edits cannot be said in NRI.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// A part that the runtime would refuse.
    #[error("the runtime would not take this edit: {0}")]
    Adjustment(#[from] AdjustmentError),
    /// An environment entry without `=`.
    #[error("the edit {0:?} is no NAME=value")]
    Env(String),
    /// A device node whose numbers are not in the edits; NRI does not look at the host for them.
    #[error("the edit for device {0} has no type or major number")]
    Device(String),
    /// Edits that NRI could carry, and that we never make.
    #[error("the edits hold hooks or additional groups, which this door does not carry")]
    Unsupported,
}

/// What a container says.
#[must_use]
pub fn request(pod: &PodSandbox, container: &Container) -> Request {
    let pair = |entry: &String| match entry.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry.clone(), String::new()),
    };
    Request {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: container.name.clone(),
        env: container.env.iter().map(pair).collect(),
        pod_annotations: pod.annotations.clone().into_iter().collect(),
        container_annotations: container.annotations.clone().into_iter().collect(),
        pod_labels: pod.labels.clone().into_iter().collect(),
        mounts: container.mounts.iter().map(|mount| mount.destination.clone()).collect(),
        devices: container.linux.devices.iter().map(|device| device.path.clone()).collect(),
    }
}

/// Whether a container that the runtime lists can still use a GPU. One that has stopped cannot start again: a restart is a new container.
#[must_use]
pub fn may_run(container: &Container) -> bool {
    container.state.enum_value() != Ok(ContainerState::CONTAINER_STOPPED)
}

/// The edits as the runtime takes them.
///
/// # Errors
/// [`DoorError`]; nothing is left out in silence.
pub fn adjustment(edits: &ContainerEdits) -> Result<ContainerAdjustment, DoorError> {
    if !edits.hooks.is_empty() || !edits.additional_gids.is_empty() {
        return Err(DoorError::Unsupported);
    }
    let mut adjustment = Adjustment::new();
    for entry in &edits.env {
        let (name, value) = entry.split_once('=').ok_or_else(|| DoorError::Env(entry.clone()))?;
        adjustment.env(name, value)?;
    }
    for node in &edits.device_nodes {
        let kind = node.device_type.clone().filter(|_| node.major != 0);
        adjustment.device(Device {
            kind: kind.ok_or_else(|| DoorError::Device(node.path.clone()))?,
            path: node.path.clone(),
            major: node.major,
            minor: node.minor,
            file_mode: node.file_mode,
            uid: node.uid,
            gid: node.gid,
        })?;
    }
    for mount in &edits.mounts {
        let kind = mount.mount_type.as_deref().unwrap_or("");
        adjustment.mount(&mount.host_path, &mount.container_path, kind, &mount.options)?;
    }
    Ok(adjustment.into_message())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdi::{DeviceNode, Hook, Mount};
    use containerd_nri::messages;

    #[test]
    fn a_container_is_told_as_it_is() {
        let pod = PodSandbox {
            name: "p".into(),
            namespace: "n".into(),
            annotations: [("a".to_owned(), "1".to_owned())].into(),
            labels: [("l".to_owned(), "2".to_owned())].into(),
            ..Default::default()
        };
        let device = messages::LinuxDevice { path: "/dev/fuse".into(), ..Default::default() };
        let linux = messages::LinuxContainer { devices: vec![device], ..Default::default() };
        let container = Container {
            name: "c".into(),
            env: vec!["A=1=2".into(), "B".into(), "A=3".into()],
            mounts: vec![messages::Mount { destination: "/data".into(), ..Default::default() }],
            linux: Some(linux).into(),
            ..Default::default()
        };
        let request = request(&pod, &container);
        let env: Vec<_> = request.env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(env, [("A", "1=2"), ("B", ""), ("A", "3")]);
        assert_eq!((request.namespace.as_str(), request.pod.as_str(), request.container.as_str()), ("n", "p", "c"));
        assert_eq!((request.mounts, request.devices), (vec!["/data".to_owned()], vec!["/dev/fuse".to_owned()]));
        assert_eq!((request.pod_annotations["a"].as_str(), request.pod_labels["l"].as_str()), ("1", "2"));
    }

    #[test]
    fn edits_are_carried_whole_or_refused() {
        let node = DeviceNode {
            path: "/dev/nvidia0".into(),
            device_type: Some("c".into()),
            major: 195,
            file_mode: Some(0o666),
            ..DeviceNode::default()
        };
        let mount = Mount { host_path: "/h".into(), container_path: "/c".into(), ..Mount::default() };
        let edits = ContainerEdits {
            env: vec!["A=1".into()],
            device_nodes: vec![node.clone()],
            mounts: vec![mount],
            ..ContainerEdits::default()
        };
        let message = adjustment(&edits).unwrap();
        assert_eq!((message.env.len(), message.mounts.len(), message.linux.devices.len()), (1, 1, 1));
        assert_eq!(message.linux.devices[0].major, 195);

        let broken = |change: fn(&mut ContainerEdits)| {
            let mut edits = edits.clone();
            change(&mut edits);
            adjustment(&edits).is_err()
        };
        assert!(broken(|edits| edits.env.push("no-equals".into())));
        assert!(broken(|edits| edits.env.push("A=2".into())));
        assert!(broken(|edits| edits.device_nodes[0].major = 0));
        assert!(broken(|edits| edits.device_nodes[0].device_type = None));
        assert!(broken(|edits| edits.hooks.push(Hook::default())));
        assert!(broken(|edits| edits.additional_gids.push(44)));
        assert!(broken(|edits| edits.mounts[0].container_path = "relative".into()));
    }
}
