//! Everything together: a node, its CDI file, containerd, the daemon, and pods and containers as a kubelet would make them.
use crate::containerd::{Containerd, Release, tail, wait_for};
use crate::cri::Output;
use crate::cri::messages::{
    CdiDevice, ContainerConfig, ContainerMetadata, ImageSpec, KeyValue, LinuxContainerConfig,
    LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, Mount, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
};
use crate::node::Node;
use crate::plugin::{self, Plugin};
use crate::scratch::Scratch;
use crate::{image, parts};
use anyhow::{Context, Result, anyhow, ensure};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

mod daemon;

/// The kind of our CDI devices.
pub const KIND: &str = "gpu-quota.io/gpu";

/// A node with everything on it.
#[derive(Debug)]
pub struct Lab {
    // Dropped in this order: containers and daemons before the folder that they live in.
    plugin: RefCell<Option<Plugin>>,
    /// The runtime.
    pub containerd: Containerd,
    /// The node.
    pub node: Node,
    stage: PathBuf,
    pods: Cell<u32>,
    /// Flags of the daemon beside those of every lab.
    flags: RefCell<Vec<String>>,
    dir: Scratch,
}

/// A pod with one container.
#[derive(Debug)]
pub struct Pod<'a> {
    lab: &'a Lab,
    sandbox: String,
    config: PodSandboxConfig,
    /// The container's id.
    pub id: String,
}

/// What a test asks for.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Environment of the container.
    pub env: Vec<(String, String)>,
    /// Annotations of the pod.
    pub annotations: Vec<(String, String)>,
    /// The container's command; empty: sleep.
    pub command: Vec<String>,
    /// Whether the root file system is read-only.
    pub readonly: bool,
    /// CDI devices that the request names, as a device plugin would.
    pub cdi: Vec<String>,
    /// Volumes: folder on the host, place in the container.
    pub volumes: Vec<(PathBuf, String)>,
}

impl Ask {
    /// A container with this environment.
    #[must_use]
    pub fn env(pairs: &[(&str, &str)]) -> Self {
        let env = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self { env, ..Self::default() }
    }

    /// A share of the reference card, as the gpushare device plugin would hand it over.
    #[must_use]
    pub fn share(gib: &str) -> Self {
        Self::env(&[
            ("ALIYUN_COM_GPU_MEM_CONTAINER", gib),
            ("ALIYUN_COM_GPU_MEM_DEV", "15"),
            ("ALIYUN_COM_GPU_MEM_IDX", "0"),
        ])
    }

    /// The same without isolation.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.env.push(("CGPU_DISABLE".to_owned(), "true".to_owned()));
        self
    }
}

impl Lab {
    /// Brings everything up, with the newest release of containerd.
    ///
    /// # Errors
    /// Where a part does not come up, with the end of its log.
    pub fn start(real_driver: bool) -> Result<Self> {
        Self::start_with(&newest()?, real_driver)
    }

