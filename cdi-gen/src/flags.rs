//! What was typed. Every flag is also an environment variable, for a systemd EnvironmentFile.
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Writes the node's CDI file (Container Device Interface) for NVIDIA GPUs.
#[derive(Debug, Parser)]
#[command(name = "cdi-gen", version, about, after_help = crate::exit::TABLE)]
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
    /// Says whether the CDI file is right for the node as it is now
    Check(Check),
    /// Says of CDI files, ours or others', whether runtimes would read them
    Validate(Validate),
    /// Lists the devices that the node's CDI files define
    List(List),
    /// Tells how the last run ended: devices, GPUs that are left out and why
    Status(Status),
    /// Keeps the CDI file right: looks for changes of driver, MIG, GPUs and device nodes, and writes only then
    Watch(Watch),
    /// Rewrites a root in a CDI file's paths
    Transform(Transform),
    /// Prints a completion script
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Prints the manual page
    Man,
}

/// Where the file is, and of what kind.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The CDI file; its name ends in .json or .yaml (- prints it)
    #[arg(long, env = "CDI_GEN_OUTPUT", default_value = "/run/cdi/gpu-quota.io-gpu.json")]
    pub output: PathBuf,
    /// vendor/class of the devices
    #[arg(long, env = "CDI_GEN_KIND", default_value = "gpu-quota.io/gpu", value_parser = kind)]
    pub kind: String,
    /// Folders in which runtimes look for CDI files, searched for others that define the same devices
    #[arg(long, env = "CDI_GEN_SPEC_DIRS", value_delimiter = ',', default_values = cdi::DEFAULT_DIRS)]
    pub spec_dirs: Vec<PathBuf>,
    /// The status file [default: the name of the CDI file with .status.json, in the folder cdi-gen beside the CDI folder]
    #[arg(long, env = "CDI_GEN_STATUS_FILE")]
    pub status_file: Option<PathBuf>,
}

/// What is looked at, and what of it is written.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Where the file is.
    #[command(flatten)]
    pub place: Place,
    /// Format of the file [default: by its ending; json for -]
    #[arg(long, env = "CDI_GEN_FORMAT", value_enum)]
    pub format: Option<Format>,
    /// Root below which the driver's files are
    #[arg(long, env = "CDI_GEN_DRIVER_ROOT", default_value = "/")]
    pub driver_root: PathBuf,
    /// Root below which dev/ holds the device nodes
    #[arg(long, env = "CDI_GEN_DEV_ROOT", default_value = "/")]
    pub dev_root: PathBuf,
    /// The host's procfs
    #[arg(long, env = "CDI_GEN_PROC_ROOT", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// The host's sysfs
    #[arg(long, env = "CDI_GEN_SYS_ROOT", default_value = "/sys")]
    pub sys_root: PathBuf,
    /// NVML's library file [default: libnvidia-ml.so.1 below the driver root]
    #[arg(long, env = "CDI_GEN_NVML_PATH")]
    pub nvml_path: Option<PathBuf>,
    /// Folder below the driver root to search for libraries before the known ones; repeated or separated by commas
    #[arg(long, env = "CDI_GEN_LIBRARY_SEARCH_PATH", value_delimiter = ',')]
    pub library_search_path: Vec<PathBuf>,
    /// What containers do with the card; each profile holds the one before it
    #[arg(long, env = "CDI_GEN_PROFILE", value_enum, default_value_t)]
    pub profile: Profile,
    /// How devices are named; repeated or separated by commas
    #[arg(long, env = "CDI_GEN_NAME_STRATEGY", value_enum, value_delimiter = ',', default_values = ["index", "uuid"])]
    pub name_strategy: Vec<NameStrategy>,
    /// Give only this GPU or MIG instance, by index, UUID or type-index; repeated or separated by commas
    #[arg(long, env = "CDI_GEN_DEVICE", value_delimiter = ',')]
    pub device: Vec<String>,
    /// The highest version of the CDI specification that the node's runtimes read; what needs more is left out or refused
    #[arg(long, env = "CDI_GEN_MAX_CDI_VERSION", value_parser = cdi_version)]
    pub max_cdi_version: Option<String>,
    /// Also give a socket of the driver's daemons; repeated or separated by commas
    #[arg(long, env = "CDI_GEN_WITH_SOCKET", value_enum, value_delimiter = ',')]
    pub with_socket: Vec<Socket>,
    /// Also give the groups of device nodes that others may not use (such as video); needs CDI 0.7.0
    #[arg(long, env = "CDI_GEN_ADDITIONAL_GIDS")]
    pub additional_gids: bool,
    /// Also add the libraries to the container's ld.so.cache, with this hook program
    #[arg(
        long,
        env = "CDI_GEN_WITH_LDCACHE_HOOK",
        num_args = 0..=1,
        require_equals = true,
        value_name = "PROGRAM",
        default_missing_value = "/usr/libexec/gpu-quota/gpu-quota-ldcache-hook"
    )]
    pub with_ldcache_hook: Option<PathBuf>,
    /// Make control, GPU and MIG device nodes that are missing or wrong, with the majors of the running kernel
    #[arg(long, env = "CDI_GEN_CREATE_DEVICE_NODES")]
    pub create_device_nodes: bool,
}

