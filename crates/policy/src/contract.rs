//! Every env key, annotation and label that we honour, with its parse rule. They stand nowhere else.
//!
//! Sources: the cGPU user documentation, the gpushare device plugin and scheduler extender, the NVIDIA container toolkit.

/// Env: the container's quota, a positive whole number in the node's unit. Its absence means that no share is asked.
pub const MEM_CONTAINER: &str = "ALIYUN_COM_GPU_MEM_CONTAINER";
/// Env and pod annotation: what one card of the node counts, in the same unit.
pub const MEM_DEV: &str = "ALIYUN_COM_GPU_MEM_DEV";
/// Pod annotation: the pod's total in that unit. The env of this name is information only.
pub const MEM_POD: &str = "ALIYUN_COM_GPU_MEM_POD";
/// Env and pod annotation: index of the chosen card; `-1` means that allocation failed.
pub const MEM_IDX: &str = "ALIYUN_COM_GPU_MEM_IDX";
/// Pod annotation: `false` until the device plugin has handed the card over.
pub const MEM_ASSIGNED: &str = "ALIYUN_COM_GPU_MEM_ASSIGNED";
/// Env: cards to share, indexes or UUIDs (cGPU's Docker form).
pub const VISIBLE_DEVICES: &str = "ALIYUN_COM_GPU_VISIBLE_DEVICES";
/// Env: cards to give, indexes, UUIDs, `all`, `none` or `void`; or the failure text of the gpushare device plugin.
pub const NVIDIA_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
/// Env: `true` or `1` opts out of isolation.
pub const DISABLE: &str = "CGPU_DISABLE";
/// Pod annotation: `{"<container index>": {"<card index>": <quota>}}`.
pub const ALLOCATION: &str = "scheduler.framework.gpushare.allocation";
/// Pod label: the share is over this many cards in equal parts.
pub const GPU_COUNT: &str = "aliyun.com/gpu-count";
/// Env (ours, information for the application): the quota in MiB, over all cards.
pub const QUOTA_MIB: &str = "GPU_QUOTA_MEMORY_MIB";

/// How the gpushare device plugin begins `NVIDIA_VISIBLE_DEVICES` when no card fits.
pub const FAILURE_PREFIX: &str = "no-gpu-has-";
/// `MEM_IDX` when allocation failed.
pub const FAILED_IDX: &str = "-1";
/// A node whose card counts more than this counts in MiB; the peers guess so.
pub const MOST_GIB: u64 = 100;

/// A positive whole number, blanks around it allowed.
#[must_use]
pub fn positive(text: &str) -> Option<u64> {
    let digits = text.trim();
    let plain = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    if plain { digits.parse().ok().filter(|number| *number > 0) } else { None }
}

/// A card's index, blanks around it allowed.
#[must_use]
pub fn index(text: &str) -> Option<u32> {
    let digits = text.trim();
    let plain = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// `true`/`1` and `false`/`0`, any case, blanks around allowed; `None` for other words. An empty value says no.
#[must_use]
pub fn yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" | "" => Some(false),
        _ => None,
    }
}
