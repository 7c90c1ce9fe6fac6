//! Writers that are killed at any moment: whoever looks sees a whole file of mode 0644, and nothing is left behind in the end.
use crate::node::{NVIDIA, Node};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

/// How many writers are killed.
const KILLS: u32 = 2000;

#[test]
fn thousands_of_killed_writers_leave_whole_files() {
    let Some(node) = Node::new() else { return };
    let before = node.spec();
    node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
    let after = node.spec();
    // Writing takes a few milliseconds; the moments are spread over all of them.
    let mut moment: u64 = 0x9e37_79b9_7f4a_7c15;
    let (mut killed, mut seen) = (0, [0_u32; 2]);
    for round in 0..KILLS {
        if round % 2 == 0 {
            fs::remove_file(node.path("dev/nvidia-modeset")).unwrap();
        } else {
            node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
        }
        let mut command = node.command(None);
        command.arg("--output").arg(node.output()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut writer = command.spawn().unwrap();
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((moment >> 33) % 6000));
        writer.kill().unwrap();
        killed += u32::from(writer.wait().unwrap().code().is_none());
        for entry in fs::read_dir(node.path("cdi")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let there = entry.metadata().unwrap();
            assert_eq!(there.permissions().mode() & 0o777, 0o644, "{name} after {round} rounds");
            let spec: cdi::Spec = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
            assert!(spec == before || spec == after, "{name} after {round} rounds");
            assert!(name == "gpu.json" || entry.path().extension().is_some_and(|end| end == "tmp"), "{name}");
            if name == "gpu.json" {
                seen[usize::from(spec == after)] += 1;
            }
        }
    }
    println!("{killed} of {KILLS} writers were killed; the file was {seen:?} times one or the other");
    assert!(killed > KILLS / 10 && seen[0] > 0 && seen[1] > 0, "{killed} {seen:?}");
    let _ = fs::remove_file(node.path("dev/nvidia-modeset"));
    assert_eq!(node.spec(), before);
    // Only a run that writes sweeps.
    node.mknod("nvidia-modeset", NVIDIA, 254).unwrap();
    assert_eq!(node.spec(), after);
    let names: Vec<_> = fs::read_dir(node.path("cdi")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["gpu.json"]);
}
