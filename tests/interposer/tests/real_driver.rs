//! The interposer beside the real libcuda and NVML of two driver branches, which look names up without a GPU: what is hooked is ours, by whatever way it is
//! asked for, and all else is the driver's own, with the driver's own result and status.
//!
//! What the interposer rests on and cuda.h does not promise is tested as well: `cuGetProcAddress` answers addresses of exports, and no two exports share one.
use interposer_tests::{Case, names, output, parts};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Driver branches: version, and the CUDA version that it has.
const DRIVERS: [(&str, i32); 2] = [("535.261.03", 12_020), ("550.163.01", 12_040)];

/// Names that came with a later CUDA version than the first driver's, by the `PFN_` types of cudaTypedefs.h. A name may stand here before it is hooked.
const NEW: [(&str, i32); 16] = [
    ("cuCtxCreate_v4", 12_050),
    ("cuCtxFromGreenCtx", 12_040),
    ("cuCtxSynchronize_v2", 13_000),
    ("cuGraphAddNode_v2", 12_030),
    ("cuGraphAddNode_v3", 13_040),
    ("cuGreenCtxCreate", 12_040),
    ("cuGreenCtxDestroy", 12_040),
    ("cuGreenCtxStreamCreate", 12_050),
    ("cuLogicalEndpointCreate", 13_030),
    ("cuLogicalEndpointDestroy", 13_030),
    ("cuMemGetDefaultMemPool", 13_000),
    ("cuMemGetLocationInfo", 13_040),
    ("cuMemGetMemPool", 13_000),
    ("cuMemSetMemPool", 13_000),
    ("cuStreamBeginRecaptureToGraph", 13_030),
    ("cuStreamBeginRecaptureToGraph_ptsz", 13_030),
];

/// Rows of `cuGetProcAddress` as the second driver was measured: name, flags, version, export.
const ROWS: &str = include_str!("../../sim-driver/cuda/cuGetProcAddress.tsv");

/// Names, versions and flags that the rows do not have.
const ODD_NAMES: [&str; 7] =
    ["-", "noSuchThing", "cuMemAlloc_v2", "cuMemAllocAsync_ptsz", "cuMemGetDefaultMemPool", "cuMemCreat", "cuda"];
const ODD_VERSIONS: [i32; 10] = [i32::MIN, -1, 0, 1999, 10_020, 12_040, 12_050, 13_050, 99_999, i32::MAX];
const ODD_FLAGS: [u64; 7] = [0, 1, 2, 3, 4, 1 << 32, u64::MAX];

fn library(version: &str, soname: &str) -> PathBuf {
    parts::cache().join("driver").join(version).join("usr/lib/x86_64-linux-gnu/nvidia/current").join(soname)
}

/// What a look-up answered, and where the address lies: comparable between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    result: i32,
    status: u32,
    object: String,
    offset: usize,
}

impl Found {
    fn read(line: &str) -> Self {
        let [result, status, object, offset] = line.split(' ').collect::<Vec<_>>().try_into().expect("four words");
        let (result, status) = (result.parse().expect("a number"), status.parse().expect("a number"));
        Self { result, status, object: object.to_owned(), offset: offset.parse().expect("a number") }
    }
}

/// A real library, and the program that asks it, without and with the interposer.
struct Asker {
    case: Case,
    program: PathBuf,
    library: PathBuf,
    soname: &'static str,
    exports: BTreeSet<String>,
    hooked: BTreeSet<String>,
}

impl Asker {
    fn new(version: &str, soname: &'static str) -> Self {
        let case = Case::default();
        let (source, program) = (case.dir().join("lookups.c"), case.dir().join("lookups"));
        fs::write(&source, include_str!("real_driver/lookups.c")).expect("the test's folder can be written");
        let done = Command::new("cc").arg("-o").args([&program, &source]).arg("-ldl").status();
        assert!(done.expect("a C compiler is the linker that cargo needs").success(), "cannot compile lookups.c");
        let library = library(version, soname);
        let exports = names::exports(&library);
        let hooked: BTreeSet<String> = names::hooked().intersection(&exports).cloned().collect();
        assert!(!hooked.is_empty(), "nothing of {} is hooked", library.display());
        Self { case, program, library, soname, exports, hooked }
    }

