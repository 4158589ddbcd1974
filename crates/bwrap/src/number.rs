// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as C's `strtol`, `strtoul` and `strtoull` read them on a 64-bit machine, because callers' arguments are
//! accepted or refused by these rules.

/// What the `strto…` functions see in a text.
struct Scan<'a> {
    negative: bool,
    /// `None`: larger than 64 bits.
    magnitude: Option<u64>,
    /// What follows the number; the whole text when there is no number.
    rest: &'a [u8],
}

/// Reads blanks, a sign, the prefix of base 0, and digits.
fn scan(text: &[u8], base: u64) -> Scan<'_> {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let unsigned = text.get(blanks..).unwrap_or_default();
    let (negative, unsigned) = match unsigned {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    // A prefix without a digit of its base isn't one: "0x" is a 0 and an "x". glibc knows "0b" since 2.38.
    let (base, digits) = match unsigned {
        [b'0', b'x' | b'X', rest @ ..] if base == 0 && rest.first().is_some_and(u8::is_ascii_hexdigit) => {
            (16, rest)
        }
        [b'0', b'b' | b'B', rest @ ..] if base == 0 && matches!(rest, [b'0' | b'1', ..]) => (2, rest),
        [b'0', ..] if base == 0 => (8, unsigned),
        rest if base == 0 => (10, rest),
        rest => (base, rest),
    };
    let mut magnitude = Some(0_u64);
    let mut length = 0_usize;
    for digit in digits.iter().map_while(|&byte| value(byte).filter(|&digit| digit < base)) {
        magnitude = magnitude
            .and_then(|so_far| so_far.checked_mul(base))
            .and_then(|shifted| shifted.checked_add(digit));
        length = length.saturating_add(1);
    }
    let rest = if length == 0 { text } else { digits.get(length..).unwrap_or_default() };
    Scan { negative, magnitude, rest }
}

/// The value of a digit.
fn value(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(36).map(u64::from)
}

impl Scan<'_> {
    /// The result of `strtol`: the nearest number that fits.
    fn signed(&self) -> i64 {
        let magnitude = self.magnitude.unwrap_or(u64::MAX);
        if self.negative {
            0_i64.checked_sub_unsigned(magnitude).unwrap_or(i64::MIN)
        } else {
            i64::try_from(magnitude).unwrap_or(i64::MAX)
        }
    }

    /// The result of `strtoul`: the largest number when it doesn't fit, and a sign wraps around.
    fn unsigned(&self) -> u64 {
        match self.magnitude {
            None => u64::MAX,
            Some(magnitude) if self.negative => magnitude.wrapping_neg(),
            Some(magnitude) => magnitude,
        }
    }
}

/// A descriptor, user or group: what `strtol` gives, cut to an `int`, if that isn't negative and the text ends there.
///
/// So `4294967296` is 0, and so is every number below the smallest `long`.
pub(crate) fn natural(text: &[u8]) -> Option<i32> {
    let scan = scan(text, 10);
    #[expect(clippy::cast_possible_truncation, reason = "as C assigns a long to an int")]
    let number = scan.signed() as i32;
    (!text.is_empty() && scan.rest.is_empty() && number >= 0).then_some(number)
}

/// Permissions in octal, at most 07777.
pub(crate) fn mode(text: &[u8]) -> Option<u32> {
    let scan = scan(text, 8);
    let number = u32::try_from(scan.unsigned()).ok()?;
    (!text.is_empty() && scan.rest.is_empty() && number <= 0o7777).then_some(number)
}

/// A number of bytes other than 0, in any base that C's constants have. Neither blanks nor signs come first.
pub(crate) fn size(text: &[u8]) -> Option<u64> {
    let scan = scan(text, 0);
    let number = scan.magnitude?;
    (text.first().is_some_and(u8::is_ascii_digit) && scan.rest.is_empty() && number != 0).then_some(number)
}

