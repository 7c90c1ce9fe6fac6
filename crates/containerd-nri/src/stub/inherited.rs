//! Takes the socket that containerd leaves open for a plugin that it starts.
//!
//! # Safety
//! The descriptor's number comes from the environment. It is taken once for each process, only where it is an open socket, and nothing else in this
//! crate holds a descriptor of that number.
#![expect(unsafe_code, reason = "only a raw number names an inherited descriptor")]
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::UnixStream;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The socket whose descriptor number is `value`.
///
/// # Errors
/// Where `value` is no number of an open socket, or the socket was taken before.
pub(super) fn socket(value: &str) -> io::Result<UnixStream> {
    let number: i32 = value.parse().map_err(io::Error::other)?;
    let target = std::fs::read_link(format!("/proc/self/fd/{number}"))?;
    if !target.to_string_lossy().starts_with("socket:") {
        return Err(io::Error::other(format!("descriptor {number} is {}, not a socket", target.display())));
    }
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(io::Error::other("it was taken before; a plugin that containerd starts has one connection"));
    }
    // SAFETY: the descriptor is open (seen above) and ours: containerd made it for this process, and TAKEN lets only one caller have it.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    let stream = std::os::unix::net::UnixStream::from(owned);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
