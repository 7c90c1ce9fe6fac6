//! Look-ups of functions: exactly the driver's exports of hooked names become hooks, by whatever way, and nothing else. Numbers in names are those of the
//! scenarios.
use interposer_tests::{Case, OUT_OF_MEMORY, answers, last, parts, results};

/// What steps of the guest say in their text.
fn texts(case: &Case, steps: &[&str]) -> Vec<String> {
    case.run(steps).into_iter().map(|answer| answer.text).collect()
}

#[test]
fn s13_the_stream_form_that_was_meant() {
    let case = Case::default();
    let steps = ["init", "procaddr cuMemAllocAsync 11020 2", "procaddr cuMemAllocAsync 11020 1"];
    let hooks = ["", "libgpu_quota.so cuMemAllocAsync_ptsz", "libgpu_quota.so cuMemAllocAsync"];
    assert_eq!(texts(&case, &steps), hooks);
    let bare = case.run_bare(&steps);
    assert_eq!(bare[1].text, "libcuda.so.1 cuMemAllocAsync_ptsz");
    let steps = ["ctx 0", "async_ptsz 1000", "async_ptsz 100", "free_async_ptsz 0", "async_ptsz 100", "sync", "info"];
    let answers = case.run(&steps);
    assert_eq!(results(&answers), [0, 0, OUT_OF_MEMORY, 0, 0, 0, 0]);
    assert_eq!(last(&answers).mib(), [924, 1024]);
}

#[test]
fn s14_the_version_that_was_meant() {
    let case = Case::default();
    let steps = ["init", "procaddr cuMemAlloc 2000 0", "procaddr cuMemAlloc 3020 0", "procaddr1 cuMemAlloc 12040 0"];
    let found = texts(&case, &steps);
    assert_eq!(found[1], "libgpu_quota.so cuMemAlloc");
    assert_eq!(found[2..], ["libgpu_quota.so cuMemAlloc_v2", "libgpu_quota.so cuMemAlloc_v2"]);
    let answers = case.run(&["ctx 0", "alloc_by 12040 1000", "alloc_by 3020 100", "alloc_by 2000 100"]);
    assert_eq!(results(&answers[..3]), [0, 0, OUT_OF_MEMORY]);
    assert_ne!(answers[3].result, 0);
}

#[test]
fn s15_what_is_not_hooked_is_answered_by_the_driver_alone() {
    let case = Case::default();
    let steps = [
        "init",
        "procaddr noSuchThing 12000 0",
        "procaddr cuMemcpy 12000 0",
        "procaddr cuMemAllocAsync 2000 0",
        "procaddr cuCtxGetDevice 12000 0",
        "procaddr cuMemAlloc 12000 99",
        "procaddr cuMemCreat 12000 0",
        "dlsym cuda cuCtxGetDevice",
        "dlsym cuda cuMemAlloc_v3",
        "dlsym nvml nvmlDeviceGetUUID",
    ];
    assert_eq!(case.run(&steps), case.run_bare(&steps));
}

#[test]
fn s16_the_look_up_looks_itself_up() {
    let steps = ["init", "procaddr cuGetProcAddress 11030 0", "via 12000 cuMemAlloc 12000", "via 12000 cuMemcpy 12000"];
    let found = texts(&Case::default(), &steps);
    assert_eq!(found[1], "libgpu_quota.so cuGetProcAddress");
    assert_eq!(found[2], "libgpu_quota.so cuGetProcAddress_v2, libgpu_quota.so cuMemAlloc_v2");
    assert!(found[3].starts_with("libgpu_quota.so cuGetProcAddress_v2, libcuda.so.1 cuMemcpy"), "{}", found[3]);
}

#[test]
fn every_export_is_hooked_by_its_own_name() {
    let case = Case::default();
    let list = include_str!("../../../interposer/exports.txt");
    let names: Vec<&str> = list.lines().filter(|name| !matches!(*name, "dlsym" | "dlvsym")).collect();
    for name in names {
        let part = if name.starts_with("nvml") { "nvml" } else { "cuda" };
        let found = texts(&case, &[&format!("dlsym {part} {name}")]);
        let own = format!("libgpu_quota.so {name}");
        // NULL stays NULL: some names are of later drivers.
        let bare = &case.run_bare(&[&format!("dlsym {part} {name}")])[0].text;
        assert_eq!(&found[0], if bare == "none" { bare } else { &own });
    }
}

const NEXT: &str = "extern void *dlsym(void *, const char *);\n\
    int guest_next(const char *name, void **at) { *at = dlsym((void *)-1, name); return 0; }\n";

