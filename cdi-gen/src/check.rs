//! `cdi-gen check`: whether the file on disk is right for the node as it is now. Changes nothing.
use crate::exit::Failure;
use crate::flags::{Check, Settings};
use crate::report::{File, Left, Report};
use crate::run::{Job, diff, encode};
use crate::stale;
use cdi::ReadError;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Looks, and tells.
///
/// # Errors
/// [`Failure::Stale`], [`Failure::Conflict`], [`Failure::Foreign`], [`Failure::Read`]; and what `generate` would end with on this node.
pub fn check(flags: Check) -> Result<(), Failure> {
    let job = Job::new(Settings { create_device_nodes: false, ..flags.settings })?;
    let Some(output) = job.output.clone() else {
        return Err(Failure::Usage("check needs the name of a file, not --output -".to_owned()));
    };
    let mut report = Report::new(&output, job.kind());
    let failure = look(&job, &output, &mut report).err();
    report.end(failure.as_ref());
    if flags.json {
        print!("{}", report.json());
    } else if failure.is_none() {
        println!("{}", report.text());
    }
    failure.map_or(Ok(()), Err)
}

fn look(job: &Job, output: &Path, report: &mut Report) -> Result<(), Failure> {
    let stale = |reasons: Vec<String>| Failure::Stale { path: output.to_owned(), reasons };
    let spec = match cdi::read(output) {
        Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Err(stale(vec!["there is no such file; run cdi-gen generate".to_owned()]));
        }
        spec => spec?,
    };
    report.file = File::Kept;
    if let Some(failure) = job.foreign().or_else(|| job.conflicts(&spec)) {
        return Err(failure);
    }
    let mut reasons = stale::known(&spec, &job.sources().proc_root);
    reasons.extend(stale::gone(&spec));
    if !reasons.is_empty() {
        return Err(stale(reasons));
    }
    let inventory = job.scan(Duration::ZERO)?;
    let built = job.build(&inventory, report)?;
    let Some(right) = built.spec else {
        return Err(stale(vec!["it defines devices, and no GPU of this node is usable".to_owned()]));
    };
    let right = encode(&right, job.format)?;
    let there = std::fs::read_to_string(output).map_err(|source| ReadError::Io { path: output.to_owned(), source })?;
    if right != there {
        let difference = diff(&there, &right, output);
        return Err(stale(vec![format!("generate would write another file now:\n{difference}")]));
    }
    report.file = File::UpToDate;
    if report.bad.is_empty() {
        return Ok(());
    }
    Err(Failure::Partial { good: report.devices.len(), bad: report.bad.iter().map(Left::said).collect() })
}
