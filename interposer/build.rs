//! Links the library so that it loads anywhere: nothing needed, nothing versioned, and (`-z defs`) nothing undefined but what is weak. The panic handler
//! calls a name that nobody defines, so a library in which a panic survives does not link.

fn main() {
    for argument in ["-nostartfiles", "-Wl,-soname,libgpu_quota.so", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,nodelete"]
    {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