    fn ask(&self, mut command: Command, questions: &[String]) -> Vec<Found> {
        let file = self.case.dir().join("questions");
        fs::write(&file, questions.join("\n") + "\n").expect("the test's folder can be written");
        command.env("LD_LIBRARY_PATH", self.library.parent().unwrap_or(Path::new("")));
        let answers = output(command.stdin(File::open(&file).expect("it was just written")));
        let answers: Vec<Found> = answers.lines().map(Found::read).collect();
        assert_eq!(answers.len(), questions.len());
        answers
    }

    /// The answers without the interposer.
    fn bare(&self, questions: &[String]) -> Vec<Found> {
        let mut command = self.case.bare(&self.program);
        command.arg(&self.library);
        self.ask(command, questions)
    }

    /// The answers with it.
    fn held(&self, questions: &[String]) -> Vec<Found> {
        let mut command = self.case.held(&self.program);
        command.arg(&self.library).arg(self.case.library());
        self.ask(command, questions)
    }

    /// Which export lies where in the real library. No two may lie in one place: by its address alone an export must be known.
    fn places(&self) -> BTreeMap<usize, &str> {
        let questions: Vec<String> = self.exports.iter().map(|name| format!("dlsym {name}")).collect();
        let mut places = BTreeMap::new();
        for (name, found) in self.exports.iter().zip(self.bare(&questions)) {
            assert_eq!(found.object, self.soname, "{name}");
            let other = places.insert(found.offset, name.as_str());
            assert_eq!(other, None, "{name} lies where this one lies");
        }
        places
    }

    /// Where our hooks of this library's exports lie.
    fn hooks(&self) -> BTreeMap<&str, Found> {
        let questions: Vec<String> = self.hooked.iter().map(|name| format!("ours {name}")).collect();
        let found = self.held(&questions);
        let hooks: BTreeMap<&str, Found> = self.hooked.iter().map(String::as_str).zip(found).collect();
        assert!(hooks.values().all(|hook| hook.object == "libgpu_quota.so"), "{hooks:?}");
        let places: BTreeSet<usize> = hooks.values().map(|hook| hook.offset).collect();
        assert_eq!(places.len(), hooks.len(), "each name has a hook of its own");
        hooks
    }

    /// Asks without and with the interposer, and demands of each answer that it is the driver's own, or, where the address is that of a hooked export,
    /// exactly this export's hook. The exports that the answers were, in order; none where an address is NULL or was not written.
    fn compare(&self, questions: &[String]) -> Vec<Option<String>> {
        let (places, hooks) = (self.places(), self.hooks());
        let (bare, held) = (self.bare(questions), self.held(questions));
        let mut wrong = Vec::new();
        let mut exports = Vec::new();
        for ((question, bare), held) in questions.iter().zip(bare).zip(held) {
            let export = if bare.object == self.soname {
                let export = places.get(&bare.offset).copied();
                if export.is_none() {
                    wrong.push(format!("{question}: {bare:?} is no export"));
                }
                export
            } else {
                assert!(matches!(bare.object.as_str(), "null" | "untouched"), "{question}: {bare:?}");
                None
            };
            exports.push(export.map(str::to_owned));
            let mut expected = bare;
            if let Some(hook) = export.and_then(|export| hooks.get(export)) {
                (expected.object, expected.offset) = (hook.object.clone(), hook.offset);
            }
            if held != expected {
                wrong.push(format!("{question} ({export:?}): {held:?}, not {expected:?}"));
            }
        }
        let first = wrong.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{}: {} answers are wrong, such as:\n{first}", self.library.display(), wrong.len());
        exports
    }
}

#[test]
fn every_hooked_name_is_the_drivers_or_of_a_later_cuda() {
    let new: BTreeMap<&str, i32> = NEW.into_iter().collect();
    for (version, cuda) in DRIVERS {
        let mut exports = names::exports(&library(version, "libcuda.so.1"));
        exports.extend(names::exports(&library(version, "libnvidia-ml.so.1")));
        assert!(exports.len() > 900, "{version} exports {} names", exports.len());
        for name in names::hooked() {
            let due = new.get(name.as_str()).is_none_or(|since| *since <= cuda);
            assert!(
                exports.contains(&name) || !due,
                "{name} is hooked, but driver {version} (CUDA {cuda}) does not export it: the hook never runs there. Correct its name, or put it \
                 into NEW with the CUDA version that brought it"
            );
        }
        for (name, since) in NEW {
            assert_eq!(
                exports.contains(name),
                since <= cuda,
                "NEW: {name} of CUDA {since} and driver {version} ({cuda})"
            );
        }
    }
}

