// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the call sites in a program's or library's file: each `syscall` in the parts that are mapped executable.
//!
//! Other tools find the sites that they patch this way. A scan finds sites that no run reaches, and bytes that only
//! look like an instruction. It finds no code that is written at run time. So here the scan is only compared with the
//! sites that trap.

use crate::site::{self, BEFORE, CALL, Form};

/// A site in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The offset of the `syscall` in the file.
    pub offset: u64,
    /// The form of the bytes before it, if it is known: such a site can be patched.
    pub form: Option<Form>,
}

/// The length of a program header of an `ELF64` file.
const HEADER: usize = 56;
/// How many headers are read: real files have a dozen.
const HEADERS: usize = 128;

/// The sites in a file's executable segments, in order; none if the file isn't a 64-bit ELF file.
#[must_use]
pub fn sites(file: &[u8]) -> Vec<Site> {
    let mut found = Vec::new();
    for (start, end) in executable(file) {
        let code = &file[start..end];
        for place in 0..code.len().saturating_sub(1) {
            if code[place..place + 2] == CALL {
                let before = place.checked_sub(BEFORE).and_then(|from| code[from..place].try_into().ok());
                let form = before.and_then(|before: [u8; BEFORE]| {
                    site::form(&before, u64::from(site::number(&before))).or_else(|| site::form(&before, 0))
                });
                found.push(Site { offset: (start + place) as u64, form });
            }
        }
    }
    found.sort_by_key(|site| site.offset);
    found.dedup_by_key(|site| site.offset);
    found
}

/// The ranges of a file that are mapped executable, as far as they are in the file.
fn executable(file: &[u8]) -> Vec<(usize, usize)> {
    const LOAD: u64 = 1;
    const EXECUTE: u64 = 1;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let text = file.get(at..at.checked_add(bytes)?)?;
        Some(text.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let place = |at: usize| number(at, 8).and_then(|number| usize::try_from(number).ok());
    // 64 bits, lowest byte first.
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Vec::new();
    }
    let (Some(table), Some(size), Some(count)) = (place(32), number(54, 2), number(56, 2)) else {
        return Vec::new();
    };
    if size != HEADER as u64 {
        return Vec::new();
    }
    let segment = |index: usize| -> Option<(usize, usize)> {
        let at = table.checked_add(index * HEADER)?;
        let wanted = number(at, 4)? == LOAD && number(at + 4, 4)? & EXECUTE != 0;
        let (start, length) = (place(at + 8)?, place(at + 32)?);
        let end = start.checked_add(length)?.min(file.len());
        (wanted && start < end).then_some((start, end))
    };
    (0..usize::try_from(count).unwrap_or_default().min(HEADERS)).filter_map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one executable segment.
    fn file(code: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64] = 1;
        file[68] = 5;
        file[72] = 120;
        file[96] = u8::try_from(code.len()).unwrap();
        file.extend(code);
        file
    }

    #[test]
    fn what_is_executed_is_looked_at() {
        let mut code = vec![0x90; 20];
        code.extend([0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x0f, 0x05]);
        let mut file = file(&code);
        let found = sites(&file);
        assert_eq!(found[0], Site { offset: 145, form: Some(Form::Number) });
        assert_eq!(found[1], Site { offset: 148, form: None });
        assert_eq!(found.len(), 2);
        file[68] = 4;
        assert_eq!(sites(&file), [], "not executable");
    }

    #[test]
    fn any_file_is_scanned_within_its_bounds() {
        bolero::check!().with_iterations(4000).with_type::<(Vec<u8>, Vec<(u8, u8)>)>().for_each(
            |(code, changes)| {
                let mut file = file(&code[..code.len().min(255)]);
                for (at, to) in changes {
                    let at = usize::from(*at) % file.len();
                    file[at] = *to;
                }
                for site in sites(&file) {
                    let at = usize::try_from(site.offset).unwrap();
                    assert_eq!(file[at..at + 2], CALL);
                }
            },
        );
        bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| drop(sites(bytes)));
    }
}
