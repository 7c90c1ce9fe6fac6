//! Amounts of GPU memory, and the two rules that turn a share ("3 of 15") into bytes.
use core::fmt;

/// One MiB in bytes.
pub const MIB: u64 = 1 << 20;
/// One GiB in bytes.
pub const GIB: u64 = 1 << 30;

/// An amount of GPU memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `mib` MiB; `None` where that does not fit 64 bits.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Option<Self> {
        match mib.checked_mul(MIB) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// `gib` GiB; `None` where that does not fit 64 bits.
    #[must_use]
    pub const fn from_gib(gib: u64) -> Option<Self> {
        match gib.checked_mul(GIB) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// Whole MiB, rounded down.
    #[must_use]
    pub const fn mib(self) -> u64 {
        self.0 / MIB
    }
}

/// Whole MiB, as `nvidia-smi` prints memory: `3072 MiB`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.mib())
    }
}

/// The unit in which a node counts GPU memory (`aliyun.com/gpu-mem`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 2^20 bytes.
    MiB,
    /// 2^30 bytes.
    GiB,
}

impl Unit {
    /// The unit's size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::MiB => MIB,
            Self::GiB => GIB,
        }
    }

    /// How many whole units a card of this memory counts: a 16,130 MiB card counts 15 in GiB.
    #[must_use]
    pub const fn count(self, memory: Bytes) -> u64 {
        memory.0 / self.bytes()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MiB => "MiB",
            Self::GiB => "GiB",
        })
    }
}

/// How a share becomes bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareRule {
    /// 3 GiB is 3 x 2^30 bytes.
    #[default]
    Exact,
    /// What cGPU does: `floor(card MiB x share / DEV)` MiB, so that DEV shares of 1 fill the card.
    Proportional,
}

impl ShareRule {
    /// The bytes of `share` units on a card of `memory` that counts `dev` units.
    ///
    /// `None` where the result does not fit 64 bits or `dev` is zero.
    #[must_use]
    pub fn bytes(self, share: u64, unit: Unit, dev: u64, memory: Bytes) -> Option<Bytes> {
        match self {
            Self::Exact => share.checked_mul(unit.bytes()).map(Bytes),
            Self::Proportional => {
                let mib = u128::from(memory.mib()) * u128::from(share);
                let mib = mib.checked_div(u128::from(dev))?;
                Bytes::from_mib(u64::try_from(mib).ok()?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: Bytes = Bytes(16_130 * MIB);

    #[test]
    fn exact_is_powers_of_two() {
        assert_eq!(ShareRule::Exact.bytes(3, Unit::GiB, 15, CARD), Some(Bytes(3_221_225_472)));
        assert_eq!(ShareRule::Exact.bytes(3072, Unit::MiB, 16_130, CARD), Some(Bytes(3_221_225_472)));
        assert_eq!(ShareRule::Exact.bytes(u64::MAX, Unit::MiB, 15, CARD), None);
    }

    #[test]
    fn proportional_is_what_cgpu_publishes() {
        let mib = |share| ShareRule::Proportional.bytes(share, Unit::GiB, 15, CARD).map(Bytes::mib);
        assert_eq!(mib(3), Some(3_226));
        assert_eq!(mib(4), Some(4_301));
        assert_eq!(mib(15), Some(16_130));
        assert_eq!(ShareRule::Proportional.bytes(3, Unit::GiB, 0, CARD), None);
    }

    #[test]
    fn the_reference_card_counts_fifteen() {
        assert_eq!(Unit::GiB.count(CARD), 15);
        assert_eq!(Unit::MiB.count(CARD), 16_130);
    }
}
