//! The control door: a unix socket in the run folder over which people's commands reach the running daemon. JSON over HTTP/1, so that `curl` is a client too.
//!
//! The socket is root's alone, or also readable by one group (`status_group`). Whatever its mode, only root's processes may change anything: the kernel
//! tells who the peer is.
use crate::app::App;
use crate::http::{self, Answer, AskError, Asked, Handler, Listener};
use async_trait::async_trait;
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixListener;

/// The socket's name in the run folder.
pub const SOCKET: &str = "control.sock";
/// Tells the [`crate::status::Status`].
pub const STATUS: &str = "/v1/status";
/// Takes a [`NewQuota`], and answers with a [`ChangedQuota`].
pub const QUOTA: &str = "/v1/quota";

/// Another share for a running container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewQuota {
    /// Id, beginning of an id, or namespace/pod/container.
    pub container: String,
    /// NVML's index of the card; needed where the container has shares of several.
    pub card: Option<u32>,
    /// The share in bytes.
    pub bytes: u64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedQuota {
    /// The container's id.
    pub id: String,
    /// Namespace, pod and container.
    pub name: String,
    /// NVML's index of the card.
    pub card: u32,
    /// The share before, in bytes.
    pub before: u64,
    /// The share now.
    pub bytes: u64,
}

/// Words for who asked something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub error: String,
}

/// The door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the control socket {path}: {source}; see to it that the run folder can be written")]
pub struct ControlError {
    path: PathBuf,
    source: io::Error,
}

/// Opens the socket. The caller has the run folder to itself, so a socket that is there already is a dead daemon's.
///
/// # Errors
/// [`ControlError`].
pub fn open(run_dir: &Path, group: Option<u32>) -> Result<UnixListener, ControlError> {
    let path = run_dir.join(SOCKET);
    bind(&path, group).map_err(|source| ControlError { path, source })
}

