//! What is mounted from which driver, against one golden file; the real drivers are Debian's packages.
use crate::node::{Node, VERSION, ended, real_driver};
use cdi::Spec;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The first library folder of a container.
const LIB: &str = "/usr/lib/x86_64-linux-gnu/";

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

/// The names, below the first library folder, under which a container finds the driver.
fn libraries(spec: &Spec) -> BTreeSet<String> {
    let mounts = spec.container_edits.mounts.iter();
    mounts.filter_map(|mount| Some(mount.container_path.strip_prefix(LIB)?.to_owned())).collect()
}

fn set(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the packages are those of x86-64")]
fn real_drivers_are_found_in_their_packages() {
    let compute = "libcuda.so libcuda.so.1 libcudadebugger.so.1 libnvidia-allocator.so.1 libnvidia-cfg.so.1 libnvidia-ml.so \
         libnvidia-ml.so.1 libnvidia-nvvm.so.4 libnvidia-opencl.so.1 libnvidia-ptxjitcompiler.so.1";
    // What each version has by itself; its own number is part of many sonames.
    let own = [
        ("470.256.02", "libcuda.so libcuda.so.1 libnvidia-ml.so libnvidia-ml.so.1".to_owned()),
        ("535.261.03", format!("{compute} libnvidia-pkcs11-openssl3.so.535.261.03")),
        ("550.163.01", format!("{compute} libnvidia-gpucomp.so.550.163.01 libnvidia-pkcs11-openssl3.so.550.163.01")),
    ];
    for (version, expected) in own {
        let Some((node, spec)) = real(version, &[]) else { continue };
        assert_eq!(libraries(&spec), set(&expected), "{version}");
        let mounts = &spec.container_edits.mounts;
        for mount in mounts {
            assert!(Path::new(&mount.host_path).exists(), "{}", mount.host_path);
            assert!(mount.host_path.starts_with(node.driver.to_str().unwrap()), "{}", mount.host_path);
        }
        let others: BTreeSet<&str> =
            mounts.iter().map(|mount| mount.container_path.as_str()).filter(|path| !path.contains(".so")).collect();
        let firmware = format!("/lib/firmware/nvidia/{version}");
        let mut right = BTreeSet::from(["/usr/bin/nvidia-smi"]);
        if version != "470.256.02" {
            right.extend(["/etc/OpenCL/vendors/nvidia.icd", "/usr/bin/nvidia-debugdump", firmware.as_str()]);
        }
        assert_eq!(others, right, "{version}");
        // Both kinds of images.
        assert_eq!(
            mounts.iter().filter(|mount| mount.container_path.starts_with("/usr/lib64/")).count(),
            libraries(&spec).len()
        );
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the packages are those of x86-64")]
fn a_split_driver_is_whole_for_graphics() {
    for version in ["535.261.03", "550.163.01"] {
        let Some((node, spec)) = real(version, &["--profile", "graphics"]) else { continue };
        let found = libraries(&spec);
        // In another folder than libcuda, and needed by names that hold the version.
        for name in ["glcore", "eglcore", "glsi", "tls", "glvkspirv", "rtcore"] {
            assert!(found.contains(&format!("libnvidia-{name}.so.{version}")), "{name}");
        }
        let plain = "libGLX_nvidia.so.0 libEGL_nvidia.so.0 libGLESv1_CM_nvidia.so.1 libGLESv2_nvidia.so.2 libnvcuvid.so.1 \
             libnvcuvid.so libnvidia-encode.so.1 libnvidia-fbc.so.1 libnvidia-opticalflow.so.1 libnvidia-ngx.so.1 vdpau/libvdpau_nvidia.so.1 \
             libnvidia-egl-gbm.so.1 libnvidia-egl-wayland.so.1 gbm/nvidia-drm_gbm.so";
        for name in set(plain) {
            assert!(found.contains(&name), "{name} of {version} is not in {found:?}");
        }
        let paths: BTreeSet<&str> =
            spec.container_edits.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
        for path in [
            "/etc/vulkan/icd.d/nvidia_icd.json",
            "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
            "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
            "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
        ] {
            assert!(paths.contains(path), "{path} of {version}");
        }
        let status = node.status();
        let unmet: Vec<_> = status.warnings.iter().filter(|warning| warning.contains(" needs ")).collect();
        assert!(unmet.is_empty(), "the packages are whole: {unmet:?}");
        let Some((_, full)) = real(version, &["--profile", "full"]) else { continue };
        let paths: BTreeSet<&str> =
            full.container_edits.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
        for path in [
            "/usr/bin/nvidia-cuda-mps-control",
            "/usr/bin/nvidia-persistenced",
            "/usr/lib/xorg/modules/drivers/nvidia_drv.so",
        ] {
            assert!(paths.contains(path), "{path} of {version}");
        }
        assert!(libraries(&full).is_superset(&found));
    }
}

/// What is generated from the packages of a real driver.
fn real(version: &str, more: &[&str]) -> Option<(Node, Spec)> {
    let (mut node, driver) = (Node::new()?, real_driver(version));
    node.driver = driver;
    node.cards(&format!("driver_version = \"{version}\"\n[[card]]\n"));
    let (code, said) = node.run(more);
    assert_eq!(code, 0, "{said}");
    let spec = node.read();
    Some((node, spec))
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
    let program = node.path("program");
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
