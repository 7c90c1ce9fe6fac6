//! The cache against the machine's own ldconfig and loader, and against every kind of broken bytes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod loader;
mod machine;
mod same;
