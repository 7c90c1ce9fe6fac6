//! The grammar of vendor, class and device names.

/// A vendor or class: first a letter, last a letter or digit, between them also `_`, `-` and `.`. One letter alone is none: the reference loader (1.1.0) panics
/// on it, and takes the runtime with it.
#[must_use]
pub fn is_vendor_or_class(name: &str) -> bool {
    name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.'))
}

/// A kind: `vendor/class`.
#[must_use]
pub fn is_kind(kind: &str) -> bool {
    kind.split_once('/').is_some_and(|(vendor, class)| is_vendor_or_class(vendor) && is_vendor_or_class(class))
}

/// A device: first and last a letter or digit, between them also `_`, `-`, `.` and `:`.
#[must_use]
pub fn is_device(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':'))
}

/// An environment entry: `NAME=value` with a name.
#[must_use]
pub fn is_env(entry: &str) -> bool {
    entry.find('=').is_some_and(|at| at > 0)
}
