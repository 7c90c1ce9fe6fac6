//! `CardId`: the UUID of a GPU or of a MIG instance. Never an index, which changes from boot to boot.
use core::fmt;

/// What kind of thing a UUID names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CardKind {
    /// A whole GPU, written `GPU-...`.
    Gpu = 0,
    /// A MIG instance, written `MIG-...`.
    Mig = 1,
}

/// The identity of a card: what NVML's `nvmlDeviceGetUUID` prints and `cuDeviceGetUuid` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId {
    /// GPU or MIG.
    pub kind: CardKind,
    /// The 16 bytes of the UUID, in the order in which they are printed.
    pub uuid: [u8; 16],
}

impl CardId {
    /// Reads `GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76` or `MIG-...`; hexadecimal digits of either case.
    ///
    /// `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, digits) = if let Some(rest) = text.strip_prefix("GPU-") {
            (CardKind::Gpu, rest)
        } else {
            (CardKind::Mig, text.strip_prefix("MIG-")?)
        };
        let digits = digits.as_bytes();
        if digits.len() != 36 {
            return None;
        }
        let mut uuid = [0_u8; 16];
        let mut nibbles = 0_usize;
        for (at, &c) in digits.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return None;
                }
                continue;
            }
            let nibble = match c {
                b'0'..=b'9' => c - b'0',
                b'a'..=b'f' => c - b'a' + 10,
                b'A'..=b'F' => c - b'A' + 10,
                _ => return None,
            };
            let byte = uuid.get_mut(nibbles / 2)?;
            *byte = (*byte << 4) | nibble;
            nibbles += 1;
        }
        Some(Self { kind, uuid })
    }
}

/// As NVML prints it, in lower case.
impl fmt::Display for CardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            CardKind::Gpu => "GPU-",
            CardKind::Mig => "MIG-",
        })?;
        for (at, byte) in self.uuid.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn reads_and_prints_what_nvml_prints() {
        let text = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76";
        let id = CardId::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(CardId::parse(&text.replace("8dcd", "8DCD")), Some(id));
        assert_eq!(CardId::parse("MIG-8dcd427f-483b-b48f-d7e5-75fb19a52b76").map(|m| m.kind), Some(CardKind::Mig));
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "GPU-", "0", "all", "GPU-8dcd427f", "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b7g"] {
            assert_eq!(CardId::parse(text), None, "{text}");
        }
        assert_eq!(CardId::parse("GPU-8dcd427f+483b-b48f-d7e5-75fb19a52b76"), None);
        assert_eq!(CardId::parse("GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b760"), None);
    }
}
