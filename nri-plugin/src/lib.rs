//! The daemon that containerd asks at every container's creation.
//!
//! A container that asks a share of a GPU gets it in one answer together with the interposer that holds it to the share, or the whole card where
//! it opted out, or is refused with the reason. It holds nothing that it cannot rebuild from the runtime's list and its own records.
#![forbid(unsafe_code)]

pub mod amount;
pub mod app;
pub mod audit;
pub mod book;
pub mod command;
pub mod config;
pub mod control;
pub mod door;
pub mod driver;
pub mod enforce;
pub mod events;
pub mod exit;
pub mod files;
pub mod find;
pub mod http;
pub mod library;
pub mod log;
pub mod metrics;
pub mod place;
pub mod record;
pub mod session;
pub mod status;
pub mod usage;
