//! What a process is told of its share, as if it were the card. Nothing here can underflow, and nothing is promised that is not there.
use quota::Bytes;

/// Total, used and free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The smaller of quota and card.
    pub total: u64,
    /// The container's own use, at most the total.
    pub used: u64,
    /// What can really be allocated.
    pub free: u64,
}

/// What a container with `quota` and `used` is told of a card that the driver says has `free` of `total` bytes.
///
/// Applied to its own result it changes nothing: NVML calls itself, and an answer can pass through here twice.
#[must_use]
pub fn told(quota: Bytes, used: Bytes, free: u64, total: u64) -> Told {
    let total = quota.0.min(total);
    let used = used.0.min(total);
    Told { total, used, free: free.min(total - used) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_share_is_the_card() {
        assert_eq!(told(Bytes(1024), Bytes(1000), 15_000, 16_130), Told { total: 1024, used: 1000, free: 24 });
        assert_eq!(told(Bytes(1024), Bytes(0), 500, 16_130), Told { total: 1024, used: 0, free: 500 });
        assert_eq!(told(Bytes(99_999), Bytes(0), 16_130, 16_130), Told { total: 16_130, used: 0, free: 16_130 });
        assert_eq!(told(Bytes(1024), Bytes(2000), 15_000, 16_130), Told { total: 1024, used: 1024, free: 0 });
    }

    proptest! {
        #[test]
        fn twice_is_once(quota: u64, used: u64, free: u64, total: u64) {
            let once = told(Bytes(quota), Bytes(used), free, total);
            prop_assert!(once.used.checked_add(once.free).is_some_and(|sum| sum <= once.total));
            prop_assert_eq!(told(Bytes(quota), Bytes(used), once.free, once.total), once);
        }
    }
}
