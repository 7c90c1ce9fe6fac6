//! A simulated `libnvidia-ml.so.1` of driver 550: enough for real `nvidia-smi`, pynvml, gpustat, nvitop and nvml-wrapper to see the node's cards, their
//! memory in use, and who uses it.
//!
//! It judges the interposer, so it uses nothing of gpu-quota, binds its own symbols to itself (`-Bsymbolic`) and never calls `dlsym`.
#![cfg(target_os = "linux")]

mod calls;
mod node;
mod out;
mod stubs;
