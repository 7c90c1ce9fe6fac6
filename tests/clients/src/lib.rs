//! Runs real clients that are too big for every run, without and with the interposer, on the simulated driver or on the machine's own GPU.
//!
//! A fixture: whatever goes wrong here fails the test at once. `cargo xtask clients` brings the clients and runs the tests.
#![expect(clippy::missing_panics_doc, reason = "a fixture: every failure is the test's")]

pub mod gpu;

use gpu::Gpu;
use interposer_tests::{Case, output, parts};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's Python looks for packages, below its root.
const SITE: &str = "usr/lib/python3/dist-packages";
const LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// The folder of a fetched client.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    let folder = parts::cache().join("clients").join(name);
    assert!(folder.exists(), "no {}; run cargo xtask clients", folder.display());
    folder
}

/// The Python packages of a fetched client.
#[must_use]
pub fn packages(name: &str) -> PathBuf {
    folder(name).join(SITE)
}

/// A program of this crate.
#[must_use]
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

/// Compiles a C program, linked to one library.
#[must_use]
pub fn c_program(dir: &Path, source: &Path, library: &Path) -> PathBuf {
    let program = dir.join("program");
    let done = Command::new("cc").arg("-o").args([&program, source, library]).status();
    assert!(
        done.expect("a C compiler is the linker that cargo needs").success(),
        "cannot compile {}",
        source.display()
    );
    program
}

/// What a Python program prints without and with the interposer, where the quota is 3,072 of 16,130 MiB. It finds the packages of a fetched client.
#[must_use]
pub fn python(program: &str, client: &str) -> [String; 2] {
    let case = Case::quota(3072);
    let own = folder("python3.9");
    // The guest root's C library goes first: the simulated driver needs one that is newer than this Python.
    let libraries = [parts::cache().join("guest-root"), own.clone()].into_iter().flat_map(libraries_of);
    let libraries = joined([case.driver()].into_iter().chain(libraries));
    let packages = joined([own.join(SITE), packages(client)]);
    both(&case, |command| {
        command.args(["--library-path", &libraries]).arg(own.join("usr/bin/python3.9"));
        command.env("PYTHONHOME", own.join("usr")).env("PYTHONPATH", &packages);
        command.args(["-W", "ignore"]).arg(source(program));
    })
}

/// The same on a GPU, where the quota is 3,072 MiB, with the guest root's Python.
#[must_use]
pub fn python_on(gpu: &Gpu, program: &str, packages: &Path) -> [String; 2] {
    let case = gpu.case();
    let guest = parts::cache().join("guest-root");
    let libraries = joined(libraries_of(guest.clone()));
    // The client's own packages go first: it needs other versions of some.
    let packages = joined([packages.to_owned(), guest.join(SITE)]);
    both(&case, |command| {
        command.args(["--library-path", &libraries]).arg(guest.join("usr/bin/python3.11"));
        command.env("PYTHONHOME", guest.join("usr")).env("PYTHONPATH", &packages);
        // The machine's own driver is found as by every other program.
        command.args(["-W", "ignore"]).arg(source(program)).env_remove("LD_LIBRARY_PATH");
    })
}

/// Runs Python, which `add` completes, without and with the interposer.
fn both(case: &Case, add: impl Fn(&mut Command)) -> [String; 2] {
    let loader = parts::cache().join("guest-root/lib64/ld-linux-x86-64.so.2");
    [case.bare(&loader), case.held(&loader)].map(|mut command| {
        add(&mut command);
        // Nothing of a test's run may stay in the cache folder.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", case.dir()).env("LC_ALL", "C.UTF-8");
        output(&mut command)
    })
}

fn libraries_of(root: PathBuf) -> impl Iterator<Item = PathBuf> {
    LIBRARIES.into_iter().map(move |dir| root.join(dir))
}

fn joined(paths: impl IntoIterator<Item = PathBuf>) -> String {
    paths.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
}
