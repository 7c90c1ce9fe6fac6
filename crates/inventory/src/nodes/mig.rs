//! Capability nodes: who may open them may use the MIG instance. Their minors are in procfs, their major is assigned at each load of the module.
use super::{Majors, Makes, Node, NodesError};
use crate::Sources;
use std::path::Path;

/// Readable by all, as the driver's own `nvidia-modprobe` makes them.
const READABLE: u32 = 0o444;
/// Where procfs lists the minors, below its root: lines such as `gpu0/gi1/ci0/access 12` (the GPU by its minor number).
pub(crate) const MINORS: &str = "driver/nvidia-caps/mig-minors";

/// The nodes of the GPU instance and of the compute instance; `at` is the card's minor number, then the two instances' numbers.
pub(crate) fn mig(
    sources: &Sources,
    majors: &Majors,
    at: (u32, u32, u32),
    makes: Makes,
) -> Result<[Node; 2], NodesError> {
    let devices = || sources.proc_root.join("devices");
    let no_major = || NodesError::NoMajor { path: devices(), name: "nvidia-caps", module: "nvidia" };
    let major = majors.caps.ok_or_else(no_major)?;
    let path = sources.proc_root.join(MINORS);
    let text = std::fs::read_to_string(&path).map_err(|source| NodesError::Read { path: path.clone(), source })?;
    let (gpu, gi, ci) = at;
    let node = |capability: String| {
        let minor = minor(&text, &capability).ok_or_else(|| no_capability(&path, &capability))?;
        makes.checked(&sources.dev_root, &format!("nvidia-caps/nvidia-cap{minor}"), (major, minor), READABLE)
    };
    Ok([node(format!("gpu{gpu}/gi{gi}/access"))?, node(format!("gpu{gpu}/gi{gi}/ci{ci}/access"))?])
}

fn no_capability(path: &Path, capability: &str) -> NodesError {
    NodesError::NoCapability { path: path.to_owned(), capability: capability.to_owned() }
}

fn minor(text: &str, capability: &str) -> Option<u32> {
    let rows = text.lines().filter_map(|line| line.trim().split_once(' '));
    rows.filter(|(name, _)| *name == capability).find_map(|(_, minor)| minor.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_are_those_of_the_very_capability() {
        let text = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu3/gi1/ci2/access 312\n";
        assert_eq!(minor(text, "gpu0/gi1/access"), Some(12));
        assert_eq!(minor(text, "gpu0/gi1/ci0/access"), Some(13));
        assert_eq!(minor(text, "gpu3/gi1/ci2/access"), Some(312));
        assert_eq!(minor(text, "gpu3/gi1/access"), None);
        assert_eq!(minor("gpu0/gi1/access x\n", "gpu0/gi1/access"), None);
    }
}
