//! One process as procfs tells it, and its end. Processes come and go while they are looked at, and everything in procfs that a process has a say in is
//! hostile: reads are bounded, and a pid is never trusted to be the same process twice.
use super::cgroup;
use quota::ledger::Owner;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The interposer's file name, as mappings show it.
const LIBRARY: &str = "/libgpu_quota.so";
/// The longest small file of procfs that is read, and the longest list of mappings.
const MOST: u64 = 64 << 10;
const MOST_MAPS: u64 = 16 << 20;

/// A process in a container that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The container's id.
    pub container: String,
    /// Who it is, as the interposer in it would say.
    pub owner: Owner,
    /// Whether the interposer is mapped.
    pub interposed: bool,
}

/// Looks at a process; `None` where it is gone, or in no container of `known`.
#[must_use]
pub fn look(proc_root: &Path, pid: u32, known: impl Fn(&str) -> bool) -> Option<Process> {
    let home = proc_root.join(pid.to_string());
    let start = start(&home)?;
    let container = cgroup::container(&read(&home.join("cgroup"), MOST)?, known)?.to_owned();
    let status = read(&home.join("status"), MOST)?;
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()?;
    let namespace = std::fs::read_link(home.join("ns/pid")).ok()?;
    let namespace = namespace.to_str()?.trim_start_matches("pid:[").trim_end_matches(']').parse().ok()?;
    let maps = read(&home.join("maps"), MOST_MAPS)?;
    let interposed = maps.lines().any(|line| line.ends_with(LIBRARY));
    // The pid may have become another process's while we looked.
    (self::start(&home)? == start).then_some(Process {
        container,
        owner: Owner { pid: inner, start, namespace },
        interposed,
    })
}

/// Kills a process of a container, if it is still that one.
///
/// The descriptor holds the process: once it is open, what procfs says under the pid is of that process or nothing, and so is what the signal reaches.
///
/// # Errors
/// Where it is gone, or is another, or the system refuses.
pub fn kill(proc_root: &Path, pid: u32, process: &Process) -> io::Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let held = pidfd_open(number, PidfdFlags::empty())?;
    let home = proc_root.join(pid.to_string());
    let same_start = start(&home) == Some(process.owner.start);
    let text = read(&home.join("cgroup"), MOST).unwrap_or_default();
    if !same_start || cgroup::container(&text, |name| name == process.container).is_none() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the process is gone or in another cgroup"));
    }
    Ok(pidfd_send_signal(&held, Signal::KILL)?)
}

/// When it started, in ticks since boot: field 22 of its `stat`. The name in field 2 may hold anything, and its last parenthesis ends it.
fn start(home: &Path) -> Option<u64> {
    let stat = read(&home.join("stat"), MOST)?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn read(path: &Path, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    /// A procfs in which a pid is in container "c1".
    fn procfs(pid: u32, start: u64, maps: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join(pid.to_string());
        fs::create_dir_all(home.join("ns")).unwrap();
        fs::write(home.join("cgroup"), "0::/kubepods/pod1/c1\n").unwrap();
        let fields = ["0"; 18].join(" ");
        fs::write(home.join("stat"), format!("{pid} (a) b) S {fields} {start} 0\n")).unwrap();
        fs::write(home.join("status"), format!("Name:\tx\nNSpid:\t{pid}\t7\n")).unwrap();
        fs::write(home.join("maps"), maps).unwrap();
        symlink("pid:[4026531836]", home.join("ns/pid")).unwrap();
        dir
    }

    fn child() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_process_is_told_as_its_interposer_would() {
        let maps = "7f00-7f01 r-xp 00000000 00:1f 77 /run/gpu-quota/libgpu_quota.so\n";
        let dir = procfs(42, 900, maps);
        let process = look(dir.path(), 42, |name| name == "c1").unwrap();
        let owner = Owner { pid: 7, start: 900, namespace: 4_026_531_836 };
        assert_eq!(process, Process { container: "c1".to_owned(), owner, interposed: true });
        assert_eq!(look(dir.path(), 42, |_| false), None);
        assert_eq!(look(dir.path(), 43, |_| true), None);
        let dir = procfs(42, 900, "7f00-7f01 r-xp 00000000 00:1f 77 /libgpu_quota.so (deleted)x\n");
        assert!(!look(dir.path(), 42, |_| true).unwrap().interposed);
        for file in ["stat", "status", "cgroup"] {
            let dir = procfs(42, 900, "");
            fs::write(dir.path().join("42").join(file), [0xff, b')', b'\n']).unwrap();
            assert_eq!(look(dir.path(), 42, |_| true), None, "{file}");
        }
    }

    #[test]
    fn what_procfs_says_of_ourselves_can_be_read() {
        let pid = std::process::id();
        let started = start(&Path::new("/proc").join(pid.to_string()));
        assert!(started.is_some_and(|start| start > 0));
    }

    #[test]
    fn only_the_very_process_in_its_container_is_killed() {
        let mut living = child();
        let dir = procfs(living.id(), 900, "");
        let process = look(dir.path(), living.id(), |_| true).unwrap();
        let other = |change: fn(&mut Process)| {
            let mut other = process.clone();
            change(&mut other);
            other
        };
        for wrong in [other(|it| it.owner.start = 901), other(|it| it.container = "c2".to_owned())] {
            assert_eq!(kill(dir.path(), living.id(), &wrong).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        assert!(living.try_wait().unwrap().is_none(), "another process was killed");
        kill(dir.path(), living.id(), &process).unwrap();
        assert_eq!(living.wait().unwrap().signal(), Some(9));
        assert!(kill(dir.path(), living.id(), &process).is_err(), "a process that is gone");
        assert!(kill(dir.path(), 0, &process).is_err());
    }
}
