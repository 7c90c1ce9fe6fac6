//! The steps by name, and what a process keeps between them. Amounts are in MiB on the command line, and in bytes in answers.

mod arrays;
mod graphs;
mod lookup;
mod memory;
mod pools;
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
    /// Descriptors of shared memory.
    descriptors: Vec<u32>,
    pools: Vec<usize>,
    arrays: Vec<usize>,
    graphs: Vec<usize>,
    execs: Vec<usize>,
    /// A stream of its own, made when it is first captured.
    stream: usize,
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
            "attach" => memory::attach(),
            "detach" => memory::detach(),
            "pool_of" => self.pool_of(words.number(0)),
            "new_pool" => self.new_pool(words.number(0), words.mib(1), words.number(2)),
            "end_pool" => self.end_pool(words.number(0)),
            "set_pool" => self.set_pool(words.number(0), words.number(1)),
            "pool_alloc" => self.pool_alloc("cuMemAllocFromPoolAsync", words.number(0), words.mib(1)),
            "pool_alloc_ptsz" => self.pool_alloc("cuMemAllocFromPoolAsync_ptsz", words.number(0), words.mib(1)),
            "pool_keep" => self.pool_keep(words.number(0), words.number(1)),
            "pool_state" => self.pool_state(words.number(0)),
            "trim" => self.trim(words.number(0), words.mib(1)),
            "ipc_get" => self.ipc_get(words.number(0)),
            "ipc_open" => self.ipc_open(words.text(0)),
            "ipc_close" => self.ipc_close(words.number(0)),
            "external" => self.external(words.mib(0)),
            "truth" => pools::truth(words.number(0)),
            "array" => self.array(&words),
            "array3d" => self.array3d(&words),
            "mipmap" => self.mipmap(&words),
            "end_array" => self.end_array("cuArrayDestroy", words.number(0)),
            "end_mipmap" => self.end_array("cuMipmappedArrayDestroy", words.number(0)),
            "map_array" => self.map_array(words.number(0), Some(words.number(1))),
            "unmap_array" => self.map_array(words.number(0), None),
            "capture" => self.capture(),
            "capture_end" => self.capture_end(),
            "stream_alloc" => self.async_on_stream("cuMemAllocAsync", words.mib(0)),
            "stream_alloc_ptsz" => self.async_on_stream("cuMemAllocAsync_ptsz", words.mib(0)),
            "stream_free" => self.free_on_stream(words.number(0)),
            "graph_alloc" => self.graph_alloc(words.mib(0), false),
            "graph_alloc_node" => self.graph_alloc(words.mib(0), true),
            "graph_free" => self.graph_free(words.number(0), words.number(1)),
            "instantiate" => self.instantiate(words.number(0), words.number(1)),
            "launch" => self.on_exec("cuGraphLaunch", words.number(0)),
            "launch_ptsz" => self.on_exec("cuGraphLaunch_ptsz", words.number(0)),
            "upload" => self.on_exec("cuGraphUpload", words.number(0)),
            "end_exec" => self.end_exec(words.number(0)),
            "end_graph" => self.end_graph(words.number(0)),
            "graph_trim" => graphs::trim(words.number(0)),
            "graph_state" => graphs::state(words.number(0)),
            "create" => self.create(words.mib(0), words.number(1), words.number(2)),
            "map" => self.map(words.number(0)),
            "map_part" => self.map_part(words.number(0), words.mib(1), words.mib(2)),
            "unmap_range" => self.unmap_range(words.number(0), words.mib(1)),
            "export" => self.export(words.number(0)),
            "import" => self.import(words.number(0)),
            "close" => self.close(words.number(0)),
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
            "apart" => lookup::apart(words.mib(0)),
            "next" => lookup::next_of_another(words.text(0)),
            "exec" => process::exec(rest),
            "fork" => self.fork(rest),
            "threads" => repeat::threads(words.number(0), words.number(1), words.mib(2)),
            "race" => repeat::race(words.text(0), words.number(1), words.mib(2)),
            "churn" => repeat::churn(words.text(0), words.mib(1)),
            "bench" => repeat::bench(words.number(0)),
            "bench_hold" => repeat::bench_hold(words.number(0)),
            "bench_threads" => repeat::bench_threads(words.number(0), words.number(1)),
            "bench_info" => repeat::bench_info(words.number(0)),
            "world" => process::world(),
            "errno" => self.errno(words.mib(0)),
            "kill" => process::kill(),
            _ => Answer { result: -2, text: "no such step".to_owned(), ..Answer::default() },
        }
    }
}
