//! apt with a configuration of its own: the machine's mirror and keyring, other suites and components, and its lists in a folder of ours.
use super::Deb;
use crate::run::program;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const COMPONENTS: &str = "main contrib non-free non-free-firmware";
/// Debian's name of the architecture whose packages are meant where a pin names none.
const ARCH: &str = "amd64";
/// Debian's releases, as a machine's own sources may call them.
const RELEASES: [&str; 9] =
    ["bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable", "testing"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(crate) struct Apt {
    options: Vec<String>,
    downloads: PathBuf,
}

impl Apt {
    /// Writes the configuration below `dir` and fetches the package lists that these packages are in.
    pub(crate) fn new(dir: &Path, debs: &[&Deb]) -> Result<Self> {
        let mirror = mirror()?;
        let keyring = if Path::new(KEYRING).exists() { format!("signed-by={KEYRING} ") } else { String::new() };
        let mut suites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for deb in debs {
            suites
                .entry(&deb.suite)
                .or_insert_with(|| BTreeSet::from([ARCH]))
                .insert(deb.arch.as_deref().unwrap_or(ARCH));
        }
        let all: BTreeSet<&str> = suites.values().flatten().copied().collect();
        for folder in ["etc/parts", "lists/partial", "cache/archives/partial", "downloads"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        let mut sources = String::new();
        for (suite, architectures) in suites {
            writeln!(sources, "deb [{keyring}arch={}] {mirror} {suite} {COMPONENTS}", list(&architectures))?;
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
            format!("APT::Architecture={ARCH}"),
            format!("APT::Architectures={}", list(&all)),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        let apt = Self { options, downloads: dir.join("downloads") };
        apt.get(&["update", "-q"]).context("apt could not read the mirror's package lists")?;
        Ok(apt)
    }

    /// Downloads exactly the pinned versions.
    pub(crate) fn download(&self, debs: &[&Deb]) -> Result<()> {
        if debs.is_empty() {
            return Ok(());
        }
        let wanted = debs.iter().map(|deb| match &deb.arch {
            Some(arch) => format!("{}:{arch}={}", deb.name, deb.version),
            None => format!("{}={}", deb.name, deb.version),
        });
        let wanted: Vec<String> = wanted.collect();
        let mut arguments = vec!["download", "-q", "-q"];
        arguments.extend(wanted.iter().map(String::as_str));
        self.get(&arguments)
    }

    /// Where a package was downloaded to.
    pub(crate) fn downloaded(&self, deb: &Deb) -> Result<PathBuf> {
        // apt writes the colon of an epoch as %3a.
        let name = format!("{}_{}", deb.name, deb.version.replace(':', "%3a"));
        let mut files = [deb.arch.as_deref().unwrap_or(ARCH), "all"]
            .into_iter()
            .map(|arch| self.downloads.join(format!("{name}_{arch}.deb")));
        files.find(|file| file.exists()).with_context(|| format!("apt downloaded no {name}_*.deb"))
    }

    fn get(&self, arguments: &[&str]) -> Result<()> {
        let mut all = self.options.clone();
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        program("apt-get", &all).dir(&self.downloads).quiet().done()
    }
}

fn list(words: &BTreeSet<&str>) -> String {
    words.iter().copied().collect::<Vec<_>>().join(",")
}

/// The Debian mirror of the machine's own sources, in the one-line or the deb822 format.
fn mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "list" || end == "sources"));
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default());
    mirror_in(&texts.collect::<Vec<_>>()).context(
        "no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d; the packages come from Debian, so run this on Debian, \
         or in a container of it",
    )
}

/// The first address that serves a Debian release; one that ends as Debian's main archive does is believed before others, which may be
/// somebody else's packages for that release.
fn mirror_in(texts: &[String]) -> Option<String> {
    let mirrors: Vec<String> = texts.iter().flat_map(|text| one_line(text).chain(stanzas(text))).collect();
    let archive = mirrors.iter().find(|mirror| mirror.trim_end_matches('/').ends_with("/debian"));
    archive.or_else(|| mirrors.first()).cloned()
}

fn serves_debian<'a>(mut suites: impl Iterator<Item = &'a str>, mut components: impl Iterator<Item = &'a str>) -> bool {
    suites.any(|suite| RELEASES.contains(&suite)) && components.any(|component| component == "main")
}

/// `deb [options] ADDRESS SUITE COMPONENT...`
fn one_line(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
        let mut words = rest.split('#').next()?.split_whitespace();
        let (address, suite) = (words.next()?, words.next()?);
        serves_debian(std::iter::once(suite), words).then(|| address.to_owned())
    })
}

/// Blocks of `Field: value` lines, with blank lines between them.
fn stanzas(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).map(str::trim_end).collect();
    let blocks: Vec<Vec<&str>> = lines.split(|line| line.is_empty()).map(<[&str]>::to_vec).collect();
    blocks.into_iter().filter_map(|block| {
        let field = |name: &str| {
            let value = |line: &&str| {
                let (field, value) = line.split_once(':')?;
                field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            };
            block.iter().find_map(value).unwrap_or_default()
        };
        let (types, addresses, suites, components) =
            (field("Types"), field("URIs"), field("Suites"), field("Components"));
        let used = types.split_whitespace().any(|word| word == "deb") && !field("Enabled").eq_ignore_ascii_case("no");
        let address = addresses.split_whitespace().next().map(str::to_owned);
        address.filter(|_| used && serves_debian(suites.split_whitespace(), components.split_whitespace()))
    })
}

#[cfg(test)]
mod tests {
    use super::mirror_in;

    fn mirror(texts: &[&str]) -> Option<String> {
        mirror_in(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_of_the_old_format() {
        let text = "# deb http://no/debian bookworm main\ndeb-src http://src/debian bookworm main\n\
                    deb http://a.b/debian-security bookworm-security main\ndeb [arch=amd64 trusted=no] http://a.b/debian/ bookworm main\n";
        assert_eq!(mirror(&[text]).as_deref(), Some("http://a.b/debian/"));
        assert_eq!(mirror(&["deb http://a.b/ubuntu noble main\n"]), None);
        assert_eq!(mirror(&["deb http://a.b/tool bookworm stable\n", "deb http://a.b"]), None);
    }

    #[test]
    fn a_stanza_of_the_new_format() {
        let text = "Types: deb\nURIs: http://a.b/debian-security\nSuites: trixie-security\nComponents: main\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://off/debian\nSuites: trixie\nComponents: main\n\n\
                    # comment\nTypes: deb deb-src\nURIs: http://a.b/debian http://c/debian\nSuites: trixie trixie-updates\nComponents: main\n";
        assert_eq!(mirror(&[text]).as_deref(), Some("http://a.b/debian"));
    }

    #[test]
    fn another_name_is_believed_only_where_there_is_no_better() {
        let (cloud, other) =
            ("deb mirror+file:/etc/apt/mirrors/debian.list bookworm main\n", "deb http://x/wine trixie main\n");
        assert_eq!(mirror(&[cloud, other]).as_deref(), Some("mirror+file:/etc/apt/mirrors/debian.list"));
        assert_eq!(mirror(&[other, "deb http://a.b/debian sid main\n"]).as_deref(), Some("http://a.b/debian"));
    }
}
