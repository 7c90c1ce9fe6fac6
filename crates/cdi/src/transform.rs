//! Rewrites the roots of a spec's paths: for a driver that moves, or a file that is made in one place and used in another.
use crate::spec::{ContainerEdits, Spec};
use crate::version::{minimum_version, rank};
use std::path::{Path, PathBuf};

/// Whose paths are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Paths on the host: of mounts, device nodes and hooks.
    Host,
    /// Paths in the container: of mounts and device nodes.
    Container,
}

/// Replaces the root `from` by `to` in every path of a side that is below it. A device node that had one path for both sides gets a second one where
/// they now differ, which raises the version to 0.5.0.
pub fn transform(spec: &mut Spec, side: Side, from: &Path, to: &Path) {
    let edits = spec.devices.iter_mut().map(|device| &mut device.container_edits).chain([&mut spec.container_edits]);
    for edits in edits {
        match side {
            Side::Host => host(edits, from, to),
            Side::Container => container(edits, from, to),
        }
    }
    let needed = minimum_version(spec);
    if rank(&spec.cdi_version) < rank(needed) {
        needed.clone_into(&mut spec.cdi_version);
    }
}

fn host(edits: &mut ContainerEdits, from: &Path, to: &Path) {
    for mount in &mut edits.mounts {
        mount.host_path = moved(&mount.host_path, from, to);
    }
    for node in &mut edits.device_nodes {
        let now = node.host_path.as_ref().unwrap_or(&node.path);
        let next = moved(now, from, to);
        node.host_path = Some(next).filter(|next| *next != node.path);
    }
    for hook in &mut edits.hooks {
        hook.path = moved(&hook.path, from, to);
    }
}

fn container(edits: &mut ContainerEdits, from: &Path, to: &Path) {
    for mount in &mut edits.mounts {
        mount.container_path = moved(&mount.container_path, from, to);
    }
    for node in &mut edits.device_nodes {
        let next = moved(&node.path, from, to);
        let now = std::mem::replace(&mut node.path, next);
        let on_host = node.host_path.take().unwrap_or(now);
        node.host_path = Some(on_host).filter(|path| *path != node.path);
    }
}

fn moved(path: &str, from: &Path, to: &Path) -> String {
    let moved: Option<PathBuf> = Path::new(path).strip_prefix(from).ok().map(|rest| {
        // A root by itself stays without a slash at its end.
        if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) }
    });
    moved.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{"cdiVersion": "0.3.0", "kind": "a.b/gpu", "devices": [{"name": "x", "containerEdits": {
        "deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/y", "hostPath": "/run/drv/dev/y"}],
        "mounts": [{"hostPath": "/run/drv/usr/lib/a", "containerPath": "/usr/lib/a"}, {"hostPath": "/run/drvx", "containerPath": "/usr/libx"}],
        "hooks": [{"hookName": "createContainer", "path": "/run/drv/h"}]}}]}"#;

    fn spec() -> Spec {
        serde_json::from_str(SPEC).unwrap()
    }

    #[test]
    fn host_roots_move_and_container_paths_stay() {
        let mut spec = spec();
        transform(&mut spec, Side::Host, Path::new("/run/drv"), Path::new("/"));
        let edits = &spec.devices[0].container_edits;
        let hosts: Vec<_> = edits.mounts.iter().map(|mount| mount.host_path.as_str()).collect();
        assert_eq!(hosts, ["/usr/lib/a", "/run/drvx"], "whole parts of a path only");
        assert_eq!(edits.mounts[0].container_path, "/usr/lib/a");
        assert_eq!(edits.device_nodes[1].host_path, None, "/dev/y on both sides");
        assert_eq!((edits.hooks[0].path.as_str(), spec.cdi_version.as_str()), ("/h", "0.3.0"));
    }

    #[test]
    fn there_and_back_is_nothing() {
        for (side, from, to) in [(Side::Host, "/run/drv", "/other"), (Side::Container, "/usr", "/opt/x")] {
            let mut moved = spec();
            transform(&mut moved, side, Path::new(from), Path::new(to));
            assert_ne!(moved, spec());
            transform(&mut moved, side, Path::new(to), Path::new(from));
            moved.cdi_version = spec().cdi_version;
            assert_eq!(moved, spec());
        }
    }

    #[test]
    fn a_node_with_two_paths_needs_a_later_version() {
        let mut spec = spec();
        spec.devices[0].container_edits.device_nodes.truncate(1);
        transform(&mut spec, Side::Container, Path::new("/dev"), Path::new("/devices"));
        let node = &spec.devices[0].container_edits.device_nodes[0];
        assert_eq!((node.path.as_str(), node.host_path.as_deref()), ("/devices/nvidia0", Some("/dev/nvidia0")));
        assert_eq!(spec.cdi_version, "0.5.0");
    }
}
