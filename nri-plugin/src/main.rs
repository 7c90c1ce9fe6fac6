//! Reads flags, starts the daemon, and turns its end into an exit code. See [`nri_plugin::exit`] for the codes.
use clap::Parser;
use nri_plugin::app::App;
use nri_plugin::config::{Config, Flags};
use nri_plugin::exit::Failure;
use nri_plugin::session;
use std::process::ExitCode;
use std::sync::Arc;
use tracing::error;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_env("GPU_QUOTA_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!("{failure}");
            failure.code()
        }
    }
}

fn run(flags: Flags) -> Result<(), Failure> {
    let config = Config::load(flags)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let app = Arc::new(App::new(config.clone())?);
        app.warm_up().await;
        Ok(session::run(app, &config).await?)
    })
}
