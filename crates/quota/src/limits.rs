//! The limits file: what a container may use of which card. The host writes it, the container reads it through a read-only mount.
//!
//! Fixed layout, little-endian, [`LIMITS_LEN`] bytes:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`], which names the version |
//! | 8 | 4 | number of cards, 1 to [`MAX_CARDS`] |
//! | 12 | 4 | flags: bit 0, managed memory is not counted; the others are zero |
//! | 16 | 48 each | card: kind (0 GPU, 1 MIG) and seven zero bytes, UUID (16), quota (8), the card's memory (8), context (8), all in bytes |
//! | 784 | 8 | FNV-1a (64 bits) of all bytes before |
//!
//! Unused cards are zero. A reader refuses anything else, so that a damaged file never means "no limit".
//!
//! The host may change a quota while the container runs: it writes the whole file in place, in one call. A process that maps the file reads the quota
//! anew at each use, at [`quota_word`]; one that starts in that moment may find a wrong checksum, and reads again.
use crate::card::CardKind;
use crate::{Bytes, CardId};
use core::fmt;

/// The first eight bytes; the digit is the version of the layout.
pub const MAGIC: [u8; 8] = *b"GPUQLIM2";
/// The most cards that one container can have shares of.
pub const MAX_CARDS: usize = 16;
const HEAD: usize = 16;
const ROW: usize = 48;
const QUOTA_IN_ROW: usize = 24;
const MANAGED_UNCOUNTED: u32 = 1;
const SUM_AT: usize = HEAD + ROW * MAX_CARDS;
/// The size of a limits file in bytes.
pub const LIMITS_LEN: usize = SUM_AT + 8;

/// A share of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardLimit {
    /// The card.
    pub id: CardId,
    /// What the container may use of it; above zero.
    pub quota: Bytes,
    /// The card's whole memory; at least the quota.
    pub total: Bytes,
    /// Charged once for each process that has a context on the card: what the driver takes for itself. Zero until the host has measured it.
    pub context: Bytes,
}

const NO_CARD: CardLimit = CardLimit {
    id: CardId { kind: CardKind::Gpu, uuid: [0; 16] },
    quota: Bytes(0),
    total: Bytes(0),
    context: Bytes(0),
};

/// Whether memory that can move to the host (`cuMemAllocManaged`) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Managed {
    /// In full, so that a share cannot be passed with it.
    #[default]
    Counted,
    /// Not at all: the node's owner lets the driver page it between card and host.
    Uncounted,
}

/// The shares of one container; at least one, no card twice. A card's place in the list is its place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    cards: [CardLimit; MAX_CARDS],
    count: usize,
    managed: Managed,
}

/// Why shares cannot be written, or bytes are no limits file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsError {
    /// Not [`LIMITS_LEN`] bytes.
    Length,
    /// Does not begin with [`MAGIC`]: no limits file, or one of another version.
    Magic,
    /// The checksum does not fit: the file is damaged.
    Checksum,
    /// No card, or more than [`MAX_CARDS`].
    Count,
    /// A quota of zero, or above the card's memory.
    Quota,
    /// The same card twice.
    Duplicate,
    /// A byte that must be zero is not, or a card is of no known kind.
    Reserved,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the limits file has the wrong length",
            Self::Magic => "the limits file is of another version, or none at all",
            Self::Checksum => "the limits file is damaged",
            Self::Count => "a container can have shares of 1 to 16 cards",
            Self::Quota => "a quota must be above zero and at most the card's memory",
            Self::Duplicate => "the same card occurs twice",
            Self::Reserved => "the limits file holds a value that this version does not know",
        })
    }
}

impl core::error::Error for LimitsError {}

