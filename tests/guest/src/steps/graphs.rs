//! Graphs that allocate: made by hand or captured from a stream.
#![expect(unsafe_code, reason = "calls functions of the driver")]
use super::Guest;
use super::pools::Properties;
use crate::Answer;
use crate::driver::cuda;
use std::ptr::null;

/// `CUDA_MEM_ALLOC_NODE_PARAMS` of cuda.h.
#[repr(C)]
struct AllocNode {
    properties: Properties,
    access: [usize; 2],
    bytes: usize,
    at: u64,
}

/// `CUgraphNodeParams` of cuda.h.
#[repr(C)]
struct NodeParams {
    kind: u32,
    reserved: [u32; 3],
    alloc: AllocNode,
    rest: [u64; 14],
}

impl Guest {
    fn graph(&self, at: usize) -> usize {
        self.graphs.get(at).copied().unwrap_or_default()
    }

    fn exec_graph(&self, at: usize) -> usize {
        self.execs.get(at).copied().unwrap_or_default()
    }

    /// A graph of one allocation on device 0; values: places of graph and address.
    pub(super) fn graph_alloc(&mut self, bytes: usize, by_node: bool) -> Answer {
        let (mut graph, mut node) = (0, 0);
        let made = cuda!("cuGraphCreate", (&raw mut graph => *mut usize, 0 => u32));
        if made != 0 {
            return Answer::code(made);
        }
        let alloc = AllocNode { properties: Properties::new(1, 0, 0), access: [0; 2], bytes, at: 0 };
        let mut params = NodeParams { kind: 10, reserved: [0; 3], alloc, rest: [0; 14] };
        let result = if by_node {
            cuda!("cuGraphAddNode_v2", (
                &raw mut node => *mut usize, graph => usize, null() => *const usize, 0 => usize, 0 => usize,
                &raw mut params => *mut NodeParams,
            ))
        } else {
            cuda!("cuGraphAddMemAllocNode", (
                &raw mut node => *mut usize, graph => usize, null() => *const usize, 0 => usize,
                &raw mut params.alloc => *mut AllocNode,
            ))
        };
        if result != 0 {
            return Answer::code(result);
        }
        self.graphs.push(graph);
        self.pointers.push(params.alloc.at);
        Answer::values(0, &[self.graphs.len() as u64 - 1, self.pointers.len() as u64 - 1])
    }

    /// Frees an address at the end of a graph.
    pub(super) fn graph_free(&self, graph: usize, at: usize) -> Answer {
        let mut node = 0;
        Answer::code(cuda!("cuGraphAddMemFreeNode", (
            &raw mut node => *mut usize, self.graph(graph) => usize, null() => *const usize, 0 => usize,
            self.pointer(at) => u64,
        )))
    }

    /// Instantiates a graph with one of the four functions.
    pub(super) fn instantiate(&mut self, at: usize, how: u32) -> Answer {
        let (mut exec, mut params) = (0, [0_u64; 4]);
        let graph = self.graph(at);
        let result = match how {
            0 => cuda!("cuGraphInstantiateWithFlags", (&raw mut exec => *mut usize, graph => usize, 0 => u64)),
            1 => cuda!("cuGraphInstantiate_v2", (
                &raw mut exec => *mut usize, graph => usize, 0 => usize, 0 => usize, 0 => usize,
            )),
            2 => cuda!("cuGraphInstantiateWithParams", (
                &raw mut exec => *mut usize, graph => usize, &raw mut params => *mut [u64; 4],
            )),
            _ => cuda!("cuGraphInstantiate", (
                &raw mut exec => *mut usize, graph => usize, 0 => usize, 0 => usize, 0 => usize,
            )),
        };
        if result != 0 {
            return Answer::code(result);
        }
        self.execs.push(exec);
        Answer::values(0, &[self.execs.len() as u64 - 1])
    }

    /// `cuGraphLaunch`, `cuGraphUpload`, in either stream form.
    pub(super) fn on_exec(&self, function: &str, at: usize) -> Answer {
        Answer::code(cuda!(function, (self.exec_graph(at) => usize, 0 => usize)))
    }

    pub(super) fn end_exec(&self, at: usize) -> Answer {
        Answer::code(cuda!("cuGraphExecDestroy", (self.exec_graph(at) => usize)))
    }

    pub(super) fn end_graph(&self, at: usize) -> Answer {
        Answer::code(cuda!("cuGraphDestroy", (self.graph(at) => usize)))
    }

    /// Begins to capture the guest's own stream.
    pub(super) fn capture(&mut self) -> Answer {
        if self.stream == 0 {
            let made = cuda!("cuStreamCreate", (&raw mut self.stream => *mut usize, 1 => u32));
            if made != 0 {
                return Answer::code(made);
            }
        }
        Answer::code(cuda!("cuStreamBeginCapture_v2", (self.stream => usize, 0 => u32)))
    }

    /// Ends the capture; the value is the graph's place.
    pub(super) fn capture_end(&mut self) -> Answer {
        let mut graph = 0;
        let result = cuda!("cuStreamEndCapture", (self.stream => usize, &raw mut graph => *mut usize));
        if result != 0 {
            return Answer::code(result);
        }
        self.graphs.push(graph);
        Answer::values(0, &[self.graphs.len() as u64 - 1])
    }

    /// Allocates on the guest's own stream.
    pub(super) fn async_on_stream(&mut self, function: &str, bytes: usize) -> Answer {
        let mut address = 0;
        let result = cuda!(function, (&raw mut address => *mut u64, bytes => usize, self.stream => usize));
        self.keep(result, address)
    }

    /// Frees on the guest's own stream.
    pub(super) fn free_on_stream(&self, at: usize) -> Answer {
        Answer::code(cuda!("cuMemFreeAsync", (self.pointer(at) => u64, self.stream => usize)))
    }
}

/// Gives a device's graph memory back that nothing needs.
pub(super) fn trim(device: i32) -> Answer {
    Answer::code(cuda!("cuDeviceGraphMemTrim", (device => i32)))
}

/// Reserved and used graph memory of a device.
pub(super) fn state(device: i32) -> Answer {
    let mut values = [0_u64; 2];
    let mut result = 0;
    for (value, which) in values.iter_mut().zip([2, 0]) {
        result = cuda!("cuDeviceGetGraphMemAttribute", (device => i32, which => u32, value => *mut u64));
    }
    Answer::values(result, &values)
}
