//! Brings the pinned packages into the cache folder, through the machine's own apt sources and pip configuration, into folders of its own: nothing of
//! the host is installed, upgraded or reconfigured.
//!
//! Every file is pinned by version and checksum (`pins.toml`, `requirements.txt`). A folder appears whole or not at all, and carries a stamp of its pins.

mod apt;

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
}

const STAMP: &str = ".pins";
/// The folder that also gets the Python packages.
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

/// Fetches what is missing, and returns the cache folder.
pub(crate) fn run(root: &Path) -> Result<PathBuf> {
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = File::create(cache.join(".lock"))?;
    // Two at once would fetch everything twice; the second waits and finds it done.
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;

    let pins: Pins = toml::from_str(&fs::read_to_string(root.join("xtask/pins.toml"))?).context("xtask/pins.toml")?;
    let requirements = fs::read_to_string(root.join("xtask/requirements.txt"))?;
    let mut folders: BTreeMap<&str, Vec<&Deb>> = BTreeMap::new();
    for deb in &pins.deb {
        folders.entry(&deb.into).or_default().push(deb);
    }
    let stamp = |folder: &str, debs: &[&Deb]| {
        let mut text: String = debs.iter().fold(String::new(), |mut text, deb| {
            let _ = writeln!(text, "{} {} {}", deb.name, deb.version, deb.sha256);
            text
        });
        if folder == GUEST {
            text.push_str(&requirements);
        }
        text
    };
    folders.retain(|folder, debs| {
        fs::read_to_string(cache.join(folder).join(STAMP)).ok().as_deref() != Some(&stamp(folder, debs))
    });
    if folders.is_empty() {
        return Ok(cache);
    }
    println!("fetching into {}: {}", cache.display(), folders.keys().copied().collect::<Vec<_>>().join(", "));
    let work = cache.join(".work");
    remove(&work)?;
    fs::create_dir_all(&work)?;
    let missing: Vec<&Deb> = folders.values().flatten().copied().collect();
    let apt = apt::Apt::new(&work.join("apt"), &missing)?;
    let (optional, needed): (Vec<&Deb>, Vec<&Deb>) = missing.iter().partition(|deb| deb.optional);
    apt.download(&needed)
        .context("the mirror does not serve every version of xtask/pins.toml (see above); pin those that it serves")?;
    for deb in optional {
        if apt.download(&[deb]).is_err() {
            println!("the mirror serves no {} {}: {} goes without it", deb.name, deb.version, deb.into);
        }
    }
    for (folder, debs) in &folders {
        let fresh = work.join("fresh");
        remove(&fresh)?;
        fs::create_dir_all(&fresh)?;
        for deb in debs {
            let file = match apt.downloaded(deb) {
                Err(_) if deb.optional => continue,
                file => file?,
            };
            verify(&file, &deb.sha256)?;
            program("dpkg-deb", &[Path::new("-x"), &file, &fresh]).quiet().done()?;
        }
        if *folder == GUEST {
            python(&fresh, &root.join("xtask/requirements.txt"))?;
        }
        fs::write(fresh.join(STAMP), stamp(folder, debs))?;
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
    bail!("{} has checksum {found}, but xtask/pins.toml says {sha256}; the mirror serves another file", file.display())
}

/// Installs the pinned Python packages into the guest root with the root's own Python and pip, so that the host needs neither.
fn python(guest: &Path, requirements: &Path) -> Result<()> {
    let wheels = guest.join("usr/share/python-wheels");
    let mut pip = fs::read_dir(&wheels)?.flatten().map(|entry| entry.path());
    let pip = pip.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pip-")));
    let pip = pip.with_context(|| format!("no pip in {}", wheels.display()))?;
    let libraries =
        ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|dir| guest.join(dir).display().to_string());
    let site = guest.join("usr/lib/python3/dist-packages").display().to_string();
    let interpreter = guest.join("usr/bin/python3.11").display().to_string();
    let requirements = requirements.display().to_string();
    let mut arguments = vec!["--library-path".to_owned(), libraries.join(":"), interpreter];
    arguments.extend(
        ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
            .map(str::to_owned),
    );
    arguments.extend(["--no-compile", "--disable-pip-version-check", "--root-user-action=ignore"].map(str::to_owned));
    arguments.extend(["--target".to_owned(), site, "--requirement".to_owned(), requirements]);
    program(guest.join("lib64/ld-linux-x86-64.so.2"), &arguments)
        .env("PYTHONHOME", guest.join("usr"))
        .env("PYTHONPATH", pip)
        .quiet()
        .done()
        .context("pip could not install xtask/requirements.txt into the guest root")
}
