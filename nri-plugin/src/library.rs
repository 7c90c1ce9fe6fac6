//! The interposer on the host: a copy of its own for each build, never overwritten, and the preload list beside it.
//!
//! A running container maps the file that it was given; replacing its bytes would crash every process in it. So a copy lies in a folder named by
//! its content, and an upgrade makes a new folder.
use crate::files::{self, FileError};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The largest file that can be an interposer; the real one is some tens of KiB.
const MAX_LEN: u64 = 16 << 20;
const LIBRARY_NAME: &str = "libgpu_quota.so";
const PRELOAD_NAME: &str = "ld.so.preload";
/// `EM_X86_64` or `EM_AARCH64` of the ELF specification.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The interposer's files as containers mount them.
#[derive(Clone, Debug)]
pub struct Library {
    /// The versioned copy.
    pub library: PathBuf,
    /// The one-line list that the dynamic loader reads as `/etc/ld.so.preload`.
    pub preload: PathBuf,
}

/// Why the interposer cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A file or folder failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not a library that this machine's programs could load.
    #[error("{path} is not the interposer: {why}; name the right file with --library")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Loaders would skip the library with only a warning, and nothing would hold the quota.
    #[error(
        "{path} is on a filesystem mounted noexec, so containers could not load the interposer from it; name another folder with --library-dir"
    )]
    NoExec {
        /// The folder.
        path: PathBuf,
    },
    /// A copy exists under the name of this content with other content.
    #[error("{path} does not hold what its name says; remove the folder {} once no container uses it", path.parent().unwrap_or(path).display())]
    Damaged {
        /// The copy.
        path: PathBuf,
    },
}

/// Puts a copy of `source` below `dir` unless it is there, and returns its place.
///
/// # Errors
/// [`LibraryError`]; nothing half-written is left.
pub fn place(source: &Path, dir: &Path) -> Result<Library, LibraryError> {
    let bytes = files::read_at_most(source, MAX_LEN)?;
    check_elf(&bytes).map_err(|why| LibraryError::NotALibrary { path: source.to_owned(), why })?;
    let mut folder = format!("{}-", env!("CARGO_PKG_VERSION"));
    for byte in Sha256::digest(&bytes).iter().take(8) {
        let _ = write!(folder, "{byte:02x}");
    }
    files::create_dir(dir)?;
    let executable = rustix::fs::statvfs(dir).map_err(|error| FileError::new("look at", dir, error.into()))?;
    if executable.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        return Err(LibraryError::NoExec { path: dir.to_owned() });
    }
    let home = dir.join(folder);
    let library = home.join(LIBRARY_NAME);
    let preload = home.join(PRELOAD_NAME);
    let list = format!("{}\n", quota::paths::IN_LIBRARY);
    let parts: [(&str, &[u8], u32); 2] = [(LIBRARY_NAME, &bytes, 0o755), (PRELOAD_NAME, list.as_bytes(), 0o644)];
    if !home.exists() {
        files::create_filled_dir(&home, &parts)?;
    }
    for (path, wanted) in [(&library, bytes.as_slice()), (&preload, list.as_bytes())] {
        if files::read_at_most(path, MAX_LEN)? != wanted {
            return Err(LibraryError::Damaged { path: path.clone() });
        }
    }
    Ok(Library { library, preload })
}

/// Whether `bytes` begin as a 64-bit little-endian shared object of this machine (ELF specification, file header).
fn check_elf(bytes: &[u8]) -> Result<(), &'static str> {
    let half = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    if !bytes.starts_with(b"\x7fELF") {
        return Err("it is no ELF file");
    }
    if bytes.get(4..6) != Some(&[2, 1]) {
        return Err("it is not 64-bit little-endian");
    }
    if half(16) != Some(3) {
        return Err("it is no shared object");
    }
    if half(18) != Some(MACHINE) {
        return Err("it is for another processor");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn fake_library(extra: u8) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16] = 3;
        bytes[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        bytes[40] = extra;
        bytes
    }

    #[test]
    fn each_build_has_its_own_folder_and_none_is_rewritten() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("built.so");
        std::fs::write(&source, fake_library(1)).unwrap();
        let first = place(&source, &dir.path().join("lib")).unwrap();
        let inode = std::fs::metadata(&first.library).unwrap().ino();
        let again = place(&source, &dir.path().join("lib")).unwrap();
        assert_eq!(std::fs::metadata(&again.library).unwrap().ino(), inode);

        std::fs::write(&source, fake_library(2)).unwrap();
        let second = place(&source, &dir.path().join("lib")).unwrap();
        assert_ne!(first.library, second.library);
        assert_eq!(std::fs::read(&first.library).unwrap(), fake_library(1));
        assert_eq!(std::fs::read(&second.library).unwrap(), fake_library(2));
        assert_eq!(std::fs::read_to_string(&second.preload).unwrap(), "/run/gpu-quota/libgpu_quota.so\n");
        assert_eq!(std::fs::metadata(&second.library).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn what_no_loader_could_load_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("built.so");
        let mut other_machine = fake_library(0);
        other_machine[18] = 0xf3;
        let mut program = fake_library(0);
        program[16] = 2;
        for (bytes, why) in [
            (b"#!/bin/sh\n".to_vec(), "no ELF"),
            (b"\x7fELF\x02\x01".to_vec(), "shared object"),
            (b"\x7fELF\x01\x01".to_vec(), "64-bit"),
            (program, "shared object"),
            (other_machine, "processor"),
        ] {
            std::fs::write(&source, bytes).unwrap();
            let error = place(&source, &dir.path().join("lib")).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("built.so"), "{error}");
        }
        assert!(!dir.path().join("lib").exists());
    }

    #[test]
    fn a_damaged_copy_is_not_served() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("built.so");
        std::fs::write(&source, fake_library(1)).unwrap();
        let placed = place(&source, &dir.path().join("lib")).unwrap();
        std::fs::write(&placed.library, b"").unwrap();
        assert!(matches!(place(&source, &dir.path().join("lib")), Err(LibraryError::Damaged { .. })));
    }
}
