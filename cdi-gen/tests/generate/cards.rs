//! Cards that are ill, cut into instances, held by others, or of no use for computing.
use crate::node::{NVIDIA, Node};
use crate::{TWO, names, nodes};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

const CAPS: u32 = 508;
const MIXED: &str = include_str!("../../../tests/sim-driver/scenarios/mixed.toml");
const DGX: &str = include_str!("../../../tests/sim-driver/scenarios/dgx-h100.toml");
const T4: &str = "GPU-14000000-0000-0000-0000-000000000003";
const SLICES: [&str; 2] = ["MIG-a1000000-0000-0000-0000-000000000011", "MIG-a1000000-0000-0000-0000-000000000012"];

/// Of four kinds of cards, with the capability nodes of the instances.
fn mixed() -> Option<Node> {
    let node = Node::new()?;
    node.cards(MIXED);
    for minor in 1..4 {
        node.mknod(&format!("nvidia{minor}"), NVIDIA, minor).unwrap();
    }
    node.devices(&format!("{NVIDIA} nvidia\n510 nvidia-uvm\n{CAPS} nvidia-caps\n"));
    node.put(
        "proc/driver/nvidia-caps/mig-minors",
        "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n",
    );
    fs::create_dir(node.path("dev/nvidia-caps")).unwrap();
    for minor in [12, 13, 21, 22] {
        node.mknod(&format!("nvidia-caps/nvidia-cap{minor}"), CAPS, minor).unwrap();
    }
    Some(node)
}

#[test]
fn instances_are_given_with_their_card_and_capabilities_and_the_card_is_not() {
    let Some(node) = mixed() else { return };
    let (code, said) = node.run(&["--name-strategy", "index,uuid,type-index"]);
    assert_eq!(code, 6, "{said}");
    let spec = node.read();
    assert_eq!(
        names(&spec),
        ["0:0", SLICES[0], "mig0:0", "0:1", SLICES[1], "mig0:1", "2", T4, "gpu2", "all"],
        "neither the parent, nor the card without instances, nor the display"
    );
    for name in ["0:0", SLICES[0], "mig0:0"] {
        assert_eq!(
            nodes(&spec, name),
            ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
        );
    }
    assert_eq!(nodes(&spec, "0:1")[1..], ["/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"]);
    let all = nodes(&spec, "all");
    assert_eq!(all.len(), 6, "the parent once: {all:?}");
    let cap = &spec.devices[0].container_edits.device_nodes[1];
    assert_eq!((cap.major, cap.minor, cap.file_mode), (i64::from(CAPS), 12, Some(0o444)));
    let status = node.status();
    assert_eq!(status.devices[0].memory, Some(19_968 << 20));
    assert!(status.devices[0].product.contains("MIG 3g.20gb"), "{:?}", status.devices);
    let reasons: Vec<_> = status.bad.iter().map(|left| (left.index, left.reason.as_str())).collect();
    assert!(
        matches!(reasons[..], [(Some(1), reason)] if reason.contains("MIG is on and has no instance")),
        "{reasons:?}"
    );
    assert!(matches!(&status.left_out[..], [left] if left.reason.contains("DGX Display")), "{:?}", status.left_out);
}

#[test]
fn an_instance_without_capability_nodes_costs_that_instance() {
    let Some(node) = mixed() else { return };
    fs::remove_file(node.path("dev/nvidia-caps/nvidia-cap22")).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(
        said.contains(SLICES[1]) && said.contains("nvidia-cap22 is missing") && said.contains("00000000:07:00.0"),
        "{said}"
    );
    assert_eq!(names(&node.read()), ["0:0", SLICES[0], "2", T4, "all"]);
    let (code, said) = node.run(&["--create-device-nodes"]);
    assert_eq!(code, 6, "the card without instances is left: {said}");
    assert!(names(&node.read()).contains(&"0:1"));
    // A minor that procfs does not tell.
    node.put("proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n");
    let (_, said) = node.run(&[]);
    assert!(said.contains("lists no gpu0/gi2/access"), "{said}");
    node.devices(&format!("{NVIDIA} nvidia\n510 nvidia-uvm\n"));
    let (code, said) = node.run(&[]);
    assert!(code == 6 && said.contains("lists no nvidia-caps"), "{code} {said}");
    assert_eq!(names(&node.read()), ["2", T4, "all"]);
}

#[test]
fn a_display_card_is_given_for_graphics() {
    let Some(node) = mixed() else { return };
    let (_, said) = node.run(&["--profile", "graphics"]);
    assert!(names(&node.read()).contains(&"3"), "{said}");
}

#[test]
fn a_card_that_needs_a_reset_costs_that_card() {
    let Some(node) = Node::new() else { return };
    node.mknod("nvidia1", NVIDIA, 1).unwrap();
    node.cards(&TWO.replace("minor = 1\n", "minor = 1\nneeds_reset = true\n"));
    let (code, said) = node.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("GPU 0 (00000000:3B:00.0)") && said.contains("--gpu-reset"), "{said}");
    assert_eq!(names(&node.read())[0], "1");
}

#[test]
fn a_card_of_another_kernel_driver_is_told() {
    let Some(node) = Node::new() else { return };
    node.pci("0000:00:1e.0", "nvidia");
    node.pci("0000:3b:00.0", "vfio-pci");
    let (code, said) = node.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("GPU at 0000:3b:00.0: it is bound to vfio-pci"), "{said}");
    assert_eq!(names(&node.read()).len(), 3);
    let status = node.status();
    assert_eq!((status.bad[0].index, status.bad[0].pci_bus_id.as_deref()), (None, Some("0000:3b:00.0")));
}

