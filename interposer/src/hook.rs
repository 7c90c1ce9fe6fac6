//! The hooks, one family a file. A hook reserves, calls the driver, and settles; a call that fails comes back as the driver left it.

pub(crate) mod alloc;
pub(crate) mod array;
mod charge;
pub(crate) mod context;
pub(crate) mod graph;
pub(crate) mod pool;
pub(crate) mod query;
pub(crate) mod sync;
pub(crate) mod vmm;
