//! Any bytes as a loader's cache: they are refused, or give entries.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(entries) = ldcache::read(data) {
        assert!(entries.len() <= data.len());
    }
});
