//! Graphs: nodes that allocate and free, and what makes them run. Other nodes do nothing.
#![expect(unsafe_code, reason = "exported under the C names")]
use super::pools::Properties;
use super::{INVALID_VALUE, code, get, put, put_if_wanted};
use crate::context::Handle;
use crate::graphs::{self, Node};
use crate::node::card;
use std::ffi::c_char;

/// `CUDA_MEM_ALLOC_NODE_PARAMS` of cuda.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct AllocNode {
    properties: Properties,
    access: [usize; 2],
    bytes: usize,
    at: u64,
}

/// `CUgraphNodeParams` of cuda.h: kind 10 allocates, kind 11 frees.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct NodeParams {
    kind: u32,
    reserved: [u32; 3],
    alloc: AllocNode,
    rest: [u64; 14],
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphCreate(graph: *mut Handle, _flags: u32) -> u32 {
    if graph.is_null() { INVALID_VALUE } else { put(graph, Ok(graphs::create())) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphDestroy(graph: Handle) -> u32 {
    code(graphs::destroy(graph))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphAddMemAllocNode(
    node: *mut Handle,
    graph: Handle,
    _before: *const Handle,
    _count: usize,
    params: *mut AllocNode,
) -> u32 {
    let add = || {
        let mut wanted = get(params.cast_const())?;
        let device = wanted.properties.location_id;
        card(device).ok_or(101_u32)?;
        let (made, at) = graphs::add_alloc(graph, device, wanted.bytes as u64)?;
        wanted.at = at;
        put_if_wanted(params, wanted);
        Ok(made)
    };
    if node.is_null() { INVALID_VALUE } else { put(node, add()) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphAddMemFreeNode(
    node: *mut Handle,
    graph: Handle,
    _before: *const Handle,
    _count: usize,
    at: u64,
) -> u32 {
    if node.is_null() { INVALID_VALUE } else { put(node, graphs::add(graph, Node::Free { at })) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphAddEmptyNode(
    node: *mut Handle,
    graph: Handle,
    _before: *const Handle,
    _count: usize,
) -> u32 {
    if node.is_null() { INVALID_VALUE } else { put(node, graphs::add(graph, Node::Empty)) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphAddNode(
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    params: *mut NodeParams,
) -> u32 {
    let mut wanted = match get(params.cast_const()) {
        Ok(wanted) => wanted,
        Err(error) => return error,
    };
    match wanted.kind {
        10 => {
            let result = cuGraphAddMemAllocNode(node, graph, before, count, &raw mut wanted.alloc);
            if result == 0 {
                put_if_wanted(params, wanted);
            }
            result
        }
        _ => 801,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphAddNode_v2(
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    _edges: usize,
    count: usize,
    params: *mut NodeParams,
) -> u32 {
    cuGraphAddNode(node, graph, before, count, params)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) -> u32 {
    let all = match graphs::nodes(graph) {
        Ok(all) => all,
        Err(error) => return error,
    };
    if nodes.is_null() {
        return put(count, Ok(all.len()));
    }
    let room = match get(count.cast_const()) {
        Ok(room) => room,
        Err(error) => return error,
    };
    for (at, node) in all.iter().take(room).enumerate() {
        put_if_wanted(nodes.wrapping_add(at), *node);
    }
    put(count, Ok(all.len().min(room)))
}

/// `CUgraphNodeType`: empty 5, allocation 10, free 11.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphNodeGetType(node: Handle, kind: *mut u32) -> u32 {
    let kind_of = |node| match node {
        Node::Alloc { .. } => 10,
        Node::Free { .. } => 11,
        Node::Empty => 5,
    };
    put(kind, graphs::node(node).map(kind_of))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphMemAllocNodeGetParams(node: Handle, params: *mut AllocNode) -> u32 {
    let Ok(Node::Alloc { at, device, bytes }) = graphs::node(node) else { return INVALID_VALUE };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    put(params, Ok(AllocNode { properties: Properties::of_device(device), access: [0; 2], bytes, at }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, _flags: u64) -> u32 {
    if exec.is_null() { INVALID_VALUE } else { put(exec, graphs::instantiate(graph)) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphInstantiateWithParams(exec: *mut Handle, graph: Handle, params: *mut u64) -> u32 {
    if params.is_null() { INVALID_VALUE } else { cuGraphInstantiateWithFlags(exec, graph, 0) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphInstantiate_v2(
    exec: *mut Handle,
    graph: Handle,
    _error_node: *mut Handle,
    _log: *mut c_char,
    _length: usize,
) -> u32 {
    cuGraphInstantiateWithFlags(exec, graph, 0)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphInstantiate(
    exec: *mut Handle,
    graph: Handle,
    error_node: *mut Handle,
    log: *mut c_char,
    length: usize,
) -> u32 {
    cuGraphInstantiate_v2(exec, graph, error_node, log, length)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphExecDestroy(exec: Handle) -> u32 {
    code(graphs::destroy_exec(exec))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphLaunch(exec: Handle, _stream: Handle) -> u32 {
    code(graphs::launch(exec))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphUpload(exec: Handle, _stream: Handle) -> u32 {
    code(graphs::upload(exec))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGraphMemTrim(device: i32) -> u32 {
    code(card(device).map(|_| graphs::trim(device)).ok_or(101))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetGraphMemAttribute(device: i32, which: u32, value: *mut u64) -> u32 {
    put(value, card(device).ok_or(101).and_then(|_| graphs::attribute(device, which)))
}

/// The simulated driver's own: what all processes have taken of a device's card, in bytes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn simTaken(device: i32, bytes: *mut u64) -> u32 {
    let taken = || Ok(crate::node::node().ok_or(3_u32)?.state.used(card(device).ok_or(101_u32)?.place));
    put(bytes, taken())
}
