//! How the file appears: whole, readable by all, and untouched where nothing changed.
use crate::node::{Node, ended};
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn the_same_bytes_leave_the_file_untouched() {
    let Some(node) = Node::new() else { return };
    node.spec();
    let before = fs::metadata(node.output()).unwrap();
    let (code, said) = node.run(&[]);
    assert_eq!((code, said.contains("up to date")), (0, true), "{said}");
    let after = fs::metadata(node.output()).unwrap();
    assert_eq!((before.ino(), before.mtime(), before.mtime_nsec()), (after.ino(), after.mtime(), after.mtime_nsec()));
}

#[test]
fn a_narrow_umask_narrows_neither_file_nor_folders() {
    let Some(node) = Node::new() else { return };
    let output = node.path("new/run/cdi/gpu.json");
    let mut command = node.command(Some("umask 077; exec \"$@\""));
    let (code, said) = ended(command.arg("--output").arg(&output).output().unwrap());
    assert_eq!(code, 0, "{said}");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&output), 0o644);
    for folder in ["new", "new/run", "new/run/cdi"] {
        assert_eq!(mode(&node.path(folder)), 0o755, "{folder}");
    }
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let Some(node) = Node::new() else { return };
    let before = node.spec();
    node.mknod("nvidia-modeset", crate::NVIDIA, 254).unwrap();
    let mut command = node.command(Some("trap '' XFSZ; ulimit -f 0; exec \"$@\""));
    let (code, said) = ended(command.arg("--output").arg(node.output()).output().unwrap());
    assert_eq!(code, 8, "{said}");
    assert!(said.contains("cannot write") && said.contains("gpu.json"), "{said}");
    assert_eq!(node.read(), before);
    assert_eq!(fs::read_dir(node.path("cdi")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let Some(node) = Node::new() else { return };
    let (code, said) = ended(node.command(None).args(["--output", "/proc/gpu-quota/gpu.json"]).output().unwrap());
    assert_eq!(code, 8, "{said}");
    assert!(said.contains("/proc/gpu-quota"), "{said}");
}

#[test]
fn a_name_that_runtimes_do_not_read_is_refused_before_anything_is_written() {
    let Some(node) = Node::new() else { return };
    let folder = node.path("work/cdi");
    fs::create_dir_all(&folder).unwrap();
    for output in ["gpu.yml", "gpu", ".json"] {
        for command in ["generate", "check"] {
            let mut command = node.subcommand(None, command);
            let (code, said) = ended(command.current_dir(&folder).args(["--output", output]).output().unwrap());
            assert_eq!(code, 2, "{output}: {said}");
            assert!(said.contains(output) && said.contains(".json or .yaml"), "{said}");
        }
    }
    for folder in ["work", "work/cdi"] {
        let left: Vec<_> = fs::read_dir(node.path(folder)).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.iter().all(|name| name == "cdi"), "{left:?}");
    }
}

#[test]
fn a_file_that_is_not_ours_stays() {
    for (content, what) in
        [("not json", "is no CDI file"), ("", "is no CDI file"), ("{\"kind\": \"a.b/gpu\"}", "\"a.b/gpu\"")]
    {
        let Some(node) = Node::new() else { return };
        fs::write(node.output(), content).unwrap();
        let (code, said) = node.run(&[]);
        assert_eq!(code, 7, "{said}");
        assert!(said.contains(what) && said.contains("gpu.json"), "{said}");
        assert_eq!(fs::read_to_string(node.output()).unwrap(), content);
    }
}

#[test]
fn the_same_node_gives_the_same_bytes() {
    let Some(mut node) = Node::new() else { return };
    node.driver = crate::node::real_driver(crate::node::VERSION);
    node.put("sys/bus/pci/devices/0000:00:1e.0/drm/card1/dev", "226:1\n");
    fs::create_dir(node.path("dev/dri")).unwrap();
    node.mknod("dri/card1", 226, 1).unwrap();
    for format in ["json", "yaml"] {
        for profile in ["compute", "graphics", "full"] {
            let print = || {
                let mut command = node.command(None);
                command.args(["--output", "-", "--format", format, "--profile", profile]);
                command.args(["--name-strategy", "index,uuid,type-index"]).output().unwrap()
            };
            let first = print();
            assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
            for _ in 0..5 {
                assert_eq!(print().stdout, first.stdout, "{format} {profile}");
            }
        }
    }
}
