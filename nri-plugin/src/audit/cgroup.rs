//! Which container a process is in, by `/proc/PID/cgroup`: cgroup v1 and v2, as systemd and as cgroupfs name it. Text in, name out; no file is opened here.

/// The container of `known` whose cgroup a process is in.
///
/// A container may make cgroups below its own and name them as it likes, so the outermost name counts. Where the hierarchies of cgroup v1 disagree nobody is
/// named.
#[must_use]
pub fn container(text: &str, known: impl Fn(&str) -> bool) -> Option<&str> {
    let mut found = None;
    for line in text.lines() {
        // hierarchy:controllers:path, and only the path may hold further colons.
        let Some(path) = line.splitn(3, ':').nth(2) else { continue };
        let Some(name) = path.split('/').filter_map(name).find(|name| known(name)) else { continue };
        match found {
            Some(other) if other != name => return None,
            _ => found = Some(name),
        }
    }
    found
}

/// The id in one part of a path: `ID`, `RUNTIME-ID.scope`, or `SLICE:RUNTIME:ID` of a runtime that is set up for systemd on a host without it.
fn name(part: &str) -> Option<&str> {
    let name = match part.strip_suffix(".scope") {
        Some(scope) => scope.rsplit_once('-').map_or(scope, |(_, id)| id),
        None => part.rsplit_once(':').map_or(part, |(_, id)| id),
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "6d5a47e8a1a6a1c0d8f0f7b1f8e3c6c2a9b8d7e6f5a4b3c2d1e0f9a8b7c6d5e4";
    const B: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

    fn of(text: &str) -> Option<String> {
        let text = text.replace("$A", A).replace("$B", B);
        container(&text, |name| name == A || name == B).map(str::to_owned)
    }

    #[test]
    fn every_way_of_naming_is_read() {
        for text in [
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-$A.scope\n",
            "0::/kubepods/burstable/pod12c3-4/$A",
            "0::/k8s.io/$A\n",
            "0::/system.slice/docker-$A.scope",
            "0::/machine.slice/libpod-$A.scope/container",
            "0::/machine.slice/nerdctl-$A.scope",
            "0::/../../kubepods/besteffort/pod1/$A",
            "0::/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:$A",
            "12:pids:/kubepods/pod1/$A\n11:memory:/kubepods/pod1/$A\n1:name=systemd:/kubepods/pod1/$A\n0::/\n",
            "3:cpu,cpuacct:/kubepods.slice/kubepods-pod1.slice/cri-containerd-$A.scope\n0::/system.slice/containerd.service\n",
            "0::/kubepods.slice/x.slice/cri-containerd-$A.scope/system.slice/inner.service",
        ] {
            assert_eq!(of(text).as_deref(), Some(A), "{text}");
        }
    }

    #[test]
    fn a_container_cannot_pass_for_another() {
        // What it makes below its own cgroup, in either way of naming.
        for inner in ["$B", "cri-containerd-$B.scope", "x:y:$B"] {
            assert_eq!(of(&format!("0::/kubepods/pod1/$A/{inner}")).as_deref(), Some(A), "{inner}");
        }
        assert_eq!(of("2:pids:/kubepods/pod1/$A\n1:memory:/kubepods/pod1/$B\n"), None, "hierarchies that disagree");
    }

    #[test]
    fn everything_else_is_nobodys() {
        for text in [
            "",
            "\n\n",
            "0::/",
            "0::/init.scope",
            "0::/user.slice/user-0.slice/session-1.scope",
            "0::/kubepods/pod1/ffff",
            "0::/kubepods/pod1/x$A",
            "0::/kubepods/pod1/$Ax.scope",
            "0:$A",
            "$A",
            "\u{0}\u{1}::::///..",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }
}
