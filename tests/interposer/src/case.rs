//! One simulated node and one container's share of it, in a folder of its own.
use crate::{Answer, Live, parts};
use quota::ledger::snapshot::Snapshot;
use quota::ledger::{LEDGER_LEN, initial_head};
use quota::limits::{CardLimit, Limits};
use quota::paths::{LEDGER_FILE, LIMITS_FILE};
use quota::{Bytes, CardId};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The UUID of the card that the simulated driver has where it is told of none; 16,130 MiB.
pub const REFERENCE: &str = "GPU-5ba4538b-234f-2c18-6a7a-458d0a7fb348";

/// A share of a card.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// The card's UUID.
    pub card: &'a str,
    /// The quota in MiB.
    pub quota: u64,
    /// The card's memory in MiB.
    pub total: u64,
}

/// A node and a share, until it is dropped.
#[derive(Debug)]
pub struct Case {
    dir: TempDir,
    stage: PathBuf,
    visible: Option<String>,
}

impl Default for Case {
    /// 1,024 MiB of the reference card.
    fn default() -> Self {
        Self::quota(1024)
    }
}

impl Case {
    /// A share of the reference card, in MiB.
    #[must_use]
    pub fn quota(mib: u64) -> Self {
        Self::new("", &[Share { card: REFERENCE, quota: mib, total: 16_130 }])
    }

    /// A share of the reference card, in MiB, on a node where contexts take nothing, so that charges and the driver's own count can agree.
    #[must_use]
    pub fn agreed(mib: u64) -> Self {
        Self::new("context_mib = 0\n", &[Share { card: REFERENCE, quota: mib, total: 16_130 }])
    }

    /// Shares of the cards that `cards` describes as the simulated driver's `cards.toml`; empty: of the reference card.
    #[must_use]
    pub fn new(cards: &str, shares: &[Share<'_>]) -> Self {
        let limit = |share: &Share<'_>| CardLimit {
            id: CardId::parse(share.card).expect("a UUID"),
            quota: Bytes::from_mib(share.quota).expect("MiB"),
            total: Bytes::from_mib(share.total).expect("MiB"),
            context: Bytes(0),
        };
        let limits = Limits::new(&shares.iter().map(limit).collect::<Vec<_>>()).expect("shares that can be");
        let case = Self { dir: TempDir::new().expect("a folder"), stage: parts::stage(), visible: None };
        fs::create_dir(case.simulated()).expect("a folder");
        if !cards.is_empty() {
            fs::write(case.simulated().join("cards.toml"), cards).expect("a file");
        }
        fs::write(case.limits(), limits.encode()).expect("a file");
        let mut ledger = vec![0; LEDGER_LEN];
        ledger[..8].copy_from_slice(&initial_head());
        fs::write(case.ledger(), ledger).expect("a file");
        fs::set_permissions(case.ledger(), Permissions::from_mode(0o666)).expect("our own file");
        case
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, change: impl FnOnce(&Limits) -> Limits) -> Self {
        let limits = Limits::decode(&fs::read(self.limits()).expect("a file")).expect("limits");
        fs::write(self.limits(), change(&limits).encode()).expect("a file");
        self
    }

    /// The ledger as the host sees it.
    #[must_use]
    pub fn with_ledger<R>(&self, look: impl FnOnce(Snapshot<'_>) -> R) -> R {
        let bytes = fs::read(self.ledger()).expect("a file");
        look(Snapshot::read(&bytes).expect("a ledger"))
    }

    /// The same with `CUDA_VISIBLE_DEVICES`.
    #[must_use]
    pub fn visible(mut self, devices: &str) -> Self {
        self.visible = Some(devices.to_owned());
        self
    }

    /// The case's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The limits file.
    #[must_use]
    pub fn limits(&self) -> PathBuf {
        self.dir().join(LIMITS_FILE)
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.dir().join(LEDGER_FILE)
    }

    fn simulated(&self) -> PathBuf {
        self.dir().join("sim")
    }

    /// The simulated driver's libraries.
    #[must_use]
    pub fn driver(&self) -> PathBuf {
        self.stage.join("sim")
    }

    /// The interposer.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.stage.join("libgpu_quota.so")
    }

    /// The guest program.
    #[must_use]
    pub fn guest(&self) -> PathBuf {
        self.stage.join("guest")
    }

    /// A program on the simulated node, without the interposer.
    #[must_use]
    pub fn bare(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("SIM_DRIVER_DIR", self.simulated());
        command.env("LD_LIBRARY_PATH", self.driver());
        if let Some(devices) = &self.visible {
            command.env("CUDA_VISIBLE_DEVICES", devices);
        }
        command
    }

    /// A program on the simulated node, under the interposer.
    #[must_use]
    pub fn held(&self, program: &Path) -> Command {
        let mut command = self.bare(program);
        command.env("LD_PRELOAD", self.library()).env("GPU_QUOTA_DIR", self.dir());
        command
    }

    /// The guest under the interposer.
    #[must_use]
    pub fn run(&self, steps: &[&str]) -> Vec<Answer> {
        answers(self.held(&self.guest()).args(steps))
    }

    /// The guest without the interposer.
    #[must_use]
    pub fn run_bare(&self, steps: &[&str]) -> Vec<Answer> {
        answers(self.bare(&self.guest()).args(steps))
    }

    /// The guest under the interposer, step by step.
    #[must_use]
    pub fn live(&self) -> Live {
        Live::start(self.held(&self.guest()))
    }

    /// Does steps, and checks after each that the ledger holds exactly what the driver has taken of device 0. Results.
    #[must_use]
    pub fn agrees(&self, steps: &[&str]) -> Vec<i64> {
        let mut guest = self.live();
        let mut results = Vec::new();
        for step in steps {
            results.push(guest.step(step).result);
            let truth = guest.step("truth 0").values;
            let charged = self.with_ledger(|ledger| ledger.used(0)).0;
            assert_eq!(vec![charged], truth, "after {step}, the last of {steps:?} with results {results:?}");
        }
        guest.end();
        results
    }

    /// The guest without the interposer, step by step.
    #[must_use]
    pub fn live_bare(&self) -> Live {
        Live::start(self.bare(&self.guest()))
    }
}

/// Runs a guest to its end.
#[must_use]
pub fn answers(command: &mut Command) -> Vec<Answer> {
    output(command).lines().map(Answer::read).collect()
}

/// What a program prints that must end well and print no error.
#[must_use]
pub fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let (out, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && errors.is_empty(), "{command:?}: {status}\n{out}\n{errors}");
    out.into_owned()
}
