//! `cdi-gen watch`: looks at procfs, sysfs and /dev every few seconds (procfs sends no inotify events), asks the driver only when something there
//! changed, and writes only when the file's bytes would change.
use crate::exit::Failure;
use crate::flags::Watch;
use crate::report::{File, Report};
use crate::run::Job;
use crate::stale;
use inventory::{Sources, pci, version};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Deeper than `capabilities/gpu0/mig/gi0/ci0/access`.
const DEEPEST: usize = 6;

/// Runs until it is ended from outside.
///
/// # Errors
/// [`Failure::Usage`].
pub fn watch(flags: Watch) -> Result<(), Failure> {
    let (interval, rescan) = (Duration::from_secs_f64(flags.interval), Duration::from_secs_f64(flags.rescan));
    let job = Job::new(flags.settings)?;
    let Some(output) = job.output.clone() else {
        return Err(Failure::Usage("watch needs the name of a file, not --output -".to_owned()));
    };
    let sources = job.sources();
    let (mut last, mut said): (Option<Vec<String>>, Option<String>) = (None, None);
    let mut asked = Instant::now();
    loop {
        let now = fingerprint(&sources, &output);
        let due = !rescan.is_zero() && asked.elapsed() >= rescan;
        if due || last.as_ref() != Some(&now) {
            asked = Instant::now();
            let (report, failure) = job.run(Duration::ZERO);
            tell(&report, failure.as_ref(), &mut said);
            // As it was before the look, so that what changes meanwhile is seen next time. After a change of the file it is looked at once more: only a
            // look that found it right tells what it is like when it is right.
            let changed = matches!(report.file, File::Written | File::Removed);
            last = if changed { None } else { Some(now) };
        }
        std::thread::sleep(interval.max(Duration::from_millis(10)));
    }
}

/// Says what is new: a changed file, or another end than last time.
fn tell(report: &Report, failure: Option<&Failure>, said: &mut Option<String>) {
    let ended = failure.map(ToString::to_string).unwrap_or_default();
    if report.file == File::Written || report.file == File::Removed || said.as_ref() != Some(&ended) {
        println!("{}", report.text());
        if let Some(failure) = failure {
            eprintln!("cdi-gen: {failure}");
        }
    }
    *said = Some(ended);
}

/// Everything outside the driver whose change can change the file.
fn fingerprint(sources: &Sources, output: &Path) -> Vec<String> {
    let mut facts = vec![format!("driver {:?}", version::running(&sources.proc_root))];
    let registered = inventory::nodes::Registered::read(&sources.proc_root).unwrap_or_default();
    facts.push(format!("{registered:?}"));
    let driver = sources.proc_root.join("driver");
    facts.push(fs::read_to_string(driver.join("nvidia-caps/mig-minors")).unwrap_or_default());
    for folder in ["nvidia/gpus", "nvidia/capabilities"] {
        walk(&driver.join(folder), DEEPEST, &mut facts);
    }
    facts.push(format!("{:?}", pci::cards(&sources.sys_root)));
    let dev = sources.dev_root.join("dev");
    for (folder, start) in [("", "nvidia"), ("nvidia-caps", "nvidia-cap"), ("dri", "")] {
        nodes(&dev.join(folder), start, &mut facts);
    }
    let file = fs::metadata(output).map(|it| (it.ino(), it.size(), it.mtime(), it.mtime_nsec())).ok();
    facts.push(format!("{file:?}"));
    if let Ok(spec) = cdi::read(output) {
        facts.extend(stale::gone(&spec));
    }
    facts
}

/// The names below a folder. Of its files only the names count: their times change with every look in procfs.
fn walk(folder: &Path, depth: usize, facts: &mut Vec<String>) {
    let Some(left) = depth.checked_sub(1) else { return };
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        facts.push(path.display().to_string());
        walk(&path, left, facts);
    }
}

/// The device nodes of a folder with their numbers.
fn nodes(folder: &Path, start: &str, facts: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut found: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| {
            format!("{} {:?}", entry.path().display(), entry.metadata().map(|it| (it.rdev(), it.mode(), it.gid())).ok())
        })
        .collect();
    found.sort();
    facts.extend(found);
}
