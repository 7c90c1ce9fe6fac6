//! The service that the runtime calls: takes requests apart for the plugin, gathers what comes in pieces, and turns errors and panics into
//! error answers, so that no request is ever left without one.
use crate::messages::{
    ConfigureRequest, ConfigureResponse, Container, CreateContainerRequest, CreateContainerResponse, Empty, Event,
    PodSandbox, PostCreateContainerRequest, PostCreateContainerResponse, PostStartContainerRequest,
    PostStartContainerResponse, PostUpdateContainerRequest, PostUpdateContainerResponse, RemoveContainerRequest,
    RemoveContainerResponse, RemovePodSandboxRequest, RemovePodSandboxResponse, RunPodSandboxRequest,
    RunPodSandboxResponse, StartContainerRequest, StartContainerResponse, StateChangeEvent, StopContainerRequest,
    StopContainerResponse, StopPodSandboxRequest, StopPodSandboxResponse, SynchronizeRequest, SynchronizeResponse,
    UpdateContainerRequest, UpdateContainerResponse,
};
use crate::plugin::{Plugin, PluginError};
use crate::services;
use async_trait::async_trait;
use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::Mutex;
use tracing::error;
use ttrpc::r#async::TtrpcContext;

/// A plugin behind the protocol's `Plugin` service, for one connection.
pub(crate) struct Service<P> {
    plugin: Arc<P>,
    gathered: Mutex<(Vec<PodSandbox>, Vec<Container>)>,
}

impl<P: Plugin> Service<P> {
    pub(crate) fn new(plugin: Arc<P>) -> Self {
        Self { plugin, gathered: Mutex::default() }
    }
}

/// The answer to a request whose work has ended, one way or another.
async fn answer<T>(work: impl Future<Output = Result<T, PluginError>> + Send) -> ttrpc::Result<T> {
    let text = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(refusal)) => refusal.to_string(),
        Err(panic) => {
            let text = format!("the plugin failed inside: {}", words(panic.as_ref()));
            error!("{text}");
            text
        }
    };
    Err(ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::UNKNOWN, text)))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

#[async_trait]
impl<P: Plugin> services::Plugin for Service<P> {
    async fn configure(&self, _: &TtrpcContext, request: ConfigureRequest) -> ttrpc::Result<ConfigureResponse> {
        answer(self.plugin.configure(request)).await?;
        Ok(ConfigureResponse { events: self.plugin.events().bits(), ..Default::default() })
    }

    async fn synchronize(&self, _: &TtrpcContext, request: SynchronizeRequest) -> ttrpc::Result<SynchronizeResponse> {
        let mut gathered = self.gathered.lock().await;
        gathered.0.extend(request.pods);
        gathered.1.extend(request.containers);
        if request.more {
            return Ok(SynchronizeResponse { more: true, ..Default::default() });
        }
        let (pods, containers) = std::mem::take(&mut *gathered);
        let update = answer(self.plugin.synchronize(pods, containers)).await?;
        Ok(SynchronizeResponse { update, ..Default::default() })
    }

    async fn shutdown(&self, _: &TtrpcContext, _: Empty) -> ttrpc::Result<Empty> {
        answer(async {
            self.plugin.shutdown().await;
            Ok(Empty::default())
        })
        .await
    }

    async fn run_pod_sandbox(&self, _: &TtrpcContext, r: RunPodSandboxRequest) -> ttrpc::Result<RunPodSandboxResponse> {
        answer(self.plugin.run_pod_sandbox(r.pod.unwrap_or_default())).await?;
        Ok(RunPodSandboxResponse::default())
    }

    async fn stop_pod_sandbox(
        &self,
        _: &TtrpcContext,
        r: StopPodSandboxRequest,
    ) -> ttrpc::Result<StopPodSandboxResponse> {
        answer(self.plugin.stop_pod_sandbox(r.pod.unwrap_or_default())).await?;
        Ok(StopPodSandboxResponse::default())
    }

    async fn remove_pod_sandbox(
        &self,
        _: &TtrpcContext,
        r: RemovePodSandboxRequest,
    ) -> ttrpc::Result<RemovePodSandboxResponse> {
        answer(self.plugin.remove_pod_sandbox(r.pod.unwrap_or_default())).await?;
        Ok(RemovePodSandboxResponse::default())
    }

