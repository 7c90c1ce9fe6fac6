//! The process itself: children, its end, and what a library must not change in it.
#![expect(unsafe_code, reason = "fork, kill and errno")]
use super::{Guest, memory};
use crate::driver::{Part, find};
use crate::{Answer, say};
use std::ffi::CStr;

/// Ends this process as a crash does: nothing of it runs any more.
pub(super) fn kill() -> Answer {
    let pid = libc::pid_t::try_from(std::process::id()).unwrap_or_default();
    // SAFETY: signals ourselves, and does not return.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    Answer::code(-1)
}

/// Goes on as a new program in the same process, with the steps between semicolons. Answers only where that failed.
pub(super) fn exec(steps: &str) -> Answer {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new("/proc/self/exe").args(steps.split(';').map(str::trim)).exec();
    Answer { result: -1, text: error.to_string(), ..Answer::default() }
}

/// Umask, signals, open descriptors and locale.
pub(super) fn world() -> Answer {
    let wanted = ["Umask:", "SigBlk:", "SigIgn:", "SigCgt:"];
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines: Vec<String> = status
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)))
        .map(|line| line.replace('\t', " "))
        .collect();
    let mut open: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let to = std::fs::read_link(entry.path()).unwrap_or_default();
            format!("{} {}", entry.file_name().display(), to.display())
        })
        // The descriptor that reads this very list.
        .filter(|entry| !entry.contains("/proc/"))
        .collect();
    open.sort();
    lines.extend(open);
    // SAFETY: asks only.
    let locale = unsafe { libc::setlocale(libc::LC_ALL, std::ptr::null()) };
    if !locale.is_null() {
        // SAFETY: the C library's own string, which nothing changes meanwhile.
        lines.push(unsafe { CStr::from_ptr(locale) }.to_string_lossy().into_owned());
    }
    Answer::text(lines.join("; "))
}

impl Guest {
    /// A child does the steps between semicolons, and this process waits for it. Values: the child's exit code, and the signal that ended it.
    #[expect(clippy::cast_sign_loss, reason = "both are small and not negative")]
    pub(super) fn fork(&self, steps: &str) -> Answer {
        // SAFETY: no other thread of this program is alive, so that the child may do all that the parent may.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut child = self.clone();
            for step in steps.split(';').map(str::trim) {
                say(step, &child.step(step));
            }
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: waits for the child just made, with an out-pointer of our own.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 0 };
        let signal = if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 };
        Answer::values(if waited == pid { 0 } else { -1 }, &[code as u64, signal as u64])
    }

    /// Allocates with a certain errno; the value is errno after that.
    #[expect(clippy::cast_sign_loss, reason = "errno is not negative")]
    pub(super) fn errno(&mut self, bytes: usize) -> Answer {
        let function = find(&Part::Cuda, "cuMemAlloc_v2");
        // SAFETY: this thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: valid as long as the thread.
        unsafe { errno.write(77) };
        let result = memory::allocate(function, bytes);
        // SAFETY: valid as long as the thread.
        let after = unsafe { errno.read() };
        match result {
            Ok(address) => {
                self.pointers.push(address);
                Answer::values(0, &[after as u64])
            }
            Err(error) => Answer::values(error, &[after as u64]),
        }
    }
}
