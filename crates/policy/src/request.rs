//! What a container says, as strings. No protocol type: each door fills this in its own way.
use crate::reason::{Quoted, Reason};
use std::collections::BTreeMap;

/// What a container and its pod say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// The process's environment in order; a key can occur more than once, and then the process sees the last.
    pub env: Vec<(String, String)>,
    /// Annotations of the pod, which its author can write too, but not over what the scheduler wrote later.
    pub pod_annotations: BTreeMap<String, String>,
    /// Annotations of the container, which its author cannot write.
    pub container_annotations: BTreeMap<String, String>,
    /// Labels of the pod.
    pub pod_labels: BTreeMap<String, String>,
    /// Where something is mounted already.
    pub mounts: Vec<String>,
    /// Device nodes that are there already.
    pub devices: Vec<String>,
}

impl Request {
    /// All values of an env key, in order.
    pub fn env_values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.env.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// What the process sees for an env key.
    #[must_use]
    pub fn env_seen(&self, key: &str) -> Option<&str> {
        self.env.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The one value of an env key, blanks around it taken off; several equal ones are one.
    ///
    /// A pod's author can append a second value behind the device plugin's, and the process sees the last.
    ///
    /// # Errors
    /// [`Reason::Twice`] where the values differ.
    pub fn env_unique(&self, key: &'static str) -> Result<Option<&str>, Reason> {
        let mut values = self.env.iter().filter(|(name, _)| name == key).map(|(_, value)| value.trim());
        let Some(first) = values.next() else { return Ok(None) };
        match values.find(|other| *other != first) {
            Some(other) => Err(Reason::Twice { key, first: Quoted::new(first), other: Quoted::new(other) }),
            None => Ok(Some(first)),
        }
    }
}
