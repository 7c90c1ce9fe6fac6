//! What the interposer's ELF must be, so that it loads in every libc and touches nothing: read from the file itself.
use anyhow::{Context, Result, ensure};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::path::Path;

const SONAME: &CStr = c"libgpu_quota.so";
/// The only name that may be undefined, and weak: the libc's list of loaded objects.
const UNDEFINED: &str = "dl_iterate_phdr";

/// Checks `library` against the rules and against `interposer/exports.txt`.
pub(crate) fn run(root: &Path, library: &Path) -> Result<()> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file: ElfFile64<'_, Endianness> = ElfFile64::parse(&*bytes)?;
    let (header, endian) = (file.elf_header(), file.endian());
    let (mut soname, mut strings, mut relro) = (None, None, false);
    for segment in header.program_headers(endian, &*bytes)? {
        let flags = segment.p_flags(endian);
        relro |= segment.p_type(endian) == elf::PT_GNU_RELRO;
        let both = elf::PF_W | elf::PF_X;
        ensure!(flags & both != both, "a segment is writable and executable");
        let Some(entries) = segment.dynamic(endian, &*bytes)? else { continue };
        for entry in entries {
            let tag = entry.tag(endian);
            ensure!(tag != elf::DT_NEEDED, "the library needs another library");
            let versions = [elf::DT_VERNEED, elf::DT_VERDEF, elf::DT_VERSYM];
            ensure!(!versions.contains(&tag), "the library has symbol versions");
            let work = [elf::DT_INIT, elf::DT_FINI, elf::DT_INIT_ARRAY, elf::DT_FINI_ARRAY, elf::DT_PREINIT_ARRAY];
            ensure!(!work.contains(&tag), "the library works at load or unload");
            ensure!(tag != elf::DT_TEXTREL, "the library has text relocations");
            if tag == elf::DT_SONAME {
                soname = entry.val32(endian);
            }
            if tag == elf::DT_STRTAB {
                strings = entry.val32(endian);
            }
        }
    }
    // The string table is in the first segment, whose offsets in the file are its addresses.
    let at = soname.zip(strings).and_then(|(name, table)| usize::try_from(name.checked_add(table)?).ok());
    let soname = at.and_then(|at| bytes.get(at..)).and_then(|text| CStr::from_bytes_until_nul(text).ok());
    ensure!(soname == Some(SONAME), "the library's soname is {soname:?}, not {SONAME:?}");
    ensure!(relro, "the library's relocated data stays writable (no PT_GNU_RELRO)");
    let mut exported = BTreeSet::new();
    for symbol in file.dynamic_symbols() {
        let name = symbol.name()?;
        if symbol.is_undefined() {
            ensure!(name.is_empty() || (name == UNDEFINED && symbol.is_weak()), "{name} is undefined");
        } else if symbol.is_global() {
            exported.insert(name.to_owned());
        }
    }
    let list = fs::read_to_string(root.join("interposer/exports.txt")).context("interposer/exports.txt")?;
    let wanted: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let more: Vec<_> = exported.difference(&wanted).collect();
    let fewer: Vec<_> = wanted.difference(&exported).collect();
    ensure!(more.is_empty(), "exported, but not in interposer/exports.txt: {more:?}");
    ensure!(fewer.is_empty(), "in interposer/exports.txt, but not exported: {fewer:?}");
    println!("elf: {} bytes, {} names, nothing needed, nothing versioned", bytes.len(), exported.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::path::Path;

    #[test]
    fn an_ordinary_program_is_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let error = run(root, &std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert!(error.contains("needs another library"), "{error}");
    }
}
