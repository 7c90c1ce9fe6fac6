//! Keeps the daemon connected: connects again when the runtime restarts or is not there yet, and ends on a signal.
use crate::app::App;
use crate::config::Config;
use crate::events;
use containerd_nri::{Stub, StubError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Why the daemon gives up.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The connection that containerd handed over ended with an error; there is no other.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signal(#[from] std::io::Error),
}

/// Serves until SIGTERM or SIGINT, or, where containerd started the daemon, until its connection ends.
///
/// # Errors
/// [`SessionError`].
pub async fn run(app: Arc<App>, config: &Config) -> Result<(), SessionError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        ended = serve(app, config) => ended,
        _ = terminate.recv() => { info!(event = events::DAEMON_ENDS, "ends on SIGTERM"); Ok(()) }
        _ = interrupt.recv() => { info!(event = events::DAEMON_ENDS, "ends on SIGINT"); Ok(()) }
    }
}

async fn serve(app: Arc<App>, config: &Config) -> Result<(), SessionError> {
    let mut wait = SHORTEST_WAIT;
    loop {
        let stub = Stub::new(Arc::clone(&app), &*config.name, &*config.index).socket(&config.nri_socket);
        let started = Instant::now();
        let ended = stub.run().await;
        app.disconnected();
        if Stub::<App>::is_inherited() {
            return Ok(ended?);
        }
        match ended {
            Ok(()) => warn!(event = events::RUNTIME_LOST, "the runtime closed the connection"),
            Err(error) => warn!(event = events::RUNTIME_LOST, "{error}"),
        }
        // A connection that held means that the runtime was fine, so the next try is soon.
        wait = if started.elapsed() > LONGEST_WAIT { SHORTEST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        tokio::time::sleep(wait).await;
    }
}
