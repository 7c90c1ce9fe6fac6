//! Reads flags, starts the daemon or asks the running one, and turns the end into an exit code. See [`nri_plugin::exit`] for the codes.
use clap::Parser;
use nri_plugin::app::App;
use nri_plugin::command::{self, Command};
use nri_plugin::config::{Config, Flags};
use nri_plugin::exit::Failure;
use nri_plugin::log::Format;
use nri_plugin::{control, events, log, metrics, session};
use std::process::ExitCode;
use std::sync::Arc;
use tracing::error;

fn main() -> ExitCode {
    let mut flags = Flags::parse();
    let done = match flags.command.take().unwrap_or_default() {
        Command::Run => {
            let config = Config::load(flags);
            log::start(config.as_ref().map_or_else(|_| Format::default(), |config| config.log_format));
            config
                .map_err(Failure::from)
                .and_then(|config| run(&config))
                .inspect_err(|failure| error!(event = events::DAEMON_FAILED, "{failure}"))
        }
        asked => ask(&asked, flags).inspect_err(|failure| eprintln!("nri-plugin: {failure}")),
    };
    done.map_or_else(|failure| failure.code(), |()| ExitCode::SUCCESS)
}

fn run(config: &Config) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let app = Arc::new(App::new(config.clone())?);
        let control = control::open(&config.run_dir, config.status_group)?;
        tokio::spawn(control::serve(control, Arc::clone(&app)));
        tokio::spawn(metrics::serve::run(config.metrics.clone(), config.status_group, Arc::clone(&app)));
        app.warm_up().await;
        tokio::spawn(Arc::clone(&app).audit_forever());
        Ok(session::run(app, config).await?)
    })
}

/// A person's command.
fn ask(asked: &Command, flags: Flags) -> Result<(), Failure> {
    let config = Config::load(flags)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match asked {
            Command::Run => Ok(()),
            Command::Status(arguments) => Ok(command::status(arguments, &config).await?),
            Command::SetQuota(arguments) => Ok(command::set_quota(arguments, &config).await?),
        }
    })
}