/// Looks at the driver and writes the CDI file.
#[derive(Debug, Args)]
pub struct Generate {
    /// What is looked at and written.
    #[command(flatten)]
    pub settings: Settings,
    /// Print the file instead of writing it
    #[arg(long, env = "CDI_GEN_DRY_RUN")]
    pub dry_run: bool,
    /// Print how the file differs from what is there; with --dry-run nothing else is done
    #[arg(long, env = "CDI_GEN_DIFF")]
    pub diff: bool,
    /// Wait up to this many seconds for the driver, while a GPU is on the PCI bus
    #[arg(long, env = "CDI_GEN_WAIT", default_value_t = 0)]
    pub wait: u64,
    /// Print the status as JSON
    #[arg(long, env = "CDI_GEN_JSON")]
    pub json: bool,
}

/// Says whether the CDI file is right for the node as it is now.
#[derive(Debug, Args)]
pub struct Check {
    /// As the file was generated with.
    #[command(flatten)]
    pub settings: Settings,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Says of CDI files whether runtimes would read them.
#[derive(Debug, Args)]
pub struct Validate {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Lists the devices that the node's CDI files define.
#[derive(Debug, Args)]
pub struct List {
    /// Folders in which runtimes look for CDI files
    #[arg(long, env = "CDI_GEN_SPEC_DIRS", value_delimiter = ',', default_values = cdi::DEFAULT_DIRS)]
    pub spec_dirs: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Tells how the last run ended.
#[derive(Debug, Args)]
pub struct Status {
    /// Where the file is.
    #[command(flatten)]
    pub place: Place,
    /// Print the status as JSON
    #[arg(long)]
    pub json: bool,
}

/// Keeps the CDI file right.
#[derive(Debug, Args)]
pub struct Watch {
    /// What is looked at and written.
    #[command(flatten)]
    pub settings: Settings,
    /// Seconds between two looks at procfs, sysfs and /dev
    #[arg(long, env = "CDI_GEN_INTERVAL", default_value_t = 2.0, value_parser = seconds)]
    pub interval: f64,
    /// Seconds after which the driver is asked even if nothing changed there, so that a GPU that is lost is noticed; 0: never
    #[arg(long, env = "CDI_GEN_RESCAN", default_value_t = 600.0, value_parser = seconds)]
    pub rescan: f64,
}

/// Rewrites a root in a CDI file's paths.
#[derive(Debug, Args)]
pub struct Transform {
    /// The file to read
    pub file: PathBuf,
    /// The root that is replaced
    #[arg(long)]
    pub from: PathBuf,
    /// The root that takes its place
    #[arg(long)]
    pub to: PathBuf,
    /// Whose paths
    #[arg(long, value_enum, default_value_t = Side::Host)]
    pub relative_to: Side,
    /// The file to write; - prints it
    #[arg(long, default_value = "-")]
    pub output: PathBuf,
}

/// Format of a CDI file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// What containers do with the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// CUDA, OpenCL, NVML
    #[default]
    Compute,
    /// Also OpenGL, Vulkan, EGL, video, ray tracing, and DRM nodes
    Graphics,
    /// Everything of the driver's version, also X modules and daemons
    Full,
}

/// How a device is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NameStrategy {
    /// 0, and 0:1 for a MIG instance
    Index,
    /// GPU-... and MIG-...
    Uuid,
    /// gpu0 and mig0:1
    TypeIndex,
}

/// A socket of the driver's daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Socket {
    /// nvidia-persistenced
    Persistenced,
    /// nvidia-fabricmanager
    Fabricmanager,
    /// The folder of the Multi-Process Service
    Mps,
}

/// Whose paths are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// Paths on the host
    Host,
    /// Paths in the container
    Container,
}

fn kind(text: &str) -> Result<String, String> {
    let good = cdi::name::is_kind(text);
    let rule = "it must be vendor/class, each of two or more characters, beginning with a letter and ending with a letter or digit";
    if good { Ok(text.to_owned()) } else { Err(rule.to_owned()) }
}

fn cdi_version(text: &str) -> Result<String, String> {
    let known = cdi::version::rank(text).is_some();
    if known { Ok(text.to_owned()) } else { Err(format!("it must be one of {}", cdi::version::VERSIONS.join(", "))) }
}

/// A day at most: a longer wait would be a mistake, and far longer ones are no time at all.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=86_400.0).contains(number));
    number.ok_or_else(|| "it must be a number of seconds, at most 86400".to_owned())
}
