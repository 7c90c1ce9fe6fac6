//! The arguments: `update --folder PATH ... [--prefix WORD ...]`.
use std::ffi::OsString;

/// Why the arguments are not understood.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum ArgsError {
    /// Not the one command that there is.
    #[error("the first argument is {0:?}; usage: gpu-quota-ldcache-hook update --folder PATH ... [--prefix WORD ...]")]
    Command(OsString),
    /// Unknown, or without its value.
    #[error("argument {0:?} is unknown or lacks its value; give --folder PATH and --prefix WORD only")]
    Argument(OsString),
    /// A folder that is not named from the container's root.
    #[error("folder {0:?} is not an absolute path; give it as the container sees it")]
    Folder(String),
    /// Nothing to look at.
    #[error("no folder is named; give --folder PATH at least once")]
    NoFolder,
}

/// What to add.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// Folders, as the container sees them, without a slash at the end.
    pub folders: Vec<String>,
    /// What names begin with; empty for all.
    pub prefixes: Vec<String>,
}

/// Reads the arguments, without the program's name.
///
/// # Errors
/// [`ArgsError`] for what is not understood.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Wanted, ArgsError> {
    let mut args = args.into_iter();
    let command = args.next().unwrap_or_default();
    if command != "update" {
        return Err(ArgsError::Command(command));
    }
    let mut wanted = Wanted::default();
    while let Some(arg) = args.next() {
        let list = match arg.to_str() {
            Some("--folder") => &mut wanted.folders,
            Some("--prefix") => &mut wanted.prefixes,
            _ => return Err(ArgsError::Argument(arg)),
        };
        let value = args.next().ok_or(ArgsError::Argument(arg))?;
        list.push(value.into_string().map_err(ArgsError::Argument)?);
    }
    for folder in &mut wanted.folders {
        if !folder.starts_with('/') {
            return Err(ArgsError::Folder(std::mem::take(folder)));
        }
        folder.truncate(folder.trim_end_matches('/').len());
    }
    if wanted.folders.is_empty() { Err(ArgsError::NoFolder) } else { Ok(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &str) -> Result<Wanted, ArgsError> {
        parse(args.split_whitespace().map(OsString::from))
    }

    #[test]
    fn folders_and_prefixes() {
        let wanted = parsed("update --folder /usr/lib64/ --prefix libcuda --folder /b --prefix libnv").unwrap();
        assert_eq!(wanted.folders, ["/usr/lib64", "/b"]);
        assert_eq!(wanted.prefixes, ["libcuda", "libnv"]);
    }

    #[test]
    fn anything_else_is_said() {
        assert_eq!(parsed(""), Err(ArgsError::Command(OsString::new())));
        assert_eq!(parsed("--help"), Err(ArgsError::Command("--help".into())));
        assert_eq!(parsed("update"), Err(ArgsError::NoFolder));
        assert_eq!(parsed("update --folder"), Err(ArgsError::Argument("--folder".into())));
        assert_eq!(parsed("update --folder lib"), Err(ArgsError::Folder("lib".to_owned())));
        assert_eq!(parsed("update --file /a"), Err(ArgsError::Argument("--file".into())));
    }
}
