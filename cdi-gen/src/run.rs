//! Scan, build, check, write, report: the order in which nothing wrong can reach a runtime.
use crate::exit::Failure;
use crate::flags::{self, Generate, Settings};
use crate::generate::{self, Built, Options};
use crate::report::{self, File, Left, Report};
use crate::stale;
use cdi::{Format, Spec, Written};
use inventory::{Inventory, InventoryError, Sources, nodes, pci};
use rustix::fs::{FlockOperation, flock};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two tries while the driver is waited for.
const PAUSE: Duration = Duration::from_millis(500);

/// Settings that have been looked through: the paths are absolute, and the flags go together.
#[derive(Clone, Debug)]
pub struct Job {
    settings: Settings,
    /// `None`: printed.
    pub output: Option<PathBuf>,
    /// The file's format.
    pub format: Format,
    /// The status file.
    pub status: PathBuf,
}

impl Job {
    /// Looks through the settings.
    ///
    /// # Errors
    /// [`Failure::Usage`].
    pub fn new(mut settings: Settings) -> Result<Self, Failure> {
        let printed = settings.place.output == Path::new("-");
        let output = absolute(&settings.place.output)?;
        let named = if printed { None } else { Format::of(&output) };
        if !printed && named.is_none() {
            // Refused before anything is looked at or kept: a name by mistake says nothing of where the status belongs.
            return Err(Failure::Usage(format!("--output: {}", cdi::WriteError::Name { path: output })));
        }
        let asked = settings.format.map(|format| match format {
            flags::Format::Yaml => Format::Yaml,
            flags::Format::Json => Format::Json,
        });
        if let (Some(named), Some(asked)) = (named, asked)
            && named != asked
        {
            let output = output.display();
            return Err(Failure::Usage(format!(
                "--format is not that of the ending of --output {output}; leave it out"
            )));
        }
        if let Some(program) = &settings.with_ldcache_hook {
            let what = if !program.is_absolute() {
                Some("is no absolute path")
            } else if !program.is_file() {
                Some("is not there")
            } else if !inventory::is_static_program(program) {
                Some("is no statically linked program of this machine, so a container's image could load code into it")
            } else {
                None
            };
            if let Some(what) = what {
                return Err(Failure::Usage(format!("--with-ldcache-hook={} {what}", program.display())));
            }
        }
        let status = match settings.place.status_file.take() {
            Some(path) => absolute(&path)?,
            None => report::path_for(&output),
        };
        let format = named.or(asked).unwrap_or(Format::Json);
        Ok(Self { settings, output: (!printed).then_some(output), format, status })
    }

    /// What is looked at.
    #[must_use]
    pub fn sources(&self) -> Sources {
        let settings = &self.settings;
        Sources {
            nvml_path: settings.nvml_path.clone(),
            driver_root: settings.driver_root.clone(),
            dev_root: settings.dev_root.clone(),
            proc_root: settings.proc_root.clone(),
            sys_root: settings.sys_root.clone(),
            library_paths: settings.library_search_path.clone(),
            profile: match settings.profile {
                flags::Profile::Compute => inventory::Profile::Compute,
                flags::Profile::Graphics => inventory::Profile::Graphics,
                flags::Profile::Full => inventory::Profile::Full,
            },
            sockets: settings
                .with_socket
                .iter()
                .map(|socket| match socket {
                    flags::Socket::Persistenced => inventory::Socket::Persistenced,
                    flags::Socket::Fabricmanager => inventory::Socket::Fabricmanager,
                    flags::Socket::Mps => inventory::Socket::Mps,
                })
                .collect(),
            create_nodes: settings.create_device_nodes,
        }
    }

