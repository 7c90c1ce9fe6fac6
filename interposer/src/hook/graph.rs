//! Graphs that allocate. Their memory belongs to the device, becomes physical when such a graph is first launched or uploaded, and stays until it is trimmed.
//!
//! A graph's allocations are added up when it is instantiated. Before a launch, what the device may have to grow by is charged; after it, what it grew by.
//!
//! # Safety
//! Out-pointers are the program's; they are read only after the driver has written them.
#![expect(unsafe_code, reason = "exported under the C names")]
use crate::abi::{AllocNodeParams, CuResult, LOCATION_HOST};
use crate::card;
use crate::hook::charge::GRAIN;
use crate::real::{self, Real, call};
use crate::start::{Share, share};
use crate::sys;
use crate::table::Name;
use core::ffi::{c_char, c_int};
use quota::Bytes;

static NODES: Real = Real::new(c"cuGraphGetNodes");
static KIND: Real = Real::new(c"cuGraphNodeGetType");
static ALLOC_PARAMS: Real = Real::new(c"cuGraphMemAllocNodeGetParams");
static CHILD: Real = Real::new(c"cuGraphChildGraphNodeGetGraph");
static ATTRIBUTE: Real = Real::new(c"cuDeviceGetGraphMemAttribute");
/// `CU_GRAPH_NODE_TYPE_GRAPH` and `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
const KIND_GRAPH: u32 = 4;
const KIND_ALLOC: u32 = 10;
/// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT` and `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const USED: u32 = 0;
const RESERVED: u32 = 2;
/// Physical memory comes in pages of this size, so a device grows by no less.
const PAGE: u64 = 2 << 20;
/// Graphs within graphs are looked into so deep.
const DEPTH: u32 = 8;
/// The pool that stands for the graph memory of a device, by the device's number: no pool of the driver has such a handle.
const GRAPH_POOL: u64 = 1 << 62;

/// Bytes that the nodes of a graph allocate, on the device of the largest.
#[derive(Clone, Copy, Default)]
struct Demand {
    bytes: u64,
    largest: u64,
    device: c_int,
}

/// Adds up what a graph allocates.
fn add_up(graph: u64, demand: &mut Demand, depth: u32) {
    let nodes_of = |nodes: *mut u64, count: *mut usize| {
        call!(
            NODES.get(),
            fn(u64, *mut u64, *mut usize) -> CuResult,
            (graph, nodes, count),
            else CuResult::NOT_FOUND
        )
    };
    let mut count = 0_usize;
    if nodes_of(core::ptr::null_mut(), &raw mut count) != CuResult::SUCCESS || count == 0 {
        return;
    }
    let Some(length) = count.checked_mul(8).and_then(|bytes| bytes.checked_next_multiple_of(4096)) else { return };
    let Some(memory) = sys::zeroed(length) else { return };
    if nodes_of(memory.cast(), &raw mut count) == CuResult::SUCCESS {
        for at in 0..count.min(length / 8) {
            // SAFETY: within the mapping of that length.
            let node = unsafe { memory.wrapping_add(at * 8).cast::<[u8; 8]>().read() };
            add_up_node(u64::from_ne_bytes(node), demand, depth);
        }
    }
    // SAFETY: our own mapping, which nobody else has seen.
    unsafe { sys::unmap(memory, length) };
}

fn add_up_node(node: u64, demand: &mut Demand, depth: u32) {
    let mut kind = 0_u32;
    let result = call!(
        KIND.get(),
        fn(u64, *mut u32) -> CuResult,
        (node, &raw mut kind),
        else CuResult::NOT_FOUND
    );
    if result != CuResult::SUCCESS {
        return;
    }
    if kind == KIND_GRAPH && depth > 0 {
        let mut child = 0_u64;
        let result = call!(
            CHILD.get(),
            fn(u64, *mut u64) -> CuResult,
            (node, &raw mut child),
            else CuResult::NOT_FOUND
        );
        if result == CuResult::SUCCESS {
            add_up(child, demand, depth - 1);
        }
    }
    if kind != KIND_ALLOC {
        return;
    }
    let mut params = core::mem::MaybeUninit::<AllocNodeParams>::zeroed();
    let result = call!(
        ALLOC_PARAMS.get(),
        fn(u64, *mut AllocNodeParams) -> CuResult,
        (node, params.as_mut_ptr()),
        else CuResult::NOT_FOUND
    );
    if result != CuResult::SUCCESS {
        return;
    }
    // SAFETY: plain numbers, all zero before the driver wrote them.
    let params = unsafe { params.assume_init() };
    if LOCATION_HOST.contains(&params.pool.location.kind) {
        return;
    }
    let bytes = (params.bytes as u64).checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX);
    demand.bytes = demand.bytes.saturating_add(bytes);
    if bytes > demand.largest {
        (demand.largest, demand.device) = (bytes, params.pool.location.id);
    }
}

/// Instantiates a graph, and notes what it allocates. One that can never fit is refused here.
fn instantiate(exec: *mut u64, graph: u64, driver: impl FnOnce() -> CuResult) -> CuResult {
    let mut demand = Demand::default();
    add_up(graph, &mut demand, DEPTH);
    if demand.bytes == 0 || exec.is_null() {
        return driver();
    }
    let Some(share) = share() else { return CuResult::OUT_OF_MEMORY };
    let Some(card) = card::of_device(&share, demand.device) else { return CuResult::OUT_OF_MEMORY };
    if demand.bytes > share.quota(card).0 {
        share.count_refusal(card);
        return CuResult::OUT_OF_MEMORY;
    }
    let Some(graphs) = share.slot().and_then(|_| share.graphs()) else { return CuResult::OUT_OF_MEMORY };
    let result = driver();
    if result != CuResult::SUCCESS {
        return result;
    }
    // SAFETY: not NULL, and the driver has written the handle there.
    let made = unsafe { *exec };
    if graphs.insert(made, (demand.bytes, u64::from(demand.device.cast_unsigned()))).is_err() {
        let _ = destroy(made);
        return CuResult::OUT_OF_MEMORY;
    }
    CuResult::SUCCESS
}

