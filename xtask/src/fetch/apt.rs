//! apt with a configuration of its own: the machine's mirror and keyring, other suites and components, and its lists in a folder of ours.
use super::Deb;
use crate::run::program;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const COMPONENTS: &str = "main contrib non-free";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(crate) struct Apt {
    options: Vec<String>,
    downloads: PathBuf,
}

impl Apt {
    /// Writes the configuration below `dir` and fetches the suites' package lists.
    pub(crate) fn new(dir: &Path, suites: &BTreeSet<&str>) -> Result<Self> {
        let mirror = mirror()?;
        let keyring = if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        for folder in ["etc/parts", "lists/partial", "cache/archives/partial", "downloads"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        let mut sources = String::new();
        for suite in suites {
            writeln!(sources, "deb {keyring}{mirror} {suite} {COMPONENTS}")?;
        }
        fs::write(dir.join("etc/sources.list"), sources)?;
        let at = |path: &str| dir.join(path).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", at("etc/sources.list")),
            format!("Dir::Etc::SourceParts={}", at("etc/parts")),
            format!("Dir::Etc::PreferencesParts={}", at("etc/parts")),
            "Dir::Etc::Preferences=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", at("lists")),
            "Dir::State::Status=/dev/null".to_owned(),
            format!("Dir::Cache={}", at("cache")),
            "APT::Architecture=amd64".to_owned(),
            "APT::Architectures=amd64".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        let apt = Self { options, downloads: dir.join("downloads") };
        apt.get(&["update", "-q"]).context("apt could not read the mirror's package lists")?;
        Ok(apt)
    }

    /// Downloads exactly the pinned versions; the files in the same order.
    pub(crate) fn download(&self, debs: &[&Deb]) -> Result<Vec<PathBuf>> {
        let wanted: Vec<String> = debs.iter().map(|deb| format!("{}={}", deb.name, deb.version)).collect();
        let mut arguments = vec!["download", "-q", "-q"];
        arguments.extend(wanted.iter().map(String::as_str));
        self.get(&arguments).context(
            "the mirror does not serve every version of xtask/pins.toml (see above); pin those that it serves",
        )?;
        debs.iter().map(|deb| self.downloaded(deb)).collect()
    }

    fn downloaded(&self, deb: &Deb) -> Result<PathBuf> {
        // apt writes the colon of an epoch as %3a.
        let prefix = format!("{}_{}_", deb.name, deb.version.replace(':', "%3a"));
        let mut files = fs::read_dir(&self.downloads)?.flatten().map(|entry| entry.path());
        let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        files.find(named).with_context(|| format!("apt downloaded no {prefix}*.deb"))
    }

    fn get(&self, arguments: &[&str]) -> Result<()> {
        let mut all = self.options.clone();
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        program("apt-get", &all).dir(&self.downloads).quiet().done()
    }
}

/// The Debian mirror of the machine's own sources, in the one-line or the deb822 format.
fn mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        if let Some(mirror) = mirror_in(&text) {
            return Ok(mirror);
        }
    }
    bail!(
        "no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d; add one line: deb MIRROR/debian bookworm main"
    )
}

/// The first address that ends as Debian's main archive does.
fn mirror_in(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    let words = lines.flat_map(|line| line.split_whitespace());
    let archive = |word: &&str| word.trim_end_matches('/').ends_with("/debian");
    words.filter(archive).map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::mirror_in;

    #[test]
    fn both_formats_and_only_the_main_archive() {
        let one_line = "# deb http://no/debian x\ndeb-src http://src/debian x main\ndeb [arch=amd64] http://a.b/debian/ bookworm main\n";
        assert_eq!(mirror_in(one_line).as_deref(), Some("http://a.b/debian/"));
        let deb822 = "Types: deb\nURIs: http://a.b/debian-security\n\nTypes: deb\nURIs: http://a.b/debian\n";
        assert_eq!(mirror_in(deb822).as_deref(), Some("http://a.b/debian"));
        assert_eq!(mirror_in("deb http://a.b/ubuntu noble main\n"), None);
    }
}
