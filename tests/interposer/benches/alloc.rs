//! What the interposer costs: the same calls with and without it in the same run, timed inside the guest.
//!
//! The driver is one that answers at once: the simulated one keeps a book that all processes share, which takes more time than all that is measured here.
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use interposer_tests::{Case, Live, foreign};
use std::path::Path;
use std::time::Duration;

/// How a guest runs.
type Start = fn(&Case) -> Live;

const BOTH: [(&str, Start); 2] = [("driver alone", bare), ("interposer", held)];

fn case() -> Case {
    let case = Case::quota(8192);
    let _ = foreign::driver(case.dir());
    case
}

fn bare(case: &Case) -> Live {
    let mut command = case.bare(&case.guest());
    command.env("LD_LIBRARY_PATH", case.dir());
    Live::start(command)
}

fn held(case: &Case) -> Live {
    let mut command = case.held(&case.guest());
    command.env("LD_LIBRARY_PATH", case.dir());
    Live::start(command)
}

fn started(case: &Case, start: Start) -> Live {
    let mut guest = start(case);
    assert_eq!(guest.step("ctx 0").result, 0);
    guest
}

/// Nanoseconds that the guest says a step took.
fn took(guest: &mut Live, step: &str) -> Duration {
    let answer = guest.step(step);
    assert_eq!(answer.result, 0, "{step}");
    Duration::from_nanos(answer.values[0])
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc and free");
    group.throughput(Throughput::Elements(1));
    for live in [0, 1_000, 10_000, 1_000_000] {
        for (name, start) in BOTH {
            let case = case();
            let mut guest = started(&case, start);
            let prepared = guest.step(&format!("bench_hold {live}"));
            assert_eq!(prepared.result, 0);
            group.bench_function(BenchmarkId::new(name, live), |bencher| {
                bencher.iter_custom(|pairs| took(&mut guest, &format!("bench {pairs}")));
            });
            guest.end();
        }
    }
    group.finish();
}

/// Pairs by many threads at once: the time is that of all of them, so it grows only by what they wait for one another.
fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc and free by threads");
    for threads in [1, 2, 64] {
        group.throughput(Throughput::Elements(threads));
        for (name, start) in BOTH {
            let case = case();
            let mut guest = started(&case, start);
            group.bench_function(BenchmarkId::new(name, threads), |bencher| {
                bencher.iter_custom(|pairs| took(&mut guest, &format!("bench_threads {threads} {pairs}")));
            });
            guest.end();
        }
    }
    group.finish();
}

/// The first pair of a process, in which it registers, beside others that are registered.
fn registration(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first pair");
    for others in [0, 100, 1_000] {
        for (name, start) in BOTH {
            let case = case();
            let mut others: Vec<Live> = (0..others).map(|_| started(&case, start)).collect();
            for other in &mut others {
                let _ = took(other, "bench 1");
            }
            group.bench_function(BenchmarkId::new(name, others.len()), |bencher| {
                let first = || {
                    let mut guest = started(&case, start);
                    let time = took(&mut guest, "bench 1");
                    guest.end();
                    time
                };
                bencher.iter_custom(|processes| (0..processes).map(|_| first()).sum());
            });
            others.into_iter().for_each(Live::end);
        }
    }
    group.finish();
}

/// A process that never uses a GPU, from its start to its end.
fn processes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("start of true");
    group.sample_size(100);
    let case = case();
    let program = Path::new("/bin/true");
    for (name, mut command) in [("alone", case.bare(program)), ("interposer", case.held(program))] {
        group.bench_function(name, |bencher| bencher.iter(|| assert!(command.status().is_ok_and(|end| end.success()))));
    }
    group.finish();
}

fn reports(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cuMemGetInfo");
    for (name, start) in BOTH {
        let case = case();
        let mut guest = started(&case, start);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|calls| took(&mut guest, &format!("bench_info {calls}")));
        });
        guest.end();
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = pairs, threads, registration, processes, reports
}
criterion_main!(benches);