#[test]
fn s17_rtld_next_is_the_callers_next() {
    let case = Case::default();
    let other = parts::c_library(case.dir(), "other", NEXT, &[]);
    let find = |preload: &[&std::path::Path]| {
        let list: Vec<String> = preload.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let mut command = case.held(&case.guest());
        command.env("LD_PRELOAD", list.join(":"));
        let steps = ["next cuMemAlloc_v2", "dlsym next cuMemAlloc_v2", "dlsym default cuMemAlloc_v2"];
        answers(command.args(steps)).into_iter().map(|answer| answer.text).collect::<Vec<_>>()
    };
    let (library, driver) = (case.library(), case.driver().join("libcuda.so.1"));
    let (ours, real) = ("libgpu_quota.so cuMemAlloc_v2", "libcuda.so.1 cuMemAlloc_v2");
    assert_eq!(find(&[&other, &library, &driver]), [ours, ours, ours]);
    assert_eq!(find(&[&library, &other, &driver]), [real, ours, ours]);
    assert_eq!(find(&[&library, &driver, &other]), ["none", ours, ours]);
    assert_eq!(find(&[&driver, &other, &library]), [ours, real, real]);
}

const CHAIN: &str = "extern void *dlvsym(void *, const char *, const char *);\n\
    void *dlsym(void *handle, const char *name) {\n\
    \x20   void *(*next)(void *, const char *) = dlvsym((void *)-1, \"dlsym\", VERSION);\n\
    \x20   return next(handle, name);\n}\n";

/// The version of glibc's `dlsym` that every program of this machine's kind can ask for.
const VERSION: &str = if cfg!(target_arch = "aarch64") { "\"GLIBC_2.17\"" } else { "\"GLIBC_2.2.5\"" };

#[test]
fn look_ups_that_chain_come_to_an_end() {
    let case = Case::default();
    let other = parts::c_library(case.dir(), "chain", &CHAIN.replace("VERSION", VERSION), &[]);
    let steps = ["dlsym cuda cuMemAlloc_v2", "dlsym cuda cuMemcpy", "ctx 0", "alloc 1000", "alloc 100"];
    for list in [[&other, &case.library()], [&case.library(), &other]] {
        let mut command = case.held(&case.guest());
        command.env("LD_PRELOAD", list.map(|path| path.to_string_lossy().into_owned()).join(":"));
        let answers = answers(command.args(steps));
        assert_eq!(answers[0].text, "libgpu_quota.so cuMemAlloc_v2", "{list:?}");
        assert!(answers[1].text.starts_with("libcuda.so.1 cuMemcpy"), "{}", answers[1].text);
        assert_eq!(results(&answers[2..]), [0, 0, OUT_OF_MEMORY], "{list:?}");
    }
}

#[test]
fn the_look_ups_themselves_are_ours_wherever_they_are_looked_up() {
    let found = texts(&Case::default(), &["dlsym libc.so.6 dlsym", "dlsym libc.so.6 dlvsym", "dlsym default dlsym"]);
    assert_eq!(found, ["libgpu_quota.so dlsym", "libgpu_quota.so dlvsym", "libgpu_quota.so dlsym"]);
}

#[test]
fn a_look_up_with_a_version() {
    let case = Case::default();
    // Without any versions in a library the loader takes its names for all versions.
    let source = "int cuMemAlloc_v2(void) { return 0; }\nint cuMemcpy(void) { return 0; }\n";
    let driver = parts::c_library(case.dir(), "driver", source, &["-nostdlib", "-Wl,-soname,libcuda.so.1"]);
    let find = |name: &str| format!("dlvsym {} {name} ANY", driver.display());
    let (ours, not_ours) = (find("cuMemAlloc_v2"), find("cuMemcpy"));
    let steps = [ours.as_str(), not_ours.as_str(), "dlvsym libc.so.6 free NONE", "dlvsym libc.so.6 memcpy GLIBC_2.14"];
    let (held, bare) = (texts(&case, &steps), case.run_bare(&steps));
    assert_eq!(bare[0].text, "libdriver.so cuMemAlloc_v2");
    assert_eq!(held[0], "libgpu_quota.so cuMemAlloc_v2");
    for (held, bare) in held.iter().zip(&bare).skip(1) {
        assert_eq!(held, &bare.text);
    }
    // The simulated driver needs versions of libc, so the loader finds none of that name in it: NULL stays NULL.
    assert_eq!(texts(&case, &["dlvsym libcuda.so.1 cuMemAlloc_v2 ANY"]), ["none"]);
}

#[test]
fn s18_other_libraries_keep_their_own() {
    let case = Case::default();
    let source = "int curl_easy_init, cudnnCreate; void cublasCreate(void) {}\nint cuMemAlloc_v2(void) { return 0; }\n\
        int nvmlDeviceGetMemoryInfo(void) { return 0; }\n";
    let other = parts::c_library(case.dir(), "other", source, &[]);
    for name in ["curl_easy_init", "cudnnCreate", "cublasCreate", "cuMemAlloc_v2", "nvmlDeviceGetMemoryInfo"] {
        let found = texts(&case, &["init", &format!("dlsym {} {name}", other.display())]);
        assert_eq!(found[1], format!("libother.so {name}"));
    }
}

#[test]
fn a_driver_in_a_namespace_of_its_own_is_held_too() {
    for (mib, result) in [(1000, 0), (1025, OUT_OF_MEMORY)] {
        let answers = Case::default().run(&[&format!("apart {mib}")]);
        assert_eq!((answers[0].text.as_str(), answers[0].result), ("libgpu_quota.so cuMemAlloc_v2", result));
    }
}
