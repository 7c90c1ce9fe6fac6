//! The steps by name, and what a process keeps between them. Amounts are in MiB on the command line, and in bytes in answers.

mod lookup;
mod memory;
mod process;
mod repeat;
mod report;
mod virtual_memory;

use crate::Answer;

/// What this process holds. Answers name things by their place in these lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guest {
    /// Addresses of allocations.
    pointers: Vec<u64>,
    /// Physical memory: handle and bytes.
    handles: Vec<(u64, usize)>,
    /// Mappings: address and bytes.
    mappings: Vec<(u64, usize)>,
}

/// The words behind a step's name.
struct Words<'a>(Vec<&'a str>);

impl Words<'_> {
    fn text(&self, at: usize) -> &str {
        self.0.get(at).copied().unwrap_or_default()
    }

    /// A number, in any integer type; 0 where the word is missing or none.
    fn number<T: std::str::FromStr + Default>(&self, at: usize) -> T {
        self.text(at).parse().unwrap_or_default()
    }

    /// MiB as bytes.
    fn mib(&self, at: usize) -> usize {
        self.number::<usize>(at) << 20
    }
}

impl Guest {
    /// Does a step.
    pub(crate) fn step(&mut self, step: &str) -> Answer {
        let (name, rest) = step.split_once(' ').unwrap_or((step, ""));
        let words = Words(rest.split_whitespace().collect());
        match name {
            "init" => memory::init(),
            "ctx" => memory::context(words.number(0)),
            "no_ctx" => memory::no_context(),
            "alloc" => self.alloc(words.mib(0)),
            "alloc_bytes" => self.alloc(words.number(0)),
            "managed" => self.managed(words.mib(0)),
            "pitch" => self.pitch(words.number(0), words.number(1)),
            "async" => self.alloc_async("cuMemAllocAsync", words.mib(0)),
            "async_ptsz" => self.alloc_async("cuMemAllocAsync_ptsz", words.mib(0)),
            "pool" => self.alloc_from_pool(words.mib(0)),
            "sync" => memory::synchronize(),
            "free" => self.free("cuMemFree_v2", words.number(0)),
            "free_async" => self.free_async("cuMemFreeAsync", words.number(0)),
            "free_async_ptsz" => self.free_async("cuMemFreeAsync_ptsz", words.number(0)),
            "free_at" => memory::free_at("cuMemFree_v2", words.number(0)),
            "alloc_by" => self.alloc_by(words.number(0), words.mib(1)),
            "reset" => memory::reset(words.number(0)),
            "release_ctx" => memory::release_context(words.number(0)),
            "new_ctx" => memory::new_context(words.number(0)),
            "end_ctx" => memory::end_context(),
            "create" => self.create(words.mib(0), words.number(1), words.number(2)),
            "map" => self.map(words.number(0)),
            "unmap" => self.unmap(words.number(0)),
            "release" => self.release(words.number(0)),
            "retain" => self.retain(words.number(0)),
            "info" => report::info(words.text(0)),
            "total" => report::total(words.number(0)),
            "uuid" => report::uuid(words.number(0)),
            "nvml_init" => report::nvml_init(),
            "nvml" => report::nvml(words.number(0)),
            "nvml2" => report::nvml_v2(words.number(0), words.number(1)),
            "nvml_uuid" => report::nvml_uuid(words.number(0)),
            "procaddr" => lookup::procaddr(words.text(0), words.number(1), words.number(2)),
            "procaddr1" => lookup::procaddr_v1(words.text(0), words.number(1), words.number(2)),
            "via" => lookup::via(words.number(0), words.text(1), words.number(2)),
            "dlsym" => lookup::dlsym(words.text(0), words.text(1)),
            "dlvsym" => lookup::dlvsym(words.text(0), words.text(1), words.text(2)),
            "next" => lookup::next_of_another(words.text(0)),
            "exec" => process::exec(rest),
            "fork" => self.fork(rest),
            "threads" => repeat::threads(words.number(0), words.number(1), words.mib(2)),
            "race" => repeat::race(words.text(0), words.number(1), words.mib(2)),
            "churn" => repeat::churn(words.text(0), words.mib(1)),
            "bench" => repeat::bench(words.number(0)),
            "bench_hold" => repeat::bench_hold(words.number(0)),
            "bench_info" => repeat::bench_info(words.number(0)),
            "world" => process::world(),
            "errno" => self.errno(words.mib(0)),
            "kill" => process::kill(),
            _ => Answer { result: -2, text: "no such step".to_owned(), ..Answer::default() },
        }
    }
}
