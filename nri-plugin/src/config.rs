//! What the operator says: flags and environment over a TOML file over defaults, checked before anything is opened.
//!
//! The file has the same keys as the flags, with `_` for `-`; an unknown key is refused by name.
use crate::audit::{self, Policy};
use crate::command::Command;
use crate::log::Format;
use crate::metrics::serve::Place;
use clap::{Parser, ValueEnum};
use inventory::{Profile, Sources};
use policy::{Isolation, Rules};
use quota::limits::Managed;
use quota::{Bytes, ShareRule, Unit};
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a configuration file is looked for when no flag names one; it may be absent.
const DEFAULT_FILE: &str = "/etc/gpu-quota/config.toml";

/// No context of any driver takes more, in MiB.
const MOST_CONTEXT_MIB: u64 = 16_384;

/// The daemon that containerd asks at every container's creation: an isolated container gets its share of a GPU, one that
/// opts out of isolation the whole card, every other container nothing.
#[derive(Debug, Default, Parser)]
#[command(version, about)]
pub struct Flags {
    /// Configuration file (TOML) [default: /etc/gpu-quota/config.toml where it exists]
    #[arg(long, env = "GPU_QUOTA_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

/// One layer of settings; what is absent is left to the layer below.
#[derive(Clone, Debug, Default, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// containerd's NRI socket [default: /var/run/nri/nri.sock]
    #[arg(long, env = "GPU_QUOTA_NRI_SOCKET")]
    nri_socket: Option<PathBuf>,
    /// Name under which the plugin registers [default: gpu-quota]
    #[arg(long)]
    name: Option<String>,
    /// Two digits that order this plugin among others [default: 10]
    #[arg(long)]
    index: Option<String>,
    /// Folder of the running state [default: /run/gpu-quota]
    #[arg(long, global = true)]
    run_dir: Option<PathBuf>,
    /// The interposer to serve [default: /usr/lib/gpu-quota/libgpu_quota.so]
    #[arg(long, env = "GPU_QUOTA_LIBRARY")]
    library: Option<PathBuf>,
    /// Folder of the interposer's versioned copies; must not be mounted noexec [default: /var/lib/gpu-quota/lib]
    #[arg(long)]
    library_dir: Option<PathBuf>,
    /// Root below which the driver's files are [default: /]
    #[arg(long)]
    driver_root: Option<PathBuf>,
    /// Root below which dev/ holds the device nodes [default: /]
    #[arg(long)]
    dev_root: Option<PathBuf>,
    /// The host's procfs [default: /proc]
    #[arg(long)]
    proc_root: Option<PathBuf>,
    /// The host's sysfs [default: /sys]
    #[arg(long)]
    sys_root: Option<PathBuf>,
    /// NVML's library file [default: libnvidia-ml.so.1 below the driver root]
    #[arg(long)]
    nvml_path: Option<PathBuf>,
    /// Folders below the driver root to search for libraries before the known ones
    #[arg(long, value_delimiter = ',')]
    library_search_path: Option<Vec<PathBuf>>,
    /// Which of the driver's files containers get; as cdi-gen's [default: compute]
    #[arg(long)]
    profile: Option<ProfileSetting>,
    /// Unit in which this node counts `aliyun.com/gpu-mem` [default: auto]
    #[arg(long)]
    unit: Option<UnitSetting>,
    /// How a share becomes bytes [default: exact]
    #[arg(long)]
    share: Option<ShareSetting>,
    /// Whether managed memory (`cuMemAllocManaged`) counts [default: count]
    #[arg(long)]
    managed_memory: Option<ManagedSetting>,
    /// MiB charged for the first CUDA context of each process on a card, as measured on this node [default: 0]
    #[arg(long)]
    context_mib: Option<u64>,
    /// Who is isolated [default: per-container]
    #[arg(long)]
    isolation: Option<IsolationSetting>,
    /// Number of a group that may read the status beside root [default: none]
    #[arg(long, value_name = "GID")]
    status_group: Option<u32>,
    /// Where metrics and health are served: off, unix:/PATH, or a loopback address with its port [default: off]
    #[arg(long)]
    metrics: Option<String>,
    /// How the log is written to standard error [default: text]
    #[arg(long)]
    log_format: Option<Format>,
    /// What is done about processes that use a GPU outside of their quota [default: log]
    #[arg(long)]
    audit: Option<Policy>,
    /// Seconds from one audit to the next, 1 to 3600 [default: 30]
    #[arg(long, value_name = "SECONDS")]
    audit_interval: Option<u64>,
    /// Seconds from the first sight of such a process to its end under `kill`, at most 86400 [default: 60]
    #[arg(long, value_name = "SECONDS")]
    audit_grace: Option<u64>,
}

