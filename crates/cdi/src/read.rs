//! Reads a CDI file as a runtime would, and says in which line it is wrong.
use crate::spec::Spec;
use crate::validate::{Broken, validate};
use crate::write::Format;
use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// More than any node needs; a runtime would read a longer file, and nobody writes one.
pub const LONGEST: u64 = 16 << 20;

/// What is wrong at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1, where it could be found out.
    pub line: Option<usize>,
    /// The rule, and what breaks it.
    pub what: String,
}

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Runtimes read no such file.
    #[error("{path} {what}")]
    NotRead {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Runtimes refuse the file.
    #[error("{}", list(path, faults))]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, at least one.
        faults: Vec<Fault>,
    },
}

fn list(path: &Path, faults: &[Fault]) -> String {
    let mut text = String::new();
    for (nth, fault) in faults.iter().enumerate() {
        let between = if nth == 0 { "" } else { "\n" };
        let _ = write!(text, "{between}{}{fault}", path.display());
    }
    text
}

/// `:3: kind "x" is no vendor/class`, to stand behind a file's name.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, ":{line}: {}", self.what),
            None => write!(f, ": {}", self.what),
        }
    }
}

/// Reads a file whose every rule is kept.
///
/// # Errors
/// [`ReadError`]; all broken rules at once.
pub fn read(path: &Path) -> Result<Spec, ReadError> {
    let not_read = |what| ReadError::NotRead { path: path.to_owned(), what };
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    let format =
        Format::of(path).ok_or_else(|| not_read("ends in neither .json nor .yaml, so runtimes do not read it"))?;
    // A pipe would never end.
    let there = std::fs::metadata(path).map_err(failed)?;
    if !there.is_file() {
        return Err(not_read("is no file"));
    }
    if there.len() > LONGEST {
        return Err(not_read("is longer than 16 MiB"));
    }
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(LONGEST).read_to_end(&mut text).map_err(failed)?;
    parse(&text, format).map_err(|faults| ReadError::Refused { path: path.to_owned(), faults })
}

/// The same for bytes.
///
/// # Errors
/// What is wrong; at least one fault.
pub fn parse(bytes: &[u8], format: Format) -> Result<Spec, Vec<Fault>> {
    let one = |line: Option<usize>, what: String| vec![Fault { line, what }];
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        one(Some(line), "is not UTF-8".to_owned())
    })?;
    let spec: Spec = match format {
        Format::Json => serde_json::from_str(text).map_err(|error| {
            let line = Some(error.line()).filter(|line| *line > 0);
            let what = error.to_string();
            // The place is said by the line.
            one(line, what.split(" at line ").next().unwrap_or(&what).to_owned())
        })?,
        Format::Yaml => serde_norway::from_str(text).map_err(|error| {
            let what = error.to_string();
            one(error.location().map(|at| at.line()), what.split(" at line ").next().unwrap_or(&what).to_owned())
        })?,
    };
    let broken = validate(&spec);
    if broken.is_empty() {
        return Ok(spec);
    }
    Err(broken.iter().map(|broken| Fault { line: line_of(text, broken), what: broken.to_string() }).collect())
}

/// The line that a broken rule is about: that of the value it names.
fn line_of(text: &str, broken: &Broken) -> Option<usize> {
    let (key, value, nth) = match broken {
        Broken::UnknownVersion(version) | Broken::VersionTooLow { declared: version, .. } => ("cdiVersion", version, 1),
        Broken::Kind(kind) => ("kind", kind, 1),
        Broken::NoDevices => return line("devices", "", 1, text),
        Broken::DeviceName(name) | Broken::EmptyDevice(name) => ("name", name, 1),
        Broken::DeviceTwice(name) => ("name", name, 2),
        Broken::Env { entry, .. } => ("", entry, 1),
        Broken::DeviceNode { path, .. } => ("path", path, 1),
        Broken::Mount { host, container, .. } if host.is_empty() => ("containerPath", container, 1),
        Broken::Mount { host, .. } => ("hostPath", host, 1),
        Broken::Hook { hook, .. } => ("hookName", hook, 1),
        Broken::NetDevice { host, .. } => ("hostInterfaceName", host, 1),
        Broken::ClosId { id, .. } => ("closID", id, 1),
    };
    line(key, value, nth, text)
}

/// The `nth` line that holds the key and, behind it, the value as a word of its own.
fn line(key: &str, value: &str, nth: usize, text: &str) -> Option<usize> {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let holds = |line: &str| {
        let Some((_, behind)) = line.split_once(key) else { return false };
        value.is_empty()
            || behind.match_indices(value).any(|(at, _)| {
                let (before, after) = (&behind[..at], &behind[at + value.len()..]);
                !before.ends_with(inside) && !after.starts_with(inside)
            })
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| holds(line));
    lines.nth(nth - 1).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str, format: Format) -> Vec<(Option<usize>, String)> {
        parse(text.as_bytes(), format).unwrap_err().into_iter().map(|fault| (fault.line, fault.what)).collect()
    }

    #[test]
    fn each_broken_rule_has_its_line() {
        let yaml = "cdiVersion: 9.9.9\nkind: a.b/gpu\ndevices:\n- name: one\n  containerEdits: {env: [A=1]}\n- name: one\n  containerEdits: {env: [=1]}\n- name: two\n  containerEdits: {}\n";
        let lines: Vec<_> = faults(yaml, Format::Yaml);
        let at = |word: &str| lines.iter().find(|(_, what)| what.contains(word)).and_then(|(line, _)| *line);
        assert_eq!((at("9.9.9"), at("twice"), at("no edits"), at("NAME=value")), (Some(1), Some(6), Some(8), Some(7)));
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line_in_both_formats() {
        let yaml = "cdiVersion: 0.5.0\nkind: a.b/gpu\ndevices:\n- name: one\n  edits: {}\n";
        let (line, what) = &faults(yaml, Format::Yaml)[0];
        assert!(line.is_some_and(|line| (4..=5).contains(&line)) && what.contains("edits"), "{line:?} {what}");
        let json = "{\n \"cdiVersion\": \"0.5.0\",\n \"king\": 1\n}";
        let (line, what) = &faults(json, Format::Json)[0];
        assert!(*line == Some(3) && what.contains("king") && !what.contains("at line"), "{line:?} {what}");
        assert_eq!(parse(b"a\n\xff", Format::Yaml).unwrap_err()[0].line, Some(2));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a.json");
        std::fs::create_dir(&folder).unwrap();
        assert!(read(&folder).unwrap_err().to_string().contains("is no file"));
        assert!(read(&dir.path().join("a.yml")).unwrap_err().to_string().contains("neither"));
        assert!(read(&dir.path().join("b.json")).unwrap_err().to_string().contains("cannot read"));
    }
}
