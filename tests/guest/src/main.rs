//! A program that uses a GPU as it is told, for tests that run it under the interposer. Commands come as arguments, one line of output for each.
fn main() {}