/// The number with which a text starts, in any base that C's constants have, whatever follows.
pub(crate) fn leading(text: &[u8]) -> u64 {
    scan(text, 0).unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text, and what `strtol` (base 10, assigned to an `int`), `strtoul` (base 8) and `strtoull` (base 0, the text
    /// beginning with a digit) make of it; `None`: not a number up to its end, or for the last out of range. Printed by
    /// a C program with glibc 2.36.
    type Row = (&'static [u8], Option<i32>, Option<u64>, Option<u64>);

    #[rustfmt::skip]
    const TRUTH: &[Row] = &[
        (b"", None, None, None),
        (b"0", Some(0), Some(0), Some(0)),
        (b"5", Some(5), Some(5), Some(5)),
        (b"-0", Some(0), Some(0), None),
        (b"-1", Some(-1), Some(18_446_744_073_709_551_615), None),
        (b" 5", Some(5), Some(5), None),
        (b"\x09\x0a\x0b\x0c\x0d 7", Some(7), Some(7), None),
        (b"\x1f5", None, None, None),
        (b"5 ", None, None, None),
        (b"+5", Some(5), Some(5), None),
        (b"+-5", None, None, None),
        (b"-+5", None, None, None),
        (b"+", None, None, None),
        (b"-", None, None, None),
        (b" ", None, None, None),
        (b"abc", None, None, None),
        (b"5x", None, None, None),
        (b"0x5", None, None, Some(5)),
        (b"0x", None, None, None),
        (b"0b", None, None, None),
        (b"010", Some(10), Some(8), Some(8)),
        (b"08", Some(8), None, None),
        (b"2147483647", Some(2_147_483_647), None, Some(2_147_483_647)),
        (b"2147483648", Some(-2_147_483_648), None, Some(2_147_483_648)),
        (b"4294967295", Some(-1), None, Some(4_294_967_295)),
        (b"4294967296", Some(0), None, Some(4_294_967_296)),
        (b"4294967297", Some(1), None, Some(4_294_967_297)),
        (b"-4294967295", Some(1), None, None),
        (b"-4294967296", Some(0), None, None),
        (b"-2147483648", Some(-2_147_483_648), None, None),
        (b"-2147483649", Some(2_147_483_647), None, None),
        (b"9223372036854775807", Some(-1), None, Some(9_223_372_036_854_775_807)),
        (b"9223372036854775808", Some(-1), None, Some(9_223_372_036_854_775_808)),
        (b"-9223372036854775808", Some(0), None, None),
        (b"-9223372036854775809", Some(0), None, None),
        (b"99999999999999999999999x", None, None, None),
        (b"99999999999999999999999", Some(-1), None, None),
        (b"-99999999999999999999999", Some(0), None, None),
        (b"18446744073709551615", Some(-1), None, Some(18_446_744_073_709_551_615)),
        (b"18446744073709551616", Some(-1), None, None),
        (b"-18446744073709551615", Some(0), None, None),
        (b"000000000000000000000000000000012", Some(12), Some(10), Some(10)),
        (b"\xff", None, None, None),
        (b"5\xff", None, None, None),
        (b"1_000", None, None, None),
        (b"0755", Some(755), Some(493), Some(493)),
        (b"755", Some(755), Some(493), Some(755)),
        (b"7777", Some(7777), Some(4095), Some(7777)),
        (b"10000", Some(10000), Some(4096), Some(10000)),
        (b"-755", Some(-755), Some(18_446_744_073_709_551_123), None),
        (b"1777777777777777777777", Some(-1), Some(18_446_744_073_709_551_615), None),
        (b"2000000000000000000000", Some(-1), Some(18_446_744_073_709_551_615), None),
        (b"-1777777777777777777777", Some(0), Some(1), None),
        (b"-2000000000000000000000", Some(0), Some(18_446_744_073_709_551_615), None),
        (b"8", Some(8), None, Some(8)),
        (b"78", Some(78), None, Some(78)),
        (b"0X1f", None, None, Some(31)),
        (b"0xffffffffffffffff", None, None, Some(18_446_744_073_709_551_615)),
        (b"0x10000000000000000", None, None, None),
        (b"0x7fffffffffffffff", None, None, Some(9_223_372_036_854_775_807)),
        (b"0x8000000000000000", None, None, Some(9_223_372_036_854_775_808)),
        (b"+0x10", None, None, None),
        (b"0x-1", None, None, None),
        (b"0x+1", None, None, None),
        (b"0xg", None, None, None),
        (b"- 5", None, None, None),
        (b"0 x5", None, None, None),
    ];

    #[test]
    fn numbers_are_those_of_glibc() {
        for &(text, decimal, octal, any) in TRUTH {
            assert_eq!(natural(text), decimal.filter(|&number| number >= 0), "{}", text.escape_ascii());
            let octal = octal.and_then(|number| u32::try_from(number).ok());
            assert_eq!(mode(text), octal.filter(|&number| number <= 0o7777), "{}", text.escape_ascii());
            assert_eq!(size(text), any.filter(|&number| number != 0), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_size_may_be_binary_as_in_newer_glibc() {
        assert_eq!(size(b"0b101"), Some(5));
        assert_eq!(size(b"0B1"), Some(1));
        assert_eq!(size(b"0b"), None);
        assert_eq!(size(b"0b2"), None);
    }

    #[test]
    fn a_leading_number_ends_where_it_ends() {
        assert_eq!(leading(b"21abc"), 21);
        assert_eq!(leading(b"0x15zz"), 21);
        assert_eq!(leading(b"0x"), 0);
        assert_eq!(leading(b"08"), 0);
        assert_eq!(leading(b"99999999999999999999999"), u64::MAX);
    }
}
