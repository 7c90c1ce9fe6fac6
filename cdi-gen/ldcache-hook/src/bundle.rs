//! From the OCI state on stdin to the container's root: its bundle, the bundle's `config.json`, the root that this names.
use crate::root::{Root, RootError};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A state has a few lines; annotations can make it longer.
const STATE_MOST: u64 = 1 << 20;
/// A configuration has some tens of KiB; environment and annotations can make it longer.
const CONFIG_MOST: u64 = 16 << 20;

/// Why the root was not found.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Stdin or `config.json` could not be read.
    #[error("cannot read {what}: {error}; call this as an OCI createContainer hook")]
    Read {
        /// Which of the two.
        what: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// Longer than any real one.
    #[error("{what} has more than {most} bytes; this is not what an OCI runtime gives to a hook")]
    Long {
        /// Which of the two.
        what: String,
        /// The bound.
        most: u64,
    },
    /// Not the JSON that the OCI specification describes.
    #[error("{what} is not as the OCI specification has it: {error}")]
    Json {
        /// Which of the two.
        what: String,
        /// What the parser said.
        error: serde_json::Error,
    },
    /// The bundle is not named by an absolute path.
    #[error("the OCI state's bundle {0:?} is not an absolute path")]
    Relative(PathBuf),
    /// The root cannot be opened.
    #[error(transparent)]
    Root(#[from] RootError),
}

#[derive(Deserialize)]
struct State {
    bundle: PathBuf,
}

#[derive(Deserialize)]
struct Config {
    root: ConfigRoot,
}

#[derive(Deserialize)]
struct ConfigRoot {
    path: PathBuf,
}

/// The root of the container whose state this is.
///
/// # Errors
/// [`BundleError`] where state, bundle or root are not as the OCI specification has them.
pub fn root(state: impl Read) -> Result<Root, BundleError> {
    let state: State = json("the OCI state on stdin", state, STATE_MOST)?;
    if !state.bundle.is_absolute() {
        return Err(BundleError::Relative(state.bundle));
    }
    let file = state.bundle.join("config.json");
    let config: Config = json(&file.display().to_string(), open(&file)?, CONFIG_MOST)?;
    Ok(Root::open(&state.bundle.join(config.root.path))?)
}

/// The runtime's own file, but nothing that would make us wait.
fn open(path: &Path) -> Result<File, BundleError> {
    let failed = |error| BundleError::Read { what: path.display().to_string(), error };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    File::open(path).map_err(failed)
}

/// Reads at most so many bytes of JSON.
fn json<T: for<'a> Deserialize<'a>>(what: &str, from: impl Read, most: u64) -> Result<T, BundleError> {
    let what = what.to_owned();
    let mut bytes = Vec::new();
    match from.take(most + 1).read_to_end(&mut bytes) {
        Err(error) => Err(BundleError::Read { what, error }),
        Ok(length) if length as u64 > most => Err(BundleError::Long { what, most }),
        Ok(_) => serde_json::from_slice(&bytes).map_err(|error| BundleError::Json { what, error }),
    }
}
