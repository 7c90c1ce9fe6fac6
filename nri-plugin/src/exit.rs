//! How the program ends, in one place.
use crate::app::StartError;
use crate::command::CommandError;
use crate::config::ConfigError;
use crate::control::ControlError;
use crate::session::SessionError;
use std::process::ExitCode;

/// Why the program ended.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Exit code 3: flags or configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Exit code 4: the interposer, the run folder, or another daemon in it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Exit code 4: the control socket in the run folder.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Exit code 5: the connection that containerd handed over.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Exit code 6: the operating system refused threads, timers or signals.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
    /// Exit code 7: a command that the running daemon did not do.
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl Failure {
    /// The exit code; 0 is an ordinary end, 2 a flag that clap refuses.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Config(_) => 3,
            Self::Start(_) | Self::Control(_) => 4,
            Self::Session(_) => 5,
            Self::System(_) => 6,
            Self::Command(_) => 7,
        })
    }
}
