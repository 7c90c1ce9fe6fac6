//! Brings the pinned packages into the cache folder, through the machine's own apt sources and pip configuration, into folders of its own: nothing of
//! the host is installed, upgraded or reconfigured.
//!
//! Every file is pinned by version and checksum (`pins.toml` and, for the big clients, `clients.toml`, with the requirements files that they name). A folder
//! appears whole or not at all, and carries a stamp of its pins.

mod apt;
mod wheels;

use crate::run::program;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A pinned Debian package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deb {
    pub(crate) name: String,
    pub(crate) suite: String,
    pub(crate) version: String,
    /// Debian's name of another architecture than amd64.
    pub(crate) arch: Option<String>,
    sha256: String,
    into: String,
    /// From a suite that moves on. Where the mirror serves this version no more it is left out, and the tests that want it say so.
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pins {
    deb: Vec<Deb>,
    wheels: Vec<Wheels>,
}

/// Pinned Python packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wheels {
    /// pip's file with versions and checksums, beside the pins.
    requirements: String,
    /// The Python that they are for, where it is not the guest root's.
    python: Option<String>,
    into: String,
    /// Only of use on a machine with an NVIDIA GPU; left out elsewhere.
    #[serde(default)]
    real_driver: bool,
}

/// What a folder is made of.
#[derive(Default)]
struct Content<'a> {
    debs: Vec<&'a Deb>,
    wheels: Option<&'a Wheels>,
    stamp: String,
}

const STAMP: &str = ".pins";
/// The folder with the Python whose pip installs all Python packages.
const GUEST: &str = "guest-root";

/// The cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("GPU_QUOTA_CACHE") {
        return Ok(dir.into());
    }
    if let Some(dir) = std::env::var_os("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(dir).join("gpu-quota"));
    }
    let home =
        std::env::var_os("HOME").context("neither GPU_QUOTA_CACHE nor HOME is set; set the first to a folder")?;
    Ok(PathBuf::from(home).join(".cache/gpu-quota"))
}

/// Fetches what is missing for demo and tests, and returns the cache folder.
pub(crate) fn run(root: &Path) -> Result<PathBuf> {
    fetch(root, "pins.toml", false)
}

/// Fetches what is missing for the big clients, those for a real driver too where there is one, and returns the cache folder.
pub(crate) fn clients(root: &Path, real_driver: bool) -> Result<PathBuf> {
    run(root)?;
    fetch(root, "clients.toml", real_driver)
}

fn fetch(root: &Path, file: &str, real_driver: bool) -> Result<PathBuf> {
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = File::create(cache.join(".lock"))?;
    // Two at once would fetch everything twice; the second waits and finds it done.
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;

    let xtask = root.join("xtask");
    let pins: Pins = toml::from_str(&fs::read_to_string(xtask.join(file))?).with_context(|| format!("xtask/{file}"))?;
    let mut folders: BTreeMap<&str, Content<'_>> = BTreeMap::new();
    for deb in &pins.deb {
        let content = folders.entry(&deb.into).or_default();
        content.debs.push(deb);
        writeln!(content.stamp, "{} {} {}", deb.name, deb.version, deb.sha256)?;
    }
    for wheels in pins.wheels.iter().filter(|wheels| real_driver || !wheels.real_driver) {
        let content = folders.entry(&wheels.into).or_default();
        content.wheels = Some(wheels);
        content.stamp.push_str(&fs::read_to_string(xtask.join(&wheels.requirements))?);
    }
    folders.retain(|folder, content| {
        fs::read_to_string(cache.join(folder).join(STAMP)).ok().as_deref() != Some(&content.stamp)
    });
    if folders.is_empty() {
        return Ok(cache);
    }
    println!("fetching into {}: {}", cache.display(), folders.keys().copied().collect::<Vec<_>>().join(", "));
    let work = cache.join(".work");
    remove(&work)?;
    fs::create_dir_all(&work)?;
    let missing: Vec<&Deb> = folders.values().flat_map(|content| &content.debs).copied().collect();
    let apt = apt::Apt::new(&work.join("apt"), &missing)?;
    let (optional, needed): (Vec<&Deb>, Vec<&Deb>) = missing.iter().partition(|deb| deb.optional);
    apt.download(&needed).with_context(|| {
        format!("the mirror does not serve every version of xtask/{file} (see above); pin those that it serves")
    })?;
    for deb in optional {
        if apt.download(&[deb]).is_err() {
            println!("the mirror serves no {} {}: {} goes without it", deb.name, deb.version, deb.into);
        }
    }
    for (folder, content) in &folders {
        let fresh = work.join("fresh");
        remove(&fresh)?;
        fs::create_dir_all(&fresh)?;
        for deb in &content.debs {
            let file = match apt.downloaded(deb) {
                Err(_) if deb.optional => continue,
                file => file?,
            };
            verify(&file, &deb.sha256)?;
            program("dpkg-deb", &[Path::new("-x"), &file, &fresh]).quiet().done()?;
        }
        if let Some(wheels) = content.wheels {
            let guest = if *folder == GUEST { fresh.clone() } else { cache.join(GUEST) };
            wheels::install(wheels, &xtask.join(&wheels.requirements), &guest, &fresh)?;
        }
        fs::write(fresh.join(STAMP), &content.stamp)?;
        let place = cache.join(folder);
        remove(&place)?;
        fs::create_dir_all(place.parent().unwrap_or(&cache))?;
        fs::rename(&fresh, &place).with_context(|| format!("cannot put {} in place", place.display()))?;
        println!("fetched {folder}");
    }
    remove(&work)?;
    Ok(cache)
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

fn verify(file: &Path, sha256: &str) -> Result<()> {
    let mut found = String::new();
    for byte in Sha256::digest(fs::read(file)?) {
        write!(found, "{byte:02x}")?;
    }
    if found == sha256 {
        return Ok(());
    }
    bail!("{} has checksum {found}, but its pin says {sha256}; the mirror serves another file", file.display())
}
