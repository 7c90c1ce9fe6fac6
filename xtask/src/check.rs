//! What holds for the whole tree: format, lints, documentation, the arrows between crates, and the rules for files.
use crate::run::cargo;
use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A file may not be longer than this.
const MOST_LINES: usize = 800;
/// Crates whose root must forbid unsafe code.
const SAFE: [&str; 8] = ["quota", "account", "cdi", "ldcache", "policy", "cdi-gen", "ldcache-hook", "nri-plugin"];
/// Crates that cross the container wall: nothing from outside, or a feature of another crate would change them.
const ALONE: [&str; 3] = ["quota", "account", "interposer"];

/// Runs every check.
pub(crate) fn run(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"]).done()?;
    cargo(root, &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]).done()?;
    let interposer = ["clippy", "--quiet", "-p", "interposer", "--profile", "interposer", "--", "-D", "warnings"];
    cargo(root, &interposer).done()?;
    let doc = ["doc", "--quiet", "--no-deps", "--workspace", "--exclude", "interposer", "--document-private-items"];
    cargo(root, &doc).env("RUSTDOCFLAGS", "-D warnings").done()?;
    let broken: Vec<String> = arrows(root)?.into_iter().chain(files(root)?).collect();
    for rule in &broken {
        println!("{rule}");
    }
    ensure!(broken.is_empty(), "{} rules are broken", broken.len());
    println!("check: arrows and files are as ARCHITECTURE.md says");
    Ok(())
}

/// A row of the table of arrows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    may: BTreeSet<String>,
    never: BTreeSet<String>,
}

/// The table below "## Arrows".
fn table(text: &str) -> Result<BTreeMap<String, Row>> {
    let section = text.split("\n## Arrows\n").nth(1).context("ARCHITECTURE.md has no section \"## Arrows\"")?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let words = |cell: &str| {
        let words = cell.split(',').map(|word| word.trim().trim_matches(['*', '`']).to_owned());
        words.filter(|word| !word.is_empty() && word != "–").collect()
    };
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, may, never] = cells[..] else { bail!("this row of the arrows has not three cells: {line}") };
        rows.insert(name.trim_matches(['*', '`']).to_owned(), Row { may: words(may), never: words(never) });
    }
    ensure!(!rows.is_empty(), "the table of arrows in ARCHITECTURE.md is empty");
    Ok(rows)
}

fn arrows(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let rows = table(&text)?;
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?;
    let ours: BTreeSet<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let mut broken: Vec<String> = rows
        .keys()
        .filter(|name| !ours.contains(*name))
        .map(|name| format!("ARCHITECTURE.md has a row for {name}, which is no crate of this workspace"))
        .collect();
    for package in &metadata.packages {
        match rows.get(package.name.as_str()) {
            Some(row) => broken.extend(arrows_of(package, row, &ours)?),
            None => broken.push(format!("{} has no row in the arrows of ARCHITECTURE.md; add one", package.name)),
        }
        let forbids = |text: String| text.contains("#![forbid(unsafe_code)]");
        let root_file = package.manifest_path.with_file_name("src").join("lib.rs");
        if SAFE.contains(&package.name.as_str()) && !fs::read_to_string(&root_file).is_ok_and(forbids) {
            broken.push(format!("{root_file} must say #![forbid(unsafe_code)]"));
        }
    }
    Ok(broken)
}

fn arrows_of(package: &Package, row: &Row, ours: &BTreeSet<String>) -> Result<Vec<String>> {
    let name = &package.name;
    let used: BTreeSet<String> = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.clone())
        .collect();
    let mut broken = Vec::new();
    for other in used.iter().filter(|other| ours.contains(*other) && !row.may.contains(*other)) {
        broken.push(format!(
            "{name} uses {other}, which ARCHITECTURE.md does not allow; remove the use or change the table"
        ));
    }
    for other in row.may.difference(&used) {
        broken.push(format!("{name} may use {other} by ARCHITECTURE.md, and does not; remove it from the table"));
    }
    for other in used.iter().filter(|other| row.never.contains(*other)) {
        broken.push(format!("{name} uses {other}, which ARCHITECTURE.md forbids"));
    }
    if ALONE.contains(&name.as_str()) {
        for other in used.iter().filter(|other| !ours.contains(*other)) {
            broken
                .push(format!("{name} crosses the container wall and may use nothing from outside, but uses {other}"));
        }
    }
    let source = package.manifest_path.with_file_name("src");
    let modules: Vec<&str> = row.never.iter().filter_map(|word| word.strip_prefix("std::")).collect();
    if !modules.is_empty() {
        for file in rust_files(source.as_std_path())? {
            let text = fs::read_to_string(&file)?;
            for module in modules.iter().filter(|module| uses_std(&text, module)) {
                broken.push(format!("{} uses std::{module}, which ARCHITECTURE.md forbids to {name}", file.display()));
            }
        }
    }
    Ok(broken)
}

