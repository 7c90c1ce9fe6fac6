//! A node to run `cdi-gen` on: a driver root, device nodes, procfs and the simulated NVML, all in one temporary folder.
use cdi::Spec;
use cdi_gen::report::Report;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub const VERSION: &str = "550.163.01";
pub const NVIDIA: u32 = 195;
pub const UVM: u32 = 510;
pub const TRIPLET: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

/// The folder that `variable` names, or the default one, with what is needed in it. A missing one fails the test: only a missing GPU may skip one.
fn given(variable: &str, default: Option<PathBuf>, needed: &str, task: &str) -> PathBuf {
    let folder = std::env::var_os(variable).map(PathBuf::from).or(default).unwrap_or_default();
    assert!(folder.join(needed).exists(), "no {}; run cargo xtask {task}", folder.join(needed).display());
    folder
}

/// The simulated driver's libraries.
fn simulated() -> PathBuf {
    let stage = Path::new(env!("CARGO_BIN_EXE_cdi-gen")).ancestors().nth(2).map(|target| target.join("stage"));
    given("GPU_QUOTA_STAGE", stage, "sim/libnvidia-ml.so.1", "build").join("sim")
}

/// The unpacked packages of a real driver.
pub fn real_driver(version: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let needed = format!("driver/{version}/usr/lib/{TRIPLET}/nvidia/current/libcuda.so.{version}");
    given("GPU_QUOTA_CACHE", cache.map(|cache| cache.join("gpu-quota")), &needed, "fetch").join("driver").join(version)
}

pub struct Node {
    dir: TempDir,
    simulated: PathBuf,
    /// The driver root; below the folder where nothing else is said.
    pub driver: PathBuf,
    /// NVML's library; `None`: `cdi-gen` looks for it.
    pub nvml: Option<PathBuf>,
}

