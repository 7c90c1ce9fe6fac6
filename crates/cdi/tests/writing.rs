//! Writing: whole or not at all, and no touch without a change.
use cdi::{ContainerEdits, Device, Spec, WriteError, Written, conflicts, kind_of, remove, write};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

fn spec(env: &str) -> Spec {
    let edits = ContainerEdits { env: vec![env.into()], ..ContainerEdits::default() };
    let device = Device { name: "0".into(), container_edits: edits, ..Device::default() };
    Spec { cdi_version: "0.5.0".into(), kind: "vendor.com/class".into(), devices: vec![device], ..Spec::default() }
}

#[test]
fn a_missing_folder_is_made_and_the_file_is_readable_by_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/cdi/x.json");
    assert_eq!(write(&spec("A=1"), &path).unwrap(), Written::Changed);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o644, 0o755));
    let read: Spec = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(read, spec("A=1"));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_same_bytes_are_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.json");
    write(&spec("A=1"), &path).unwrap();
    let before = fs::metadata(&path).unwrap();
    assert_eq!(write(&spec("A=1"), &path).unwrap(), Written::Same);
    let after = fs::metadata(&path).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(write(&spec("A=2"), &path).unwrap(), Written::Changed);
    assert_ne!(before.ino(), fs::metadata(&path).unwrap().ino(), "a rename, not a write in place");
}

#[test]
fn a_file_that_not_all_may_read_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.json");
    write(&spec("A=1"), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(write(&spec("A=1"), &path).unwrap(), Written::Changed);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn writers_at_the_same_time_leave_one_whole_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.json");
    let specs = ["A=1", "A=22", "A=333", "A=4444"].map(spec);
    std::thread::scope(|scope| {
        for spec in &specs {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..50 {
                    write(spec, path).unwrap();
                }
            });
        }
        for _ in 0..200 {
            if let Ok(bytes) = fs::read(&path) {
                assert!(specs.contains(&serde_json::from_slice(&bytes).unwrap()));
            }
        }
    });
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.json");
    fs::create_dir(&path).unwrap();
    let error = write(&spec("A=1"), &path).unwrap_err().to_string();
    assert!(error.contains("x.json"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let error = write(&spec("A=1"), &PathBuf::from("/proc/no/such/x.json")).unwrap_err().to_string();
    assert!(error.contains("/proc/no"), "{error}");
    assert!(matches!(write(&spec("A=1"), &dir.path().join("x.yml")), Err(WriteError::Name { .. })));
}

#[test]
fn removal_says_whether_there_was_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.json");
    write(&spec("A=1"), &path).unwrap();
    assert!(remove(&path).unwrap());
    assert!(!remove(&path).unwrap());
}

#[test]
fn other_files_that_define_the_same_device_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let own = two.join("own.json");
    write(&spec("A=1"), &own).unwrap();
    fs::create_dir(&one).unwrap();
    let dirs = [one.clone(), two.clone(), dir.path().join("missing")];
    fs::write(one.join("other.yaml"), "kind: vendor.com/class\ndevices: [{name: '1'}, {name: '0'}]\nnew: x\n").unwrap();
    fs::write(one.join("other.yml"), "kind: vendor.com/class\ndevices: [{name: '0'}]\n").unwrap();
    fs::write(one.join("else.json"), "{\"kind\": \"vendor.com/other\", \"devices\": [{\"name\": \"0\"}]}").unwrap();
    fs::write(two.join("broken.json"), "{").unwrap();
    let found = conflicts(&dirs, &own, "vendor.com/class", &["0", "all"]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].path.clone(), found[0].device.as_str()), (one.join("other.yaml"), "0"));
    assert_eq!(kind_of(&one.join("other.yaml")).as_deref(), Some("vendor.com/class"));
    assert_eq!(kind_of(&two.join("broken.json")), None);
    assert_eq!(kind_of(&one), None);
}