impl Limits {
    /// The shares of `cards`.
    ///
    /// # Errors
    /// [`LimitsError::Count`], [`LimitsError::Quota`], [`LimitsError::Duplicate`].
    pub fn new(cards: &[CardLimit]) -> Result<Self, LimitsError> {
        if cards.is_empty() || cards.len() > MAX_CARDS {
            return Err(LimitsError::Count);
        }
        let mut all = [NO_CARD; MAX_CARDS];
        for (at, (to, card)) in all.iter_mut().zip(cards).enumerate() {
            if card.quota.0 == 0 || card.quota > card.total {
                return Err(LimitsError::Quota);
            }
            if cards.iter().take(at).any(|other| other.id == card.id) {
                return Err(LimitsError::Duplicate);
            }
            *to = *card;
        }
        Ok(Self { cards: all, count: cards.len(), managed: Managed::Counted })
    }

    /// The same with another rule for managed memory.
    #[must_use]
    pub fn with_managed(self, managed: Managed) -> Self {
        Self { managed, ..self }
    }

    /// Whether managed memory counts.
    #[must_use]
    pub fn managed(&self) -> Managed {
        self.managed
    }

    /// The shares, in ledger order.
    #[must_use]
    pub fn cards(&self) -> &[CardLimit] {
        self.cards.get(..self.count).unwrap_or(&[])
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> [u8; LIMITS_LEN] {
        let mut out = [0_u8; LIMITS_LEN];
        put(&mut out, 0, &MAGIC);
        put(&mut out, 8, &u32::try_from(self.count).unwrap_or(0).to_le_bytes());
        let flags = if self.managed == Managed::Uncounted { MANAGED_UNCOUNTED } else { 0 };
        put(&mut out, 12, &flags.to_le_bytes());
        for (at, card) in self.cards().iter().enumerate() {
            let row = HEAD + at * ROW;
            put(&mut out, row, &[card.id.kind as u8]);
            put(&mut out, row + 8, &card.id.uuid);
            put(&mut out, row + QUOTA_IN_ROW, &card.quota.0.to_le_bytes());
            put(&mut out, row + 32, &card.total.0.to_le_bytes());
            put(&mut out, row + 40, &card.context.0.to_le_bytes());
        }
        let sum = fnv1a(out.get(..SUM_AT).unwrap_or(&[]));
        put(&mut out, SUM_AT, &sum.to_le_bytes());
        out
    }

    /// Reads a limits file; any bytes are allowed.
    ///
    /// # Errors
    /// [`LimitsError`] for every byte string that [`Limits::encode`] cannot have made.
    pub fn decode(bytes: &[u8]) -> Result<Self, LimitsError> {
        if bytes.len() != LIMITS_LEN {
            return Err(LimitsError::Length);
        }
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(LimitsError::Magic);
        }
        if number(bytes, SUM_AT) != Some(fnv1a(bytes.get(..SUM_AT).unwrap_or(&[]))) {
            return Err(LimitsError::Checksum);
        }
        let head = number(bytes, 8).ok_or(LimitsError::Length)?;
        let managed = match head >> 32 {
            0 => Managed::Counted,
            flags if flags == u64::from(MANAGED_UNCOUNTED) => Managed::Uncounted,
            _ => return Err(LimitsError::Reserved),
        };
        let count = usize::try_from(head & u64::from(u32::MAX)).map_err(|_| LimitsError::Count)?;
        if count == 0 || count > MAX_CARDS {
            return Err(LimitsError::Count);
        }
        let mut cards = [NO_CARD; MAX_CARDS];
        for (at, card) in cards.iter_mut().enumerate() {
            let row = HEAD + at * ROW;
            let kind = number(bytes, row).ok_or(LimitsError::Length)?;
            let mut uuid = [0_u8; 16];
            for (to, from) in uuid.iter_mut().zip(bytes.get(row + 8..row + 24).unwrap_or(&[])) {
                *to = *from;
            }
            *card = CardLimit {
                id: CardId {
                    kind: match kind {
                        0 => CardKind::Gpu,
                        1 => CardKind::Mig,
                        _ => return Err(LimitsError::Reserved),
                    },
                    uuid,
                },
                quota: Bytes(number(bytes, row + QUOTA_IN_ROW).ok_or(LimitsError::Length)?),
                total: Bytes(number(bytes, row + 32).ok_or(LimitsError::Length)?),
                context: Bytes(number(bytes, row + 40).ok_or(LimitsError::Length)?),
            };
            if at >= count && *card != NO_CARD {
                return Err(LimitsError::Reserved);
            }
        }
        Ok(Self::new(cards.get(..count).unwrap_or(&[]))?.with_managed(managed))
    }
}

