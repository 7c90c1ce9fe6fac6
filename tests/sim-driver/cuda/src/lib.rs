//! A simulated `libcuda.so.1` of driver 550: enough of the driver API for real clients to find cards, make contexts, and allocate, copy and free
//! memory, with exact accounting. Kernels do not run.
//!
//! It judges the interposer, so it uses nothing of gpu-quota, binds its own symbols to itself (`-Bsymbolic`) and never calls `dlsym`. The vendor's check of
//! the driver's authenticity in cudart 11.2 and later is not imitated: programs that insist on it need a real GPU.
#![cfg(target_os = "linux")]

mod arrays;
mod calls;
mod context;
mod exports;
mod graphs;
mod memory;
mod node;
mod physical;
mod pools;
mod procaddr;
mod tables;
