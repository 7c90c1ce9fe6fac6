//! What a decision means for the container, as CDI edits: the second pure step.
use crate::contract::{MEM_DEV, MEM_IDX, QUOTA_MIB, positive};
use crate::decide::unit;
use crate::decision::{Decision, Grant, Outcome};
use crate::node::Node;
use crate::request::Request;
use cdi::{ContainerEdits, Mount};
use quota::{Bytes, paths};

/// Where the files of one isolated container lie on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The interposer.
    pub library: String,
    /// The one-line list for `/etc/ld.so.preload`.
    pub preload: String,
    /// The limits file.
    pub limits: String,
    /// The ledger.
    pub ledger: String,
}

/// Why a decision cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    /// An isolated container without the files that hold it.
    #[error("an isolated container needs the interposer and its files, and no place for them was given")]
    NoPlacement,
    /// The decision was made for another node.
    #[error("the decision names card {0}, which this node does not have")]
    UnknownCard(u32),
}

/// The edits that carry out a decision. A refusal and a container that is not ours have none.
///
/// # Errors
/// [`AdjustError`]; a device node is never part of an answer without the interposer that guards it.
pub fn adjust(
    decision: &Decision,
    request: &Request,
    node: &Node,
    placement: Option<&Placement>,
) -> Result<ContainerEdits, AdjustError> {
    match &decision.outcome {
        Outcome::NotOurs | Outcome::Deny(_) => Ok(ContainerEdits::default()),
        Outcome::Whole(grants) => devices(grants, node),
        Outcome::Share(grants) => {
            let placement = placement.ok_or(AdjustError::NoPlacement)?;
            let mut edits = devices(grants, node)?;
            edits.merge(&ContainerEdits {
                env: quota_env(grants, request, node),
                mounts: vec![
                    mount(&placement.library, paths::IN_LIBRARY, "ro", false),
                    mount(&placement.preload, paths::IN_PRELOAD, "ro", true),
                    mount(&placement.limits, paths::IN_LIMITS, "ro", true),
                    mount(&placement.ledger, paths::IN_LEDGER, "rw", true),
                ],
                ..ContainerEdits::default()
            });
            Ok(edits)
        }
    }
}

fn devices(grants: &[Grant], node: &Node) -> Result<ContainerEdits, AdjustError> {
    let mut edits = node.common.clone();
    for grant in grants {
        let card = node.card(grant.index).filter(|card| card.id == grant.id);
        edits.merge(&card.ok_or(AdjustError::UnknownCard(grant.index))?.edits);
    }
    Ok(edits)
}

fn mount(host: &str, container: &str, access: &str, noexec: bool) -> Mount {
    let options = ["rbind", "rprivate", access, "nosuid", "nodev"];
    let options = options.into_iter().chain(noexec.then_some("noexec"));
    Mount {
        host_path: host.to_owned(),
        container_path: container.to_owned(),
        options: options.map(str::to_owned).collect(),
        mount_type: None,
    }
}

/// What the application can read of its share. Only what the container lacks or has wrong: nothing that matters rests on it.
fn quota_env(grants: &[Grant], request: &Request, node: &Node) -> Vec<String> {
    let said = request.env_seen(MEM_DEV).and_then(positive).map(|dev| (MEM_DEV, dev));
    let mut env = Vec::new();
    let total = grants.iter().fold(0, |sum, grant| u64::saturating_add(sum, grant.bytes.0));
    env.push(format!("{QUOTA_MIB}={}", Bytes(total).mib()));
    if let (None, Some(first)) = (said, grants.first()) {
        env.push(format!("{MEM_DEV}={}", unit(node, None).count(first.total)));
    }
    if let [only] = grants
        && request.env_seen(MEM_IDX).map(str::trim) != Some(only.index.to_string().as_str())
    {
        env.push(format!("{MEM_IDX}={}", only.index));
    }
    env
}
