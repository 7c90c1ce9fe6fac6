//! Any bytes as a CDI file: they are refused with a reason, or are a spec that both formats say again in the same words.
#![no_main]

use cdi::Format;
use cdi::read::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let format = if first % 2 == 0 { Format::Json } else { Format::Yaml };
    match parse(bytes, format) {
        Ok(spec) => {
            for format in [Format::Json, Format::Yaml] {
                let bytes = format.encode(&spec).expect("what was read can be written");
                assert_eq!(parse(&bytes, format).as_ref(), Ok(&spec), "and reads as the same");
            }
            let mut moved = spec.clone();
            cdi::transform(&mut moved, cdi::Side::Host, "/usr".as_ref(), "/opt/root".as_ref());
            cdi::transform(&mut moved, cdi::Side::Container, "/".as_ref(), "/".as_ref());
            assert!(cdi::version::rank(&moved.cdi_version) >= cdi::version::rank(cdi::minimum_version(&moved)));
        }
        Err(faults) => {
            // YAML knows other line ends than a newline.
            let lines = bytes.len() + 1;
            assert!(!faults.is_empty());
            for fault in faults {
                assert!(!fault.what.is_empty() && fault.line.is_none_or(|line| (1..=lines).contains(&line)), "{fault:?}");
            }
        }
    }
});