    async fn create_container(
        &self,
        _: &TtrpcContext,
        r: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let (pod, container) = (r.pod.unwrap_or_default(), r.container.unwrap_or_default());
        let (adjust, update) = answer(self.plugin.create_container(pod, container)).await?;
        Ok(CreateContainerResponse { adjust: Some(adjust).into(), update, ..Default::default() })
    }

    async fn post_create_container(
        &self,
        _: &TtrpcContext,
        r: PostCreateContainerRequest,
    ) -> ttrpc::Result<PostCreateContainerResponse> {
        answer(self.plugin.post_create_container(r.pod.unwrap_or_default(), r.container.unwrap_or_default())).await?;
        Ok(PostCreateContainerResponse::default())
    }

    async fn start_container(
        &self,
        _: &TtrpcContext,
        r: StartContainerRequest,
    ) -> ttrpc::Result<StartContainerResponse> {
        answer(self.plugin.start_container(r.pod.unwrap_or_default(), r.container.unwrap_or_default())).await?;
        Ok(StartContainerResponse::default())
    }

    async fn post_start_container(
        &self,
        _: &TtrpcContext,
        r: PostStartContainerRequest,
    ) -> ttrpc::Result<PostStartContainerResponse> {
        answer(self.plugin.post_start_container(r.pod.unwrap_or_default(), r.container.unwrap_or_default())).await?;
        Ok(PostStartContainerResponse::default())
    }

    async fn update_container(
        &self,
        _: &TtrpcContext,
        r: UpdateContainerRequest,
    ) -> ttrpc::Result<UpdateContainerResponse> {
        let (pod, container) = (r.pod.unwrap_or_default(), r.container.unwrap_or_default());
        let resources = r.linux_resources.unwrap_or_default();
        let update = answer(self.plugin.update_container(pod, container, resources)).await?;
        Ok(UpdateContainerResponse { update, ..Default::default() })
    }

    async fn post_update_container(
        &self,
        _: &TtrpcContext,
        r: PostUpdateContainerRequest,
    ) -> ttrpc::Result<PostUpdateContainerResponse> {
        answer(self.plugin.post_update_container(r.pod.unwrap_or_default(), r.container.unwrap_or_default())).await?;
        Ok(PostUpdateContainerResponse::default())
    }

    async fn stop_container(&self, _: &TtrpcContext, r: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
        let update =
            answer(self.plugin.stop_container(r.pod.unwrap_or_default(), r.container.unwrap_or_default())).await?;
        Ok(StopContainerResponse { update, ..Default::default() })
    }

    async fn remove_container(
        &self,
        _: &TtrpcContext,
        r: RemoveContainerRequest,
    ) -> ttrpc::Result<RemoveContainerResponse> {
        answer(self.plugin.remove_container(r.pod.unwrap_or_default(), r.container.unwrap_or_default())).await?;
        Ok(RemoveContainerResponse::default())
    }

    /// How runtimes before NRI 0.12 report the events that have no request of their own there.
    async fn state_change(&self, _: &TtrpcContext, r: StateChangeEvent) -> ttrpc::Result<Empty> {
        let (pod, container) = (r.pod.unwrap_or_default(), r.container.unwrap_or_default());
        match r.event.enum_value_or(Event::UNKNOWN) {
            Event::RUN_POD_SANDBOX => answer(self.plugin.run_pod_sandbox(pod)).await?,
            Event::STOP_POD_SANDBOX => answer(self.plugin.stop_pod_sandbox(pod)).await?,
            Event::REMOVE_POD_SANDBOX => answer(self.plugin.remove_pod_sandbox(pod)).await?,
            Event::POST_CREATE_CONTAINER => answer(self.plugin.post_create_container(pod, container)).await?,
            Event::START_CONTAINER => answer(self.plugin.start_container(pod, container)).await?,
            Event::POST_START_CONTAINER => answer(self.plugin.post_start_container(pod, container)).await?,
            Event::POST_UPDATE_CONTAINER => answer(self.plugin.post_update_container(pod, container)).await?,
            Event::REMOVE_CONTAINER => answer(self.plugin.remove_container(pod, container)).await?,
            // The others are requests in every version, or unknown to this one.
            _ => {}
        }
        Ok(Empty::default())
    }
}
