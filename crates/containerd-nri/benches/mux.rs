//! The cost of a message through the multiplexer, with the same message over a plain unix socket pair as baseline in the same run.
use containerd_nri::mux::Mux;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = vec![0_u8; 64 << 10];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn round_trips(mut stream: impl AsyncRead + AsyncWrite + Unpin, size: usize, count: u64) -> Duration {
    let (message, mut answer) = (vec![7_u8; size], vec![0_u8; size]);
    let start = Instant::now();
    for _ in 0..count {
        if stream.write_all(&message).await.is_err() || stream.read_exact(&mut answer).await.is_err() {
            return Duration::MAX;
        }
    }
    start.elapsed()
}

async fn plain(size: usize, count: u64) -> Duration {
    let Ok((near, far)) = UnixStream::pair() else { return Duration::MAX };
    let peer = tokio::spawn(echo(far));
    let took = round_trips(near, size, count).await;
    peer.abort();
    took
}

async fn multiplexed(size: usize, count: u64) -> Duration {
    let Ok((near, far)) = UnixStream::pair() else { return Duration::MAX };
    let (near, [near_one, _near_two]) = Mux::new(near, [1, 2]);
    let (far, [far_one, _far_two]) = Mux::new(far, [1, 2]);
    let tasks = [tokio::spawn(echo(far_one)), tokio::spawn(async { drop(near.run().await) })];
    let peer = tokio::spawn(far.run());
    let took = round_trips(near_one, size, count).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    peer.abort();
    took
}

fn benches(c: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    for size in [512_usize, 16 << 10] {
        let mut group = c.benchmark_group(format!("round trip of {size} bytes"));
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function("baseline: unix socket pair", |b| {
            b.to_async(&runtime).iter_custom(|count| plain(size, count));
        });
        group.bench_function("mux", |b| b.to_async(&runtime).iter_custom(|count| multiplexed(size, count)));
        group.finish();
    }
}

criterion_group!(mux, benches);
criterion_main!(mux);