    /// Brings everything up, with a release of containerd.
    ///
    /// # Errors
    /// Where a part does not come up, with the end of its log.
    pub fn start_with(version: &str, real_driver: bool) -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "containers need root; run as root");
        let (stage, cache) = (parts::stage()?, parts::cache()?);
        let dir = Scratch::new()?;
        let node = if real_driver { Node::real() } else { Node::simulated(dir.path(), &stage, &cache, None)? };
        let lab = Self::without_daemon(dir, node, version)?;
        lab.start_plugin()?;
        Ok(lab)
    }

    /// As [`Lab::start`] on a simulated node, but the daemon is started by containerd from its plugin folder.
    ///
    /// # Errors
    /// Where a part does not come up.
    pub fn start_with_installed_plugin() -> Result<Self> {
        let (stage, cache) = (parts::stage()?, parts::cache()?);
        let dir = Scratch::new()?;
        let node = Node::simulated(dir.path(), &stage, &cache, None)?;
        let containerd_dir = dir.path().join("c");
        plugin::install(&containerd_dir.join("nri-plugins"), dir.path(), &stage, &node)?;
        let release = Release::fetched(&cache, &newest()?)?;
        let containerd = Containerd::start(&containerd_dir, release, &cache)?;
        let log = dir.path().join(plugin::LOG);
        wait_for("containerd to start the daemon", || {
            Ok(std::fs::read_to_string(&log).is_ok_and(|log| log.contains("the book is rebuilt")))
        })
        .with_context(|| tail(&log))?;
        Ok(Self {
            plugin: RefCell::new(None),
            containerd,
            node,
            stage,
            pods: Cell::new(0),
            flags: RefCell::default(),
            dir,
        })
    }

    /// A release of containerd on a node that is there already, without the daemon: a container gets what its CDI devices say. containerd looks for
    /// CDI files in `c/cdi` of the scratch folder.
    ///
    /// # Errors
    /// Where containerd does not come up.
    pub fn without_daemon(dir: Scratch, node: Node, version: &str) -> Result<Self> {
        let (stage, cache) = (parts::stage()?, parts::cache()?);
        let containerd = Containerd::start(&dir.path().join("c"), Release::fetched(&cache, version)?, &cache)?;
        Ok(Self {
            plugin: RefCell::new(None),
            containerd,
            node,
            stage,
            pods: Cell::new(0),
            flags: RefCell::default(),
            dir,
        })
    }

    /// The scratch folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs `cdi-gen generate` into containerd's CDI folder, and returns what it said and the file.
    ///
    /// # Errors
    /// Where it fails.
    pub fn generate_cdi(&self) -> Result<(String, PathBuf)> {
        let file = self.dir.path().join("c/cdi/gpu-quota.io-gpu.json");
        Ok((self.node.generate_cdi(&self.stage, KIND, &file, &[])?, file))
    }

    /// The daemon's folder of a container.
    #[must_use]
    pub fn folder(&self, id: &str) -> PathBuf {
        self.dir.path().join("run/containers").join(id)
    }

    /// A running container in a pod of its own.
    ///
    /// # Errors
    /// Where it cannot be created or started.
    pub fn run(&self, ask: &Ask) -> Result<Pod<'_>> {
        let (sandbox, config) = self.sandbox(ask)?;
        let created = self.create(&sandbox, &config, ask);
        match created {
            Ok(id) => {
                let pod = Pod { lab: self, sandbox, config, id };
                self.containerd.cri.start(&pod.id)?;
                Ok(pod)
            }
            Err(words) => {
                self.containerd.cri.remove_pod(&sandbox)?;
                Err(anyhow!(words))
            }
        }
    }

    /// The runtime's words where a container must not be created.
    ///
    /// # Errors
    /// Where it is created.
    pub fn refused(&self, ask: &Ask) -> Result<String> {
        let (sandbox, config) = self.sandbox(ask)?;
        let created = self.create(&sandbox, &config, ask);
        self.containerd.cri.remove_pod(&sandbox)?;
        created.err().context("the container was created")
    }

    fn sandbox(&self, ask: &Ask) -> Result<(String, PodSandboxConfig)> {
        let number = self.pods.get() + 1;
        self.pods.set(number);
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: format!("pod-{number}"),
                uid: format!("uid-{number}"),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            annotations: ask.annotations.iter().cloned().collect(),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(LinuxSandboxSecurityContext { namespace_options: Some(namespaces()) }),
            }),
            ..PodSandboxConfig::default()
        };
        Ok((self.containerd.cri.run_pod(config.clone())?, config))
    }

    fn create(&self, sandbox: &str, config: &PodSandboxConfig, ask: &Ask) -> Result<String, String> {
        let pair = |(key, value): &(String, String)| KeyValue { key: key.clone(), value: value.clone() };
        let sleep = ["/usr/local/bin/sleep".to_owned(), "1000000".to_owned()];
        let volumes = ask.volumes.iter().map(|(host, container)| Mount {
            container_path: container.clone(),
            host_path: host.display().to_string(),
            readonly: false,
        });
        // The simulated driver's state; a real driver keeps its own in the kernel.
        let sim = self.node.sim.as_ref().map(|sim| Mount {
            container_path: "/run/sim-driver".to_owned(),
            host_path: sim.display().to_string(),
            readonly: false,
        });
        let container = ContainerConfig {
            metadata: Some(ContainerMetadata { name: "main".to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: image::GUEST.to_owned() }),
            command: if ask.command.is_empty() { sleep.to_vec() } else { ask.command.clone() },
            envs: ask.env.iter().map(pair).collect(),
            mounts: volumes.chain(sim).collect(),
            cdi_devices: ask.cdi.iter().map(|name| CdiDevice { name: name.clone() }).collect(),
            linux: Some(LinuxContainerConfig {
                security_context: Some(LinuxContainerSecurityContext {
                    namespace_options: Some(namespaces()),
                    readonly_rootfs: ask.readonly,
                }),
            }),
        };
        self.containerd.cri.create(sandbox, config.clone(), container)
    }
}