impl Node {
    /// The reference node: one card, everything in its place. `None`, with a message, where this machine cannot have one.
    pub fn new() -> Option<Self> {
        let simulated = simulated();
        let dir = tempfile::tempdir().unwrap();
        let (driver, nvml) = (dir.path().join("driver"), Some(simulated.join("libnvidia-ml.so.1")));
        let node = Self { dir, simulated, driver, nvml };
        for folder in ["dev", "proc", "sim", "cdi", "etc"] {
            fs::create_dir(node.path(folder)).unwrap();
        }
        if node.mknod("nvidiactl", NVIDIA, 255).is_err() {
            eprintln!("SKIPPED: device nodes cannot be made (root with CAP_MKNOD can)");
            return None;
        }
        node.mknod("nvidia0", NVIDIA, 0).unwrap();
        node.mknod("nvidia-uvm", UVM, 0).unwrap();
        node.mknod("nvidia-uvm-tools", UVM, 1).unwrap();
        node.devices(&format!("{NVIDIA} nvidia\n{UVM} nvidia-uvm\n"));
        node.install(VERSION);
        Some(node)
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside)
    }

    pub fn mknod(&self, name: &str, major: u32, minor: u32) -> rustix::io::Result<()> {
        let path = self.path("dev").join(name);
        let _ = fs::remove_file(&path);
        mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(major, minor))
    }

    /// The character devices of `/proc/devices`.
    pub fn devices(&self, rows: &str) {
        let text = format!("Character devices:\n  1 mem\n{rows}\nBlock devices:\n  7 loop\n");
        fs::write(self.path("proc/devices"), text).unwrap();
    }

    /// A file of any content.
    pub fn put(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A display controller of NVIDIA on the PCI bus (another vendor's for another driver), held by a kernel driver.
    pub fn pci(&self, address: &str, driver: &str) {
        let folder = format!("sys/bus/pci/devices/{address}");
        let vendor = if driver == "i915" { "0x8086\n" } else { "0x10de\n" };
        self.put(&format!("{folder}/vendor"), vendor);
        self.put(&format!("{folder}/class"), "0x030200\n");
        symlink(format!("../../../../bus/pci/drivers/{driver}"), self.path(&folder).join("driver")).unwrap();
    }

    /// The staged hook program.
    pub fn hook(&self) -> Option<PathBuf> {
        let program = self.simulated.parent()?.join("gpu-quota-ldcache-hook");
        assert!(program.exists(), "no {}; run cargo xtask build", program.display());
        Some(program)
    }

    /// A driver in Debian's layout, made of the simulated libraries, which have the right sonames.
    pub fn install(&self, version: &str) {
        let lib = self.driver.join("usr/lib").join(TRIPLET);
        let series = lib.join("nvidia/current");
        let (smi, bin) = (self.driver.join("usr/lib/nvidia/current"), self.driver.join("usr/bin"));
        for folder in [&series, &smi, &bin] {
            fs::create_dir_all(folder).unwrap();
        }
        for name in ["libcuda.so", "libnvidia-ml.so"] {
            fs::copy(self.simulated.join(format!("{name}.1")), series.join(format!("{name}.{version}"))).unwrap();
        }
        fs::write(smi.join("nvidia-smi"), "").unwrap();
        let _ = symlink("/usr/lib/nvidia/current/nvidia-smi", bin.join("nvidia-smi"));
    }

    pub fn uninstall(&self) {
        fs::remove_dir_all(&self.driver).unwrap();
    }

    /// The simulated node's `cards.toml`.
    pub fn cards(&self, toml: &str) {
        fs::write(self.path("sim/cards.toml"), toml).unwrap();
    }

    /// A copy of the simulated NVML in which a name is another, so that it lacks it; `from` and `to` are of one length.
    pub fn rename_in_nvml(&mut self, from: &str, to: &str) {
        assert_eq!(from.len(), to.len());
        let mut bytes = fs::read(self.simulated.join("libnvidia-ml.so.1")).unwrap();
        let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
        assert!(!places.is_empty(), "{from} is not there");
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        let path = self.path("libnvidia-ml.so.1");
        fs::write(&path, bytes).unwrap();
        self.nvml = Some(path);
    }

    pub fn output(&self) -> PathBuf {
        self.path("cdi/gpu.json")
    }

    /// The status file that the last run left.
    pub fn status(&self) -> Report {
        Report::read(&self.path("cdi-gen/gpu.json.status.json")).unwrap()
    }

    /// `cdi-gen generate` of this node, behind `before` (a shell line that ends in `exec "$@"`).
    pub fn command(&self, before: Option<&str>) -> Command {
        self.subcommand(before, "generate")
    }

    /// The same for another command that takes the same flags.
    pub fn subcommand(&self, before: Option<&str>, name: &str) -> Command {
        let program = env!("CARGO_BIN_EXE_cdi-gen");
        let mut command = match before {
            None => Command::new(program),
            Some(line) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", line, "sh", program]);
                shell
            }
        };
        command.env("SIM_DRIVER_DIR", self.path("sim")).arg(name);
        command.arg("--driver-root").arg(&self.driver).arg("--dev-root").arg(self.dir.path());
        command.arg("--proc-root").arg(self.path("proc")).arg("--sys-root").arg(self.path("sys"));
        command.arg("--spec-dirs").arg(self.path("etc"));
        if let Some(nvml) = &self.nvml {
            command.arg("--nvml-path").arg(nvml);
        }
        command
    }

    /// Runs it; the exit code, and what it said.
    pub fn run(&self, more: &[&str]) -> (i32, String) {
        self.run_as("generate", more)
    }

    /// The same for another command.
    pub fn run_as(&self, name: &str, more: &[&str]) -> (i32, String) {
        ended(self.subcommand(None, name).arg("--output").arg(self.output()).args(more).output().unwrap())
    }

    /// Runs it, which must go well, and reads the file as a runtime would.
    pub fn spec(&self) -> Spec {
        let (code, said) = self.run(&[]);
        assert_eq!(code, 0, "{said}");
        self.read()
    }

    /// The file as it is.
    pub fn read(&self) -> Spec {
        let spec = serde_json::from_slice(&fs::read(self.output()).unwrap()).unwrap();
        assert_eq!(cdi::validate(&spec), []);
        spec
    }
}

pub fn ended(output: Output) -> (i32, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it ends by itself"), String::from_utf8(text).unwrap())
}
