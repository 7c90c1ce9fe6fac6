//! What a CDI file says against what is so now, without asking the driver: its version, the majors of its nodes, the files that it mounts.
use cdi::{ContainerEdits, Spec};
use inventory::nodes::Registered;
use inventory::version;
use std::collections::BTreeSet;
use std::path::Path;

/// Why the file is known to be wrong: containers that are made with it would get another driver's files, or nodes that lead nowhere.
#[must_use]
pub fn known(spec: &Spec, proc_root: &Path) -> Vec<String> {
    let mut reasons = Vec::new();
    if let (Some(running), Some(file)) = (version::running(proc_root), driver_version(spec))
        && running != file
    {
        reasons.push(format!("it mounts files of driver {file}, and the loaded kernel module is {running}"));
    }
    let registered = Registered::read(proc_root).unwrap_or_default();
    let mut seen = BTreeSet::new();
    for node in edits(spec).flat_map(|edits| &edits.device_nodes) {
        if let Some(major) = registered.of(&node.path)
            && node.major != i64::from(major)
            && seen.insert(&node.path)
        {
            let devices = proc_root.join("devices");
            reasons.push(format!(
                "it says that {} has major {}, and {} says {major}",
                node.path,
                node.major,
                devices.display()
            ));
        }
    }
    reasons
}

/// The files on the host that the spec names and that are gone: mounts and hooks.
#[must_use]
pub fn gone(spec: &Spec) -> Vec<String> {
    let mounts = edits(spec).flat_map(|edits| edits.mounts.iter().map(|mount| mount.host_path.as_str()));
    let hooks = edits(spec).flat_map(|edits| edits.hooks.iter().map(|hook| hook.path.as_str()));
    let paths: BTreeSet<&str> = mounts.chain(hooks).collect();
    paths.into_iter().filter(|path| !Path::new(path).exists()).map(|path| format!("{path} is gone")).collect()
}

/// The driver version of the files that the spec mounts.
fn driver_version(spec: &Spec) -> Option<String> {
    let mounts = edits(spec).flat_map(|edits| &edits.mounts);
    let versions = mounts.filter_map(|mount| {
        let (_, version) =
            Path::new(&mount.host_path).file_name()?.to_str()?.strip_prefix("libcuda")?.split_once(".so.")?;
        version::is_version(version).then(|| version.to_owned())
    });
    versions.into_iter().next()
}

fn edits(spec: &Spec) -> impl Iterator<Item = &ContainerEdits> {
    spec.devices.iter().map(|device| &device.container_edits).chain([&spec.container_edits])
}
