//! The machine's own GPU, for clients that refuse a driver that is not the vendor's.
use interposer_tests::{Case, Share};
use std::path::Path;
use std::process::Command;

/// What the tests take at most, without the interposer.
const NEEDED_MIB: u64 = 14_900;

/// A GPU that a test can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    uuid: String,
    total: u64,
}

impl Gpu {
    /// The first GPU of this machine; the words say why there is none for programs that need at least that major version of the driver.
    ///
    /// # Errors
    /// A clause about the machine.
    pub fn find(driver: u32) -> Result<Self, String> {
        let loaded = ["/dev/nvidiactl", "/proc/driver/nvidia/version"].iter().all(|path| Path::new(path).exists());
        if !loaded {
            return Err("this machine has no NVIDIA GPU with a loaded driver".to_owned());
        }
        let query = "--query-gpu=driver_version,uuid,memory.total,memory.free,mig.mode.current";
        let asked = Command::new("nvidia-smi").args([query, "--format=csv,noheader,nounits"]).output();
        let asked = asked.map_err(|error| format!("nvidia-smi cannot be run: {error}"))?;
        Self::read(&String::from_utf8_lossy(&asked.stdout), driver)
    }

    /// A GPU from the first line of nvidia-smi's answer.
    fn read(answer: &str, driver: u32) -> Result<Self, String> {
        let fields: Vec<&str> = answer.lines().next().unwrap_or_default().split(',').map(str::trim).collect();
        let [version, uuid, total, free, mig] = fields[..] else {
            return Err(format!("nvidia-smi answered {answer:?}"));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("nvidia-smi answered {answer:?}"));
        let major = version.split('.').next().unwrap_or_default();
        if number(major)? < u64::from(driver) {
            return Err(format!("the driver {version} is older than {driver}"));
        }
        if mig == "Enabled" {
            return Err(format!("{uuid} is divided by MIG"));
        }
        if number(free)? < NEEDED_MIB {
            return Err(format!("{uuid} has less than {NEEDED_MIB} MiB free"));
        }
        Ok(Self { uuid: uuid.to_owned(), total: number(total)? })
    }

    /// A share of 3,072 MiB of this GPU.
    #[must_use]
    pub fn case(&self) -> Case {
        Case::new("", &[Share { card: &self.uuid, quota: 3072, total: self.total }]).visible(&self.uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::Gpu;

    #[test]
    fn a_gpu_that_a_test_cannot_use_is_refused() {
        let read = |line: &str| Gpu::read(line, 580);
        let gpu = Gpu { uuid: "GPU-1".to_owned(), total: 81_559 };
        assert_eq!(
            read("580.95.05, GPU-1, 81559, 80000, Disabled\n580.95.05, GPU-2, 1, 1, Enabled\n"),
            Ok(gpu.clone())
        );
        assert_eq!(read("580.95.05, GPU-1, 81559, 14900, [N/A]\n"), Ok(gpu));
        let refused = [
            ("550.163.01, GPU-1, 81559, 80000, Disabled", "is older than 580"),
            ("580.95.05, GPU-1, 81559, 80000, Enabled", "MIG"),
            ("580.95.05, GPU-1, 81559, 14899, Disabled", "MiB free"),
            ("580.95.05, GPU-1, 81559, [N/A], Disabled", "answered"),
            ("No devices were found", "answered"),
            ("", "answered"),
        ];
        for (line, word) in refused {
            assert!(read(line).is_err_and(|words| words.contains(word)), "{line}");
        }
    }
}
