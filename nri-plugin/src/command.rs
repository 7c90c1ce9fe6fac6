//! What the program is asked to do: to be the daemon, or to say something to it.
use crate::config::Config;
use crate::control::{self, ChangedQuota, ClientError, NewQuota};
use crate::place::Places;
use crate::status::{self, Status, table};
use crate::{amount, files};
use clap::{Args, Subcommand};
use hyper::Method;
use quota::Bytes;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// What to do; without a word, to be the daemon.
#[derive(Clone, Debug, Default, Subcommand)]
pub enum Command {
    /// Be the daemon that containerd asks; so too without a subcommand
    #[default]
    Run,
    /// Tell who holds and uses which share of which card
    Status(StatusArgs),
    /// Give a running container another share; its processes see it at once
    SetQuota(SetQuotaArgs),
}

/// How the status is told.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print it again every so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
}

/// Which share becomes what.
#[derive(Clone, Debug, Args)]
pub struct SetQuotaArgs {
    /// Id, beginning of an id, or namespace/pod/container
    container: String,
    /// The share, such as 5GiB or 5120MiB
    #[arg(value_parser = amount::parse)]
    quota: Bytes,
    /// Index of the card, where the container has shares of several
    #[arg(long)]
    card: Option<u32>,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The daemon did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What the status is cannot be written.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
    /// The status is no JSON.
    #[error("cannot print: {0}")]
    Json(#[from] serde_json::Error),
}

/// Prints the status, once or until the reader is gone.
///
/// # Errors
/// [`CommandError`].
pub async fn status(arguments: &StatusArgs, config: &Config) -> Result<(), CommandError> {
    let terminal = io::stdout().is_terminal();
    let mut before = "";
    loop {
        let status = ask_status(config).await?;
        let text = if arguments.json { serde_json::to_string(&status)? + "\n" } else { table::print(&status) };
        let mut out = io::stdout().lock();
        match write!(out, "{before}{text}").and_then(|()| out.flush()) {
            // Who reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => other?,
        }
        drop(out);
        let Some(seconds) = arguments.watch else { return Ok(()) };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        before = match (arguments.json, terminal) {
            (true, _) => "",
            (false, true) => "\u{1b}[H\u{1b}[2J",
            (false, false) => "\n",
        };
    }
}

async fn ask_status(config: &Config) -> Result<Status, CommandError> {
    match control::ask(&config.run_dir, Method::GET, control::STATUS, &()).await {
        Err(error) if error.is_away() => {
            let mut status = status::without_daemon(&Places::below(&config.run_dir));
            if let Err(source) = std::fs::metadata(&config.run_dir) {
                status.faults.push(files::FileError::new("look at", &config.run_dir, source).to_string());
            }
            Ok(status)
        }
        other => Ok(other?),
    }
}

/// Gives a container another share, and says what it was.
///
/// # Errors
/// [`CommandError`].
pub async fn set_quota(arguments: &SetQuotaArgs, config: &Config) -> Result<(), CommandError> {
    let new = NewQuota { container: arguments.container.clone(), card: arguments.card, bytes: arguments.quota.0 };
    let changed: ChangedQuota = control::ask(&config.run_dir, Method::PUT, control::QUOTA, &new).await?;
    let ChangedQuota { name, card, before, bytes, .. } = changed;
    writeln!(io::stdout(), "{name}: card {card}: {}, was {}", Bytes(bytes), Bytes(before))?;
    Ok(())
}
