//! Every function of the newest cuda.h is either hooked or on the list of those that were looked at and stay the driver's (`unhooked.txt`), so that a new
//! CUDA release shows up as a failing test and not as memory that nobody charges. The same for what the pinned drivers export, and for what nvml.h has about
//! memory.
//!
//! The headers come with a wheel that `cargo xtask fetch` installs; nothing of them is in this repository. To ask another CUDA release, set
//! `GPU_QUOTA_CUDA_INCLUDE` to the folder of its cuda.h.
use interposer_tests::{names, parts};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DRIVERS: [&str; 2] = ["535.261.03", "550.163.01"];
/// Identifiers of cuda.h that look like functions and are none.
const FIELDS: [&str; 1] = ["cuFormat"];
/// What in a name or a declaration of NVML suggests an amount of memory.
const MEMORY: [&str; 10] = [
    "Mem",
    "Fb",
    "Framebuffer",
    "BAR1",
    "Process",
    "Attributes",
    "InstanceProfile",
    "AccountingStats",
    "ExportTable",
    "FieldValues",
];

/// Names, and where each was found.
type Names = BTreeMap<String, String>;

fn packages() -> PathBuf {
    parts::cache().join("guest-root/usr/lib/python3/dist-packages")
}

/// The folder with cuda.h: of the environment, or of the one wheel that has it.
fn include() -> PathBuf {
    if let Some(dir) = std::env::var_os("GPU_QUOTA_CUDA_INCLUDE") {
        return dir.into();
    }
    let wheels = fs::read_dir(packages().join("nvidia")).expect("the wheel is there; run cargo xtask fetch");
    let folders = wheels.map(|entry| entry.expect("it can be read").path().join("include"));
    let with: Vec<PathBuf> = folders.filter(|folder| folder.join("cuda.h").exists()).collect();
    let [one] = &with[..] else { panic!("cuda.h is in {with:?}; exactly one wheel of xtask/requirements.txt has it") };
    one.clone()
}

