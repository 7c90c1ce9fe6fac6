//! How the program is linked. What is shipped is static, since it runs in the container's mount namespace.
use crate::bundle::HOOK;
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

#[test]
fn a_static_program_asks_for_no_loader_and_no_library() {
    if !cfg!(target_feature = "crt-static") {
        eprintln!("skipped: not built static; main.rs says how");
        return;
    }
    let bytes = std::fs::read(HOOK).unwrap();
    let data = bytes.as_slice();
    let header = FileHeader64::<Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, data).unwrap();
    assert!(segments.iter().any(|segment| segment.p_type(endian) == elf::PT_LOAD));
    assert!(segments.iter().all(|segment| segment.p_type(endian) != PT_INTERP));
    let needed = segments.iter().filter_map(|segment| segment.dynamic(endian, data).unwrap()).flatten();
    assert_eq!(needed.filter(|entry| entry.tag(endian) == DT_NEEDED).count(), 0);
}
