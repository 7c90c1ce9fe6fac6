//! Steps that do the same many times: threads, races, and the loops that benchmarks time.
#![expect(unsafe_code, reason = "processes that race meet in shared memory")]
use super::memory::{allocate, enter};
use crate::driver::{Part, call, find};
use crate::{Answer, say};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

struct Pair {
    alloc: *const (),
    free: *const (),
}

impl Pair {
    fn new() -> Self {
        Self { alloc: find(&Part::Cuda, "cuMemAlloc_v2"), free: find(&Part::Cuda, "cuMemFree_v2") }
    }

    fn alloc(&self, bytes: usize) -> Result<u64, i32> {
        allocate(self.alloc, bytes)
    }

    fn free(&self, address: u64) -> i32 {
        call!(self.free, (address => u64))
    }
}

/// Threads that allocate and free; values: how many allocations succeeded, how many were refused, how many calls failed otherwise.
pub(super) fn threads(threads: u64, rounds: u64, bytes: usize) -> Answer {
    let counts: [AtomicU64; 3] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let count = |at: usize| {
                    if let Some(count) = counts.get(at) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                };
                if enter(0) != 0 {
                    count(2);
                    return;
                }
                let pair = Pair::new();
                for _ in 0..rounds {
                    match pair.alloc(bytes) {
                        Ok(address) => {
                            count(0);
                            if pair.free(address) != 0 {
                                count(2);
                            }
                        }
                        Err(2) => count(1),
                        Err(_) => count(2),
                    }
                }
            });
        }
    });
    Answer::values(0, &counts.map(AtomicU64::into_inner))
}

/// Maps the first `words` words of a file that another process maps too.
fn shared(path: &str, words: usize) -> Option<&'static [AtomicU64]> {
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    if file.metadata().ok()?.len() < words as u64 * 8 {
        return None;
    }
    // SAFETY: a fresh mapping of a file that is long enough.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            words * 8,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    // SAFETY: a page-aligned mapping of that many words, which is never unmapped.
    (at != libc::MAP_FAILED).then(|| unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), words) })
}

/// With one other process that does the same: in each round both allocate at the same moment. Word 0 of the file counts arrivals, and word `1 + round` how
/// many of the two were served in that round. Values: how often this process was served.
pub(super) fn race(path: &str, rounds: usize, bytes: usize) -> Answer {
    let Some([arrivals, served @ ..]) = shared(path, rounds + 1) else { return Answer::code(-1) };
    let pair = Pair::new();
    let mut passed = 0;
    let mut meet = || {
        passed += 2;
        arrivals.fetch_add(1, Ordering::SeqCst);
        while arrivals.load(Ordering::SeqCst) < passed {
            std::thread::yield_now();
        }
    };
    let mut own = 0;
    for round in served {
        meet();
        let got = pair.alloc(bytes);
        meet();
        match got {
            Ok(address) => {
                own += 1;
                round.fetch_add(1, Ordering::SeqCst);
                if pair.free(address) != 0 {
                    return Answer::code(-1);
                }
            }
            Err(2) => {}
            Err(error) => return Answer::code(error),
        }
    }
    meet();
    Answer::values(0, &[own])
}

/// Allocates and frees for ever, until somebody ends the process. Says a line once it is in the midst of it.
pub(super) fn churn(step: &str, bytes: usize) -> Answer {
    let mut guest = super::Guest::default();
    let mut told = false;
    let device = step == "create";
    loop {
        let taken = if device { guest.create(bytes, 1, 0) } else { guest.alloc(bytes) };
        if taken.result != 0 {
            return taken;
        }
        let back = if device { guest.release(0) } else { guest.free("cuMemFree_v2", 0) };
        if back.result != 0 {
            return back;
        }
        guest = super::Guest::default();
        if !told {
            say("churning", &Answer::default());
            told = true;
        }
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// What each allocation of a benchmark takes, in bytes.
const BENCH_BYTES: usize = 4096;

/// Allocates `count` times, and keeps it.
pub(super) fn bench_hold(count: u64) -> Answer {
    let pair = Pair::new();
    for _ in 0..count {
        if let Err(error) = pair.alloc(BENCH_BYTES) {
            return Answer::code(error);
        }
    }
    Answer::default()
}

/// Nanoseconds for `pairs` times allocate and free.
pub(super) fn bench(pairs: u64) -> Answer {
    let pair = Pair::new();
    let start = Instant::now();
    for _ in 0..pairs {
        match pair.alloc(BENCH_BYTES) {
            Ok(address) => {
                pair.free(address);
            }
            Err(error) => return Answer::code(error),
        }
    }
    Answer::values(0, &[nanoseconds(start)])
}

/// Nanoseconds for `calls` times `cuMemGetInfo_v2`.
pub(super) fn bench_info(calls: u64) -> Answer {
    let function = find(&Part::Cuda, "cuMemGetInfo_v2");
    let (mut free, mut total) = (0_usize, 0_usize);
    let start = Instant::now();
    for _ in 0..calls {
        let result = call!(function, (&raw mut free => *mut usize, &raw mut total => *mut usize));
        if result != 0 {
            return Answer::code(result);
        }
    }
    Answer::values(0, &[nanoseconds(start)])
}

/// Nanoseconds for `pairs` times allocate and free by each of `threads` threads, which begin together.
pub(super) fn bench_threads(threads: usize, pairs: u64) -> Answer {
    let (ready, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let failures = AtomicU64::new(0);
    let took = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let pair = Pair::new();
                let entered = enter(0) == 0;
                ready.wait();
                let works = |_: u64| pair.alloc(BENCH_BYTES).is_ok_and(|address| pair.free(address) == 0);
                if !entered || !(0..pairs).all(works) {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
                done.wait();
            });
        }
        ready.wait();
        let start = Instant::now();
        done.wait();
        nanoseconds(start)
    });
    Answer::values(i32::from(failures.into_inner() != 0), &[took])
}
