//! The few system calls that we make, without libc: its errno stays as the program left it.
//!
//! # Safety
//! Each function makes one call with arguments that the kernel checks; pointers are ours and live through the call.
#![expect(unsafe_code, reason = "system calls are made by hand")]
use core::arch::asm;
use core::ffi::CStr;

mod mem;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const READ: usize = 0;
    pub(super) const CLOSE: usize = 3;
    pub(super) const LSEEK: usize = 8;
    pub(super) const MMAP: usize = 9;
    pub(super) const MUNMAP: usize = 11;
    pub(super) const RT_SIGPROCMASK: usize = 14;
    pub(super) const PREAD: usize = 17;
    pub(super) const SCHED_YIELD: usize = 24;
    pub(super) const MADVISE: usize = 28;
    pub(super) const GETPID: usize = 39;
    pub(super) const FCNTL: usize = 72;
    pub(super) const OPENAT: usize = 257;
    pub(super) const READLINKAT: usize = 267;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const FCNTL: usize = 25;
    pub(super) const OPENAT: usize = 56;
    pub(super) const CLOSE: usize = 57;
    pub(super) const LSEEK: usize = 62;
    pub(super) const READ: usize = 63;
    pub(super) const PREAD: usize = 67;
    pub(super) const READLINKAT: usize = 78;
    pub(super) const SCHED_YIELD: usize = 124;
    pub(super) const RT_SIGPROCMASK: usize = 135;
    pub(super) const GETPID: usize = 172;
    pub(super) const MUNMAP: usize = 215;
    pub(super) const MMAP: usize = 222;
    pub(super) const MADVISE: usize = 233;
}

/// Six arguments; the kernel's answer, negative errors included.
unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = a;
    let answer: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the system call convention of x86-64; the caller answers for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number.cast_signed() => answer,
            in("rdi") a0, in("rsi") a1, in("rdx") a2, in("r10") a3, in("r8") a4, in("r9") a5,
            lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the system call convention of aarch64; the caller answers for the arguments.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number, inlateout("x0") a0.cast_signed() => answer,
            in("x1") a1, in("x2") a2, in("x3") a3, in("x4") a4, in("x5") a5, options(nostack)
        );
    }
    answer
}

const AT_FDCWD: usize = (-100_isize).cast_unsigned();
const O_RDWR: usize = 2;
const O_CLOEXEC: usize = 0o2_000_000;
/// `ENOENT`, as the kernel returns it.
const NOT_THERE: isize = -2;

/// An open file of ours, closed when it goes.
pub(crate) struct File(usize);

/// A file could not be opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    NotThere,
    Other,
}

