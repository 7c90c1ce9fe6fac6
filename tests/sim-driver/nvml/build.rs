//! Gives the library the real one's soname and all of its 350 exports: those that `src/` does not simulate answer `NVML_ERROR_NOT_SUPPORTED`.
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=exports.txt");
    let mut simulated = BTreeSet::new();
    for entry in std::fs::read_dir("src/calls")? {
        let text = std::fs::read_to_string(entry?.path())?;
        for after in text.split("extern \"C\" fn ").skip(1) {
            simulated.insert(after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>());
        }
    }
    let mut stubs = String::new();
    for name in std::fs::read_to_string("exports.txt")?.lines().map(str::trim) {
        if !name.is_empty() && !simulated.contains(name) {
            writeln!(stubs, "#[unsafe(no_mangle)]\nextern \"C\" fn {name}() -> u32 {{\n    NOT_SUPPORTED\n}}")?;
        }
    }
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("stubs.rs"), stubs)?;
    Ok(())
}
