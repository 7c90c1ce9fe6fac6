//! Random specs, most of them nearly right.
use cdi::spec::{ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec};
use proptest::prelude::*;

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-zA-Z0-9][a-zA-Z0-9._:/=-]{0,6}", 1 => "[ -~]{0,6}", 1 => Just(String::new()), 1 => "\\PC{0,4}"]
}

fn env() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop_oneof![6 => "[A-Z]{1,3}=[ -~]{0,6}", 1 => word()], 0..3)
}

fn node() -> impl Strategy<Value = DeviceNode> {
    let device_type = prop::option::of(
        prop_oneof![4 => prop::sample::select(vec!["b", "c", "u", "p"]).prop_map(str::to_owned), 1 => word()],
    );
    let permissions = prop::option::of(prop_oneof![4 => "[rwm]{0,3}", 1 => word()]);
    let number = || prop_oneof![Just(0_i64), 1_i64..300];
    (word(), prop::option::of(word()), device_type, number(), number(), prop::option::of(0_u32..512), permissions)
        .prop_map(|(path, host_path, device_type, major, minor, file_mode, permissions)| DeviceNode {
            path,
            host_path,
            device_type,
            major,
            minor,
            file_mode,
            permissions,
            uid: None,
            gid: None,
        })
}

fn edits() -> impl Strategy<Value = ContainerEdits> {
    let mount = (word(), word(), prop::collection::vec(word(), 0..2), prop::option::of(word()));
    let mount = mount.prop_map(|(host_path, container_path, options, mount_type)| Mount {
        host_path,
        container_path,
        options,
        mount_type,
    });
    let names = vec!["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop", "x"];
    let hook = (prop::sample::select(names), word(), env(), prop::option::of(1_i64..9));
    let hook = hook.prop_map(|(name, path, env, timeout)| Hook {
        hook_name: name.to_owned(),
        path,
        args: Vec::new(),
        env,
        timeout,
    });
    let net = (word(), word()).prop_map(|(host_interface_name, name)| NetDevice { host_interface_name, name });
    let rdt = prop::option::of(word()).prop_map(|clos_id| IntelRdt { clos_id, ..IntelRdt::default() });
    (
        env(),
        prop::collection::vec(node(), 0..3),
        prop::collection::vec(mount, 0..3),
        prop::collection::vec(hook, 0..2),
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(net, 0..3)],
        prop_oneof![4 => Just(None), 1 => rdt.prop_map(Some)],
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(0_u32..100, 0..2)],
    )
        .prop_map(|(env, device_nodes, mounts, hooks, net_devices, intel_rdt, additional_gids)| ContainerEdits {
            env,
            device_nodes,
            mounts,
            hooks,
            net_devices,
            intel_rdt,
            additional_gids,
        })
}

pub fn spec() -> impl Strategy<Value = Spec> {
    let device = (prop_oneof![6 => "[a-zA-Z0-9][a-z0-9:]{0,3}[a-z0-9]", 1 => word()], edits());
    let device = device.prop_map(|(name, container_edits)| Device { name, container_edits, ..Device::default() });
    let version = prop_oneof![6 => Just("1.1.0"), 1 => prop::sample::select(cdi::version::VERSIONS.to_vec())];
    let kind = prop_oneof![6 => Just("a.b/gpu".to_owned()), 1 => (word(), word()).prop_map(|(vendor, class)| format!("{vendor}/{class}"))];
    (version, kind, prop::collection::vec(device, 0..3), edits()).prop_map(
        |(version, kind, devices, container_edits)| Spec {
            cdi_version: version.to_owned(),
            kind,
            devices,
            container_edits,
            ..Spec::default()
        },
    )
}