/// Whether a source names a module of std, by itself or in a group such as `use std::{fs, env}`.
fn uses_std(text: &str, module: &str) -> bool {
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == module);
    text.split("std::").skip(1).any(|after| match after.strip_prefix('{') {
        Some(group) => word(group.split(';').next().unwrap_or(group)),
        None => {
            after.strip_prefix(module).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        }
    })
}

fn files(root: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for file in rust_files(root)? {
        let text = fs::read_to_string(&file)?;
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        let lines = text.lines().count();
        if lines > MOST_LINES {
            broken.push(format!("{name} has {lines} lines; split it before {MOST_LINES}"));
        }
        if file.file_name().is_some_and(|name| name == "mod.rs") {
            broken.push(format!("{name}: use foo.rs beside foo/, not mod.rs"));
        }
        let tests = file.file_name().is_some_and(|name| name == "tests.rs");
        if !tests && !text.starts_with("//!") {
            broken.push(format!("{name} does not open with a module comment that says what it is for"));
        }
    }
    Ok(broken)
}

/// All Rust files below a folder, without build output and hidden folders.
fn rust_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(rust_files(&path)?);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n\n## Arrows\n\nwords\n\n| crate | may use (ours) | may never use |\n|---|---|---|\n\
                        | **policy** | quota, `cdi` | tokio, std::fs |\n| quota | – | std |\n\n## Other\n\n| x | y | z |\n";

    #[test]
    fn the_table_is_read_and_nothing_else() {
        let rows = table(TEXT).unwrap();
        assert_eq!(rows.len(), 2);
        let set = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<BTreeSet<String>>();
        assert_eq!(rows["policy"], Row { may: set(&["quota", "cdi"]), never: set(&["tokio", "std::fs"]) });
        assert_eq!(rows["quota"], Row { may: set(&[]), never: set(&["std"]) });
        assert!(table("no section").is_err());
        assert!(table("\n## Arrows\n\n| a | b |\n|---|---|\n| a | b |\n").is_err());
    }

    #[test]
    fn a_use_that_the_table_does_not_allow_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec().unwrap();
        let ours: BTreeSet<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
        let plugin = metadata.packages.iter().find(|package| package.name.as_str() == "nri-plugin").unwrap();
        let mut row =
            table(&fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap()).unwrap().remove("nri-plugin").unwrap();
        assert_eq!(arrows_of(plugin, &row, &ours).unwrap(), Vec::<String>::new());
        row.may.remove("policy");
        row.never.insert("tokio".to_owned());
        row.may.insert("account".to_owned());
        let broken = arrows_of(plugin, &row, &ours).unwrap();
        assert_eq!(broken.len(), 3, "{broken:?}");
    }

    #[test]
    fn modules_of_std_are_found_in_groups_too() {
        assert!(uses_std("use std::fs::File;", "fs"));
        assert!(uses_std("let x = std::env::var(a);", "env"));
        assert!(uses_std("use std::{fmt, fs};", "fs"));
        assert!(uses_std("use std::{collections::BTreeMap, time::{Duration, Instant}};", "time"));
        assert!(!uses_std("use std::fmt; // std::fsx", "fs"));
        assert!(!uses_std("use std::{fmt, collections};", "fs"));
    }

    #[test]
    fn file_rules_find_what_is_wrong() {
        let dir = std::env::temp_dir().join(format!("xtask-check-{}", std::process::id()));
        fs::create_dir_all(dir.join("a")).unwrap();
        fs::write(dir.join("a/mod.rs"), "//! a\n").unwrap();
        fs::write(dir.join("a/long.rs"), format!("//! a\n{}", "x\n".repeat(MOST_LINES))).unwrap();
        fs::write(dir.join("a/bare.rs"), "fn a() {}\n").unwrap();
        fs::write(dir.join("a/tests.rs"), "use super::*;\n").unwrap();
        let broken = files(&dir);
        fs::remove_dir_all(&dir).unwrap();
        let broken = broken.unwrap();
        assert_eq!(broken.len(), 3, "{broken:?}");
    }
}
