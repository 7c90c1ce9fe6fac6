//! The daemon under test, as a process that can be killed and started again.
use crate::containerd::{tail, wait_for};
use crate::node::Node;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the daemon logs, in its folder.
pub const LOG: &str = "nri-plugin.log";

/// The daemon's flags on this node, without those that say how it is connected.
fn arguments(dir: &Path, stage: &Path, node: &Node) -> Vec<String> {
    let flags = [
        ("--run-dir", dir.join("run")),
        ("--library", stage.join("libgpu_quota.so")),
        ("--library-dir", dir.join("lib")),
    ];
    let flags = flags.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]);
    let metrics = ["--metrics".to_owned(), format!("unix:{}", dir.join("metrics.sock").display())];
    node.flags.iter().cloned().chain(flags).chain(metrics).collect()
}

/// Puts the daemon into containerd's plugin folder, which starts it with an environment of three variables. A script stands for the configuration
/// file that a node would have.
///
/// # Errors
/// Where the file cannot be written.
pub fn install(folder: &Path, dir: &Path, stage: &Path, node: &Node) -> Result<()> {
    fs::create_dir_all(folder)?;
    let sim = node.sim.as_ref().map(|sim| format!("export SIM_DRIVER_DIR='{}'\n", sim.display())).unwrap_or_default();
    let program = stage.join("nri-plugin").display().to_string();
    let words: Vec<String> =
        [program].into_iter().chain(arguments(dir, stage, node)).map(|word| format!("'{word}'")).collect();
    let script = format!("#!/bin/sh\n{sim}exec {} 2>>'{}'\n", words.join(" "), dir.join(LOG).display());
    let file = folder.join("10-gpu-quota");
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Runs a person's command of the daemon, and returns its exit code, standard output and standard error.
///
/// # Errors
/// Where it cannot be run.
pub fn ask(dir: &Path, stage: &Path, words: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = Command::new(stage.join("nri-plugin"));
    let output = command.args(words).arg("--run-dir").arg(dir.join("run")).stdin(Stdio::null()).output();
    let output = output.context("cannot run nri-plugin")?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((output.status.code(), text(output.stdout), text(output.stderr)))
}

/// What the daemon's metrics socket answers to a path: status line, headers and body.
///
/// # Errors
/// Where nobody answers.
pub fn scrape(dir: &Path, path: &str) -> Result<String> {
    let mut stream = UnixStream::connect(dir.join("metrics.sock")).context("the metrics socket")?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A running nri-plugin.
#[derive(Debug)]
pub struct Plugin {
    child: Child,
    /// What it logged since it was started.
    pub log: PathBuf,
}

impl Plugin {
    /// Starts the daemon with further flags, and waits until the runtime has told it all containers.
    ///
    /// # Errors
    /// Where it ends or never gets there.
    pub fn start(dir: &Path, stage: &Path, node: &Node, socket: &Path, flags: &[String]) -> Result<Self> {
        let log = dir.join(LOG);
        let child = node
            .command(&stage.join("nri-plugin"))
            .args(arguments(dir, stage, node))
            .arg("--nri-socket")
            .arg(socket)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot start nri-plugin")?;
        let mut plugin = Self { child, log };
        wait_for("nri-plugin", || {
            let ended = plugin.child.try_wait()?;
            ensure!(ended.is_none(), "nri-plugin ended: {}", tail(&plugin.log));
            Ok(plugin.said("the book is rebuilt"))
        })
        .with_context(|| tail(&plugin.log))?;
        Ok(plugin)
    }

    /// Whether the log holds a text.
    #[must_use]
    pub fn said(&self, text: &str) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text))
    }

    /// Kills the daemon with SIGKILL.
    ///
    /// # Errors
    /// Where it is gone already.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
