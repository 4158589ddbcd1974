// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this program's file carries a package, told by bytes in the file itself.
//!
//! Looking for a trailer at the end of the file would cost every launch an `open` and a `read`. These bytes are mapped
//! with the rest of the program; packaging overwrites them in a copy of the file.

/// How many bytes there are, and what they are aligned to, in memory and so in the file.
pub const LENGTH: usize = 128;
/// How many of them are the mark by which they are found in a file.
pub const MARK: usize = 32;

#[repr(C, align(128))]
struct Trailer([u8; LENGTH]);

/// The mark stands in the file once: nothing else may hold its text.
#[used]
static TRAILER: Trailer = Trailer(fresh(*b"\x9e\x01palisade: here begins a seal\xf7\x13"));

const fn fresh(mark: [u8; MARK]) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut at = 0;
    while at < MARK {
        bytes[at] = mark[at];
        at += 1;
    }
    bytes
}

/// The bytes as they are in the file that was started.
#[must_use]
pub fn read() -> [u8; LENGTH] {
    // SAFETY: needed because the compiler knows what the static is made with, and may answer without reading what
    // stands in the file. Sound: a static is valid for reads for as long as the program runs, and nothing writes to it.
    unsafe { core::ptr::read_volatile(&raw const TRAILER.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_program_carries_nothing() {
        let trailer = read();
        assert!(trailer[..MARK].windows(8).any(|word| word == b"palisade"));
        assert_eq!(trailer[MARK..], [0; LENGTH - MARK]);
    }

    #[test]
    fn the_mark_stands_in_the_file_once_and_aligned() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let mark = &read()[..MARK];
        let found: Vec<usize> =
            file.windows(MARK).enumerate().filter(|(_, bytes)| *bytes == mark).map(|(at, _)| at).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0] % LENGTH, 0);
    }
}
