//! `libgpu_quota.so`: lives in every process of an isolated container, holds CUDA allocations to the container's share, and shows the share as if it
//! were the card.
//!
//! It is a guest. It does nothing until a name that it hooks is looked up or called; it never prints, never panics, allocates nothing from libc, keeps no
//! descriptor open, and changes no signal, umask, errno or locale. A program that never touches a GPU pays for its relocations only.
//!
//! How it is reached: programs that link `libcuda` find its exports first; all others ask `dlsym`, `dlvsym` or `cuGetProcAddress`, which it answers.
//! Without a readable limits file it refuses GPU memory: a container is never unlimited because something is missing.
#![no_std]
#![cfg(target_os = "linux")]

mod abi;
mod card;
mod elf;
mod hook;
mod panic;
mod real;
mod resolve;
mod start;
mod sys;
mod table;
