//! `cargo xtask`: the one door to every workflow of this repository.

mod build;
mod check;
mod clients;
mod demo;
mod elf;
mod fetch;
mod fuzz;
mod oracles;
mod run;
mod test;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Builds, checks, tests and shows gpu-quota.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Flags {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Bring the pinned packages that tests and demo need into the cache folder
    Fetch,
    /// Build programs, interposer, simulated driver and guest into the stage folder
    Build {
        /// With the release profile, as it ships
        #[arg(long)]
        release: bool,
    },
    /// Format, lints, documentation, the table of arrows, file rules
    Check,
    /// The interposer's ELF: nothing needed, nothing versioned, exactly the expected names
    Elf {
        /// Not the one that this builds, but another, as for another machine
        library: Option<PathBuf>,
    },
    /// Fetch, build, check, and run every test; the last line counts them
    Test,
    /// Fetch big real clients (1 GB) and run them on the simulated driver, and current ones where the machine has an NVIDIA GPU
    Clients,
    /// Run the criterion benchmarks
    Bench,
    /// Fuzz what reads other people's bytes; needs a nightly toolchain (rustup toolchain install nightly)
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// The reference scenario in real containers on a private containerd
    Demo {
        /// With the machine's own NVIDIA driver and GPU instead of the simulated ones
        #[arg(long)]
        real_driver: bool,
    },
}

fn main() -> ExitCode {
    match run(&Flags::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<()> {
    let root = root()?;
    match task {
        Task::Fetch => fetch::run(&root).map(drop),
        Task::Build { release } => build::run(&root, *release).map(drop),
        Task::Check => check::run(&root),
        Task::Elf { library: Some(library) } => elf::run(&root, library),
        Task::Elf { library: None } => elf::run(&root, &build::run(&root, false)?.join("libgpu_quota.so")),
        Task::Test => test::run(&root),
        Task::Clients => clients::run(&root),
        Task::Bench => {
            let cache = fetch::run(&root)?;
            let stage = build::run(&root, true)?;
            oracles::peer(&cache)?;
            run::cargo(&root, &["bench", "--workspace", "--exclude", "interposer", "--bench", "*"])
                .env("GPU_QUOTA_STAGE", stage)
                .env("GPU_QUOTA_CACHE", cache)
                .done()
        }
        Task::Fuzz { seconds } => fuzz::run(&root, *seconds),
        Task::Demo { real_driver } => demo::run(&root, *real_driver),
    }
}

/// The workspace's root, wherever the command is called from.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask is not in a workspace")?.to_owned())
}
