//! The cost of a decision, with the cost of building the request as baseline in the same run.
use cdi::ContainerEdits;
use criterion::{Criterion, criterion_group, criterion_main};
use policy::{Node, NodeCard, Request, Rules, decide};
use quota::{Bytes, CardId, Unit};
use std::hint::black_box;

fn request(share: bool) -> Request {
    let mut env: Vec<(String, String)> =
        (0..30).map(|n| (format!("SERVICE_{n}_PORT"), format!("tcp://service:{n}"))).collect();
    if share {
        for (key, value) in [("CONTAINER", "3"), ("DEV", "15"), ("IDX", "0"), ("POD", "3")] {
            env.push((format!("ALIYUN_COM_GPU_MEM_{key}"), value.to_owned()));
        }
    }
    Request { env, ..Request::default() }
}

fn node(cards: u32) -> Node {
    let card = |index: u32| {
        Some(NodeCard {
            index,
            id: CardId::parse(&format!("GPU-{index:08x}-0000-0000-0000-000000000000"))?,
            memory: Bytes::from_mib(16_130)?,
            booked: Bytes(0),
            edits: ContainerEdits::default(),
        })
    };
    Node { unit: Some(Unit::GiB), cards: (0..cards).filter_map(card).collect(), common: ContainerEdits::default() }
}

fn benches(c: &mut Criterion) {
    let (node, rules) = (node(8), Rules::default());
    let (asks, asks_not) = (request(true), request(false));
    c.bench_function("baseline: clone the request", |b| b.iter(|| black_box(&asks).clone()));
    c.bench_function("decide: a share", |b| b.iter(|| decide(black_box(&asks), black_box(&node), &rules)));
    c.bench_function("decide: not ours", |b| b.iter(|| decide(black_box(&asks_not), black_box(&node), &rules)));
}

criterion_group!(decide_group, benches);
criterion_main!(decide_group);
