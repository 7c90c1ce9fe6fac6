//! Commands on CDI files of anybody: `validate`, `list`, `transform`; and `status`, which reads our own.
use crate::exit::Failure;
use crate::flags::{List, Side, Status, Transform, Validate};
use crate::report::{self, Report};
use crate::run::{checked, encode};
use cdi::{Format, ReadError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file, and what runtimes make of it.
#[derive(Debug, Serialize)]
struct Verdict {
    file: String,
    valid: bool,
    faults: Vec<Fault>,
}

#[derive(Debug, Serialize)]
struct Fault {
    line: Option<usize>,
    what: String,
}

/// `cdi-gen validate`.
///
/// # Errors
/// [`Failure::Refused`] where a file is refused or cannot be read.
pub fn validate(flags: &Validate) -> Result<(), Failure> {
    let (mut verdicts, mut unread) = (Vec::new(), false);
    for path in &flags.files {
        let fault = |what: String| vec![Fault { line: None, what }];
        let faults = match cdi::read(path) {
            Ok(_) => Vec::new(),
            Err(ReadError::Refused { faults, .. }) => {
                faults.into_iter().map(|fault| Fault { line: fault.line, what: fault.what }).collect()
            }
            Err(ReadError::NotRead { what, .. }) => fault(what.to_owned()),
            Err(ReadError::Io { source, .. }) => {
                unread = true;
                fault(format!("cannot be read: {source}"))
            }
        };
        verdicts.push(Verdict { file: path.display().to_string(), valid: faults.is_empty(), faults });
    }
    if flags.json {
        println!("{}", json(&verdicts));
    } else {
        for verdict in &verdicts {
            if verdict.valid {
                println!("{}: valid", verdict.file);
            }
            for Fault { line, what } in &verdict.faults {
                let line = line.map_or(String::new(), |line| format!(":{line}"));
                println!("{}{line}: {what}", verdict.file);
            }
        }
    }
    let refused = verdicts.iter().filter(|verdict| !verdict.valid).count();
    if refused == 0 { Ok(()) } else { Err(Failure::Refused { refused, all: verdicts.len(), unread }) }
}

/// A device that a runtime would find, or why it would not.
#[derive(Debug, Serialize)]
struct Listed {
    device: String,
    file: String,
    /// Why runtimes do not give it.
    problem: Option<String>,
}

/// `cdi-gen list`: as a runtime would see the folders, the later of which count more.
///
/// # Errors
/// [`Failure::Refused`] where a file is refused; [`Failure::Conflict`] where two files of one folder define a device.
pub fn list(flags: &List) -> Result<(), Failure> {
    let mut rows: Vec<Listed> = Vec::new();
    let (mut refused, mut all, mut conflict) = (0, 0, None);
    let mut owner: BTreeMap<String, (usize, PathBuf)> = BTreeMap::new();
    for (rank, dir) in folders(&flags.spec_dirs).iter().enumerate() {
        for path in cdi_files(dir) {
            all += 1;
            let file = path.display().to_string();
            let spec = match cdi::read(&path) {
                Ok(spec) => spec,
                Err(error) => {
                    refused += 1;
                    rows.push(Listed { device: String::new(), file, problem: Some(error.to_string()) });
                    continue;
                }
            };
            for device in spec.devices {
                let name = format!("{}={}", spec.kind, device.name);
                let problem = match owner.insert(name.clone(), (rank, path.clone())) {
                    Some((other, first)) if other == rank => {
                        conflict.get_or_insert(cdi::Conflict { path: first.clone(), device: device.name });
                        Some(format!("{} defines it too, so runtimes give it to nobody", first.display()))
                    }
                    Some((_, first)) => Some(format!("it counts more than that of {}", first.display())),
                    None => None,
                };
                rows.push(Listed { device: name, file: file.clone(), problem });
            }
        }
    }
    if flags.json {
        println!("{}", json(&rows));
    } else {
        let width = rows.iter().map(|row| row.device.chars().count()).max().unwrap_or(0);
        for row in &rows {
            let problem = row.problem.as_deref().map_or(String::new(), |problem| format!("  ({problem})"));
            println!("{:width$}  {}{problem}", row.device, row.file);
        }
        if rows.is_empty() {
            eprintln!(
                "cdi-gen: no CDI file in {}",
                flags.spec_dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
            );
        }
    }
    match conflict {
        Some(conflict) => Err(Failure::Conflict(conflict)),
        None if refused > 0 => Err(Failure::Refused { refused, all, unread: false }),
        None => Ok(()),
    }
}

/// Each folder once: /var/run is a link to /run on most systems.
fn folders(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        if !folders.contains(&real) {
            folders.push(real);
        }
    }
    folders
}

/// The files of a folder that runtimes read, sorted.
fn cdi_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| Format::of(path).is_some());
    paths.sort();
    paths
}

/// `cdi-gen status`.
///
/// # Errors
/// [`Failure::NoStatus`]; [`Failure::Last`] where the last run did not end well.
pub fn status(flags: Status) -> Result<(), Failure> {
    let output = std::path::absolute(&flags.place.output).unwrap_or(flags.place.output);
    let path = flags.place.status_file.unwrap_or_else(|| report::path_for(&output));
    let report = Report::read(&path)?;
    if flags.json {
        print!("{}", report.json());
    } else {
        println!("{}", report.text());
        if let Some(error) = &report.error {
            println!("  {}", error.replace('\n', "\n  "));
        }
    }
    if report.exit_code == 0 { Ok(()) } else { Err(Failure::Last(report.exit_code)) }
}

/// `cdi-gen transform`.
///
/// # Errors
/// [`Failure::Read`], [`Failure::Invalid`], [`Failure::Write`].
pub fn transform(flags: &Transform) -> Result<(), Failure> {
    let mut spec = cdi::read(&flags.file)?;
    let side = match flags.relative_to {
        Side::Host => cdi::Side::Host,
        Side::Container => cdi::Side::Container,
    };
    for root in [&flags.from, &flags.to] {
        if !root.is_absolute() {
            return Err(Failure::Usage(format!("{} is no absolute path", root.display())));
        }
    }
    cdi::transform(&mut spec, side, &flags.from, &flags.to);
    checked(&spec)?;
    if flags.output == Path::new("-") {
        print!("{}", encode(&spec, Format::of(&flags.file).unwrap_or(Format::Json))?);
    } else {
        cdi::write(&spec, &flags.output)?;
    }
    Ok(())
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
