//! Paths of the limits file and the ledger: put together without a heap, outside of a container from an environment variable.
use crate::sys::File;
use core::ffi::CStr;

/// Names a folder with `limits` and `ledger` where the container's own path does not exist: for programs that run under the library outside of a
/// container. Inside one the path exists, and the variable is not looked at.
const DIR_ENV: &[u8] = b"GPU_QUOTA_DIR=";
pub(super) const PATH_MAX: usize = 512;

/// Puts a path together, NUL-terminated.
pub(super) fn put<'a>(path: &'a mut [u8; PATH_MAX], parts: &[&[u8]]) -> Option<&'a CStr> {
    path.fill(0);
    let mut at = 0_usize;
    for part in parts {
        path.get_mut(at..at.checked_add(part.len())?)?.copy_from_slice_checked(part)?;
        at += part.len();
    }
    CStr::from_bytes_until_nul(path).ok()
}

/// `copy_from_slice` without its panic.
trait CopyChecked {
    fn copy_from_slice_checked(&mut self, from: &[u8]) -> Option<()>;
}

impl CopyChecked for [u8] {
    fn copy_from_slice_checked(&mut self, from: &[u8]) -> Option<()> {
        (self.len() == from.len()).then(|| self.iter_mut().zip(from).for_each(|(to, from)| *to = *from))
    }
}

/// The folder that [`DIR_ENV`] names in the environment with which the process started; its length.
pub(super) fn environment(dir: &mut [u8; PATH_MAX]) -> Option<usize> {
    let file = File::open(c"/proc/self/environ", false).ok()?;
    let mut chunk = [0; 1024];
    // Where the current variable agrees with the name so far; beyond its end the value is taken.
    let (mut agrees, mut matched, mut length) = (true, 0, 0);
    loop {
        let read = file.read(&mut chunk);
        if read == 0 {
            return None;
        }
        for byte in chunk.iter().take(read) {
            if *byte == 0 {
                if agrees && matched == DIR_ENV.len() && length > 0 {
                    return Some(length);
                }
                (agrees, matched, length) = (true, 0, 0);
            } else if !agrees {
            } else if matched < DIR_ENV.len() {
                agrees = DIR_ENV.get(matched) == Some(byte);
                matched += 1;
            } else {
                *dir.get_mut(length)? = *byte;
                length += 1;
            }
        }
    }
}
