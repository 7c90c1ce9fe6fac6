//! podman, with the root of its own release as its root, so that nothing of the machine is used or changed: neither its C library nor its
//! configuration, its containers or `/run`.
//!
//! Each call has mount and process namespaces of its own, which end with it: no mount and no process of a container can outlive the call.
use crate::scratch::own_group;
use crate::{image, parts};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where the guest's root is in podman's.
const GUEST: &str = "/guest";
/// Where podman keeps its containers, in its root.
const STORAGE: &str = "/var/lib/containers/storage";
/// Puts podman's root together and runs podman in it. The guest's root and podman's are layers over the fetched folders, which stay as they are; the
/// run's folder is where it is on the host, because the CDI file has paths of it.
const ENTER: &str = r#"
set -eu
release=$1 guest=$2 dir=$3 scratch=$4 cdi=$5
shift 5
layer() { mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/root"; }
layer "$release" "$dir/podman"
layer "$guest" "$dir/guest"
root=$dir/podman/root
mkdir -p "$root$scratch" "$root/guest"
mount --bind "$scratch" "$root$scratch"
mount --bind "$dir/guest/root" "$root/guest"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/run"
mkdir "$root/run/cdi"
mount --bind "$cdi" "$root/run/cdi"
exec timeout --kill-after=1 60 chroot "$root" /usr/bin/podman "$@"
"#;

/// A release of podman.
#[derive(Debug)]
pub struct Podman {
    release: PathBuf,
    guest: PathBuf,
    scratch: PathBuf,
    cdi: PathBuf,
    dir: PathBuf,
}

/// A container that has run to its end.
#[derive(Debug)]
pub struct Ended {
    /// Its OCI spec, as runc has read it.
    pub spec: String,
    /// What it printed.
    pub stdout: String,
}

impl Podman {
    /// A release in the cache folder, with its state in `p` of the run's folder and `cdi` as its folder of CDI files.
    ///
    /// # Errors
    /// Where it is not there, or a folder cannot be made.
    pub fn new(scratch: &Path, version: &str, cdi: &Path) -> Result<Self> {
        let cache = parts::cache()?;
        let (release, dir) = (cache.join("podman").join(version), scratch.join("p"));
        ensure!(release.join("usr/bin/podman").exists(), "no podman in {}; run cargo xtask fetch", release.display());
        for layer in ["podman", "guest"] {
            for folder in ["up", "work", "root"] {
                fs::create_dir_all(dir.join(layer).join(folder))?;
            }
        }
        image::add_to_guest(&dir.join("guest/up"), &cache)?;
        let up = dir.join("podman/up");
        fs::create_dir_all(up.join("usr/bin"))?;
        fs::copy(cache.join("runc/usr/sbin/runc"), up.join("usr/bin/runc")).context("cannot copy runc")?;
        fs::create_dir_all(up.join("etc/containers"))?;
        let config = "[engine]\nruntime = 'runc'\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n";
        fs::write(up.join("etc/containers/containers.conf"), config)?;
        let config =
            format!("[storage]\ndriver = 'vfs'\nrunroot = '/run/containers/storage'\ngraphroot = '{STORAGE}'\n");
        fs::write(up.join("etc/containers/storage.conf"), config)?;
        // As on every machine. Releases before 5.5 look for CDI files in /etc/cdi and /var/run/cdi, whatever their configuration says.
        fs::create_dir_all(up.join("var"))?;
        symlink("/run", up.join("var/run"))?;
        let (guest, scratch, cdi) = (cache.join("guest-root"), scratch.to_owned(), cdi.to_owned());
        Ok(Self { release, guest, scratch, cdi, dir })
    }

    /// Runs podman, for a minute at most.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub fn command(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]);
        command.args([&self.release, &self.guest, &self.dir, &self.scratch, &self.cdi]).args(arguments);
        // Nothing of the caller's environment reaches podman: it is configured by many variables.
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", "/root").env("PODMAN_IGNORE_CGROUPSV1_WARNING", "1").stdin(Stdio::null());
        command.output().context("cannot run unshare")
    }

    /// Runs a command in a container of the guest's root with a CDI device, to its end.
    ///
    /// # Errors
    /// podman's words, or the command's where it fails.
    pub fn run(&self, device: &str, volume: (&Path, &str), command: &[&str]) -> Result<Ended> {
        let (id_file, group) = (self.dir.join("id"), own_group(&self.scratch));
        let (id_flag, group) = (format!("--cidfile={}", id_file.display()), format!("--cgroup-parent=/{group}"));
        let volume = format!("{}:{}", volume.0.display(), volume.1);
        let flags = ["--network=none", &group, &id_flag, "--device", device, "--volume", &volume, "--rootfs", GUEST];
        let output = self.command(&[&["run"], &flags[..], command].concat())?;
        // It is there too where its spec could not be made.
        let id = fs::read_to_string(&id_file).context("podman wrote no id").with_context(|| words(&output))?;
        let container = self.dir.join(format!("podman/up{STORAGE}/vfs-containers/{id}"));
        let spec = fs::read_to_string(container.join("userdata/config.json"));
        // This removes the file of the id too.
        let removed = self.command(&["rm", "--force", "--time=0", &id])?;
        ensure!(output.status.success(), "{}", words(&output));
        ensure!(removed.status.success(), "podman rm: {}", words(&removed));
        let spec = spec.with_context(|| format!("no OCI spec in {}", container.display()))?;
        Ok(Ended { spec, stdout: String::from_utf8_lossy(&output.stdout).into_owned() })
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
