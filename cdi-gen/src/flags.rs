//! What was typed.
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Writes the node's CDI file (Container Device Interface) for NVIDIA GPUs.
#[derive(Debug, Parser)]
#[command(version, about, after_help = crate::exit::TABLE)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Looks at the driver and writes the CDI file
    Generate(Generate),
}

/// How to write the CDI file. Every flag is also an environment variable, for a systemd EnvironmentFile.
#[derive(Debug, Args)]
pub struct Generate {
    /// The file to write; must end in .json
    #[arg(long, env = "CDI_GEN_OUTPUT", default_value = "/run/cdi/gpu-quota.io-gpu.json")]
    pub output: PathBuf,
    /// vendor/class of the devices
    #[arg(long, env = "CDI_GEN_KIND", default_value = "gpu-quota.io/gpu", value_parser = kind)]
    pub kind: String,
    /// Root below which the driver's files are
    #[arg(long, env = "CDI_GEN_DRIVER_ROOT", default_value = "/")]
    pub driver_root: PathBuf,
    /// Root below which dev/ holds the device nodes
    #[arg(long, env = "CDI_GEN_DEV_ROOT", default_value = "/")]
    pub dev_root: PathBuf,
    /// The host's procfs
    #[arg(long, env = "CDI_GEN_PROC_ROOT", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// NVML's library file [default: libnvidia-ml.so.1 below the driver root]
    #[arg(long, env = "CDI_GEN_NVML_PATH")]
    pub nvml_path: Option<PathBuf>,
    /// Folders in which runtimes look for CDI files, searched for others that define the same devices
    #[arg(long, env = "CDI_GEN_SPEC_DIRS", value_delimiter = ',', default_values = cdi::DEFAULT_DIRS)]
    pub spec_dirs: Vec<PathBuf>,
}

fn kind(text: &str) -> Result<String, String> {
    let good = cdi::name::is_kind(text);
    let rule = "it must be vendor/class, each beginning with a letter and ending with a letter or digit";
    if good { Ok(text.to_owned()) } else { Err(rule.to_owned()) }
}
