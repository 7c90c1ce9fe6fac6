//! A node with a GPU: a driver root as a driver package would leave it, with the simulated libraries, device nodes and procfs, or the machine's own.
use crate::parts::DRIVER;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Majors of the simulated kernel modules: nvidia's fixed one, and one as the kernel would assign it to nvidia-uvm.
const NVIDIA: u32 = 195;
const UVM: u32 = 510;

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Flags of `cdi-gen` and `nri-plugin` that name the driver; none for the machine's own.
    pub flags: Vec<String>,
    /// The folder of the simulated driver's state; `None` for the machine's own driver.
    pub sim: Option<PathBuf>,
}

impl Node {
    /// The machine's own driver.
    #[must_use]
    pub fn real() -> Self {
        Self { flags: Vec::new(), sim: None }
    }

    /// A simulated node in `dir`, with the reference card or the cards of a TOML text.
    ///
    /// # Errors
    /// Where a part is missing, or device nodes cannot be made.
    pub fn simulated(dir: &Path, stage: &Path, cache: &Path, cards: Option<&str>) -> Result<Self> {
        let root = dir.join("driver-root");
        let library = root.join("usr/lib/x86_64-linux-gnu");
        for folder in [&library, &root.join("usr/bin"), &root.join("proc"), &root.join("dev"), &dir.join("sim")] {
            fs::create_dir_all(folder)?;
        }
        for name in ["libcuda.so", "libnvidia-ml.so"] {
            let file = format!("{name}.{DRIVER}");
            fs::copy(stage.join("sim").join(format!("{name}.1")), library.join(&file))?;
            symlink(&file, library.join(format!("{name}.1")))?;
        }
        let smi = cache.join("driver").join(DRIVER).join("usr/lib/nvidia/current/nvidia-smi");
        fs::copy(&smi, root.join("usr/bin/nvidia-smi")).with_context(|| format!("cannot copy {}", smi.display()))?;
        let devices = format!("Character devices:\n{NVIDIA} nvidia\n{UVM} nvidia-uvm\n\nBlock devices:\n");
        fs::write(root.join("proc/devices"), devices)?;
        for (name, major, minor) in [
            ("nvidiactl", NVIDIA, 255),
            ("nvidia-uvm", UVM, 0),
            ("nvidia-uvm-tools", UVM, 1),
            ("nvidia0", NVIDIA, 0),
            ("nvidia1", NVIDIA, 1),
        ] {
            let path = root.join("dev").join(name);
            let numbers = [major.to_string(), minor.to_string()];
            let status = Command::new("mknod").arg("-m666").arg(&path).arg("c").args(numbers).status()?;
            ensure!(status.success(), "mknod {}: {status}; the tests need root", path.display());
        }
        if let Some(cards) = cards {
            fs::write(dir.join("sim/cards.toml"), cards)?;
        }
        let flag = |name: &str, path: PathBuf| [name.to_owned(), path.display().to_string()];
        let flags = [
            flag("--driver-root", root.clone()),
            flag("--dev-root", root.clone()),
            flag("--proc-root", root.join("proc")),
        ];
        Ok(Self { flags: flags.concat(), sim: Some(dir.join("sim")) })
    }

    /// A program that reads the driver, with the flags that name it.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(sim) = &self.sim {
            command.env("SIM_DRIVER_DIR", sim);
        }
        command
    }

    /// Runs `cdi-gen generate` for devices of a kind, and returns what it said. The file's name says its format. Other files that define the same
    /// devices are looked for beside it, and not in the machine's own folders.
    ///
    /// # Errors
    /// Where it fails.
    pub fn generate_cdi(&self, stage: &Path, kind: &str, file: &Path, more: &[String]) -> Result<String> {
        let dir = file.parent().context("a CDI file has a folder")?;
        let mut command = self.command(&stage.join("cdi-gen"));
        command.arg("generate").args(&self.flags).args(["--kind", kind]).arg("--output").arg(file);
        let output = command.args(more).arg("--spec-dirs").arg(dir).output().context("cannot run cdi-gen")?;
        ensure!(output.status.success(), "cdi-gen: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