fn destroy(exec: u64) -> CuResult {
    call!(real::of(Name::cuGraphExecDestroy), fn(u64) -> CuResult, (exec), else CuResult::NOT_FOUND)
}

fn attribute(device: c_int, which: u32) -> Option<u64> {
    let mut value = 0_u64;
    let result = call!(
        ATTRIBUTE.get(),
        fn(c_int, u32, *mut u64) -> CuResult,
        (device, which, &raw mut value),
        else CuResult::NOT_FOUND
    );
    (result == CuResult::SUCCESS).then_some(value)
}

fn pool_of(device: c_int) -> u64 {
    GRAPH_POOL | u64::from(device.cast_unsigned())
}

/// The device whose graph memory a pool stands for; `None` for pools of the driver.
pub(super) fn device_of(pool: u64) -> Option<c_int> {
    let number = u32::try_from(pool & !GRAPH_POOL).ok().filter(|_| pool & GRAPH_POOL != 0)?;
    Some(number.cast_signed())
}

/// Launches or uploads a graph.
fn launch(exec: u64, driver: impl FnOnce() -> CuResult) -> CuResult {
    let Some(share) = share() else { return driver() };
    let demand = share.graphs().and_then(|graphs| graphs.with(exec, |stored| *stored).ok().flatten());
    let Some((bytes, device)) = demand else { return driver() };
    let device = u32::try_from(device).unwrap_or(0).cast_signed();
    let Some(card) = card::of_device(&share, device) else { return CuResult::OUT_OF_MEMORY };
    let (Some(pools), Some(slot)) = (share.pools(), share.slot()) else { return CuResult::OUT_OF_MEMORY };
    let pool = pool_of(device);
    if pools.add(pool, Some(card)).is_err() {
        return CuResult::OUT_OF_MEMORY;
    }
    // The memory that is in use by other graphs cannot serve this one; what is not can.
    let in_use = attribute(device, USED).unwrap_or(0).checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX);
    let wanted = in_use.saturating_add(bytes).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    if super::pool::take(&share, pools, pool, (card, slot, wanted)).is_none() {
        return CuResult::OUT_OF_MEMORY;
    }
    let result = driver();
    let back = pools.freed(pool, wanted, 0);
    share.give_back(card, slot, Bytes(back));
    settle(&share, device);
    result
}

/// Brings the charge of a device's graph memory to what the driver has reserved.
pub(super) fn settle(share: &Share, device: c_int) {
    let (Some(pools), Some(slot), Some(reserved)) = (share.pools(), share.slot(), attribute(device, RESERVED)) else {
        return;
    };
    let Some(card) = card::of_device(share, device) else { return };
    let give_back = |bytes| share.give_back(card, slot, Bytes(bytes));
    // What the driver holds counts, whatever the quota: it holds it already.
    pools.settle(pool_of(device), reserved, give_back, |bytes| {
        share.charge_anyway(card, slot, Bytes(bytes));
        true
    });
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphExecDestroy(exec: u64) -> CuResult {
    // Forgotten first: another graph may get the same handle right after the call.
    let graphs = share().and_then(|share| share.graphs());
    let stored = graphs.and_then(|graphs| graphs.remove(exec));
    let result = destroy(exec);
    if result != CuResult::SUCCESS
        && let (Some(graphs), Some(stored)) = (graphs, stored)
    {
        let _ = graphs.insert(exec, stored);
    }
    result
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGraphMemTrim(device: c_int) -> CuResult {
    let result = call!(real::of(Name::cuDeviceGraphMemTrim), fn(c_int) -> CuResult, (device), else CuResult::NOT_FOUND);
    if result == CuResult::SUCCESS
        && let Some(share) = share()
    {
        settle(&share, device);
    }
    result
}

macro_rules! instantiations {
    ($($name:ident($($argument:ident: $type:ty),*)),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name(exec: *mut u64, graph: u64, $($argument: $type),*) -> CuResult {
            let driver = || {
                call!(
                    real::of(Name::$name),
                    fn(*mut u64, u64, $($type),*) -> CuResult,
                    (exec, graph, $($argument),*),
                    else CuResult::NOT_FOUND
                )
            };
            instantiate(exec, graph, driver)
        }
    )*};
}

instantiations!(
    cuGraphInstantiate(error_node: *mut u64, log: *mut c_char, length: usize),
    cuGraphInstantiate_v2(error_node: *mut u64, log: *mut c_char, length: usize),
    cuGraphInstantiateWithFlags(flags: u64),
    cuGraphInstantiateWithParams(params: usize),
    cuGraphInstantiateWithParams_ptsz(params: usize),
);

macro_rules! launches {
    ($($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name(exec: u64, stream: usize) -> CuResult {
            let driver = || {
                call!(real::of(Name::$name), fn(u64, usize) -> CuResult, (exec, stream), else CuResult::NOT_FOUND)
            };
            launch(exec, driver)
        }
    )*};
}

launches!(cuGraphLaunch, cuGraphLaunch_ptsz, cuGraphUpload, cuGraphUpload_ptsz);