/// The place of a card's quota in a limits file, counted in 64-bit words.
#[must_use]
pub const fn quota_word(card: usize) -> usize {
    (HEAD + ROW * card + QUOTA_IN_ROW) / 8
}

const _: () = assert!((HEAD + QUOTA_IN_ROW).is_multiple_of(8) && ROW.is_multiple_of(8));

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in out.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

/// FNV-1a with 64 bits (draft-eastlake-fnv): finds damage, not forgery, against which stands the read-only mount.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(uuid: u8, quota: u64) -> CardLimit {
        let id = CardId { kind: CardKind::Gpu, uuid: [uuid; 16] };
        CardLimit { id, quota: Bytes(quota), total: Bytes(100), context: Bytes(0) }
    }

    fn resum(bytes: &mut [u8]) {
        let sum = fnv1a(&bytes[..SUM_AT]);
        bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    #[test]
    fn reads_what_it_writes() {
        let mut mig = limit(2, 100);
        mig.id.kind = CardKind::Mig;
        mig.context = Bytes(7);
        let limits = Limits::new(&[limit(1, 3), mig]).unwrap();
        assert_eq!(Limits::decode(&limits.encode()), Ok(limits));
        assert_eq!(limits.cards(), [limit(1, 3), mig]);
        let loose = limits.with_managed(Managed::Uncounted);
        assert_eq!(Limits::decode(&loose.encode()).map(|limits| limits.managed()), Ok(Managed::Uncounted));
        assert_ne!(loose, limits);
    }

    #[test]
    fn a_quota_is_where_its_word_is_said_to_be() {
        let bytes = Limits::new(&[limit(1, 3), limit(2, 77)]).unwrap().encode();
        for (card, quota) in [(0, 3), (1, 77), (2, 0)] {
            assert_eq!(number(&bytes, quota_word(card) * 8), Some(quota));
        }
    }

    #[test]
    fn shares_that_mean_nothing_are_refused() {
        assert_eq!(Limits::new(&[]), Err(LimitsError::Count));
        assert_eq!(Limits::new(&[limit(1, 1); 17]), Err(LimitsError::Count));
        assert_eq!(Limits::new(&[limit(1, 0)]), Err(LimitsError::Quota));
        assert_eq!(Limits::new(&[limit(1, 101)]), Err(LimitsError::Quota));
        assert_eq!(Limits::new(&[limit(1, 1), limit(1, 2)]), Err(LimitsError::Duplicate));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = Limits::new(&[limit(1, 3)]).unwrap().encode();
        for at in 0..LIMITS_LEN {
            for bit in 0..8 {
                let mut bad = good;
                bad[at] ^= 1 << bit;
                assert!(Limits::decode(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_right_checksum_does_not_make_nonsense_right() {
        let good = Limits::new(&[limit(1, 3)]).unwrap().encode();
        for (at, value, error) in [
            (0, b'X', LimitsError::Magic),
            (7, b'1', LimitsError::Magic),
            (8, 0, LimitsError::Count),
            (8, 17, LimitsError::Count),
            (12, 2, LimitsError::Reserved),
            (16, 2, LimitsError::Reserved),
            (17, 1, LimitsError::Reserved),
            (HEAD + ROW, 1, LimitsError::Reserved),
            (HEAD + ROW * 15 + 47, 1, LimitsError::Reserved),
            (HEAD + 24, 0, LimitsError::Quota),
            (HEAD + 31, 1, LimitsError::Quota),
        ] {
            let mut bad = good;
            bad[at] = value;
            resum(&mut bad);
            assert_eq!(Limits::decode(&bad), Err(error), "byte {at}");
        }
        assert_eq!(Limits::decode(&good[..LIMITS_LEN - 1]), Err(LimitsError::Length));
        assert_eq!(Limits::decode(&[]), Err(LimitsError::Length));
    }
}
