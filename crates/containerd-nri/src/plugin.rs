//! What a plugin does: one method for each event, all optional.
use crate::messages::{
    ConfigureRequest, Container, ContainerAdjustment, ContainerUpdate, Event, LinuxResources, PodSandbox,
};
use async_trait::async_trait;
use std::ops::BitOr;

/// The events that a plugin wants: bit N-1 stands for event N of the protocol's `Event`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventMask(i32);

impl EventMask {
    /// A pod's sandbox is about to run.
    pub const RUN_POD_SANDBOX: Self = Self::of(Event::RUN_POD_SANDBOX);
    /// A pod's sandbox has stopped.
    pub const STOP_POD_SANDBOX: Self = Self::of(Event::STOP_POD_SANDBOX);
    /// A pod's sandbox is removed.
    pub const REMOVE_POD_SANDBOX: Self = Self::of(Event::REMOVE_POD_SANDBOX);
    /// A container is about to be created.
    pub const CREATE_CONTAINER: Self = Self::of(Event::CREATE_CONTAINER);
    /// A container was created.
    pub const POST_CREATE_CONTAINER: Self = Self::of(Event::POST_CREATE_CONTAINER);
    /// A container is about to start.
    pub const START_CONTAINER: Self = Self::of(Event::START_CONTAINER);
    /// A container has started.
    pub const POST_START_CONTAINER: Self = Self::of(Event::POST_START_CONTAINER);
    /// A container's resources are about to change.
    pub const UPDATE_CONTAINER: Self = Self::of(Event::UPDATE_CONTAINER);
    /// A container's resources have changed.
    pub const POST_UPDATE_CONTAINER: Self = Self::of(Event::POST_UPDATE_CONTAINER);
    /// A container has stopped.
    pub const STOP_CONTAINER: Self = Self::of(Event::STOP_CONTAINER);
    /// A container is removed.
    pub const REMOVE_CONTAINER: Self = Self::of(Event::REMOVE_CONTAINER);

    const fn of(event: Event) -> Self {
        Self(1 << (event as i32 - 1))
    }

    /// The number that the protocol's `ConfigureResponse` carries.
    #[must_use]
    pub const fn bits(self) -> i32 {
        self.0
    }
}

impl BitOr for EventMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Why a plugin refuses a request. The text reaches the user: an error of [`Plugin::create_container`] fails the creation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginError(String);

impl PluginError {
    /// An error with this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// A plugin. Methods of events that [`Plugin::events`] does not name are not called.
///
/// The runtime waits about two seconds for an answer and then goes on without the plugin. A method that panics is an error answer to that one
/// request.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// The events that the plugin wants.
    fn events(&self) -> EventMask;

    /// The runtime hands over the plugin's configuration and says who it is.
    ///
    /// # Errors
    /// The runtime then drops the plugin.
    async fn configure(&self, request: ConfigureRequest) -> Result<(), PluginError> {
        let _ = request;
        Ok(())
    }

    /// All pods and containers that the runtime has; called once for each connection, whole, before any event.
    ///
    /// # Errors
    /// The runtime then drops the plugin.
    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, PluginError> {
        let _ = (pods, containers);
        Ok(Vec::new())
    }

    /// A pod's sandbox is about to run.
    ///
    /// # Errors
    /// The pod is then not run.
    async fn run_pod_sandbox(&self, pod: PodSandbox) -> Result<(), PluginError> {
        let _ = pod;
        Ok(())
    }

    /// A pod's sandbox has stopped.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn stop_pod_sandbox(&self, pod: PodSandbox) -> Result<(), PluginError> {
        let _ = pod;
        Ok(())
    }

    /// A pod's sandbox is removed.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn remove_pod_sandbox(&self, pod: PodSandbox) -> Result<(), PluginError> {
        let _ = pod;
        Ok(())
    }

    /// A container is about to be created; the answer changes it, and may change others.
    ///
    /// # Errors
    /// The container is then not created, and the text reaches the user.
    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<(ContainerAdjustment, Vec<ContainerUpdate>), PluginError> {
        let _ = (pod, container);
        Ok(Default::default())
    }

    /// A container was created.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn post_create_container(&self, pod: PodSandbox, container: Container) -> Result<(), PluginError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is about to start.
    ///
    /// # Errors
    /// The container is then not started.
    async fn start_container(&self, pod: PodSandbox, container: Container) -> Result<(), PluginError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container has started.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn post_start_container(&self, pod: PodSandbox, container: Container) -> Result<(), PluginError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container's resources are about to change.
    ///
    /// # Errors
    /// The change then fails.
    async fn update_container(
        &self,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Result<Vec<ContainerUpdate>, PluginError> {
        let _ = (pod, container, resources);
        Ok(Vec::new())
    }

    /// A container's resources have changed.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn post_update_container(&self, pod: PodSandbox, container: Container) -> Result<(), PluginError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container has stopped, by itself or on request.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn stop_container(&self, pod: PodSandbox, container: Container) -> Result<Vec<ContainerUpdate>, PluginError> {
        let _ = (pod, container);
        Ok(Vec::new())
    }

    /// A container is removed.
    ///
    /// # Errors
    /// The runtime logs it.
    async fn remove_container(&self, pod: PodSandbox, container: Container) -> Result<(), PluginError> {
        let _ = (pod, container);
        Ok(())
    }

    /// The runtime asks the plugin to end.
    async fn shutdown(&self) {}
}
