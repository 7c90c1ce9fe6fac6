//! What is mounted from which driver, against one golden file; the real drivers are Debian's packages.
use crate::node::{Node, VERSION, ended, real_driver};
use cdi::Spec;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The reference node's file, for a driver of `version` at `root`.
fn golden(root: &Path, version: &str) -> String {
    let text = include_str!("../golden/reference.json");
    text.replace("{ROOT}", root.to_str().unwrap()).replace("{VERSION}", version)
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the golden file names the library folder of x86-64")]
fn the_reference_node_is_as_written_down() {
    let Some(node) = Node::new() else { return };
    node.spec();
    let written = fs::read_to_string(node.output()).unwrap();
    assert_eq!(written, golden(&node.driver, VERSION));
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the packages are those of x86-64")]
fn real_drivers_are_found_in_their_packages() {
    for version in ["470.256.02", "535.261.03", "550.163.01"] {
        let (Some(mut node), driver) = (Node::new(), real_driver(version)) else { continue };
        node.driver = driver;
        node.cards(&format!("driver_version = \"{version}\"\n[[card]]\n"));
        let mut spec = node.spec();
        for mount in &spec.container_edits.mounts {
            assert!(Path::new(&mount.host_path).is_file(), "{}", mount.host_path);
            let library = mount.host_path.ends_with(version) && mount.container_path.contains(".so.");
            assert!(library || mount.container_path == "/usr/bin/nvidia-smi", "{mount:?}");
        }
        // Packages beside the three that every cache has add mounts and nothing else.
        let golden: Spec = serde_json::from_str(&golden(&node.driver, version)).unwrap();
        spec.container_edits.mounts.retain(|mount| golden.container_edits.mounts.contains(mount));
        assert_eq!(spec, golden);
    }
}

#[test]
fn a_driver_whose_module_is_not_loaded_is_told_from_none() {
    let Some(mut node) = Node::new() else { return };
    node.nvml = Some(node.path("none.so"));
    let (code, said) = node.run(&[]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("none.so") && said.contains("--nvml-path"), "{said}");

    let driver = real_driver(VERSION);
    if Path::new("/proc/driver/nvidia").exists() {
        eprintln!("SKIPPED: this machine has the driver loaded");
        return;
    }
    // As root the real library makes /dev/nvidiactl; as nobody it cannot. Nobody cannot read root's folders either, so the library is copied.
    node.uninstall();
    let lib = node.driver.join("usr/lib64");
    fs::create_dir_all(&lib).unwrap();
    let real: PathBuf = driver.join(format!("usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.{VERSION}"));
    fs::copy(real, lib.join("libnvidia-ml.so.1")).unwrap();
    let program = node.path("cdi-gen");
    fs::copy(env!("CARGO_BIN_EXE_cdi-gen"), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(node.path(""), open).unwrap();
    let mut command = std::process::Command::new(program);
    command.uid(65_534).arg("generate").arg("--driver-root").arg(&node.driver);
    let (code, said) = ended(command.output().unwrap());
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("modprobe nvidia"), "{said}");
}

#[test]
fn paths_with_spaces_and_letters_of_any_script_are_kept() {
    let Some(mut node) = Node::new() else { return };
    node.driver = node.path("driver root \u{fc}\u{4e2d}");
    node.install(VERSION);
    let spec = node.spec();
    assert!(spec.container_edits.mounts.len() > 4);
    for mount in spec.container_edits.mounts {
        assert!(Path::new(&mount.host_path).starts_with(&node.driver) && Path::new(&mount.host_path).is_file());
        assert!(mount.container_path.starts_with("/usr/"), "the root is not seen inside: {}", mount.container_path);
    }
}

#[test]
fn a_relative_driver_root_is_made_absolute() {
    let Some(mut node) = Node::new() else { return };
    let whole = std::mem::replace(&mut node.driver, "driver".into());
    let mut command = node.command(None);
    let (code, said) = ended(command.current_dir(node.path("")).arg("--output").arg(node.output()).output().unwrap());
    assert_eq!(code, 0, "{said}");
    let spec = node.read();
    assert!(spec.container_edits.mounts.iter().all(|mount| Path::new(&mount.host_path).starts_with(&whole)));
}
