//! The lab's daemon: started, killed, and asked as people and programs ask it.
use super::Lab;
use crate::plugin::{self, Plugin};
use anyhow::{Context, Result};
use std::path::PathBuf;

impl Lab {
    /// Starts the daemon.
    ///
    /// # Errors
    /// Where it does not come up.
    pub fn start_plugin(&self) -> Result<()> {
        let (socket, flags) = (self.containerd.nri_socket(), self.flags.borrow());
        let plugin = Plugin::start(self.dir.path(), &self.stage, &self.node, &socket, &flags)?;
        self.plugin.replace(Some(plugin));
        Ok(())
    }

    /// Starts the daemon anew with further flags, from now on.
    ///
    /// # Errors
    /// Where it does not run, or does not come up.
    pub fn restart_plugin_with(&self, flags: &[&str]) -> Result<()> {
        self.flags.replace(flags.iter().map(|&flag| flag.to_owned()).collect());
        self.kill_plugin()?;
        self.start_plugin()
    }

    /// A part in the stage folder.
    #[must_use]
    pub fn staged(&self, name: &str) -> PathBuf {
        self.stage.join(name)
    }

    /// Kills the daemon with SIGKILL.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn kill_plugin(&self) -> Result<()> {
        self.plugin.take().context("the daemon does not run")?.kill()
    }

    /// Whether the daemon has logged a text since it was started.
    #[must_use]
    pub fn plugin_said(&self, text: &str) -> bool {
        self.plugin.borrow().as_ref().is_some_and(|plugin| plugin.said(text))
    }

    /// Runs a person's command of the daemon, and returns its exit code, standard output and standard error.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub fn ask(&self, words: &[&str]) -> Result<(Option<i32>, String, String)> {
        plugin::ask(self.dir.path(), &self.stage, words)
    }

    /// What the daemon's metrics socket answers to a path.
    ///
    /// # Errors
    /// Where nobody answers.
    pub fn scrape(&self, path: &str) -> Result<String> {
        plugin::scrape(self.dir.path(), path)
    }
}
