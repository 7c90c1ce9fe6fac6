//! The running driver's version without NVML: what the kernel module says of itself.
use std::path::Path;

/// Where the kernel module tells it, below procfs.
const FILE: &str = "driver/nvidia/version";

/// The version of the loaded kernel module; `None` where none is loaded.
#[must_use]
pub fn running(proc_root: &Path) -> Option<String> {
    std::fs::read_to_string(proc_root.join(FILE)).ok().and_then(|text| parse(&text))
}

/// Whether a word is a driver's version: two or three numbers.
#[must_use]
pub fn is_version(word: &str) -> bool {
    let numbers: Vec<&str> = word.split('.').collect();
    (2..=3).contains(&numbers.len()) && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue ...`; the open module has its words in another order.
fn parse(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find(|word| is_version(word)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kernel_modules_are_understood() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jul  1 00:00:00 UTC 2025\nGCC version:  gcc version 12.2.0\n";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs)\n";
        assert_eq!(parse(closed).as_deref(), Some("535.261.03"));
        assert_eq!(parse(open).as_deref(), Some("570.86.10"));
        assert_eq!(parse("GCC version: 12.2.0\n"), None);
        assert!(is_version("610.57") && !is_version("x86.64") && !is_version("1") && !is_version("1..2"));
    }
}
