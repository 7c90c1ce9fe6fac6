//! `gpu-quota-ldcache-hook`: an optional OCI `createContainer` hook, for programs in containers that ask `ldconfig -p` for the driver.
//! (The loader finds the libraries without it: they are mounted in its default folders.)
//!
//! ```text
//! gpu-quota-ldcache-hook update --folder /usr/lib/x86_64-linux-gnu --folder /usr/lib64 --prefix libcuda --prefix libnvidia-
//! ```
//!
//! The OCI state comes on stdin. Of the folders' files those are added that are named `lib*.so*`, begin with one of the prefixes
//! (with any, where none is given) and are 64-bit libraries of this machine. The exit code is always 0; what went wrong is one line
//! on stderr.
//!
//! It runs in the container's mount namespace, so it is built static:
//!
//! ```text
//! RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target x86_64-unknown-linux-gnu -p ldcache-hook
//! ```
//!
//! (`aarch64-unknown-linux-gnu` there. `--target` must be named even for this machine: without it the flag would reach procedural
//! macros, which cannot be static. glibc's `libc.a` must be installed.)
#![forbid(unsafe_code)]

use ldcache_hook::{args, bundle, cache, guard, scan};
use std::io::Write as _;
use std::time::Duration;

/// A container's creation waits no longer for an optional step.
const LONGEST: Duration = Duration::from_secs(10);

fn main() {
    // The default one prints several lines and asks the environment how many.
    std::panic::set_hook(Box::new(|_| {}));
    let late = || {
        say(&format!("gave up after {LONGEST:?}: stdin or the container's files hang"));
        std::process::exit(0);
    };
    let said = match guard::watch(LONGEST, late) {
        Ok(()) => guard::catch(work),
        Err(error) => Some(format!("the container's loader cache stays as it is: cannot start a thread: {error}")),
    };
    if let Some(said) = said {
        say(&said);
    }
}

/// One line on stderr.
fn say(text: &str) {
    let line = format!("gpu-quota-ldcache-hook: {}\n", guard::one_line(text));
    // Where stderr is closed nobody listens, which is no reason to fail.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The whole hook; `Some` says what was not done, and why.
fn work() -> Option<String> {
    match update() {
        Ok(notes) if notes.is_empty() => None,
        Ok(notes) => Some(notes.join("; ")),
        Err(error) => Some(format!("the container's loader cache stays as it is: {error}")),
    }
}

/// Adds the libraries; returns what was left out.
fn update() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let wanted = args::parse(std::env::args_os().skip(1))?;
    let root = bundle::root(std::io::stdin().lock())?;
    let scan::Found { libraries, notes } = scan::folders(&root, &wanted);
    cache::add(&root, &libraries)?;
    Ok(notes)
}
