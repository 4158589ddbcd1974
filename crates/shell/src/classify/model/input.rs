// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model's input for a line: [`LENGTH`] numbers, in a tensor of floats of the shape `[1, LENGTH]`.
//!
//! | place | what |
//! |---|---|
//! | 0 | the second tier's score, divided by 16 |
//! | 1, 2, 3 | 1 if the line was typed, pasted, written by a program; else 0 |
//! | 4 | 1 if the line wasn't understood as a whole; else 0 |
//! | 5 | 1 if it would be run by root; else 0 |
//! | 6 | the number of its commands, divided by 16 |
//! | 7 | ln(1 + the number of its bytes), divided by 8 |
//! | 8 … | ln(1 + how often): sequences of 1, 2 and 3 bytes, by hash |
//!
//! Only the first [`BYTES`] bytes of the line count, as UTF-8, without spaces at its ends. A sequence counts at place
//! 8 + (FNV-1a of its length, as one byte, and its bytes, with 32 bits) mod [`HASHED`].

use super::super::verdict::Origin;

/// The number of places for sequences of bytes.
pub const HASHED: usize = 1024;
/// The number of places before them.
const FACTS: usize = 8;
/// The number of all places.
pub const LENGTH: usize = FACTS + HASHED;
/// Only this many bytes of a line count.
pub const BYTES: usize = 4096;

/// The numbers.
pub type Features = Vec<f32>;

/// Facts about a line other than its text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// The sum of the second tier's signs.
    pub score: u32,
    /// Where the line comes from.
    pub origin: Origin,
    /// The line can't be fully parsed.
    pub doubt: bool,
    /// Root would run the line.
    pub root: bool,
    /// How many commands the line has.
    pub commands: usize,
}

/// The place at which a sequence of bytes counts.
#[must_use]
pub fn place(sequence: &[u8]) -> usize {
    let length = u8::try_from(sequence.len()).unwrap_or(u8::MAX);
    let hash = core::iter::once(&length)
        .chain(sequence)
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    FACTS + usize::try_from(hash).unwrap_or_default() % HASHED
}

/// The input for a line.
#[must_use]
pub fn features(line: &str, known: Known) -> Features {
    let flag = |so: bool| if so { 1.0 } else { 0.0 };
    let sixteenth = |number: u32| f32::from(u16::try_from(number).unwrap_or(u16::MAX)) / 16.0;
    let line = line.trim();
    let bytes = line.as_bytes();
    let bytes = bytes.get(..BYTES).unwrap_or(bytes);
    let mut features = vec![0.0_f32; LENGTH];
    for length in 1..=3 {
        for sequence in bytes.windows(length) {
            if let Some(count) = features.get_mut(place(sequence)) {
                *count += 1.0;
            }
        }
    }
    for count in &mut features {
        *count = count.ln_1p();
    }
    let facts = [
        sixteenth(known.score),
        flag(known.origin == Origin::Typed),
        flag(known.origin == Origin::Pasted),
        flag(known.origin == Origin::Machine),
        flag(known.doubt),
        flag(known.root),
        sixteenth(u32::try_from(known.commands).unwrap_or(u32::MAX)),
        f32::from(u16::try_from(line.len()).unwrap_or(u16::MAX)).ln_1p() / 8.0,
    ];
    for (place, fact) in features.iter_mut().zip(facts) {
        *place = fact;
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_always_the_same_numbers() {
        let known = Known { score: 8, origin: Origin::Pasted, doubt: true, commands: 4, ..Known::default() };
        let features = features("  aab ", known);
        assert_eq!(features.len(), LENGTH);
        assert_eq!(&features[..7], &[0.5, 0.0, 1.0, 0.0, 1.0, 0.0, 0.25]);
        // These places were computed separately, from the description above.
        assert_eq!([place(b"a"), place(b"aa"), place(b"aab")], PLACES);
        assert!((features[place(b"a")] - 3.0_f32.ln()).abs() < 1e-6);
        assert!((features[place(b"aab")] - 2.0_f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn any_line_has_finite_numbers() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let features =
                features(&String::from_utf8_lossy(bytes), Known { score: u32::MAX, ..Known::default() });
            assert!(features.len() == LENGTH && features.iter().all(|number| number.is_finite()));
        });
        assert!(features(&"x".repeat(1 << 20), Known::default()).iter().all(|number| number.is_finite()));
    }

    const PLACES: [usize; 3] = [543, 703, 86];
}
