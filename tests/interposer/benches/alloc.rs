//! What the interposer costs: the same calls with and without it in the same run, timed inside the guest.
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use interposer_tests::{Case, Live};
use std::time::Duration;

/// How a guest runs.
type Start = fn(&Case) -> Live;

const BOTH: [(&str, Start); 2] = [("driver alone", Case::live_bare), ("interposer", Case::live)];

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
            let case = Case::quota(8192);
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

fn reports(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cuMemGetInfo");
    for (name, start) in BOTH {
        let case = Case::quota(8192);
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
    targets = pairs, reports
}
criterion_main!(benches);