/// A unix socket of root's, or of root's and a group's, from its first moment on: it is made under another name, and moved when its mode is right.
///
/// # Errors
/// The system's.
pub fn bind(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let fresh = path.with_extension("fresh");
    for old in [&fresh, &path.to_owned()] {
        match fs::remove_file(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let listener = UnixListener::bind(&fresh)?;
    let mode = match group {
        Some(group) => {
            chown(&fresh, None, Some(group))?;
            0o660
        }
        None => 0o600,
    };
    fs::set_permissions(&fresh, Permissions::from_mode(mode))?;
    fs::rename(&fresh, path)?;
    Ok(listener)
}

/// The door's answers.
#[derive(Debug)]
struct Door(Arc<App>);

/// Serves the door until the task is dropped.
pub async fn serve(listener: UnixListener, app: Arc<App>) {
    http::serve(Listener::Unix(listener), Arc::new(Door(app))).await;
}

#[async_trait]
impl Handler for Door {
    async fn answer(&self, asked: Asked) -> Answer {
        match right(&asked) {
            Err(refused) => refused,
            Ok(None) => Answer::json(StatusCode::OK, &self.0.status().await),
            Ok(Some(new)) => match self.0.set_quota(&new).await {
                Ok(changed) => Answer::json(StatusCode::OK, &changed),
                Err(error) => refuse(StatusCode::CONFLICT, error.to_string()),
            },
        }
    }
}

/// What a request that is in order wants: another share, or the status.
fn right(asked: &Asked) -> Result<Option<NewQuota>, Answer> {
    match (&asked.method, asked.path.as_str()) {
        (&Method::GET, STATUS) => Ok(None),
        (&Method::PUT, QUOTA) if asked.uid != Some(0) => {
            Err(refuse(StatusCode::FORBIDDEN, "only root may change a share; the status may be read"))
        }
        (&Method::PUT, QUOTA) => serde_json::from_slice(&asked.body)
            .map(Some)
            .map_err(|error| refuse(StatusCode::BAD_REQUEST, format!("the request is no share: {error}"))),
        (method, STATUS | QUOTA) => Err(refuse(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not for this"))),
        (_, path) => {
            Err(refuse(StatusCode::NOT_FOUND, format!("there is no {path:?}; there are {STATUS} and {QUOTA}")))
        }
    }
}

fn refuse(status: StatusCode, error: impl Into<String>) -> Answer {
    Answer::json(status, &Refused { error: error.into() })
}

/// Why the daemon did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It is not there, or not for us.
    #[error("{socket}: {source}; does the daemon run, with this run folder, and is this root?")]
    Ask {
        /// The socket.
        socket: PathBuf,
        /// The cause.
        source: AskError,
    },
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// It answered what this program does not know.
    #[error("the daemon's answer is not of this program's version: {0}")]
    Answer(#[from] serde_json::Error),
}

impl ClientError {
    /// Whether there is no daemon to ask.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Ask { source: AskError::Connect(error), .. }
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused))
    }
}

/// Asks the running daemon.
///
/// # Errors
/// [`ClientError`].
pub async fn ask<T: for<'a> Deserialize<'a>>(
    run_dir: &Path,
    method: Method,
    path: &str,
    body: &impl Serialize,
) -> Result<T, ClientError> {
    let socket = run_dir.join(SOCKET);
    let body = serde_json::to_vec(body)?;
    let asked = http::ask(&socket, method, path, body).await;
    let (status, answer) = asked.map_err(|source| ClientError::Ask { socket, source })?;
    if status == StatusCode::OK {
        return Ok(serde_json::from_slice(&answer)?);
    }
    let words = serde_json::from_slice::<Refused>(&answer).map_or_else(|_| status.to_string(), |refused| refused.error);
    Err(ClientError::Refused(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[tokio::test]
    async fn the_socket_is_roots_or_a_groups_and_a_dead_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let about = || fs::metadata(dir.path().join(SOCKET)).map(|about| (about.mode() & 0o777, about.gid())).unwrap();
        let gid = fs::metadata(dir.path()).unwrap().gid();
        let first = open(dir.path(), None).unwrap();
        assert_eq!(about(), (0o600, gid));
        drop(first);
        let _second = open(dir.path(), Some(gid)).unwrap();
        assert_eq!(about(), (0o660, gid));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = open(Path::new("/no/such/folder"), None).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder/control.sock"), "{error}");
    }

    #[test]
    fn only_root_changes_anything() {
        let ask = |method, path: &str, uid, body: &str| {
            let body = hyper::body::Bytes::from(body.to_owned());
            right(&Asked { method, path: path.to_owned(), body, uid }).map_err(|refused| refused.status.as_u16())
        };
        let share = r#"{"container":"a","card":null,"bytes":1}"#;
        let new = NewQuota { container: "a".to_owned(), card: None, bytes: 1 };
        assert_eq!(ask(Method::PUT, QUOTA, Some(0), share), Ok(Some(new)));
        for uid in [Some(1000), None] {
            assert_eq!(ask(Method::PUT, QUOTA, uid, share), Err(403));
            assert_eq!(ask(Method::GET, STATUS, uid, ""), Ok(None));
        }
        for bad in ["", "{", r#"{"container":"a"}"#, r#"{"container":"a","bytes":-1}"#] {
            assert_eq!(ask(Method::PUT, QUOTA, Some(0), bad), Err(400), "{bad}");
        }
        assert_eq!(ask(Method::DELETE, QUOTA, Some(0), share), Err(405));
        assert_eq!(ask(Method::GET, "/v2/status", Some(0), ""), Err(404));
    }

    #[tokio::test]
    async fn who_is_away_is_told_from_who_says_no() {
        let dir = tempfile::tempdir().unwrap();
        let asked = ask::<Refused>(dir.path(), Method::GET, STATUS, &()).await;
        assert!(asked.unwrap_err().is_away());
        drop(open(dir.path(), None).unwrap());
        let asked = ask::<Refused>(dir.path(), Method::GET, STATUS, &()).await;
        assert!(asked.unwrap_err().is_away(), "a dead daemon's socket");
        assert!(!ClientError::Refused(String::new()).is_away());
    }
}
