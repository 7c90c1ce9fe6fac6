//! The order of entries that the loader's binary search relies on: by name as `_dl_cache_libcmp` compares, the greatest first.
use crate::Entry;
use std::cmp::Ordering;
use std::ffi::c_char;

/// Set in the hwcap of entries from `glibc-hwcaps` folders.
const NAMED: u64 = 1 << 62;

/// The order of ldconfig's own entries: entries from `glibc-hwcaps` folders first, since the loader stops at the first other one.
pub(crate) fn entries(one: &Entry, other: &Entry) -> Ordering {
    let named = |entry: &Entry| entry.hwcap & NAMED != 0;
    let rest = if named(one) && named(other) {
        // The names are sorted, so their places are, too.
        (one.hwcap & 0xffff_ffff).cmp(&(other.hwcap & 0xffff_ffff))
    } else {
        let key = |entry: &Entry| (named(entry), entry.hwcap.count_ones(), entry.hwcap, entry.os_version);
        key(other).cmp(&key(one))
    };
    // ldconfig compares the flags as signed numbers; so it matters only for flags that no library has.
    names(other.name.as_bytes(), one.name.as_bytes()).then(other.flags.cmp(&one.flags)).then(rest)
}

/// `_dl_cache_libcmp`: digits are numbers and greater than every other byte; other bytes are what C's `char` makes of them.
pub(crate) fn names(mut one: &[u8], mut other: &[u8]) -> Ordering {
    loop {
        let (first, second) = (take(&mut one), take(&mut other));
        if first != second || first == Token::Byte(0) {
            return first.cmp(&second);
        }
    }
}

/// What two names are compared by; the order of the variants counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Token {
    /// A byte that is no digit; 0 at the end.
    Byte(c_char),
    /// A run of digits; glibc's number overflows as an `int` does.
    Number(i32),
}

/// Takes the next token off the name.
fn take(name: &mut &[u8]) -> Token {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some((run, rest)) = name.split_at_checked(digits.max(1)) else {
        return Token::Byte(0);
    };
    *name = rest;
    match run {
        [byte] if digits == 0 => Token::Byte(c_char::from_ne_bytes([*byte])),
        digits => Token::Number(
            digits.iter().fold(0, |sum: i32, byte| sum.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_glibc_does() {
        let sorted = ["", "-", "a", "liba.so", "liba.so.2", "liba.so.10", "liba2", "lib1.so", "lib02.so", "lib9", "1"];
        for (at, one) in sorted.iter().enumerate() {
            for (place, other) in sorted.iter().enumerate() {
                assert_eq!(names(one.as_bytes(), other.as_bytes()), at.cmp(&place), "{one} {other}");
            }
        }
        assert_eq!(names(b"lib01", b"lib1"), Ordering::Equal);
        assert_eq!(names(b"a99999999999999999999", b"a99999999999999999999"), Ordering::Equal);
    }
}
