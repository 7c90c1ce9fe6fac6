//! The daemon under test, as a process that can be killed and started again.
use crate::containerd::{tail, wait_for};
use crate::node::Node;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A running nri-plugin.
#[derive(Debug)]
pub struct Plugin {
    child: Child,
    /// What it logged since it was started.
    pub log: PathBuf,
}

impl Plugin {
    /// Starts the daemon, and waits until the runtime has told it all containers.
    ///
    /// # Errors
    /// Where it ends or never gets there.
    pub fn start(dir: &Path, stage: &Path, node: &Node, socket: &Path) -> Result<Self> {
        let log = dir.join("nri-plugin.log");
        let child = node
            .command(&stage.join("nri-plugin"))
            .args(&node.flags)
            .arg("--nri-socket")
            .arg(socket)
            .arg("--run-dir")
            .arg(dir.join("run"))
            .arg("--library")
            .arg(stage.join("libgpu_quota.so"))
            .arg("--library-dir")
            .arg(dir.join("lib"))
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
        std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text))
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