/// The unit of the node's counts.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum UnitSetting {
    /// MiB where `ALIYUN_COM_GPU_MEM_DEV` is above 100, else GiB
    Auto,
    /// GiB
    Gib,
    /// MiB
    Mib,
}

/// How a share becomes bytes.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum ShareSetting {
    /// 3 GiB is 3 x 2^30 bytes
    Exact,
    /// the same fraction of the card as the share is of its count, as cGPU does
    Proportional,
}

/// Whether managed memory counts.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum ManagedSetting {
    /// in full, so that a share cannot be passed with it
    Count,
    /// not at all: the driver pages it between card and host
    Ignore,
}

/// Who is isolated.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum IsolationSetting {
    /// every container that does not say `CGPU_DISABLE=true`
    PerContainer,
    /// nobody: the node label `cgpu.disable.isolation=true`
    Off,
}

/// Which of the driver's files containers get.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum ProfileSetting {
    /// CUDA, OpenCL, NVML
    Compute,
    /// also graphics and video
    Graphics,
    /// everything of the driver's version
    Full,
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// containerd's NRI socket.
    pub nri_socket: PathBuf,
    /// The plugin's name in the runtime.
    pub name: String,
    /// The plugin's place among others, two digits.
    pub index: String,
    /// The folder of the running state.
    pub run_dir: PathBuf,
    /// The interposer to serve.
    pub library: PathBuf,
    /// The folder of its versioned copies.
    pub library_dir: PathBuf,
    /// Where the driver is.
    pub sources: Sources,
    /// The node's unit; `None`: told by each container's `ALIYUN_COM_GPU_MEM_DEV`.
    pub unit: Option<Unit>,
    /// What the administrator allows.
    pub rules: Rules,
    /// Whether managed memory counts.
    pub managed: Managed,
    /// What is charged for the first CUDA context of each process on a card.
    pub context: Bytes,
    /// A group that may read the status.
    pub status_group: Option<u32>,
    /// Where metrics and health are served.
    pub metrics: Place,
    /// How the log is written.
    pub log_format: Format,
    /// How processes outside of their quota are looked for.
    pub audit: audit::Rules,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is named but cannot be read.
    #[error("cannot read the configuration file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key or a value that is not known.
    #[error("the configuration file {path} is wrong: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, column and cause.
        source: Box<toml::de::Error>,
    },
    /// A value that no default can replace.
    #[error("{key} is {value:?}; {allowed}")]
    Value {
        /// The setting.
        key: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl Config {
    /// The settings from flags over the configuration file over defaults.
    ///
    /// # Errors
    /// [`ConfigError`] where the file or a value is wrong.
    pub fn load(flags: Flags) -> Result<Self, ConfigError> {
        let file = match &flags.config {
            Some(path) => read(path)?,
            None if Path::new(DEFAULT_FILE).exists() => read(Path::new(DEFAULT_FILE))?,
            None => Settings::default(),
        };
        Self::build(flags.settings, file)
    }

    fn build(over: Settings, under: Settings) -> Result<Self, ConfigError> {
        let path = |over: Option<PathBuf>, under: Option<PathBuf>, default: &str| {
            over.or(under).unwrap_or_else(|| PathBuf::from(default))
        };
        let index = over.index.or(under.index).unwrap_or_else(|| "10".to_owned());
        if index.len() != 2 || !index.bytes().all(|c| c.is_ascii_digit()) {
            return Err(ConfigError::Value { key: "index", value: index, allowed: "it must be two digits, 00 to 99" });
        }
        let name = over.name.or(under.name).unwrap_or_else(|| "gpu-quota".to_owned());
        if name.is_empty() {
            return Err(ConfigError::Value { key: "name", value: name, allowed: "it must not be empty" });
        }
        let run_dir = path(over.run_dir, under.run_dir, quota::paths::HOST_RUN);
        let library_dir = path(over.library_dir, under.library_dir, "/var/lib/gpu-quota/lib");
        for (key, dir) in [("run_dir", &run_dir), ("library_dir", &library_dir)] {
            if !dir.is_absolute() {
                return Err(ConfigError::Value {
                    key,
                    value: dir.display().to_string(),
                    allowed: "it must be an absolute path, since the runtime mounts files from it",
                });
            }
        }
        let context_mib = over.context_mib.or(under.context_mib).unwrap_or(0);
        let Some(context) = Bytes::from_mib(context_mib).filter(|_| context_mib <= MOST_CONTEXT_MIB) else {
            return Err(ConfigError::Value {
                key: "context_mib",
                value: context_mib.to_string(),
                allowed: "it must be at most 16384; a context takes some hundred MiB",
            });
        };
        Ok(Self {
            context,
            audit: audit::Rules {
                policy: over.audit.or(under.audit).unwrap_or_default(),
                interval: seconds("audit_interval", over.audit_interval.or(under.audit_interval), 30, 1..=3600)?,
                grace: seconds("audit_grace", over.audit_grace.or(under.audit_grace), 60, 0..=86_400)?,
            },
            log_format: over.log_format.or(under.log_format).unwrap_or_default(),
            metrics: metrics_place(over.metrics.or(under.metrics))?,
            status_group: over.status_group.or(under.status_group),
            managed: match over.managed_memory.or(under.managed_memory) {
                None | Some(ManagedSetting::Count) => Managed::Counted,
                Some(ManagedSetting::Ignore) => Managed::Uncounted,
            },
            nri_socket: path(over.nri_socket, under.nri_socket, "/var/run/nri/nri.sock"),
            name,
            index,
            run_dir,
            library: path(over.library, under.library, "/usr/lib/gpu-quota/libgpu_quota.so"),
            library_dir,
            sources: Sources {
                nvml_path: over.nvml_path.or(under.nvml_path),
                driver_root: path(over.driver_root, under.driver_root, "/"),
                dev_root: path(over.dev_root, under.dev_root, "/"),
                proc_root: path(over.proc_root, under.proc_root, "/proc"),
                sys_root: path(over.sys_root, under.sys_root, "/sys"),
                library_paths: over.library_search_path.or(under.library_search_path).unwrap_or_default(),
                profile: match over.profile.or(under.profile) {
                    None | Some(ProfileSetting::Compute) => Profile::Compute,
                    Some(ProfileSetting::Graphics) => Profile::Graphics,
                    Some(ProfileSetting::Full) => Profile::Full,
                },
                ..Sources::default()
            },
            unit: match over.unit.or(under.unit) {
                None | Some(UnitSetting::Auto) => None,
                Some(UnitSetting::Gib) => Some(Unit::GiB),
                Some(UnitSetting::Mib) => Some(Unit::MiB),
            },
            rules: Rules {
                share: match over.share.or(under.share) {
                    None | Some(ShareSetting::Exact) => ShareRule::Exact,
                    Some(ShareSetting::Proportional) => ShareRule::Proportional,
                },
                isolation: match over.isolation.or(under.isolation) {
                    None | Some(IsolationSetting::PerContainer) => Isolation::PerContainer,
                    Some(IsolationSetting::Off) => Isolation::OffOnNode,
                },
            },
        })
    }
}

fn seconds(
    key: &'static str,
    given: Option<u64>,
    default: u64,
    allowed: RangeInclusive<u64>,
) -> Result<Duration, ConfigError> {
    let value = given.unwrap_or(default);
    if allowed.contains(&value) {
        return Ok(Duration::from_secs(value));
    }
    Err(ConfigError::Value {
        key,
        value: value.to_string(),
        allowed: "it is out of range; --help says what is allowed",
    })
}

fn metrics_place(text: Option<String>) -> Result<Place, ConfigError> {
    let value = text.unwrap_or_else(|| "off".to_owned());
    let allowed =
        "it must be off, unix: and an absolute path, or an address of this machine alone such as 127.0.0.1:9400";
    Place::parse(&value).ok_or(ConfigError::Value { key: "metrics", value, allowed })
}

fn read(path: &Path) -> Result<Settings, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })
}

#[cfg(test)]
mod tests;
