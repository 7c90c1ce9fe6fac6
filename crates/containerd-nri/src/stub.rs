//! Runs a plugin: connects or takes the inherited socket, registers, serves, and returns when the connection ends.
use crate::messages::{ContainerEviction, ContainerUpdate, RegisterPluginRequest, UpdateContainersRequest};
use crate::mux::{Mux, MuxError, PLUGIN_CONNECTION, RUNTIME_CONNECTION};
use crate::plugin::Plugin;
use crate::service::Service;
use crate::services::{RuntimeClient, create_plugin};
use futures::stream;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::UnixStream;
use ttrpc::asynchronous::transport::{Listener, Socket};
use ttrpc::context;

mod inherited;

/// Where runtimes listen.
pub const DEFAULT_SOCKET: &str = "/var/run/nri/nri.sock";
/// The version of the protocol that this crate speaks.
const NRI_VERSION: &str = "0.12.2";
/// The runtime gives a plugin five seconds to register (`plugin_registration_timeout`); its answer gets as long.
const REGISTRATION: Duration = Duration::from_secs(5);
/// containerd hands a plugin that it starts its socket, name and index in these.
const ENV_SOCKET: &str = "NRI_PLUGIN_SOCKET";
const ENV_NAME: &str = "NRI_PLUGIN_NAME";
const ENV_INDEX: &str = "NRI_PLUGIN_IDX";

/// Why a plugin's connection could not be made or ended.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// Nobody listens on the socket.
    #[error(
        "cannot connect to the runtime's NRI socket {path}: {source}; check that the runtime runs and that NRI is enabled in its configuration"
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The descriptor that containerd handed over is no socket.
    #[error("{ENV_SOCKET} is {value:?}, which is no open socket: {source}")]
    Inherited {
        /// The variable's value.
        value: String,
        /// The cause.
        source: io::Error,
    },
    /// A plugin's index must be two digits.
    #[error("plugin index {0:?} is not two digits")]
    Index(String),
    /// The runtime did not take the registration.
    #[error("the runtime refuses to register plugin {name}: {source}")]
    Register {
        /// The plugin's name.
        name: String,
        /// The cause.
        source: ttrpc::Error,
    },
    /// The service could not be started.
    #[error("cannot serve the runtime: {0}")]
    Serve(ttrpc::Error),
    /// The connection broke.
    #[error(transparent)]
    Mux(#[from] MuxError),
    /// The connection's task ended by a panic.
    #[error("the connection failed inside: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What a plugin can ask of the runtime while it is connected.
#[derive(Clone, Debug, Default)]
pub struct Runtime {
    client: Arc<OnceLock<Connected>>,
}

struct Connected(RuntimeClient);

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connected")
    }
}

impl Runtime {
    /// Changes containers outside of an event; returns those that could not be changed.
    ///
    /// # Errors
    /// `ttrpc::Error` where the runtime refuses or the connection is not there.
    pub async fn update_containers(
        &self,
        update: Vec<ContainerUpdate>,
        evict: Vec<ContainerEviction>,
    ) -> ttrpc::Result<Vec<ContainerUpdate>> {
        let Some(Connected(client)) = self.client.get() else { return Err(ttrpc::Error::RemoteClosed) };
        let request = UpdateContainersRequest { update, evict, ..Default::default() };
        Ok(client.update_containers(context::with_duration(REGISTRATION), &request).await?.failed)
    }
}

/// A plugin and how it is known to the runtime.
#[derive(Debug)]
pub struct Stub<P> {
    plugin: Arc<P>,
    name: String,
    index: String,
    socket: PathBuf,
    runtime: Runtime,
}

impl<P: Plugin> Stub<P> {
    /// A stub with the default socket, for a plugin with this name and two-digit index.
    #[must_use]
    pub fn new(plugin: Arc<P>, name: impl Into<String>, index: impl Into<String>) -> Self {
        Self {
            plugin,
            name: name.into(),
            index: index.into(),
            socket: DEFAULT_SOCKET.into(),
            runtime: Runtime::default(),
        }
    }

    /// Connects to another socket.
    #[must_use]
    pub fn socket(mut self, path: impl AsRef<Path>) -> Self {
        path.as_ref().clone_into(&mut self.socket);
        self
    }

    /// What the plugin can ask of the runtime, from its registration on.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Whether containerd started this process and handed it a socket, so that its end is the process's.
    #[must_use]
    pub fn is_inherited() -> bool {
        std::env::var_os(ENV_SOCKET).is_some()
    }

    /// Connects, registers and serves until the connection ends.
    ///
    /// # Errors
    /// [`StubError`]; an end of the connection between two messages is none.
    pub async fn run(mut self) -> Result<(), StubError> {
        let stream = match std::env::var(ENV_SOCKET) {
            Ok(value) => {
                let set = |key, to: &mut String| {
                    if let Ok(value) = std::env::var(key) {
                        *to = value;
                    }
                };
                set(ENV_NAME, &mut self.name);
                set(ENV_INDEX, &mut self.index);
                inherited::socket(&value).map_err(|source| StubError::Inherited { value, source })?
            }
            Err(_) => UnixStream::connect(&self.socket)
                .await
                .map_err(|source| StubError::Connect { path: self.socket.clone(), source })?,
        };
        self.serve(stream).await
    }

    /// Registers and serves over a stream that is connected already.
    ///
    /// # Errors
    /// As [`Stub::run`].
    pub async fn serve(self, stream: UnixStream) -> Result<(), StubError> {
        if self.index.len() != 2 || !self.index.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(StubError::Index(self.index));
        }
        let (mux, [plugin_side, runtime_side]) = Mux::new(stream, [PLUGIN_CONNECTION, RUNTIME_CONNECTION]);
        let mut moving = tokio::spawn(mux.run());
        // One connection, then none: the server must not see an end of its listener, which it would take for its own end.
        let only = stream::unfold(Some(plugin_side), |next| async {
            match next {
                Some(socket) => Some((Ok::<_, io::Error>(socket), None)),
                None => std::future::pending().await,
            }
        });
        let service = create_plugin(Arc::new(Service::new(self.plugin)));
        let mut server = ttrpc::asynchronous::Server::new().add_listener(Listener::new(only)).register_service(service);
        server.start().await.map_err(StubError::Serve)?;
        let client = RuntimeClient::new(ttrpc::asynchronous::Client::new(Socket::new(runtime_side)));
        let request = RegisterPluginRequest {
            plugin_name: self.name.clone(),
            plugin_idx: self.index,
            NRI_version: NRI_VERSION.to_owned(),
            ..Default::default()
        };
        let registered = tokio::select! {
            ended = &mut moving => {
                ended??;
                Err(ttrpc::Error::RemoteClosed)
            }
            registered = client.register_plugin(context::with_duration(REGISTRATION), &request) => registered,
        };
        let ended = match registered {
            Ok(_) => {
                let _ = self.runtime.client.set(Connected(client));
                moving.await.map_err(StubError::from).and_then(|ended| Ok(ended?))
            }
            Err(source) => {
                moving.abort();
                Err(StubError::Register { name: self.name, source })
            }
        };
        let _ = server.shutdown().await;
        ended
    }
}
