//! The folder of one run, and the promise that nothing which was started, mounted or made in it stays: not after a failure, not after Ctrl-C, and not
//! after the run was killed, because the next run clears up behind it.
//!
//! It ends only processes that run in the folder: by what they are and where they run, never by a name alone.
use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// Start of the folder's name, in the folder for temporary files.
const PREFIX: &str = "gpu-quota-";
/// Locked as long as the run lives.
const LOCK: &str = "lock";
/// What is started in the folder and outlives us where it is not ended. Names as the kernel cuts them.
const PROGRAMS: [&str; 4] = ["containerd", "containerd-shim", "nri-plugin", "runc"];
/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// The folder of one run.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _alive: File,
}

impl Scratch {
    /// Clears up behind runs that were killed, and makes a folder.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn new() -> Result<Self> {
        clear_up_behind_the_dead(&std::env::temp_dir());
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().context("cannot make a scratch folder")?;
        let fresh = dir.path().join("lock.new");
        let alive = File::create(&fresh)?;
        flock(&alive, FlockOperation::LockExclusive)?;
        // Under its name only when it is locked, so that no other run takes this one for dead.
        fs::rename(&fresh, dir.path().join(LOCK))?;
        clear_up_on_signals(dir.path().to_owned())?;
        Ok(Self { dir, _alive: alive })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        empty(self.dir.path());
    }
}

/// Ends the run on SIGINT and SIGTERM as on any other way out.
fn clear_up_on_signals(dir: PathBuf) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wait = async move {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        Ok::<_, std::io::Error>(())
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if runtime.block_on(wait).is_ok() {
            empty(&dir);
            let _ = fs::remove_dir_all(&dir);
            std::process::exit(130);
        }
    })?;
    Ok(())
}

/// Removes the folders of runs that live no more.
fn clear_up_behind_the_dead(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let dir = entry.path();
        let ours = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == geteuid().as_raw());
        if !ours || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(dir.join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            empty(&dir);
            let _ = fs::remove_dir_all(&dir);
        }
    }
}

/// Ends what runs in the folder, and takes down what is mounted in it.
fn empty(dir: &Path) {
    let containers = fs::read_dir(dir.join("c/state/io.containerd.runtime.v2.task/k8s.io"));
    let containers: Vec<_> = containers.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    let end = Instant::now() + PATIENCE;
    loop {
        let processes = processes(dir);
        if processes.is_empty() {
            break;
        }
        if Instant::now() > end {
            eprintln!("processes that run in {} do not end: {processes:?}", dir.display());
            break;
        }
        for &process in &processes {
            let _ = kill_process(process, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    unmount_below(dir);
    for group in ["k8s.io"].into_iter().flat_map(groups) {
        for container in &containers {
            let _ = fs::remove_dir(group.join(container));
        }
        // Stays where somebody else has a container in it.
        let _ = fs::remove_dir(group);
    }
    for group in groups(&own_group(dir)) {
        for below in fs::read_dir(&group).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(below.path());
        }
        let _ = fs::remove_dir(group);
    }
}

/// The cgroup of the run in `dir`, for what can be told where to put its containers.
#[must_use]
pub fn own_group(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The programs that run in the folder, and the processes whose root file system is in it.
fn processes(dir: &Path) -> Vec<Pid> {
    let marker = dir.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|pid| *pid != rustix::process::getpid()) else { continue };
        let text = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let text = |file: &str| String::from_utf8_lossy(&text(file)).into_owned();
        let started = PROGRAMS.contains(&text("comm").trim_end()) && text("cmdline").contains(&marker);
        if started || root_is_in(&text("mountinfo"), &marker) {
            found.push(pid);
        }
    }
    found
}

/// Whether the mount at `/` has its files in `dir`. Other mounts prove nothing: a service with mounts of its own sees copies of ours.
fn root_is_in(mountinfo: &str, dir: &str) -> bool {
    let upper = format!("upperdir={dir}/");
    mountinfo.lines().any(|line| line.split(' ').nth(4) == Some("/") && line.contains(&upper))
}

fn unmount_below(dir: &Path) {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts =
        text.lines().filter_map(|line| line.split(' ').nth(1)).filter(|mount| Path::new(mount).starts_with(dir));
    for mount in mounts.collect::<Vec<_>>().iter().rev() {
        let _ = rustix::mount::unmount(*mount, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Where a cgroup can be: in the one hierarchy of version 2, and in each controller's of version 1.
fn groups(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = controllers.chain([root.to_owned()]).map(|place| place.join(name));
    all.filter(|group| group.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_root_mount_tells_where_a_process_runs() {
        let service = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / /t/gpu-quota-a/c/rootfs rw - overlay overlay rw,upperdir=/t/gpu-quota-a/up\n";
        assert!(!root_is_in(service, "/t/gpu-quota-a"));
        let container = "7 6 0:5 / / ro - overlay overlay rw,lowerdir=/t/gpu-quota-a/1,upperdir=/t/gpu-quota-a/up\n";
        assert!(root_is_in(container, "/t/gpu-quota-a"));
        assert!(!root_is_in(container, "/t/gpu-quota-"));
    }

    #[test]
    fn the_folders_of_the_dead_go_and_those_of_the_living_stay() {
        let temporary = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            fs::create_dir(temporary.path().join(name)).unwrap();
            File::create(temporary.path().join(name).join(LOCK)).unwrap()
        };
        drop(make("gpu-quota-dead"));
        drop(make("other-dead"));
        let alive = make("gpu-quota-alive");
        flock(&alive, FlockOperation::LockExclusive).unwrap();
        fs::create_dir(temporary.path().join("gpu-quota-young")).unwrap();
        clear_up_behind_the_dead(temporary.path());
        let left = fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["gpu-quota-alive", "gpu-quota-young", "other-dead"]);
    }
}
