//! The fetched Python with its clients, run by the loader of its own root: the host needs no Python, and its libraries play no part.
use crate::{Case, parts};
use std::process::Command;

/// Puts the arguments of a Python program behind those that start Python itself.
fn python(case: &Case, mut command: Command) -> Command {
    let root = parts::cache().join("guest-root");
    let folders = [case.driver(), root.join("lib/x86_64-linux-gnu"), root.join("usr/lib/x86_64-linux-gnu")];
    let path = folders.map(|folder| folder.to_string_lossy().into_owned()).join(":");
    command.args(["--library-path", &path]).arg(root.join("usr/bin/python3.11"));
    command.env("PYTHONHOME", root.join("usr")).env("PYTHONPATH", root.join("usr/lib/python3/dist-packages"));
    // Nothing of a test's run may stay in the cache folder.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", case.dir()).env("NUMBA_CACHE_DIR", case.dir());
    command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
    command
}

/// Python without the interposer.
#[must_use]
pub fn bare(case: &Case) -> Command {
    python(case, case.bare(&loader()))
}

/// Python under the interposer.
#[must_use]
pub fn held(case: &Case) -> Command {
    python(case, case.held(&loader()))
}

fn loader() -> std::path::PathBuf {
    parts::cache().join("guest-root/lib64/ld-linux-x86-64.so.2")
}
