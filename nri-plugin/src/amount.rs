//! An amount of GPU memory as people type it: `5GiB`, `5120MiB`.
use quota::{Bytes, Unit};

/// What is said of an amount that cannot be read.
const ALLOWED: &str = "it must be a whole number with its unit, such as 5GiB or 5120MiB";

/// Reads an amount. The short forms of Kubernetes (`5Gi`) are read too; a number without a unit is not, since nobody could say what it means.
///
/// # Errors
/// The words for whoever typed it.
pub fn parse(text: &str) -> Result<Bytes, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start().to_ascii_lowercase().as_str() {
        "gib" | "gi" => Unit::GiB,
        "mib" | "mi" => Unit::MiB,
        _ => return Err(ALLOWED.to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| ALLOWED.to_owned())?;
    number.checked_mul(unit.bytes()).map(Bytes).ok_or_else(|| "it is larger than any card".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_a_unit() {
        for text in ["5GiB", "5Gi", "5 gib", "5120MiB", "5120mi"] {
            assert_eq!(parse(text), Ok(Bytes(5 << 30)), "{text}");
        }
        for text in
            ["", "5", "GiB", "5GB", "5G", "-5GiB", "1.5GiB", "5GiBs", "99999999999GiB", "99999999999999999999MiB"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
