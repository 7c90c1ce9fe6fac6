//! The files of `deploy/` against the programs that read them. What is not installed is said when it is skipped.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNITS: [&str; 4] = [
    "gpu-quota-cdi-gen.service",
    "gpu-quota-nri-plugin.service",
    "gpu-quota-cdi-watch.service",
    "gpu-quota-cdi-refresh.service",
];
/// Units that others start.
const NOT_ENABLED: [&str; 1] = ["gpu-quota-cdi-refresh.service"];
const RUNTIMES: [&str; 4] = ["containerd", "crio", "docker", "kubelet"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// The command's end; `None`, with a message, where it is not installed.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no {}", command.get_program().display());
            None
        }
        output => Some(output.unwrap()),
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// A root with our units and programs in their places.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let (units, bin) = (root.path().join("etc/systemd/system"), root.path().join("usr/bin"));
    fs::create_dir_all(&units).unwrap();
    fs::create_dir_all(&bin).unwrap();
    for unit in UNITS {
        fs::copy(deploy().join("systemd").join(unit), units.join(unit)).unwrap();
    }
    for program in ["cdi-gen", "nri-plugin", "nvidia-modprobe"] {
        fs::write(bin.join(program), "").unwrap();
        fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    // systemd's own targets, by which every unit is ordered.
    for name in ["sysinit", "basic", "shutdown", "multi-user"] {
        fs::write(units.join(format!("{name}.target")), "[Unit]\nDefaultDependencies=no\n").unwrap();
    }
    fs::write(units.join("-.slice"), "").unwrap();
    fs::write(units.join("system.slice"), "").unwrap();
    root
}

#[test]
fn systemd_has_nothing_to_say_about_the_units() {
    let root = root();
    for unit in UNITS {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(format!("--root={}", root.path().display())).arg(unit);
        let Some(output) = run(&mut command) else { return };
        let ours: Vec<_> = text(&output).lines().filter(|line| line.contains("gpu-quota")).map(str::to_owned).collect();
        assert!(output.status.success() && ours.is_empty(), "{}", text(&output));
    }
}

#[test]
fn enabled_units_start_on_boot() {
    let root = root();
    let enabled = UNITS.iter().filter(|unit| !NOT_ENABLED.contains(unit));
    let mut command = Command::new("systemctl");
    command.arg(format!("--root={}", root.path().display())).arg("enable").args(enabled.clone());
    let Some(output) = run(&mut command) else { return };
    assert!(output.status.success(), "{}", text(&output));
    for unit in enabled {
        assert!(root.path().join("etc/systemd/system/multi-user.target.wants").join(unit).is_symlink(), "{unit}");
    }
}

/// The runtimes' own units order them among each other and after the network; ours must fit between without a cycle.
#[test]
fn every_runtime_waits_for_the_file_and_no_cycle_arises() {
    let root = root();
    let units = root.path().join("etc/systemd/system");
    fs::write(units.join("network-online.target"), "[Unit]\nDefaultDependencies=no\n").unwrap();
    fs::write(units.join("local-fs.target"), "[Unit]\nDefaultDependencies=no\n").unwrap();
    for (runtime, after) in [
        ("containerd", "network-online.target local-fs.target"),
        ("crio", "network-online.target"),
        ("docker", "network-online.target containerd.service"),
        ("kubelet", "network-online.target containerd.service crio.service docker.service"),
    ] {
        let unit = format!(
            "[Unit]\nAfter={after}\nWants=network-online.target\n[Service]\nExecStart=/usr/bin/cdi-gen\n[Install]\nWantedBy=multi-user.target\n"
        );
        fs::write(units.join(format!("{runtime}.service")), unit).unwrap();
        let drop_in = units.join(format!("{runtime}.service.d"));
        fs::create_dir(&drop_in).unwrap();
        fs::copy(deploy().join("systemd/runtime.conf"), drop_in.join("50-gpu-quota.conf")).unwrap();
    }
    for runtime in RUNTIMES {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(format!("--root={}", root.path().display()));
        let Some(output) = run(command.arg(format!("{runtime}.service"))) else { return };
        let said = text(&output);
        assert!(output.status.success() && !said.contains("cycle") && !said.contains("gpu-quota"), "{said}");
    }
    // A cycle would be seen.
    let unit = fs::read_to_string(units.join(UNITS[0])).unwrap();
    fs::write(units.join(UNITS[0]), unit.replace("After=", "After=kubelet.service ")).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).arg(format!("--root={}", root.path().display())).arg("kubelet.service");
    let Some(output) = run(&mut command) else { return };
    assert!(text(&output).contains("cycle"), "{}", text(&output));
}

#[test]
fn the_units_wait_no_longer_than_systemd_lets_them() {
    for unit in UNITS.iter().filter(|unit| unit.contains("cdi")) {
        let text = fs::read_to_string(deploy().join("systemd").join(unit)).unwrap();
        let number = |key: &str| {
            let rest = text.split_once(key)?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        if let Some(wait) = number("CDI_GEN_WAIT=") {
            assert!(wait > 0 && number("TimeoutStartSec=").is_some_and(|limit| wait * 2 < limit), "{unit}");
        }
        // What the unit sets is what the program reads.
        let help = Command::new(env!("CARGO_BIN_EXE_cdi-gen")).args(["generate", "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        for variable in text.split([' ', '=', '\n']).filter(|word| word.starts_with("CDI_GEN_")) {
            assert!(help.contains(&format!("[env: {variable}=")), "{unit}: {variable}");
        }
    }
}

#[test]
fn the_udev_rule_starts_the_refresh_and_udev_can_read_it() {
    let rules = deploy().join("udev/71-gpu-quota.rules");
    let text = fs::read_to_string(&rules).unwrap();
    let rule: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rule.len(), 1);
    for part in ["SUBSYSTEM==\"module\"", "nvidia_uvm", "TAG+=\"systemd\"", UNITS[3]] {
        assert!(rule[0].contains(part), "{part}");
    }
    let refresh = fs::read_to_string(deploy().join("systemd").join(UNITS[3])).unwrap();
    assert!(!refresh.contains("RemainAfterExit"), "it would run once only");
    let Some(output) = run(Command::new("udevadm").arg("verify").arg(&rules)) else { return };
    let said = self::text(&output);
    if said.contains("Unknown command verb") {
        eprintln!("SKIPPED: udevadm has no verify (systemd 254 and later)");
        return;
    }
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_drop_in_turns_nri_on_in_a_containerd_that_has_it_off() {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home).map(|cache| cache.join("gpu-quota"));
    let Some(cache) = std::env::var_os("GPU_QUOTA_CACHE").map(PathBuf::from).or(cache) else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    for version in [2, 3] {
        let dump = |drop_in: &Path| {
            let imports = format!("version = {version}\nimports = [{:?}]\n", drop_in.to_str().unwrap());
            fs::write(&config, imports + "[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = true\n").unwrap();
            let mut command = Command::new(cache.join("containerd/2.1.9/usr/bin/containerd"));
            let output = run(command.arg("--config").arg(&config).args(["config", "dump"]))?;
            assert!(output.status.success(), "{}", text(&output));
            let text = text(&output);
            let nri = text.split("[plugins.'io.containerd.nri.v1.nri']").nth(1).unwrap();
            nri.lines().find_map(|line| line.trim().strip_prefix("disable = ")).map(|value| value == "true")
        };
        let Some(disabled) = dump(&dir.path().join("none.toml")) else { return };
        assert!(disabled, "without the drop-in");
        assert_eq!(dump(&deploy().join("containerd/gpu-quota.toml")), Some(false));
    }
}
