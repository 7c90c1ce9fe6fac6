//! Gives the library the real one's soname and all of its 656 exports: those that `src/` does not simulate answer `CUDA_ERROR_NOT_SUPPORTED`, and a
//! `_ptsz` or `_ptds` form of a simulated call is an entry of its own that jumps to it. Also a table of all exports by name, so that the library never has
//! to look itself up with `dlsym`, where an interposer would answer.
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=exports.txt");
    let mut simulated = BTreeSet::new();
    for entry in std::fs::read_dir("src/calls")? {
        let text = std::fs::read_to_string(entry?.path())?;
        for after in text.split("extern \"C\" fn ").skip(1) {
            let name: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            simulated.insert(name);
        }
    }
    let jump = if std::env::var("CARGO_CFG_TARGET_ARCH")? == "aarch64" { "b" } else { "jmp" };
    let (mut entries, mut table) = (String::new(), String::from("pub(crate) static EXPORTS: &[(&str, Entry)] = &[\n"));
    let exports = std::fs::read_to_string("exports.txt")?;
    let mut names: Vec<&str> = exports.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    for name in names {
        let plain = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
        if simulated.contains(name) {
            writeln!(table, "    (\"{name}\", Entry(crate::calls::{name} as *const ())),")?;
            continue;
        }
        let target =
            if simulated.contains(plain) { format!("crate::calls::{plain}") } else { "not_supported".to_owned() };
        writeln!(
            entries,
            "#[unsafe(naked)]\n#[unsafe(no_mangle)]\nextern \"C\" fn {name}() {{\n    core::arch::naked_asm!(\"{jump} {{}}\", sym {target})\n}}"
        )?;
        writeln!(table, "    (\"{name}\", Entry({name} as *const ())),")?;
    }
    table.push_str("];\n");
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("exports.rs"), entries + &table)?;
    Ok(())
}
