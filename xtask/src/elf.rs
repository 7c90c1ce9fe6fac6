//! What the interposer's ELF must be, so that it loads in every libc and touches nothing: read from the file itself.
use anyhow::{Context, Result, bail, ensure};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, RelocationFlags, elf};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::path::Path;

const SONAME: &CStr = c"libgpu_quota.so";
/// The names that are undefined, all of them weak: the libc's list of loaded objects, and the kernel's word where the program lies.
const UNDEFINED: [&str; 2] = ["dl_iterate_phdr", "getauxval"];

/// Entries of the dynamic section that must not be, and what they would mean.
const NEVER: [(&[elf::DynamicTag], &str); 7] = [
    (&[elf::DT_NEEDED, elf::DT_AUXILIARY, elf::DT_FILTER], "needs another library"),
    (&[elf::DT_VERNEED, elf::DT_VERDEF, elf::DT_VERSYM], "has symbol versions"),
    (
        &[elf::DT_INIT, elf::DT_FINI, elf::DT_INIT_ARRAY, elf::DT_FINI_ARRAY, elf::DT_PREINIT_ARRAY],
        "works at load or unload",
    ),
    (&[elf::DT_TEXTREL], "has text relocations"),
    (&[elf::DT_RPATH, elf::DT_RUNPATH], "says where libraries are"),
    // glibc before 2.36 does not know them, and skips them in silence.
    (&[elf::DT_RELR], "has packed relocations"),
    (&[elf::DT_JMPREL], "binds functions at their first call"),
];

/// What is read of the dynamic section.
#[derive(Default)]
struct Dynamic {
    soname: Option<u64>,
    strings: Option<u64>,
    flags: u64,
    flags_1: u64,
}

/// Checks `library` against the rules and against `interposer/exports.txt`.
pub(crate) fn run(root: &Path, library: &Path) -> Result<()> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file: ElfFile64<'_, Endianness> = ElfFile64::parse(&*bytes)?;
    let dynamic = segments(&file, &bytes)?;
    relocations(&file)?;
    // The string table is in the first segment, whose offsets in the file are its addresses.
    let at = dynamic.soname.zip(dynamic.strings);
    let at = at.and_then(|(name, table)| usize::try_from(name.checked_add(table)?).ok());
    let soname = at.and_then(|at| bytes.get(at..)).and_then(|text| CStr::from_bytes_until_nul(text).ok());
    ensure!(soname == Some(SONAME), "the library's soname is {soname:?}, not {SONAME:?}");
    let exported = symbols(&file)?;
    let list = fs::read_to_string(root.join("interposer/exports.txt")).context("interposer/exports.txt")?;
    let wanted: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let more: Vec<_> = exported.difference(&wanted).collect();
    let fewer: Vec<_> = wanted.difference(&exported).collect();
    ensure!(more.is_empty(), "exported, but not in interposer/exports.txt: {more:?}");
    ensure!(fewer.is_empty(), "in interposer/exports.txt, but not exported: {fewer:?}");
    println!("elf: {} bytes, {} names, nothing needed, nothing versioned", bytes.len(), exported.len());
    Ok(())
}

/// Checks how the library is mapped, and what its dynamic section says.
fn segments(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> Result<Dynamic> {
    let (header, endian) = (file.elf_header(), file.endian());
    let page = page(header.e_machine(endian))?;
    let (mut dynamic, mut relro, mut stack) = (None, false, false);
    for segment in header.program_headers(endian, bytes)? {
        let flags = segment.p_flags(endian);
        let both = elf::PF_W | elf::PF_X;
        match segment.p_type(endian) {
            elf::PT_GNU_RELRO => relro = true,
            elf::PT_GNU_STACK => {
                ensure!(flags & elf::PF_X != elf::PF_X, "the library makes every stack executable");
                stack = true;
            }
            _ if flags & both == both => bail!("a segment is writable and executable"),
            elf::PT_TLS => bail!("the library has thread-local variables"),
            elf::PT_LOAD => {
                let align = segment.p_align(endian);
                ensure!(align >= page, "a segment is aligned to {align} bytes; pages may have {page}");
            }
            _ => {}
        }
        if let Some(entries) = segment.dynamic(endian, bytes)? {
            dynamic = Some(dynamic_section(entries, endian)?);
        }
    }
    ensure!(stack, "the library makes every stack executable (no PT_GNU_STACK)");
    ensure!(relro, "the library's relocated data stays writable (no PT_GNU_RELRO)");
    dynamic.context("the library has no dynamic section")
}

fn dynamic_section(entries: &[elf::Dyn64<Endianness>], endian: Endianness) -> Result<Dynamic> {
    let mut found = Dynamic::default();
    for entry in entries {
        let (tag, value) = (entry.tag(endian), entry.val(endian));
        for (tags, what) in NEVER {
            ensure!(!tags.contains(&tag), "the library {what}");
        }
        match tag {
            elf::DT_SONAME => found.soname = Some(value),
            elf::DT_STRTAB => found.strings = Some(value),
            elf::DT_FLAGS => found.flags = value,
            elf::DT_FLAGS_1 => found.flags_1 = value,
            _ => {}
        }
    }
    ensure!(found.flags & elf::DF_TEXTREL.0 == 0, "the library has text relocations");
    ensure!(found.flags & elf::DF_STATIC_TLS.0 == 0, "the library has thread-local variables");
    ensure!(found.flags_1 & elf::DF_1_NODELETE.0 != 0, "the library can be unloaded (no DF_1_NODELETE)");
    ensure!(found.flags_1 & elf::DF_1_NOW.0 != 0, "the library is not bound at load (no DF_1_NOW)");
    Ok(found)
}

/// The largest page that a machine of this kind may have.
fn page(machine: elf::Machine) -> Result<u64> {
    match machine {
        elf::EM_X86_64 => Ok(4096),
        elf::EM_AARCH64 => Ok(65536),
        other => bail!("the library is for machine {}", other.0),
    }
}

/// Only addresses are relocated: nothing that runs code at load, no thread-local variables, no copies of other objects' data.
fn relocations(file: &ElfFile64<'_, Endianness>) -> Result<()> {
    let plain = [
        elf::R_X86_64_64,
        elf::R_X86_64_GLOB_DAT,
        elf::R_X86_64_RELATIVE,
        elf::R_AARCH64_ABS64,
        elf::R_AARCH64_GLOB_DAT,
        elf::R_AARCH64_RELATIVE,
    ];
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { bail!("a relocation that is not of ELF") };
        ensure!(plain.contains(&r_type), "the relocation at {at:#x} is of type {r_type}, which is no plain address");
    }
    Ok(())
}

