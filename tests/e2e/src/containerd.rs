//! A private containerd: its own root, state and sockets in the run's scratch folder, real runc, NRI on.
use crate::cri::Cri;
use crate::image;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take that is waited for.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A release of containerd, unpacked.
#[derive(Clone, Debug)]
pub struct Release {
    /// The folder that holds `containerd`, `containerd-shim-runc-v2` and `ctr`.
    pub bin: PathBuf,
    /// The shape of its configuration file.
    pub schema: Schema,
}

/// The shape of containerd's configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// Version 2, of containerd 1.7.
    V2,
    /// Version 3, of containerd 2.
    V3,
}

impl Release {
    /// A release in the cache folder.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn fetched(cache: &Path, version: &str) -> Result<Self> {
        let schema = if version.starts_with("1.") { Schema::V2 } else { Schema::V3 };
        let bin = cache.join("containerd").join(version).join("usr/bin");
        ensure!(bin.join("containerd").exists(), "no containerd in {}; run cargo xtask fetch", bin.display());
        Ok(Self { bin, schema })
    }
}

/// A running containerd.
#[derive(Debug)]
pub struct Containerd {
    dir: PathBuf,
    release: Release,
    daemon: Child,
    /// Its container runtime interface.
    pub cri: Cri,
}

impl Containerd {
    /// Starts containerd in `dir`, and imports the images.
    ///
    /// # Errors
    /// Where it does not come up.
    pub fn start(dir: &Path, release: Release, cache: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let config = dir.join("config.toml");
        fs::write(&config, config_text(dir, release.schema, &cache.join("runc/usr/sbin/runc")))?;
        let log = File::create(dir.join("containerd.log"))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let daemon = Command::new(release.bin.join("containerd"))
            .arg("--config")
            .arg(&config)
            .env("PATH", format!("{}:{path}", release.bin.display()))
            // runc's own libraries; nothing of this reaches a container.
            .env("LD_LIBRARY_PATH", cache.join("runc/usr/lib/x86_64-linux-gnu"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", release.bin.join("containerd").display()))?;
        let cri = Cri::new(&dir.join("c.sock"))?;
        let containerd = Self { dir: dir.to_owned(), release, daemon, cri };
        wait_for("containerd", || Ok(containerd.cri.version().is_ok()))
            .with_context(|| tail(&dir.join("containerd.log")))?;
        let images = dir.join("images");
        fs::create_dir_all(&images)?;
        for file in image::make(&images, cache)? {
            containerd.ctr(&["images", "import", &file.display().to_string()])?;
        }
        fs::remove_dir_all(&images)?;
        Ok(containerd)
    }

    /// The NRI socket.
    #[must_use]
    pub fn nri_socket(&self) -> PathBuf {
        self.dir.join("n.sock")
    }

    /// The OCI spec of a container, as runc reads it.
    ///
    /// # Errors
    /// Where there is none.
    pub fn oci_spec(&self, id: &str) -> Result<String> {
        let path = self.dir.join("state/io.containerd.runtime.v2.task/k8s.io").join(id).join("config.json");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn ctr(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.release.bin.join("ctr"));
        command.arg("--address").arg(self.dir.join("c.sock")).args(["--namespace", "k8s.io"]).args(arguments);
        let output = command.output().context("cannot run ctr")?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // What it started goes with the scratch folder.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Polls until `is` says so.
///
/// # Errors
/// What `is` fails with, or that it never came.
pub fn wait_for(what: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if is()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("waited {} s for {what}", PATIENCE.as_secs())
}

/// The end of a log, for an error message.
#[must_use]
pub fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    format!("{}:\n{}", log.display(), lines[lines.len().saturating_sub(30)..].join("\n"))
}

/// The configuration: everything in our folder, no network plugin, no score below our own.
fn config_text(dir: &Path, schema: Schema, runc: &Path) -> String {
    let (dir, runc) = (dir.display(), runc.display());
    let (version, runtime, images) = match schema {
        Schema::V2 => (
            2,
            "io.containerd.grpc.v1.cri",
            format!("[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = '{}'\n", image::BUSYBOX),
        ),
        Schema::V3 => (
            3,
            "io.containerd.cri.v1.runtime",
            format!("[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = '{}'\n", image::BUSYBOX),
        ),
    };
    let settings = format!("restrict_oom_score_adj = true\nenable_cdi = true\ncdi_spec_dirs = ['{dir}/cdi']\n");
    let (over, settings) = match schema {
        Schema::V2 => (format!("{images}{settings}"), String::new()),
        Schema::V3 => (images, format!("[plugins.'{runtime}']\n{settings}")),
    };
    format!(
        "version = {version}\nroot = '{dir}/root'\nstate = '{dir}/state'\n\
         [grpc]\naddress = '{dir}/c.sock'\n[ttrpc]\naddress = '{dir}/t.sock'\n\
         {over}{settings}\
         [plugins.'{runtime}'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n\
         [plugins.'{runtime}'.containerd.runtimes.runc.options]\nBinaryName = '{runc}'\nSystemdCgroup = false\n\
         [plugins.'io.containerd.nri.v1.nri']\ndisable = false\nsocket_path = '{dir}/n.sock'\n\
         plugin_path = '{dir}/nri-plugins'\nplugin_config_path = '{dir}/nri-conf'\n"
    )
}
