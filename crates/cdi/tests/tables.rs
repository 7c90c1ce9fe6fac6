//! The shared tables of names and minimum versions.
use cdi::spec::{IntelRdt, NetDevice};
use cdi::{Broken, ContainerEdits, Device, DeviceNode, Hook, Mount, Spec, minimum_version, validate};

fn spec() -> Spec {
    let node = DeviceNode { path: "/dev/x".into(), ..DeviceNode::default() };
    let edits = ContainerEdits { device_nodes: vec![node], ..ContainerEdits::default() };
    let device = Device { name: "gpu0".into(), container_edits: edits, ..Device::default() };
    Spec { cdi_version: "1.1.0".into(), kind: "vendor.com/class".into(), devices: vec![device], ..Spec::default() }
}

#[test]
fn names() {
    let mut rows = 0;
    for row in include_str!("names.tsv").lines().skip(1) {
        let [what, value, valid] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let mut spec = spec();
        let edits = &mut spec.devices[0].container_edits;
        match what {
            "kind" => value.clone_into(&mut spec.kind),
            "device" => value.clone_into(&mut spec.devices[0].name),
            "env" => edits.env.push(value.to_owned()),
            "permissions" => edits.device_nodes[0].permissions = Some(value.to_owned()),
            "deviceType" => edits.device_nodes[0].device_type = Some(value.to_owned()),
            "hookName" => edits.hooks.push(Hook { hook_name: value.into(), path: "/x".into(), ..Hook::default() }),
            other => panic!("{other}"),
        }
        let broken = validate(&spec);
        assert_eq!(broken.is_empty(), valid == "yes", "{row}: {broken:?}");
        rows += 1;
    }
    assert!(rows > 30, "{rows}");
}

#[test]
fn minimum_versions() {
    let mut rows = 0;
    for row in include_str!("minimum-version.tsv").lines().skip(1) {
        let (content, version) = row.split_once('\t').unwrap();
        let mut spec = spec();
        let edits = &mut spec.devices[0].container_edits;
        match content {
            "one device named gpu0, deviceNodes with path only" => {}
            "mount with a type" => {
                let mount = Mount { host_path: "/a".into(), container_path: "/b".into(), ..Mount::default() };
                edits.mounts.push(Mount { mount_type: Some("bind".into()), ..mount });
            }
            "device named 0" => "0".clone_into(&mut spec.devices[0].name),
            "deviceNode with hostPath" => edits.device_nodes[0].host_path = Some("/dev/y".into()),
            "annotations on the spec" => drop(spec.annotations.insert("a".into(), "b".into())),
            "annotations on a device" => drop(spec.devices[0].annotations.insert("a".into(), "b".into())),
            "class with a dot" => "vendor.com/cl.ass".clone_into(&mut spec.kind),
            "intelRdt" => edits.intel_rdt = Some(IntelRdt::default()),
            "additionalGids" => edits.additional_gids.push(44),
            "netDevices" => {
                edits.net_devices.push(NetDevice { host_interface_name: "eth1".into(), name: "net0".into() });
            }
            other => panic!("{other}"),
        }
        assert_eq!(minimum_version(&spec), version, "{content}");
        version.clone_into(&mut spec.cdi_version);
        assert_eq!(validate(&spec), [], "{content}");
        if version != "0.3.0" {
            "0.3.0".clone_into(&mut spec.cdi_version);
            assert!(matches!(validate(&spec)[..], [Broken::VersionTooLow { .. }]), "{content}");
        }
        rows += 1;
    }
    assert!(rows >= 10, "{rows}");
}

#[test]
fn files_that_runtimes_refuse() {
    let broken = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        validate(&spec)
    };
    assert!(matches!(broken(|spec| spec.cdi_version = "9.9.9".into())[..], [Broken::UnknownVersion(_)]));
    assert!(matches!(broken(|spec| spec.devices.clear())[..], [Broken::NoDevices]));
    assert!(matches!(broken(|spec| spec.devices.push(spec.devices[0].clone()))[..], [Broken::DeviceTwice(_)]));
    assert!(matches!(
        broken(|spec| spec.devices[0].container_edits = ContainerEdits::default())[..],
        [Broken::EmptyDevice(_)]
    ));
    assert!(matches!(broken(|spec| spec.container_edits.mounts.push(Mount::default()))[..], [Broken::Mount { .. }]));
    assert!(matches!(
        broken(|spec| spec.container_edits.net_devices.push(NetDevice::default()))[..],
        [Broken::NetDevice { .. }]
    ));
    let twice = broken(|spec| {
        let device = |host: &str| NetDevice { host_interface_name: host.into(), name: "net0".into() };
        spec.container_edits.net_devices = vec![device("eth1"), device("eth2")];
    });
    assert!(matches!(twice[..], [Broken::NetDevice { .. }]), "{twice:?}");
    for (id, good) in [("/", true), ("class-1", true), ("..", false), ("a/b", false), ("", true)] {
        let mut spec = spec();
        spec.container_edits.intel_rdt = Some(IntelRdt { clos_id: Some(id.into()), ..IntelRdt::default() });
        assert_eq!(validate(&spec).is_empty(), good, "{id:?}");
    }
    for rdt in [
        IntelRdt { schemata: vec!["L3:0=f".into()], ..IntelRdt::default() },
        IntelRdt { enable_monitoring: Some(true), ..IntelRdt::default() },
    ] {
        let mut spec = spec();
        spec.container_edits.intel_rdt = Some(rdt);
        assert_eq!(minimum_version(&spec), "1.1.0");
    }
    assert!(serde_json::from_str::<Spec>(r#"{"cdiVersion":"0.5.0","kind":"a/b","devices":[],"extra":1}"#).is_err());
}
