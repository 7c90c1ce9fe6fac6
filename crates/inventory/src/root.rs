//! Paths under a driver root: links are followed as a process inside the root would, so an absolute link never leaves it.
//!
//! Each path is looked at once: a root is of one scan, and what it has seen it does not ask the kernel again.
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// More links than this in one path are a loop (the kernel's own limit).
const MOST_LINKS: usize = 40;

/// A root folder: the host's `/`, a driver container's, or a test's.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    seen: RefCell<HashMap<PathBuf, Seen>>,
}

/// What a path is.
#[derive(Clone, Debug)]
enum Seen {
    Nothing,
    Link(PathBuf),
    Other,
}

impl Root {
    /// The root at `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: RefCell::default() }
    }

    /// Where `inside` (absolute, as seen within the root) is on the host, without following links.
    #[must_use]
    pub fn host(&self, inside: &Path) -> PathBuf {
        self.path.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The file that `inside` names, as a path within the root without links; `None` where it is not there.
    #[must_use]
    pub fn resolve(&self, inside: &Path) -> Option<PathBuf> {
        self.resolve_in(Path::new("/"), inside)
    }

    /// The same for a path that starts in `folder`, a path within the root without links.
    #[must_use]
    pub fn resolve_in(&self, folder: &Path, inside: &Path) -> Option<PathBuf> {
        let mut left: Vec<PathBuf> = parts(inside);
        let mut at = folder.to_owned();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == Path::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let target = match self.look(&next) {
                Seen::Nothing => return None,
                Seen::Other => {
                    at = next;
                    continue;
                }
                Seen::Link(target) => target,
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(parts(&target));
        }
        Some(at)
    }

    fn look(&self, inside: &Path) -> Seen {
        if let Some(seen) = self.seen.borrow().get(inside) {
            return seen.clone();
        }
        let host = self.host(inside);
        let seen = match std::fs::symlink_metadata(&host) {
            Ok(there) if there.is_symlink() => std::fs::read_link(&host).map_or(Seen::Nothing, Seen::Link),
            Ok(_) => Seen::Other,
            Err(_) => Seen::Nothing,
        };
        self.seen.borrow_mut().insert(inside.to_owned(), seen.clone());
        seen
    }
}

/// The parts of a path, last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir_all(dir.path().join("usr/lib/real")).unwrap();
        std::fs::write(dir.path().join("usr/lib/real/f.so.1.2"), "").unwrap();
        symlink("/usr/lib", dir.path().join("lib")).unwrap();
        symlink("/etc/alt", dir.path().join("usr/lib/f.so")).unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        symlink("../lib/./real/f.so.1.2", dir.path().join("etc/alt")).unwrap();
        symlink("../../../../../../etc/alt", dir.path().join("usr/up")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let real = Some(PathBuf::from("/usr/lib/real/f.so.1.2"));
        assert_eq!(root.resolve(Path::new("/lib/f.so")), real);
        assert_eq!(root.resolve(Path::new("/usr/up")), real);
        assert_eq!(root.resolve(Path::new("/loop")), None);
        assert_eq!(root.resolve(Path::new("/lib/none")), None);
        assert_eq!(root.host(Path::new("/a")), dir.path().join("a"));
    }
}
