//! What a library or program says of itself: soname, what it needs, whether it needs a loader.
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadCache, elf};
use std::fs::File;
use std::path::Path;

/// The ELF machine of this machine's libraries.
pub(super) const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// The dynamic section of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// `DT_SONAME`.
    pub(super) soname: String,
    /// `DT_NEEDED`, in the file's order.
    pub(super) needed: Vec<String>,
}

/// Reads a 64-bit library of this machine; `None` for anything else, and for one without a soname.
pub(super) fn read(path: &Path) -> Option<Object> {
    // Only the few pages that are needed: a driver's libraries are hundreds of MiB together.
    let data = &ReadCache::new(File::open(path).ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != MACHINE {
        return None;
    }
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.section(link).ok()?;
    let strings = strings.strings(endian, data).ok()?.unwrap_or_default();
    let text = |entry: &elf::Dyn64<Endianness>| {
        let name = strings.get(entry.val32(endian)?).ok()?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    };
    let soname = entries.iter().find(|entry| entry.tag(endian) == elf::DT_SONAME).and_then(text)?;
    let needed = entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED).filter_map(text).collect();
    // It becomes a path in the container: nothing that could leave the folder.
    let plain = soname.starts_with("lib") && !soname.contains('/');
    plain.then_some(Object { soname, needed })
}

/// Whether a file is a program of this machine that needs neither a loader nor a library, so that nothing of a container can be loaded into it.
#[must_use]
pub fn is_static_program(path: &Path) -> bool {
    let interprets = || {
        let data = &ReadCache::new(File::open(path).ok()?);
        let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let program =
            matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN) && header.e_machine(endian) == MACHINE;
        let starts = header.e_entry.get(endian) != 0;
        let segments = header.program_headers(endian, data).ok()?;
        (program && starts).then(|| segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP))
    };
    interprets() == Some(false)
}