/// The exported names; those that are undefined must be exactly the expected ones.
fn symbols(file: &ElfFile64<'_, Endianness>) -> Result<BTreeSet<String>> {
    let (mut exported, mut missing) = (BTreeSet::new(), BTreeSet::from(UNDEFINED));
    for symbol in file.dynamic_symbols() {
        let name = symbol.name()?;
        if symbol.is_undefined() {
            ensure!(name.is_empty() || (UNDEFINED.contains(&name) && symbol.is_weak()), "{name} is undefined");
            missing.remove(name);
        } else if symbol.is_global() {
            exported.insert(name.to_owned());
        }
    }
    ensure!(missing.is_empty(), "expected to be asked of the libc, but not: {missing:?}");
    Ok(exported)
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn an_ordinary_program_is_refused() {
        let error = run(root(), &std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert!(error.contains("thread-local") || error.contains("needs another library"), "{error}");
    }

    /// A library that is right but for its names, where the options and the source do not spoil it.
    fn library(dir: &Path, source: &str, options: &[&str]) -> PathBuf {
        let (from, to) = (dir.join("library.c"), dir.join("library.so"));
        std::fs::write(&from, source).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-nostdlib", "-fno-stack-protector", "-Wl,-soname,libgpu_quota.so"]);
        cc.args(["-Wl,-z,now,-z,nodelete,-z,relro,-z,noexecstack,-z,max-page-size=65536", "-Wl,-Bsymbolic", "-o"]);
        assert!(cc.arg(&to).arg(&from).args(options).status().unwrap().success());
        to
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        let dir = std::env::temp_dir().join(format!("xtask-elf-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let good = "__attribute__((weak)) int dl_iterate_phdr(void *, void *);\nvoid *keep = (void *)&dl_iterate_phdr;\n\
                    __attribute__((weak)) unsigned long getauxval(unsigned long);\nvoid *too = (void *)&getauxval;\n\
                    void *self = &self;\n";
        let with = |more: &str| format!("{good}{more}\n");
        let cases: [(&str, String, &[&str]); 19] = [
            ("exported, but not in", with(""), &[]),
            ("needs another library", with(""), &["-Wl,--no-as-needed", "-lc"]),
            ("works at load", with("__attribute__((constructor)) void start(void) {}"), &[]),
            ("works at load", with("__attribute__((destructor)) void end(void) {}"), &[]),
            ("thread-local", with("__thread int mine; int *at(void) { return &mine; }"), &["-ftls-model=initial-exec"]),
            ("stack executable", with(""), &["-Wl,-z,execstack"]),
            ("stays writable", with(""), &["-Wl,-z,norelro"]),
            ("says where libraries are", with(""), &["-Wl,-rpath,/lib"]),
            ("soname", with(""), &["-Wl,-soname,libother.so"]),
            ("puts is undefined", with("int puts(const char *); void *other = (void *)&puts;"), &[]),
            ("at their first call", with("int puts(const char *); int go(void) { return puts(\"\"); }"), &[]),
            ("is undefined", "int dl_iterate_phdr(void *, void *); void *keep = (void *)&dl_iterate_phdr;".into(), &[]),
            ("expected to be asked", "void *self = &self;".to_owned(), &[]),
            (
                "no plain address",
                with(
                    "static int f(void) { return 1; } static void *pick(void) { return (void *)f; }\n\
                    static int chosen(void) __attribute__((ifunc(\"pick\"))); void *use = (void *)&chosen;",
                ),
                &[],
            ),
            ("pages may have", with(""), &["-Wl,-z,max-page-size=2048"]),
            ("writable and executable", with("__asm__(\".section .both,\\\"awx\\\"\\n.quad 1\\n.data\");"), &[]),
            ("packed relocations", with(""), &["-Wl,-z,pack-relative-relocs"]),
            ("text relocations", with("__asm__(\".text\\n.quad self\\n.data\");"), &["-Wl,-z,notext"]),
            ("symbol versions", with(""), &["-Wl,--default-symver"]),
        ];
        for (says, source, options) in cases {
            let error = run(root(), &library(&dir, &source, options)).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