/// The headers of the driver API: cuda.h, cudaGL.h, cudaTypedefs.h and so on. Those of the runtime have an underscore.
fn headers(include: &Path) -> Vec<(String, String)> {
    let wanted = |name: &str| {
        let rest = name.strip_prefix("cuda").and_then(|rest| rest.strip_suffix(".h"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(include).expect("the folder of cuda.h can be read") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if wanted(&name) {
            found.push((name, fs::read_to_string(&path).expect("a header is text")));
        }
    }
    found
}

fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        out.push_str(&rest[..at]);
        out.push(' ');
        let end = if rest[at..].starts_with("/*") { "*/" } else { "\n" };
        let after = &rest[at + 2..];
        rest = after.find(end).map_or("", |found| &after[found + if end == "\n" { 0 } else { 2 }..]);
    }
    out + rest
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether a word is formed like a function of the driver API.
fn is_function(word: &str) -> bool {
    word.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Every word of a header that is formed like a function, whatever it is: declared, defined as another, or a form for per-thread streams that a macro
/// makes. No kind of declaration can be overlooked that way.
fn functions(header: &str) -> BTreeSet<String> {
    let text = without_comments(header);
    let mut found: BTreeSet<String> = words(&text).filter(|word| is_function(word)).map(str::to_owned).collect();
    for (open, suffix) in [("__CUDA_API_PTDS(", "_ptds"), ("__CUDA_API_PTSZ(", "_ptsz")] {
        for after in text.split(open).skip(1) {
            let name = words(after).next().unwrap_or_default();
            if is_function(name) {
                found.insert(format!("{name}{suffix}"));
            }
        }
    }
    found.extend(versions(&text).into_keys());
    for field in FIELDS {
        found.remove(field);
    }
    found
}

/// The versions of each function by the types `PFN_cuMemAlloc_v3020` of cudaTypedefs.h, without those for per-thread streams.
fn versions(text: &str) -> BTreeMap<String, BTreeSet<u32>> {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for word in words(text).filter_map(|word| word.strip_prefix("PFN_")).filter(|word| is_function(word)) {
        if let Some((name, version)) = word.rsplit_once("_v")
            && let Ok(version) = version.parse()
        {
            found.entry(name.to_owned()).or_default().insert(version);
        }
    }
    found
}

/// What is wrong with the two lists for these names.
fn judge(known: &Names, hooked: &BTreeSet<String>, unhooked: &BTreeMap<String, String>) -> Vec<String> {
    let missing = |(name, origin): (&String, &String)| {
        (!hooked.contains(name) && !unhooked.contains_key(name)).then(|| {
            format!(
                "{name} ({origin}) was never looked at: find out what it does to GPU memory, then hook it (interposer/src/table.rs and \
                 interposer/exports.txt), or put it into tests/interposer/unhooked.txt below the reason why it stays the driver's"
            )
        })
    };
    known.iter().filter_map(missing).collect()
}

fn demand(known: &Names) {
    let wrong = judge(known, &names::hooked(), &names::unhooked());
    assert!(wrong.is_empty(), "{} names:\n{}", wrong.len(), wrong.join("\n"));
}

fn of_headers() -> Names {
    let mut known = Names::new();
    for (file, text) in headers(&include()) {
        known.extend(functions(&text).into_iter().map(|name| (name, file.clone())));
    }
    assert!(known.len() > 700, "cuda.h has only {} names", known.len());
    known
}

fn of_drivers() -> Names {
    let mut known = Names::new();
    for version in DRIVERS {
        let folder = parts::cache().join("driver").join(version).join("usr/lib/x86_64-linux-gnu/nvidia/current");
        for soname in ["libcuda.so.1", "libnvidia-ml.so.1"] {
            let exports = names::exports(&folder.join(soname)).into_iter();
            let due = exports.filter(|name| is_function(name) || is_of_memory(name));
            known.extend(due.map(|name| (name, format!("{soname} {version}"))));
        }
    }
    assert!(known.len() > 600, "the drivers export only {} names", known.len());
    known
}

fn is_of_memory(declaration: &str) -> bool {
    declaration.contains("nvml") && MEMORY.iter().any(|word| declaration.contains(word))
}

/// The functions of nvml.h that suggest memory, as cuda-bindings declares them: it has a line for each, made from nvml.h.
fn of_nvml() -> Names {
    let text = fs::read_to_string(packages().join("cuda/bindings/cynvml.pxd")).expect("run cargo xtask fetch");
    let mut known = Names::new();
    let mut all = 0;
    for line in text.lines().filter(|line| line.starts_with("cdef ")) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let Some(name) = words(before).last().filter(|name| name.starts_with("nvml")) else { continue };
        all += 1;
        if is_of_memory(line) {
            known.insert(name.to_owned(), "nvml.h".to_owned());
        }
    }
    assert!(all > 370 && known.len() > 30, "cynvml.pxd has {all} functions, {} of memory", known.len());
    known
}

#[test]
fn every_name_of_cuda_h_was_looked_at() {
    demand(&of_headers());
}

#[test]
fn every_name_of_the_pinned_drivers_was_looked_at() {
    demand(&of_drivers());
}

#[test]
fn every_name_of_nvml_about_memory_was_looked_at() {
    demand(&of_nvml());
}

#[test]
fn every_version_of_a_function_has_a_name() {
    let known = of_headers();
    for (file, text) in headers(&include()) {
        for (name, versions) in versions(&without_comments(&text)) {
            let form = |other: &str| {
                let rest = other.strip_prefix(name.as_str());
                rest.is_some_and(|rest| {
                    rest.is_empty() || rest.strip_prefix("_v").is_some_and(|n| n.parse::<u8>().is_ok())
                })
            };
            let forms = known.keys().filter(|other| form(other)).count();
            assert!(versions.len() <= forms, "{file}: {name} has the versions {versions:?}, but only {forms} names");
        }
    }
}

#[test]
fn no_name_is_in_both_lists_and_none_is_invented() {
    let (hooked, unhooked) = (names::hooked(), names::unhooked());
    let both: Vec<&String> = hooked.iter().filter(|name| unhooked.contains_key(*name)).collect();
    assert!(both.is_empty(), "hooked, so take these out of tests/interposer/unhooked.txt: {both:?}");
    let mut known = of_headers();
    known.extend(of_drivers());
    known.extend(of_nvml());
    let invented: Vec<&String> = unhooked.keys().filter(|name| !known.contains_key(*name)).collect();
    assert!(
        invented.is_empty(),
        "no header and no driver has these names of unhooked.txt; take them out: {invented:?}"
    );
}

#[test]
fn a_new_name_is_found_in_whatever_form_it_comes() {
    let header = "/* cuInComment( */ // cuInComment2(\n#define CUDAAPI\n#define cuMemFoo cuMemFoo_v2\n\
        #define cuMemBar __CUDA_API_PTSZ(cuMemBar_v3)\nCUresult CUDAAPI\ncuSplit(CUdevice dev, CUarray_format cuFormat);\n\
        __CUDA_DEPRECATED CUresult CUDAAPI cuOld (void);\ntypedef CUresult (CUDAAPI *PFN_cuTyped_v13050_ptsz)(int x);\n\
        typedef CUresult (CUDAAPI *PFN_cuTyped_v13040)(int x);\ncuuint64_t x; cudaError_t y;";
    let found: Vec<String> = functions(header).into_iter().collect();
    let expected =
        ["cuMemBar", "cuMemBar_v3", "cuMemBar_v3_ptsz", "cuMemFoo", "cuMemFoo_v2", "cuOld", "cuSplit", "cuTyped"];
    assert_eq!(found, expected);
    let known: Names = found.into_iter().map(|name| (name, "a.h".to_owned())).collect();
    let hooked = known.keys().skip(1).cloned().collect();
    let wrong = judge(&known, &hooked, &BTreeMap::new());
    assert!(matches!(&wrong[..], [one] if one.starts_with("cuMemBar (a.h) was never looked at: ")), "{wrong:?}");
}
