//! Where the files of a share lie: on the host, and inside the container.

/// The folder of the running state on the host; a folder for each container lies in [`CONTAINERS`] below it.
pub const HOST_RUN: &str = "/run/gpu-quota";
/// Below [`HOST_RUN`]: one folder for each container, named by the container's id.
pub const CONTAINERS: &str = "containers";
/// The file name of the limits file in a container's host folder.
pub const LIMITS_FILE: &str = "limits";
/// The file name of the ledger in a container's host folder.
pub const LEDGER_FILE: &str = "ledger";

/// Inside an isolated container: the read-only limits file ([`crate::limits`]).
pub const IN_LIMITS: &str = "/run/gpu-quota/limits";
/// Inside an isolated container: the writable ledger ([`crate::ledger`]).
pub const IN_LEDGER: &str = "/run/gpu-quota/ledger";
/// Inside an isolated container: the interposer.
pub const IN_LIBRARY: &str = "/run/gpu-quota/libgpu_quota.so";
/// Inside an isolated container: the dynamic loader's list of libraries that go first; holds [`IN_LIBRARY`].
pub const IN_PRELOAD: &str = "/etc/ld.so.preload";
