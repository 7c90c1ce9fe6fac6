//! Runs real clients that are too big for every run, without and with the interposer, on the simulated driver.
//!
//! A fixture: whatever goes wrong here fails the test at once. `cargo xtask clients` brings the clients and runs the tests.
#![expect(clippy::missing_panics_doc, reason = "a fixture: every failure is the test's")]

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
    let (guest, own) = (parts::cache().join("guest-root"), folder("python3.9"));
    let loader = guest.join("lib64/ld-linux-x86-64.so.2");
    // The guest root's C library goes first: the simulated driver needs one that is newer than this Python.
    let libraries = [&guest, &own].into_iter().flat_map(|root| LIBRARIES.map(|dir| root.join(dir)));
    let path = joined([case.driver()].into_iter().chain(libraries));
    [case.bare(&loader), case.held(&loader)].map(|mut command| {
        command.args(["--library-path", &path]).arg(own.join("usr/bin/python3.9"));
        command.args(["-W", "ignore"]).arg(source(program));
        command.env("PYTHONHOME", own.join("usr")).env("PYTHONPATH", joined([own.join(SITE), packages(client)]));
        // Nothing of a test's run may stay in the cache folder.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", case.dir()).env("LC_ALL", "C.UTF-8");
        output(&mut command)
    })
}

fn joined(paths: impl IntoIterator<Item = PathBuf>) -> String {
    paths.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
}
