//! Whole-process time and peak memory of `cdi-gen generate` beside `nvidia-ctk cdi generate`, run in turn: a node of eight H100 cards, the driver 535 of
//! Debian, the simulated NVML. Without `nvidia-ctk` in the cache folder (`cargo xtask bench` builds it where go is) only ours is measured.
#![expect(unsafe_code, reason = "only wait4 tells the peak memory of one child")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const VERSION: &str = "535.261.03";
const SCENARIO: &str = include_str!("../../tests/sim-driver/scenarios/dgx-h100.toml");
/// Runs of each program, after one that warms up.
const RUNS: usize = 40;

/// What one run took.
struct Run {
    wall: Duration,
    /// Peak resident memory in KiB.
    memory: i64,
}

fn main() {
    // `cargo test` builds benches too, and asks them for their tests.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let (Some(stage), Some(cache)) = (folder("GPU_QUOTA_STAGE"), folder("GPU_QUOTA_CACHE")) else {
        println!("SKIPPED: run cargo xtask bench");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let Some(root) = node(dir.path(), &stage, &cache) else {
        println!("SKIPPED: device nodes cannot be made (root with CAP_MKNOD can)");
        return;
    };
    let at = |path: &str| dir.path().join(path);
    let ours = |profile: &str| {
        let mut command = Command::new(stage.join("cdi-gen"));
        command.args(["generate", "--profile", profile, "--kind", &format!("gpu-quota.io/{profile}")]);
        command.arg("--driver-root").arg(&root).arg("--dev-root").arg(dir.path()).arg("--proc-root").arg(at("proc"));
        command.arg("--sys-root").arg(at("sys")).arg("--spec-dirs").arg(at("cdi"));
        command.arg("--output").arg(at("cdi").join(format!("{profile}.yaml")));
        command
    };
    let mut programs = vec![("cdi-gen, compute (default)", ours("compute")), ("cdi-gen, full", ours("full"))];
    let peer = cache.join("oracle/bin/nvidia-ctk");
    if peer.exists() {
        let mut command = Command::new(peer);
        command.args(["cdi", "generate", "--mode=nvml"]).arg("--driver-root").arg(&root);
        command.arg("--dev-root").arg(dir.path()).arg("--output").arg(at("ctk/nvidia.yaml"));
        programs.push(("nvidia-ctk 1.20.0, everything", command));
    } else {
        println!("no {}: the baseline is left out", peer.display());
    }
    let mut runs: Vec<Vec<Run>> = programs.iter().map(|_| Vec::new()).collect();
    for turn in 0..=RUNS {
        for ((_, command), runs) in programs.iter_mut().zip(&mut runs) {
            // What is written is new each time, as on boot.
            for folder in ["cdi", "ctk"] {
                let _ = fs::remove_dir_all(at(folder));
            }
            let run = measured(command.env("SIM_DRIVER_DIR", at("sim")));
            if turn > 0 {
                runs.push(run);
            }
        }
    }
    let figures: Vec<_> = runs.iter_mut().map(|runs| figures(runs)).collect();
    let (base_wall, base_memory) = figures.last().map_or((1.0, 1.0), |(median, _, memory)| (*median, *memory));
    println!("| program | median ms | p95 ms | peak MiB | time ratio | memory ratio |\n|---|---|---|---|---|---|");
    for ((name, _), (median, p95, memory)) in programs.iter().zip(figures) {
        let (time, space) = (median / base_wall, memory / base_memory);
        println!("| {name} | {median:.1} | {p95:.1} | {memory:.1} | {time:.2} | {space:.2} |");
    }
}

/// The node's files below `dir`; the driver root is a copy in which NVML is the simulated one.
fn node(dir: &Path, stage: &Path, cache: &Path) -> Option<PathBuf> {
    for folder in ["dev", "proc", "sys", "sim"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    let numbers = [("nvidiactl", 195, 255), ("nvidia-uvm", 510, 0), ("nvidia-uvm-tools", 510, 1)]
        .map(|(n, a, b)| (n.to_owned(), a, b));
    for (name, major, minor) in numbers.into_iter().chain((0..8).map(|minor| (format!("nvidia{minor}"), 195, minor))) {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, dir.join("dev").join(name), FileType::CharacterDevice, mode, makedev(major, minor)).ok()?;
    }
    fs::write(dir.join("proc/devices"), "Character devices:\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n").unwrap();
    fs::write(dir.join("sim/cards.toml"), SCENARIO).unwrap();
    let root = dir.join("driver");
    let copied = Command::new("cp").arg("-a").arg(cache.join("driver").join(VERSION)).arg(&root).status().unwrap();
    assert!(copied.success(), "cp");
    let nvml = root.join("usr/lib/x86_64-linux-gnu/nvidia/current").join(format!("libnvidia-ml.so.{VERSION}"));
    fs::copy(stage.join("sim/libnvidia-ml.so.1"), nvml).unwrap();
    Some(root)
}

#[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
fn measured(command: &mut Command) -> Run {
    let began = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: our own child, which nobody else waits for; both places are ours and live through the call.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    let wall = began.elapsed();
    assert!(ended == pid && status == 0, "{command:?} ended with {status}");
    // SAFETY: numbers only, which zeros are valid for; the call has filled them.
    let usage = unsafe { usage.assume_init() };
    Run { wall, memory: usage.ru_maxrss }
}

/// Median and 95th percentile in ms, and the median of the peaks in MiB.
#[expect(clippy::cast_precision_loss, reason = "a few MiB in KiB")]
fn figures(runs: &mut [Run]) -> (f64, f64, f64) {
    runs.sort_by_key(|run| run.memory);
    let memory = runs[runs.len() / 2].memory as f64 / 1024.0;
    runs.sort_by_key(|run| run.wall);
    let ms = |at: usize| runs[at].wall.as_secs_f64() * 1000.0;
    (ms(runs.len() / 2), ms(runs.len() * 95 / 100), memory)
}
