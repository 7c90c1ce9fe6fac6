//! A client of the container runtime interface over containerd's socket, for callers that wait.
use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// The messages, generated from `proto/cri.proto`.
#[expect(clippy::pedantic, missing_docs, unused_qualifications, reason = "generated code")]
pub mod messages {
    tonic::include_proto!("runtime.v1");
}

use messages::runtime_service_client::RuntimeServiceClient;
use messages::{
    ContainerConfig, ContainerRequest, CreateContainerRequest, ExecSyncRequest, PodSandboxConfig, PodSandboxRequest,
    RunPodSandboxRequest, StopContainerRequest, VersionRequest,
};

/// A connection to a runtime.
#[derive(Debug)]
pub struct Cri {
    runtime: Runtime,
    client: RuntimeServiceClient<Channel>,
}

/// What a command in a container printed and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code.
    pub code: i32,
}

macro_rules! ask {
    ($cri:expr, $call:ident, $request:expr) => {{
        let mut client = $cri.client.clone();
        $cri.runtime.block_on(client.$call($request)).map(tonic::Response::into_inner)
    }};
}

impl Cri {
    /// Connects to a runtime's socket, at the first request.
    ///
    /// # Errors
    /// Where the system refuses what the client needs.
    pub fn new(socket: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let socket: PathBuf = socket.to_owned();
        let connect = move |_| {
            let socket = socket.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        };
        let channel = {
            let _inside = runtime.enter();
            Endpoint::from_static("http://containerd").connect_with_connector_lazy(tower::service_fn(connect))
        };
        Ok(Self { runtime, client: RuntimeServiceClient::new(channel) })
    }

    /// The runtime's name and version.
    ///
    /// # Errors
    /// Where the runtime does not answer.
    pub fn version(&self) -> Result<String> {
        let answer = ask!(self, version, VersionRequest::default())?;
        Ok(format!("{} {}", answer.runtime_name, answer.runtime_version))
    }

    /// Runs a pod's sandbox.
    ///
    /// # Errors
    /// The runtime's.
    pub fn run_pod(&self, config: PodSandboxConfig) -> Result<String> {
        let request = RunPodSandboxRequest { config: Some(config) };
        Ok(ask!(self, run_pod_sandbox, request).context("RunPodSandbox")?.pod_sandbox_id)
    }

    /// Creates a container.
    ///
    /// # Errors
    /// The runtime's words alone, for tests to look at.
    pub fn create(&self, pod: &str, sandbox: PodSandboxConfig, config: ContainerConfig) -> Result<String, String> {
        let (config, sandbox_config) = (Some(config), Some(sandbox));
        let request = CreateContainerRequest { pod_sandbox_id: pod.to_owned(), config, sandbox_config };
        ask!(self, create_container, request)
            .map(|answer| answer.container_id)
            .map_err(|error| error.message().to_owned())
    }

    /// Starts a container.
    ///
    /// # Errors
    /// The runtime's.
    pub fn start(&self, id: &str) -> Result<()> {
        ask!(self, start_container, ContainerRequest { container_id: id.to_owned() }).context("StartContainer")?;
        Ok(())
    }

    /// Stops a container at once.
    ///
    /// # Errors
    /// The runtime's.
    pub fn stop(&self, id: &str) -> Result<()> {
        let request = StopContainerRequest { container_id: id.to_owned(), timeout: 0 };
        ask!(self, stop_container, request).context("StopContainer")?;
        Ok(())
    }

    /// Removes a container.
    ///
    /// # Errors
    /// The runtime's.
    pub fn remove(&self, id: &str) -> Result<()> {
        ask!(self, remove_container, ContainerRequest { container_id: id.to_owned() }).context("RemoveContainer")?;
        Ok(())
    }

    /// Stops and removes a pod with its containers.
    ///
    /// # Errors
    /// The runtime's.
    pub fn remove_pod(&self, pod: &str) -> Result<()> {
        let request = || PodSandboxRequest { pod_sandbox_id: pod.to_owned() };
        ask!(self, stop_pod_sandbox, request()).context("StopPodSandbox")?;
        ask!(self, remove_pod_sandbox, request()).context("RemovePodSandbox")?;
        Ok(())
    }

    /// Runs a command in a container to its end.
    ///
    /// # Errors
    /// The runtime's, or that the command runs longer than two minutes.
    pub fn exec(&self, id: &str, command: &[&str]) -> Result<Output> {
        let cmd = command.iter().map(|&word| word.to_owned()).collect();
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd, timeout: 120 };
        let mut request = tonic::Request::new(request);
        request.set_timeout(Duration::from_secs(130));
        let answer = ask!(self, exec_sync, request).with_context(|| format!("exec {command:?}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Output { stdout: text(answer.stdout), stderr: text(answer.stderr), code: answer.exit_code })
    }
}
