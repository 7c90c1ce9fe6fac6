//! A bundle in a temporary folder, the hook run on it as a runtime would, and what the machine's ldconfig says of the outcome.
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const HOOK: &str = env!("CARGO_BIN_EXE_gpu-quota-ldcache-hook");
/// What most tests ask for.
pub(crate) const LIB64: [&str; 3] = ["update", "--folder", "/usr/lib64"];

pub(crate) struct Bundle {
    pub(crate) dir: TempDir,
}

impl Bundle {
    /// A bundle whose root has `/etc` and `/usr/lib64/libcuda.so.1`.
    pub(crate) fn new() -> Self {
        let bundle = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::write(bundle.dir.path().join("config.json"), r#"{"ociVersion":"1.2.0","root":{"path":"rootfs"}}"#)
            .unwrap();
        std::fs::create_dir_all(bundle.at("etc")).unwrap();
        bundle.library("usr/lib64/libcuda.so.1");
        bundle
    }

    /// Where a path of the root is.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("rootfs").join(path)
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.at("etc/ld.so.cache")
    }

    /// Puts the first bytes of a library of this machine there.
    pub(crate) fn library(&self, path: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), header()).unwrap();
    }

    /// The state that a runtime gives to its hooks.
    pub(crate) fn state(&self) -> String {
        let bundle = self.dir.path().to_str().unwrap();
        format!(
            r#"{{"ociVersion":"1.2.0","id":"a","status":"created","pid":1,"bundle":"{bundle}","annotations":{{}}}}"#
        )
    }

    /// Runs the hook: what it says on stderr, after its name.
    pub(crate) fn hook(&self, args: &[&str]) -> String {
        run(Command::new(HOOK).args(args), self.state().as_bytes())
    }

    /// Name and path of each entry that ldconfig prints.
    pub(crate) fn printed(&self) -> Vec<String> {
        let program =
            ["/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter().find(|path| Path::new(path).exists()).unwrap();
        let out = Command::new(program).args(["-p", "-C"]).arg(self.cache()).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        let line = |line: &str| {
            let (name, path) = line.trim().split_once(" => ")?;
            Some(format!("{} {path}", name.split_once(" (")?.0))
        };
        text.lines().filter_map(line).collect()
    }

    /// The cache has the one library, is a plain file that all may read, and nothing else was left in `/etc`.
    pub(crate) fn assert_added(&self) {
        assert_eq!(self.printed(), ["libcuda.so.1 /usr/lib64/libcuda.so.1"]);
        let metadata = std::fs::symlink_metadata(self.cache()).unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o644);
        assert_eq!(std::fs::read_dir(self.at("etc")).unwrap().count(), 1);
    }
}

/// The first bytes of a library of this machine.
pub(crate) fn header() -> Vec<u8> {
    let mut bytes = std::fs::read(HOOK).unwrap();
    bytes.truncate(64);
    assert_eq!(bytes.get(16), Some(&3), "programs are position independent, so their header is a library's");
    bytes
}

/// Runs a program with these bytes on stdin. Whatever happens it exits with 0, soon, with one line at most and nothing on stdout.
pub(crate) fn run(command: &mut Command, stdin: &[u8]) -> String {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let out = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_mins(1), "{out:?}");
    said(&out)
}

/// What it said, after its name.
pub(crate) fn said(out: &Output) -> String {
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(out.stdout.is_empty(), "{out:?}");
    let text = String::from_utf8(out.stderr.clone()).unwrap();
    assert!(text.lines().count() <= 1, "{text}");
    text.trim_end().trim_start_matches("gpu-quota-ldcache-hook: ").to_owned()
}