#[test]
fn several_lost_cards_have_their_addresses() {
    let Some(node) = Node::new() else { return };
    let lost = |bus: &str| format!("[[card]]\npci_bus_id = \"00000000:{bus}:00.0\"\nlost = true\n");
    let good = "[[card]]\npci_bus_id = \"00000000:22:00.0\"\nminor = 0\n";
    node.cards(&[&lost("11"), good, &lost("33")].concat());
    for bus in ["11", "22", "33"] {
        fs::create_dir_all(node.path(&format!("proc/driver/nvidia/gpus/0000:{bus}:00.0"))).unwrap();
    }
    let (code, said) = node.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("GPU 0 (0000:11:00.0)") && said.contains("GPU 2 (0000:33:00.0)"), "{said}");
    let bad: BTreeSet<_> = node.status().bad.into_iter().filter_map(|left| left.pci_bus_id).collect();
    assert_eq!(bad, BTreeSet::from(["0000:11:00.0".to_owned(), "0000:33:00.0".to_owned()]));
}

#[test]
fn a_dgx_has_eight_cards_even_when_they_are_slow() {
    let Some(node) = Node::new() else { return };
    for minor in 0..8 {
        node.mknod(&format!("nvidia{minor}"), NVIDIA, minor).unwrap();
    }
    node.uninstall();
    node.install("535.261.03");
    node.cards(&DGX.replace("mig = false", "mig = false\nslow_ms = 20"));
    let spec = node.spec();
    assert_eq!(spec.devices.len(), 17);
    assert_eq!(nodes(&spec, "all").len(), 8);
    assert_eq!(nodes(&spec, "7"), ["/dev/nvidia7"]);
}

#[test]
fn memory_that_is_not_supported_costs_no_card() {
    let Some(node) = Node::new() else { return };
    node.cards("[[card]]\nname = \"NVIDIA GB10\"\nmemory_unsupported = true\n");
    let (code, said) = node.run(&[]);
    assert_eq!((code, said.contains("memory unknown")), (0, true), "{said}");
}

#[test]
fn only_the_cards_own_drm_nodes_are_given() {
    let Some(node) = Node::new() else { return };
    node.pci("0000:00:1e.0", "nvidia");
    node.pci("0000:00:02.0", "i915");
    fs::create_dir(node.path("dev/dri")).unwrap();
    // Minors as another vendor's card shifts them.
    let drm = [
        ("0000:00:02.0", "card0", 0),
        ("0000:00:02.0", "renderD128", 128),
        ("0000:00:1e.0", "card1", 1),
        ("0000:00:1e.0", "renderD129", 129),
    ];
    for (address, name, minor) in drm {
        node.put(&format!("sys/bus/pci/devices/{address}/drm/{name}/dev"), &format!("226:{minor}\n"));
        node.mknod(&format!("dri/{name}"), 226, minor).unwrap();
    }
    node.put("sys/bus/pci/devices/0000:00:1e.0/drm/card1-DP-1/status", "");
    assert_eq!(nodes(&node.spec(), "0"), ["/dev/nvidia0"], "none for computing");
    let (code, said) = node.run(&["--profile", "graphics"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(nodes(&node.read(), "0"), ["/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD129"]);
    let render = &node.read().devices[0].container_edits.device_nodes[2];
    assert_eq!((render.major, render.minor), (226, 129));
    // What is gone is said, and costs nothing else.
    fs::remove_file(node.path("dev/dri/renderD129")).unwrap();
    let (code, said) = node.run(&["--profile", "graphics"]);
    assert_eq!((code, said.contains("left out: /dev/dri/renderD129")), (0, true), "{said}");
    assert_eq!(nodes(&node.read(), "all"), ["/dev/nvidia0", "/dev/dri/card1"]);
}

#[test]
fn groups_are_given_when_asked_for_and_allowed() {
    let Some(node) = Node::new() else { return };
    fs::set_permissions(node.path("dev/nvidia0"), std::os::unix::fs::PermissionsExt::from_mode(0o660)).unwrap();
    std::os::unix::fs::chown(node.path("dev/nvidia0"), None, Some(44)).unwrap();
    assert_eq!(node.spec().cdi_version, "0.5.0", "older runtimes read it");
    let (code, said) = node.run(&["--additional-gids"]);
    assert_eq!(code, 0, "{said}");
    let spec = node.read();
    assert_eq!((spec.cdi_version.as_str(), spec.container_edits.additional_gids), ("0.7.0", vec![44]));
    let (code, said) = node.run(&["--additional-gids", "--max-cdi-version", "0.5.0"]);
    assert_eq!((code, said.contains("left out: the groups [44]")), (0, true), "{said}");
    assert_eq!(node.read().cdi_version, "0.5.0");
}

#[test]
fn a_node_without_hardware_is_no_fault_of_the_driver() {
    let Some(mut node) = Node::new() else { return };
    node.spec();
    node.nvml = Some(node.path("none.so"));
    fs::create_dir_all(node.path("sys/bus/pci/devices")).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("no NVIDIA GPU on the PCI bus") && said.contains("is removed"), "{said}");
    assert!(!node.output().exists());
    node.pci("0000:3b:00.0", "nvidia");
    assert_eq!(node.run(&[]).0, 3, "here the driver is missing");
    symlink("/dev/null", node.path("dev/dxg")).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!((code, said.contains("WSL2")), (3, true), "{said}");
}
