//! Runs other programs: says what it runs, and turns a failure into an error that names it.
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// A program about to run.
pub(crate) struct Run {
    command: Command,
    quiet: bool,
}

/// `program` with `arguments`.
pub(crate) fn program<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Run {
    let mut command = Command::new(program);
    command.args(arguments);
    Run { command, quiet: false }
}

/// cargo in the workspace's root.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Run {
    let mut run = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments);
    run.command.current_dir(root);
    run
}

impl Run {
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Does not say what runs.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Says what is about to run, and hands it over.
    pub(crate) fn command(self) -> Command {
        if !self.quiet {
            println!("+ {}", words(&self.command));
        }
        self.command
    }

    /// Runs to a successful end.
    pub(crate) fn done(self) -> Result<()> {
        let words = words(&self.command);
        let status = self.command().status().with_context(|| format!("cannot run {words}"))?;
        if status.success() { Ok(()) } else { bail!("{words}: {status}") }
    }
}

fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
