//! The harness of the end-to-end tests: a private containerd with real runc, podman, images that it makes itself, a node with a simulated GPU, and the programs
//! as they ship. It needs root, and leaves nothing behind.

pub mod containerd;
pub mod cri;
pub mod image;
pub mod lab;
pub mod node;
pub mod parts;
pub mod plugin;
pub mod podman;
pub mod scratch;