impl File {
    pub(crate) fn open(path: &CStr, write: bool) -> Result<Self, OpenError> {
        let flags = O_CLOEXEC | if write { O_RDWR } else { 0 };
        // SAFETY: a C string that lives through the call.
        let answer = unsafe { call(number::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags, 0, 0, 0]) };
        match usize::try_from(answer) {
            Ok(descriptor) => Ok(Self(descriptor)),
            Err(_) if answer == NOT_THERE => Err(OpenError::NotThere),
            Err(_) => Err(OpenError::Other),
        }
    }

    /// Reads up to the buffer's length; how much was read, 0 at the end and on errors.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: a buffer of that length that lives through the call.
        let answer = unsafe { call(number::READ, [self.0, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
        usize::try_from(answer).unwrap_or(0)
    }

    /// As [`File::read`], from the file's beginning.
    pub(crate) fn read_from_start(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: a buffer of that length that lives through the call.
        let answer = unsafe { call(number::PREAD, [self.0, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
        usize::try_from(answer).unwrap_or(0)
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        const SEEK_END: usize = 2;
        // SAFETY: moves the offset of our own file, which is only mapped afterwards.
        let answer = unsafe { call(number::LSEEK, [self.0, 0, SEEK_END, 0, 0, 0]) };
        usize::try_from(answer).unwrap_or(0)
    }

    /// Takes, without waiting, an exclusive lock that belongs to this open file, on one byte. It goes with the last reference to the open file,
    /// mappings included: so a mapping keeps it when the descriptor is closed, and the kernel drops it when the process is gone.
    pub(crate) fn lock(&self, byte: u64) -> bool {
        self.lock_command(byte, F_WRLCK)
    }

    /// Gives back a lock of [`File::lock`].
    pub(crate) fn unlock(&self, byte: u64) {
        self.lock_command(byte, F_UNLCK);
    }

    fn lock_command(&self, byte: u64, kind: i16) -> bool {
        const F_OFD_SETLK: usize = 37;
        let lock = Flock { kind, whence: 0, start: byte.cast_signed(), length: 1, pid: 0 };
        // SAFETY: a lock structure that lives through the call.
        let answer = unsafe { call(number::FCNTL, [self.0, F_OFD_SETLK, &raw const lock as usize, 0, 0, 0]) };
        answer == 0
    }

    /// Maps the file's beginning, shared, readable and, where asked, writable.
    pub(crate) fn map(&self, length: usize, write: bool) -> Option<*mut u8> {
        const MAP_SHARED: usize = 1;
        map(length, if write { PROT_READ | PROT_WRITE } else { PROT_READ }, MAP_SHARED, self.0)
    }
}

const F_WRLCK: i16 = 1;
const F_UNLCK: i16 = 2;

/// `struct flock` of 64-bit Linux.
#[repr(C)]
struct Flock {
    kind: i16,
    whence: i16,
    start: i64,
    length: i64,
    pid: i32,
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: our own descriptor, closed once.
        let _ = unsafe { call(number::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;

fn map(length: usize, protection: usize, flags: usize, descriptor: usize) -> Option<*mut u8> {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let answer = unsafe { call(number::MMAP, [0, length, protection, flags, descriptor, 0]) };
    usize::try_from(answer).ok().map(|at| at as *mut u8)
}

/// Zeroed private memory, used only where it is touched.
pub(crate) fn zeroed(length: usize) -> Option<*mut u8> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    map(length, PROT_READ | PROT_WRITE, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX)
}

/// Gives a mapping back.
///
/// # Safety
/// Nobody uses the range any more.
pub(crate) unsafe fn unmap(at: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { call(number::MUNMAP, [at as usize, length, 0, 0, 0, 0]) };
}

/// A child after fork does not get this mapping.
pub(crate) fn keep_from_children(at: *mut u8, length: usize) {
    const MADV_DONTFORK: usize = 10;
    advise(at, length, MADV_DONTFORK);
}

/// A child after fork finds zeros here; `false` where the kernel (before 4.14) cannot do that.
pub(crate) fn wipe_in_children(at: *mut u8, length: usize) -> bool {
    const MADV_WIPEONFORK: usize = 18;
    advise(at, length, MADV_WIPEONFORK)
}

fn advise(at: *mut u8, length: usize, advice: usize) -> bool {
    // SAFETY: advice of these kinds changes nothing in this process.
    let answer = unsafe { call(number::MADVISE, [at as usize, length, advice, 0, 0, 0]) };
    answer == 0
}

/// This process's number in its own pid namespace.
pub(crate) fn pid() -> usize {
    // SAFETY: no arguments.
    let answer = unsafe { call(number::GETPID, [0; 6]) };
    usize::try_from(answer).unwrap_or(0)
}

/// Reads a symbolic link; how much was read, 0 on errors.
pub(crate) fn link(path: &CStr, buffer: &mut [u8]) -> usize {
    let arguments = [AT_FDCWD, path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0];
    // SAFETY: a C string and a buffer of that length that live through the call.
    let answer = unsafe { call(number::READLINKAT, arguments) };
    usize::try_from(answer).unwrap_or(0)
}

/// Whether eight bytes can be read, which is not so behind the end of a mapped file that was cut short: to touch them would end the process.
///
/// The kernel copies a signal mask before it looks at what to do with it. What it is told to do does not exist, so nothing is done.
pub(crate) fn can_read(at: *const u64) -> bool {
    const NO_SUCH_CHANGE: usize = 99;
    /// `EFAULT`, as the kernel returns it.
    const BAD_ADDRESS: isize = -14;
    // SAFETY: any address is allowed; a change that does not exist changes no mask.
    let answer = unsafe { call(number::RT_SIGPROCMASK, [NO_SUCH_CHANGE, at as usize, 0, 8, 0, 0]) };
    answer != BAD_ADDRESS
}

/// A counter of the processor that grows with time: about 10^9 a second, give or take a factor of four; on aarch64 at least 10^6.
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it, and Linux leaves it to programs.
    let ticks = unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    let ticks = {
        let ticks: u64;
        // SAFETY: Linux leaves the virtual counter to programs.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    };
    ticks
}

/// Lets another thread run.
pub(crate) fn pause() {
    // SAFETY: no arguments.
    let _ = unsafe { call(number::SCHED_YIELD, [0; 6]) };
}