fn newest() -> Result<String> {
    parts::containerd_versions().pop().context("no release of containerd")
}

/// The host's network, so that no network plugin is needed; pid namespaces as pods have them.
fn namespaces() -> NamespaceOption {
    NamespaceOption { network: NamespaceMode::Node.into(), pid: NamespaceMode::Container.into() }
}

impl Pod<'_> {
    /// Namespace, pod and container.
    #[must_use]
    pub fn name(&self) -> String {
        let metadata = self.config.metadata.clone().unwrap_or_default();
        format!("{}/{}/main", metadata.namespace, metadata.name)
    }

    /// Runs a command in the container to its end.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub fn exec(&self, command: &[&str]) -> Result<Output> {
        self.lab.containerd.cri.exec(&self.id, command)
    }

    /// Runs a command that must succeed, and returns what it printed.
    ///
    /// # Errors
    /// Where it fails, with what it printed.
    pub fn output(&self, command: &[&str]) -> Result<String> {
        let output = self.exec(command)?;
        ensure!(output.code == 0, "{command:?} ended with {}: {}{}", output.code, output.stdout, output.stderr);
        Ok(output.stdout)
    }

    /// Runs the CUDA client, and returns its answers in order.
    ///
    /// # Errors
    /// Where it fails.
    pub fn client(&self, steps: &[&str]) -> Result<Vec<serde_json::Value>> {
        let command = [&["python3.11", "/opt/client.py"], steps].concat();
        answers(&self.output(&command)?)
    }

    /// Waits until a file exists in the container.
    ///
    /// # Errors
    /// Where it never does.
    pub fn wait_for(&self, file: &str) -> Result<()> {
        wait_for(file, || Ok(self.exec(&["ls", file])?.code == 0))
    }

    /// The container's OCI spec, with what differs from container to container (ids, names, the sandbox's pid) taken out.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn plain_spec(&self) -> Result<String> {
        let mut spec = self.lab.containerd.oci_spec(&self.id)?;
        let metadata = self.config.metadata.clone().unwrap_or_default();
        for (own, plain) in
            [(&self.id, "CONTAINER"), (&self.sandbox, "SANDBOX"), (&metadata.name, "POD"), (&metadata.uid, "UID")]
        {
            spec = spec.replace(own.as_str(), plain);
        }
        let mut parts = spec.split("\"/proc/");
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            plain.push_str("\"/proc/");
            plain.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        Ok(plain)
    }
}

/// The values of the client's lines.
///
/// # Errors
/// Where a line is no JSON object of one entry.
pub fn answers(text: &str) -> Result<Vec<serde_json::Value>> {
    let line = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        value.as_object().and_then(|object| object.values().next().cloned()).with_context(|| line.to_owned())
    };
    text.lines().map(line).collect()
}

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        let removed = self.lab.containerd.cri.remove_pod(&self.sandbox);
        if let (Err(error), false) = (removed, std::thread::panicking()) {
            eprintln!("pod {} stays: {error:#}", self.sandbox);
        }
    }
}
