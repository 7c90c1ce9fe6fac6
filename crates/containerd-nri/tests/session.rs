//! Whole sessions against a pretend runtime over a socket pair.
#![expect(clippy::unwrap_used, reason = "a broken session must fail the test")]

use async_trait::async_trait;
use containerd_nri::messages::{
    ConfigureRequest, Container, ContainerAdjustment, ContainerUpdate, CreateContainerRequest, Empty, Event,
    PodSandbox, RegisterPluginRequest, RemoveContainerRequest, StateChangeEvent, StopContainerRequest,
    SynchronizeRequest, UpdateContainersRequest, UpdateContainersResponse,
};
use containerd_nri::mux::{Mux, PLUGIN_CONNECTION, RUNTIME_CONNECTION};
use containerd_nri::services::{PluginClient, Runtime as RuntimeService, create_runtime};
use containerd_nri::{Adjustment, EventMask, Plugin, PluginError, Runtime, Stub, StubError};
use futures::stream;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use ttrpc::asynchronous::transport::{Listener, Socket};
use ttrpc::context;

#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<String>>,
}

impl Recorder {
    fn note(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push(what.into());
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

#[async_trait]
impl Plugin for Recorder {
    fn events(&self) -> EventMask {
        EventMask::CREATE_CONTAINER | EventMask::REMOVE_CONTAINER
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<(), PluginError> {
        self.note(format!("configure {} {:?}", request.runtime_name, request.config));
        if request.config == "bad" { Err(PluginError::new("no such setting")) } else { Ok(()) }
    }

    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, PluginError> {
        self.note(format!("synchronize {} {}", pods.len(), containers.len()));
        Ok(vec![ContainerUpdate::default()])
    }

    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<(ContainerAdjustment, Vec<ContainerUpdate>), PluginError> {
        match container.name.as_str() {
            "refused" => return Err(PluginError::new("quota \"abc\" is no number")),
            "panics" => panic!("oh no"),
            "slow" => std::future::pending().await,
            _ => {}
        }
        let mut adjustment = Adjustment::new();
        adjustment.env("POD", &pod.name).unwrap();
        Ok((adjustment.into_message(), Vec::new()))
    }

    async fn remove_container(&self, _: PodSandbox, container: Container) -> Result<(), PluginError> {
        self.note(format!("remove {}", container.id));
        Ok(())
    }
}

struct PretendRuntime {
    registered: mpsc::UnboundedSender<RegisterPluginRequest>,
    refuse: bool,
}

#[async_trait]
impl RuntimeService for PretendRuntime {
    async fn register_plugin(
        &self,
        _: &ttrpc::r#async::TtrpcContext,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        self.registered.send(request).unwrap();
        if self.refuse {
            let status = ttrpc::get_status(ttrpc::Code::INVALID_ARGUMENT, "unwanted");
            return Err(ttrpc::Error::RpcStatus(status));
        }
        Ok(Empty::default())
    }

    async fn update_containers(
        &self,
        _: &ttrpc::r#async::TtrpcContext,
        request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        Ok(UpdateContainersResponse { failed: request.update, ..Default::default() })
    }
}

struct Session {
    plugin: Arc<Recorder>,
    calls: PluginClient,
    moving: JoinHandle<Result<(), containerd_nri::mux::MuxError>>,
    stub: JoinHandle<Result<(), StubError>>,
    registered: mpsc::UnboundedReceiver<RegisterPluginRequest>,
    runtime: Runtime,
    _server: ttrpc::asynchronous::Server,
}

async fn session(refuse: bool, index: &str) -> Session {
    let (near, far) = UnixStream::pair().unwrap();
    let (mux, [plugin_side, runtime_side]) = Mux::new(near, [PLUGIN_CONNECTION, RUNTIME_CONNECTION]);
    let moving = tokio::spawn(mux.run());
    let (sender, registered) = mpsc::unbounded_channel();
    let only = stream::unfold(Some(runtime_side), |next| async {
        match next {
            Some(socket) => Some((Ok::<_, io::Error>(socket), None)),
            None => std::future::pending().await,
        }
    });
    let service = create_runtime(Arc::new(PretendRuntime { registered: sender, refuse }));
    let mut server = ttrpc::asynchronous::Server::new().add_listener(Listener::new(only)).register_service(service);
    server.start().await.unwrap();
    let plugin = Arc::new(Recorder::default());
    let stub = Stub::new(Arc::clone(&plugin), "recorder", index);
    let runtime = stub.runtime();
    let stub = tokio::spawn(stub.serve(far));
    let calls = PluginClient::new(ttrpc::asynchronous::Client::new(Socket::new(plugin_side)));
    Session { plugin, calls, moving, stub, registered, runtime, _server: server }
}

fn soon() -> context::Context {
    context::with_duration(Duration::from_secs(20))
}

fn create(name: &str) -> CreateContainerRequest {
    CreateContainerRequest {
        pod: Some(PodSandbox { name: "p1".to_owned(), ..Default::default() }).into(),
        container: Some(Container { id: "c1".to_owned(), name: name.to_owned(), ..Default::default() }).into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_plugin_registers_is_configured_and_serves() {
    let mut session = session(false, "07").await;
    let registered = session.registered.recv().await.unwrap();
    assert_eq!((registered.plugin_name.as_str(), registered.plugin_idx.as_str()), ("recorder", "07"));
    let request = ConfigureRequest { runtime_name: "pretend".to_owned(), ..Default::default() };
    let answer = session.calls.configure(soon(), &request).await.unwrap();
    // Events 4 and 11 of the protocol.
    assert_eq!(answer.events, (1 << 3) | (1 << 10));
    let answer = session.calls.create_container(soon(), &create("main")).await.unwrap();
    assert_eq!((answer.adjust.env[0].key.as_str(), answer.adjust.env[0].value.as_str()), ("POD", "p1"));
    session.calls.stop_container(soon(), &StopContainerRequest::default()).await.unwrap();
    session.calls.remove_container(soon(), &RemoveContainerRequest::default()).await.unwrap();
    assert_eq!(session.plugin.seen(), ["configure pretend \"\"", "remove "]);
}

#[tokio::test]
async fn pieces_of_a_synchronization_above_one_message_come_as_one() {
    const PIECES: usize = 8;
    let session = session(false, "10").await;
    let big = Container { args: vec!["x".repeat(1 << 20)], ..Default::default() };
    for piece in 0..PIECES {
        let request = SynchronizeRequest {
            pods: vec![PodSandbox::default(); 3],
            containers: vec![big.clone()],
            more: piece + 1 < PIECES,
            ..Default::default()
        };
        let answer = session.calls.synchronize(soon(), &request).await.unwrap();
        assert_eq!((answer.more, answer.update.len()), (piece + 1 < PIECES, usize::from(piece + 1 == PIECES)));
    }
    assert_eq!(session.plugin.seen(), ["synchronize 24 8"]);
    session.calls.synchronize(soon(), &SynchronizeRequest::default()).await.unwrap();
    assert_eq!(session.plugin.seen(), ["synchronize 0 0"], "nothing is left of the last one");
}

#[tokio::test]
async fn the_text_of_a_refusal_reaches_the_runtime() {
    let session = session(false, "10").await;
    let error = session.calls.create_container(soon(), &create("refused")).await.unwrap_err();
    let ttrpc::Error::RpcStatus(status) = error else { panic!("{error}") };
    assert_eq!(status.message, "quota \"abc\" is no number");
    let request = ConfigureRequest { config: "bad".to_owned(), ..Default::default() };
    let error = session.calls.configure(soon(), &request).await.unwrap_err();
    assert!(error.to_string().contains("no such setting"), "{error}");
}

#[tokio::test]
async fn a_panic_is_an_error_answer_and_the_connection_lives() {
    let session = session(false, "10").await;
    let error = session.calls.create_container(soon(), &create("panics")).await.unwrap_err();
    assert!(error.to_string().contains("oh no"), "{error}");
    session.calls.create_container(soon(), &create("main")).await.unwrap();
}

#[tokio::test]
async fn a_slow_request_does_not_hold_up_others() {
    let session = session(false, "10").await;
    let (calls, slow) = (session.calls.clone(), create("slow"));
    let slow = tokio::spawn(async move { calls.create_container(context::with_timeout(0), &slow).await });
    session.calls.create_container(soon(), &create("main")).await.unwrap();
    assert!(!slow.is_finished());
    slow.abort();
}

#[tokio::test]
async fn state_changes_of_older_runtimes_reach_the_same_methods() {
    let session = session(false, "10").await;
    let mut change = StateChangeEvent {
        event: Event::REMOVE_CONTAINER.into(),
        container: Some(Container { id: "c9".to_owned(), ..Default::default() }).into(),
        ..Default::default()
    };
    session.calls.state_change(soon(), &change).await.unwrap();
    change.event = protobuf::EnumOrUnknown::from_i32(77);
    session.calls.state_change(soon(), &change).await.unwrap();
    assert_eq!(session.plugin.seen(), ["remove c9"]);
}

#[tokio::test]
async fn the_plugin_can_ask_the_runtime() {
    let mut session = session(false, "10").await;
    session.registered.recv().await.unwrap();
    session.calls.configure(soon(), &ConfigureRequest::default()).await.unwrap();
    let update = ContainerUpdate { container_id: "c1".to_owned(), ..Default::default() };
    let failed = session.runtime.update_containers(vec![update], Vec::new()).await.unwrap();
    assert_eq!(failed[0].container_id, "c1");
}

#[tokio::test]
async fn the_stub_returns_when_the_runtime_goes() {
    let mut session = session(false, "10").await;
    session.registered.recv().await.unwrap();
    session.calls.configure(soon(), &ConfigureRequest::default()).await.unwrap();
    session.moving.abort();
    session.stub.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_refused_registration_is_an_error_with_the_runtimes_words() {
    let session = session(true, "10").await;
    let error = session.stub.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("recorder") && error.contains("unwanted"), "{error}");
}

#[tokio::test]
async fn an_index_that_is_not_two_digits_never_reaches_the_runtime() {
    let mut session = session(false, "7").await;
    assert!(matches!(session.stub.await.unwrap(), Err(StubError::Index(_))));
    assert!(session.registered.try_recv().is_err());
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_an_error_with_its_path() {
    let stub = Stub::new(Arc::new(Recorder::default()), "recorder", "10").socket("/no/such/nri.sock");
    let error = stub.run().await.unwrap_err().to_string();
    assert!(error.contains("/no/such/nri.sock") && error.contains("NRI is enabled"), "{error}");
}