#[test]
fn dlsym_on_the_real_driver() {
    for (version, _) in DRIVERS {
        for soname in ["libcuda.so.1", "libnvidia-ml.so.1"] {
            let asker = Asker::new(version, soname);
            let mut wanted: Vec<&str> = asker.exports.iter().map(String::as_str).collect();
            let exported = wanted.len();
            wanted.extend(ODD_NAMES);
            let questions: Vec<String> = wanted.iter().map(|name| format!("dlsym {name}")).collect();
            let found = asker.compare(&questions);
            let same = wanted.iter().zip(&found).filter(|(name, found)| found.as_deref() == Some(name)).count();
            assert!(same >= exported, "{version}: {same} of {exported} names are found as themselves");
        }
    }
}

/// `v2 cuMemAlloc 12000 0` for each row, by one of the ways to ask.
fn rows(way: &str) -> Vec<String> {
    let question = |row: &str| {
        let [name, flags, version, _] = row.split('\t').collect::<Vec<_>>().try_into().expect("four fields");
        format!("{way} {name} {version} {flags}")
    };
    ROWS.lines().map(question).collect()
}

#[test]
fn every_row_is_routed_by_every_way_to_ask() {
    for (version, _) in DRIVERS {
        let asker = Asker::new(version, "libcuda.so.1");
        let ways = ["v2", "v1", "own", "no_status"].map(rows);
        assert!(ways.iter().all(|way| way.len() == 2856));
        let found = asker.compare(&ways.concat());
        let reached: BTreeSet<String> = found.into_iter().flatten().collect();
        let missed: Vec<&String> = asker.hooked.difference(&reached).collect();
        assert!(missed.is_empty(), "{version}: no row asks for {missed:?}, so their routes are not tested");
    }
}

#[test]
fn the_measured_rows_are_what_the_driver_says() {
    let asker = Asker::new(DRIVERS[1].0, "libcuda.so.1");
    let (questions, places) = (rows("v2"), asker.places());
    for (row, found) in ROWS.lines().zip(asker.bare(&questions)) {
        let answer = row.rsplit('\t').next().unwrap_or_default();
        let export = if found.object == "null" { "NULL" } else { places[&found.offset] };
        assert_eq!(answer, format!("{export} r={} st={}", found.result, found.status), "{row}");
    }
}

#[test]
fn odd_names_versions_and_flags_are_the_drivers_business() {
    let known: BTreeSet<&str> = ROWS.lines().filter_map(|row| row.split('\t').next()).collect();
    let hooked = names::hooked();
    // All names that hooks have, some that they do not, and those that no driver has.
    let mut wanted: Vec<&str> = known.iter().copied().filter(|name| hooked.contains(*name)).collect();
    wanted.extend(known.iter().copied().filter(|name| !hooked.contains(*name)).step_by(8));
    wanted.extend(ODD_NAMES);
    let mut questions = Vec::new();
    for name in wanted {
        for version in ODD_VERSIONS {
            for flags in ODD_FLAGS {
                questions.extend(["v2", "v1", "own"].map(|way| format!("{way} {name} {version} {flags}")));
            }
        }
    }
    for (version, _) in DRIVERS {
        let asker = Asker::new(version, "libcuda.so.1");
        let found = asker.compare(&questions);
        assert!(found.iter().any(Option::is_none) && found.iter().any(Option::is_some), "{version}");
    }
}

/// The loader keeps two files apart even where both have the soname libcuda.so.1: a compatibility package beside the node's driver, each by its path.
#[test]
fn beside_another_libcuda_look_ups_are_still_ours() {
    let asker = Asker::new(DRIVERS[1].0, "libcuda.so.1");
    let other = library(DRIVERS[0].0, "libcuda.so.1");
    let questions = ["dlsym cuMemAlloc_v2", "v2 cuMemAlloc 12000 0", "dlsym cuMemFree_v2", "own cuMemFree 12000 0"];
    let mut command = asker.case.held(&asker.program);
    command.env("LD_PRELOAD", format!("{}:{}", asker.case.library().display(), other.display()));
    command.arg(&asker.library).arg(asker.case.library());
    let found = asker.ask(command, &questions.map(str::to_owned));
    assert!(found.iter().all(|found| found.object == "libgpu_quota.so"), "{found:?}");
}
