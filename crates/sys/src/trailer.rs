// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the package trailer: bytes in this program's file that say whether the file carries a package.
//!
//! Looking for a trailer at the end of the file would cost every launch an `open` and a `read`. These bytes are
//! mapped with the rest of the program. Packaging overwrites them in a copy of the file.

/// The trailer's number of bytes, which is also its alignment in memory and so in the file.
pub const LENGTH: usize = 128;
/// The number of bytes that mark the trailer in a file.
pub const MARK: usize = 32;

#[repr(C, align(128))]
struct Trailer([u8; LENGTH]);

/// The mark is in the file once: no other data may contain its text.
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

/// The trailer as it is in the executed file.
#[must_use]
pub fn read() -> [u8; LENGTH] {
    // SAFETY: needed because the compiler knows the static's initial value, and may return it without reading the
    // file's content. Sound: a static is valid for reads for as long as the program runs, and nothing writes to it.
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
