//! Graphs with nodes that allocate and free. Their memory belongs to the device: it becomes physical at the first launch or upload, and stays until a trim.
use crate::context::Handle;
use crate::memory::{charge, give_back, graph_addresses, graph_allocates};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// In what steps a device's graph memory grows and shrinks.
const STEP: u64 = 2 << 20;
const ALIGN: u64 = 512;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Alloc { at: u64, device: i32, bytes: u64 },
    Free { at: u64 },
    Empty,
}

#[derive(Clone, Copy, Default)]
struct Reserve {
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
}

#[derive(Default)]
struct Graphs {
    next: Handle,
    /// Graph: its nodes.
    made: HashMap<Handle, Vec<Handle>>,
    nodes: HashMap<Handle, Node>,
    /// Executable graph: what it does.
    execs: HashMap<Handle, Vec<Node>>,
    /// Capturing stream: its graph.
    captures: HashMap<Handle, Handle>,
    devices: HashMap<i32, Reserve>,
}

static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);

fn graphs() -> MutexGuard<'static, Graphs> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graphs {
    fn handle(&mut self) -> Handle {
        self.next += 0x10;
        0x6000_0000 + self.next
    }

    fn create(&mut self) -> Handle {
        let graph = self.handle();
        self.made.insert(graph, Vec::new());
        graph
    }

    fn add(&mut self, graph: Handle, node: Node) -> Result<Handle, u32> {
        let handle = self.handle();
        self.made.get_mut(&graph).ok_or(400_u32)?.push(handle);
        self.nodes.insert(handle, node);
        Ok(handle)
    }

    /// Makes room for so much in use.
    fn grow(&mut self, device: i32, used: u64) -> Result<(), u32> {
        let reserve = self.devices.entry(device).or_default();
        let wanted = used.next_multiple_of(STEP);
        if wanted > reserve.reserved {
            charge(Some(device), wanted - reserve.reserved)?;
            reserve.reserved = wanted;
            reserve.reserved_high = reserve.reserved_high.max(wanted);
        }
        Ok(())
    }
}

fn size(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN)
}

pub(crate) fn create() -> Handle {
    graphs().create()
}

pub(crate) fn destroy(graph: Handle) -> Result<(), u32> {
    let mut graphs = graphs();
    for node in graphs.made.remove(&graph).ok_or(400_u32)? {
        graphs.nodes.remove(&node);
    }
    Ok(())
}

pub(crate) fn add(graph: Handle, node: Node) -> Result<Handle, u32> {
    graphs().add(graph, node)
}

/// A node that allocates; also its address.
pub(crate) fn add_alloc(graph: Handle, device: i32, bytes: u64) -> Result<(Handle, u64), u32> {
    if bytes == 0 {
        return Err(1);
    }
    let at = graph_addresses(bytes)?;
    Ok((add(graph, Node::Alloc { at, device, bytes })?, at))
}

pub(crate) fn nodes(graph: Handle) -> Result<Vec<Handle>, u32> {
    graphs().made.get(&graph).cloned().ok_or(400)
}

pub(crate) fn node(node: Handle) -> Result<Node, u32> {
    graphs().nodes.get(&node).copied().ok_or(400)
}

pub(crate) fn begin_capture(stream: Handle) -> Result<(), u32> {
    let mut graphs = graphs();
    if stream <= 2 || graphs.captures.contains_key(&stream) {
        // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        return Err(900);
    }
    let graph = graphs.create();
    graphs.captures.insert(stream, graph);
    Ok(())
}

pub(crate) fn end_capture(stream: Handle) -> Result<Handle, u32> {
    // CUDA_ERROR_ILLEGAL_STATE
    graphs().captures.remove(&stream).ok_or(401)
}

/// The graph into which a stream is captured.
pub(crate) fn captured(stream: Handle) -> Option<Handle> {
    graphs().captures.get(&stream).copied()
}

pub(crate) fn instantiate(graph: Handle) -> Result<Handle, u32> {
    let mut graphs = graphs();
    let nodes = graphs.made.get(&graph).ok_or(400_u32)?;
    let work: Vec<Node> = nodes.iter().filter_map(|node| graphs.nodes.get(node).copied()).collect();
    let exec = graphs.handle();
    graphs.execs.insert(exec, work);
    Ok(exec)
}

pub(crate) fn destroy_exec(exec: Handle) -> Result<(), u32> {
    graphs().execs.remove(&exec).map(|_| ()).ok_or(400)
}

/// Makes the memory physical that an executable graph needs at its fullest.
pub(crate) fn upload(exec: Handle) -> Result<(), u32> {
    let mut graphs = graphs();
    let work = graphs.execs.get(&exec).cloned().ok_or(400_u32)?;
    let (mut live, mut device) = (HashMap::new(), None);
    let mut most = 0;
    for node in work {
        match node {
            Node::Alloc { at, device: of, bytes } => {
                live.insert(at, size(bytes));
                device = Some(of);
                most = most.max(live.values().sum());
            }
            Node::Free { at } => {
                live.remove(&at);
            }
            Node::Empty => {}
        }
    }
    let Some(device) = device else { return Ok(()) };
    let used = graphs.devices.get(&device).map_or(0, |reserve| reserve.used);
    graphs.grow(device, used + most)
}

/// Does what the nodes say, at once.
pub(crate) fn launch(exec: Handle) -> Result<(), u32> {
    upload(exec)?;
    let work = graphs().execs.get(&exec).cloned().ok_or(400_u32)?;
    for node in work {
        match node {
            Node::Alloc { at, device, bytes } => {
                graph_allocates(at, device, bytes)?;
                let mut graphs = graphs();
                let reserve = graphs.devices.entry(device).or_default();
                reserve.used += size(bytes);
                reserve.used_high = reserve.used_high.max(reserve.used);
            }
            Node::Free { at } => crate::memory::free(at)?,
            Node::Empty => {}
        }
    }
    Ok(())
}

/// An allocation of a graph is gone; what it took stays the device's graph memory.
pub(crate) fn freed(device: i32, bytes: u64) {
    if let Some(reserve) = graphs().devices.get_mut(&device) {
        reserve.used = reserve.used.saturating_sub(size(bytes));
    }
}

pub(crate) fn trim(device: i32) {
    if let Some(reserve) = graphs().devices.get_mut(&device) {
        let left = reserve.used.next_multiple_of(STEP);
        give_back(Some(device), reserve.reserved.saturating_sub(left));
        reserve.reserved = reserve.reserved.min(left);
    }
}

/// `CUgraphMem_attribute` of cuda.h: used 0 and 1, reserved 2 and 3; each pair is current and high.
pub(crate) fn attribute(device: i32, which: u32) -> Result<u64, u32> {
    let reserve = graphs().devices.get(&device).copied().unwrap_or_default();
    match which {
        0 => Ok(reserve.used),
        1 => Ok(reserve.used_high),
        2 => Ok(reserve.reserved),
        3 => Ok(reserve.reserved_high),
        _ => Err(1),
    }
}
