//! The files of `deploy/` against the programs that read them. What is not installed is said when it is skipped.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNITS: [&str; 2] = ["gpu-quota-cdi-gen.service", "gpu-quota-nri-plugin.service"];

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
fn enabled_units_are_wanted_by_every_runtime() {
    let root = root();
    let mut command = Command::new("systemctl");
    command.arg(format!("--root={}", root.path().display())).arg("enable").args(UNITS);
    let Some(output) = run(&mut command) else { return };
    assert!(output.status.success(), "{}", text(&output));
    let unit = fs::read_to_string(deploy().join("systemd").join(UNITS[0])).unwrap();
    let before = unit.lines().find_map(|line| line.strip_prefix("Before=")).unwrap();
    for runtime in ["containerd", "crio", "docker", "kubelet"] {
        let wants = root.path().join(format!("etc/systemd/system/{runtime}.service.wants")).join(UNITS[0]);
        assert!(wants.is_symlink(), "{}", wants.display());
        assert!(before.split(' ').any(|other| other == format!("{runtime}.service")), "{before}");
    }
    assert!(root.path().join("etc/systemd/system/multi-user.target.wants").join(UNITS[1]).is_symlink());
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
