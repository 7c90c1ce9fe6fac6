//! What the node's owner allows.
use quota::ShareRule;

/// The owner's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// How a share becomes bytes.
    pub share: ShareRule,
    /// Who is isolated.
    pub isolation: Isolation,
}

/// Who is isolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Every container that does not opt out.
    #[default]
    PerContainer,
    /// Nobody on this node (node label `cgpu.disable.isolation=true`).
    OffOnNode,
}