    /// `vendor/class`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.settings.place.kind
    }

    /// Looks at the node, for up to `patience` while a driver may still come.
    ///
    /// # Errors
    /// [`InventoryError`].
    pub fn scan(&self, patience: Duration) -> Result<Inventory, InventoryError> {
        let (sources, began) = (self.sources(), Instant::now());
        loop {
            let found = sources.scan();
            let may_come = matches!(
                found,
                Err(InventoryError::NoDriver { .. }
                    | InventoryError::NotLoaded(_)
                    | InventoryError::Nodes(nodes::NodesError::NoMajor { .. } | nodes::NodesError::Missing { .. }))
            );
            let hardware = || pci::cards(&sources.sys_root).is_none_or(|cards| !cards.is_empty());
            if !may_come || began.elapsed() >= patience || !hardware() {
                return found;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// What the file should say, noted in the report.
    ///
    /// # Errors
    /// [`Failure::TooNew`], [`Failure::NoSuchDevice`].
    pub fn build(&self, inventory: &Inventory, report: &mut Report) -> Result<Built, Failure> {
        let settings = &self.settings;
        let built = generate::spec(
            inventory,
            &Options {
                kind: self.kind(),
                names: &settings.name_strategy,
                only: &settings.device,
                max_version: settings.max_cdi_version.as_deref(),
                hook: settings.with_ldcache_hook.as_deref(),
                groups: settings.additional_gids,
            },
        )?;
        report.driver_version = Some(inventory.driver_version.clone());
        report.cdi_version = built.spec.as_ref().map(|spec| spec.cdi_version.clone());
        report.devices = built.units.iter().map(Into::into).collect();
        report.left_out = inventory.left_out.iter().map(Into::into).collect();
        report.warnings = inventory.warnings.iter().chain(&built.warnings).cloned().collect();
        report.bad = inventory.bad.iter().map(Into::into).collect();
        if !settings.device.is_empty() && !settings.device.iter().any(|name| name == "all") {
            // What was not asked for is not missed; a UUID that is not there may be that of a card that is bad.
            let asked = |card: &Left| card.index.is_some_and(|index| built.unknown.contains(&index.to_string()));
            let by_other_name = built.unknown.iter().any(|name| name.parse::<u32>().is_err());
            report.bad.retain(|card| asked(card) || by_other_name);
            if !built.unknown.is_empty() && report.bad.is_empty() {
                let known = generate::names(inventory);
                return Err(Failure::NoSuchDevice { names: built.unknown, known });
            }
        }
        Ok(built)
    }

    /// The folders in which another file could define the same devices.
    #[must_use]
    pub fn conflicts(&self, spec: &Spec) -> Option<Failure> {
        let output = self.output.as_ref()?;
        let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
        let mut dirs = self.settings.place.spec_dirs.clone();
        dirs.extend(output.parent().map(Path::to_owned));
        cdi::conflicts(&dirs, output, self.kind(), &names).into_iter().next().map(Failure::Conflict)
    }

    /// Whether the file is there and somebody else's.
    #[must_use]
    pub fn foreign(&self) -> Option<Failure> {
        let path = self.output.as_ref().filter(|path| path.symlink_metadata().is_ok())?;
        let what = match cdi::kind_of(path) {
            Some(kind) if kind == self.kind() => return None,
            Some(kind) => format!("holds devices of kind {kind:?}"),
            None => "is no CDI file".to_owned(),
        };
        Some(Failure::Foreign { path: path.clone(), what })
    }

    /// Looks, writes and reports. With [`Failure::Partial`] the file is written; with any other failure the old one stays, unless it is known to be stale.
    pub fn run(&self, patience: Duration) -> (Report, Option<Failure>) {
        let shown = self.output.as_deref().unwrap_or(Path::new("-"));
        let mut report = Report::new(shown, self.kind());
        let _lock = self.lock();
        let failure = match self.scan(patience).map_err(Failure::from) {
            Ok(inventory) => self.write(&inventory, &mut report).err(),
            Err(failure) => Some(failure),
        };
        let failure = failure.map(|failure| self.without_stale(failure, &mut report));
        report.end(failure.as_ref());
        if let Err(error) = report.write(&self.status) {
            eprintln!("cdi-gen: the status is not kept: {error}");
        }
        (report, failure)
    }

    fn write(&self, inventory: &Inventory, report: &mut Report) -> Result<(), Failure> {
        if let Some(foreign) = self.foreign() {
            return Err(foreign);
        }
        let built = self.build(inventory, report)?;
        let bad = || report.bad.iter().map(Left::said).collect();
        let (Some(spec), Some(output)) = (built.spec, &self.output) else {
            let removed = self.output.as_ref().map_or(Ok(false), |output| cdi::remove(output))?;
            let bad = bad();
            report.file = if removed { File::Removed } else { File::None };
            return Err(Failure::NoGpu { removed, bad });
        };
        checked(&spec)?;
        if let Some(conflict) = self.conflicts(&spec) {
            return Err(conflict);
        }
        let partial = (!report.bad.is_empty()).then(|| Failure::Partial { good: report.devices.len(), bad: bad() });
        report.file = match cdi::write(&spec, output)? {
            Written::Changed => File::Written,
            Written::Same => File::UpToDate,
        };
        partial.map_or(Ok(()), Err)
    }

    /// After a failure: what became of the old file, which goes where it is known to be stale.
    fn without_stale(&self, failure: Failure, report: &mut Report) -> Failure {
        let Some(output) = self.output.as_ref().filter(|output| output.exists()) else { return failure };
        if matches!(failure, Failure::Partial { .. } | Failure::Foreign { .. }) {
            if !matches!(failure, Failure::Partial { .. }) {
                report.file = File::Kept;
            }
            return failure;
        }
        report.file = File::Kept;
        let Ok(old) = cdi::read(output) else { return failure };
        if old.kind != self.kind() {
            return failure;
        }
        let mut reasons = stale::known(&old, &self.settings.proc_root);
        if let Failure::Inventory(InventoryError::NoHardware { .. }) = failure {
            reasons.push("the node has no GPU".to_owned());
        }
        if reasons.is_empty() || cdi::remove(output).is_err() {
            return failure;
        }
        report.file = File::Removed;
        Failure::AndRemoved { failure: Box::new(failure), reasons }
    }

    /// One writer at a time, so that file and status belong together. Where the lock cannot be had the file is written whole anyway.
    fn lock(&self) -> Option<std::fs::File> {
        let path = self.status.with_file_name(".lock");
        cdi::make_folder(path.parent()?).ok()?;
        let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).ok()?;
        flock(&file, FlockOperation::LockExclusive).ok()?;
        Some(file)
    }
}

/// The spec by the rules of its readers.
///
/// # Errors
/// [`Failure::Invalid`].
pub fn checked(spec: &Spec) -> Result<(), Failure> {
    cdi::validate(spec).first().map_or(Ok(()), |broken| Err(Failure::Invalid(broken.to_string())))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::Usage(format!("cannot make {} an absolute path: {error}", path.display()));
    std::path::absolute(path).map_err(failed)
}

/// `cdi-gen generate`: prints, and returns how it ended.
///
/// # Errors
/// [`Failure`].
pub fn generate(flags: Generate) -> Result<(), Failure> {
    let patience = Duration::from_secs(flags.wait);
    let job = Job::new(flags.settings)?;
    if flags.dry_run || job.output.is_none() {
        return print(&job, patience, flags.diff && job.output.is_some());
    }
    let before =
        job.output.as_ref().filter(|_| flags.diff).map(|output| std::fs::read_to_string(output).unwrap_or_default());
    let (report, failure) = job.run(patience);
    if let (Some(before), Some(output)) = (before, &job.output) {
        let after = std::fs::read_to_string(output).unwrap_or_default();
        print!("{}", diff(&before, &after, output));
    }
    if flags.json {
        print!("{}", report.json());
    } else if failure.as_ref().is_none_or(|failure| matches!(failure, Failure::Partial { .. })) {
        println!("{}", report.text());
    }
    failure.map_or(Ok(()), Err)
}

/// Prints what would be written, or how it differs from what is there.
fn print(job: &Job, patience: Duration, differences: bool) -> Result<(), Failure> {
    let mut report = Report::new(job.output.as_deref().unwrap_or(Path::new("-")), job.kind());
    let inventory = Job { settings: Settings { create_device_nodes: false, ..job.settings.clone() }, ..job.clone() }
        .scan(patience)?;
    let built = job.build(&inventory, &mut report)?;
    let bad: Vec<String> = report.bad.iter().map(Left::said).collect();
    let Some(spec) = built.spec else { return Err(Failure::NoGpu { removed: false, bad }) };
    checked(&spec)?;
    let text = encode(&spec, job.format)?;
    match job.output.as_ref().filter(|_| differences) {
        Some(output) => print!("{}", diff(&std::fs::read_to_string(output).unwrap_or_default(), &text, output)),
        None => print!("{text}"),
    }
    for warning in &report.warnings {
        eprintln!("cdi-gen: warning: {warning}");
    }
    if let Some(failure) = job.foreign().or_else(|| job.conflicts(&spec)) {
        return Err(failure);
    }
    if bad.is_empty() { Ok(()) } else { Err(Failure::Partial { good: report.devices.len(), bad }) }
}

/// A spec as text.
///
/// # Errors
/// [`Failure::Invalid`].
pub fn encode(spec: &Spec, format: Format) -> Result<String, Failure> {
    let bytes = format.encode(spec).map_err(Failure::Invalid)?;
    String::from_utf8(bytes).map_err(|error| Failure::Invalid(error.to_string()))
}

/// How two versions of a file differ, as `diff -u` prints it; nothing where they do not.
#[must_use]
pub fn diff(before: &str, after: &str, path: &Path) -> String {
    let (path, text) = (path.display(), similar::TextDiff::from_lines(before, after));
    text.unified_diff().header(&format!("{path} (as it is)"), &format!("{path} (as it should be)")).to_string()
}
