//! The book inside one process: which pointer, handle or mapping holds how many charged bytes, and when they go back.
//!
//! Rules only: memory is handed in by the caller, and nothing here makes a system call or can panic. The interposer uses it in processes of other
//! people; here it is tested by plain `cargo test`.
#![no_std]
#![forbid(unsafe_code)]

pub mod physical;
pub mod pools;
pub mod table;
pub mod told;

pub use physical::Physical;
pub use pools::Pools;
pub use table::{Entry, Full, Table};
