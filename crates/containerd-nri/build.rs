//! Generates the messages from `proto/api.proto` with pure Rust parts; no protoc is needed.
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/api.proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    ttrpc_codegen::Codegen::new()
        .out_dir(&out)
        .include("proto")
        .input("proto/api.proto")
        .rust_protobuf()
        .customize(ttrpc_codegen::Customize { async_all: true, ..Default::default() })
        .run()?;
    std::fs::write(out.join("generated.rs"), "pub mod api;\npub mod api_ttrpc;\n")?;
    Ok(())
}
