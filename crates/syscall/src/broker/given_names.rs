// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers which paths programs gave to their sockets.
//!
//! In a tree of the host the broker binds a socket by its last name only, in the directory that it judged: a second
//! walk of the path could lead elsewhere. But the kernel reports a socket's path as it was bound, and a program that
//! took the last name for a relative path would find another file. So the bound name carries a number, by which
//! `getsockname` and `getpeername` find the path that the program gave.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many paths are remembered. Beyond that the oldest are forgotten, and programs get the bound name of those
/// sockets.
const REMEMBERED: usize = 4096;

/// The paths that programs gave, by number.
#[derive(Default)]
pub(crate) struct GivenNames(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u32,
    names: BTreeMap<u32, Vec<u8>>,
}

impl GivenNames {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the path that a program gave to a socket, and returns the name to bind instead of `name`.
    ///
    /// The result is `name` without a number where the given path equals it, or where a number doesn't fit.
    pub(crate) fn add(&self, given: &[u8], name: &[u8], room: usize) -> Vec<u8> {
        let mut table = self.table();
        let Some(number) = table.last.checked_add(1).filter(|_| given != name) else { return name.to_vec() };
        let bound = numbered(number, name);
        if bound.len() > room {
            return name.to_vec();
        }
        table.last = number;
        table.names.insert(number, given.to_vec());
        if table.names.len() > REMEMBERED {
            table.names.pop_first();
        }
        bound
    }

    /// The path that a program gave to the socket that is bound as `bound`.
    pub(crate) fn given(&self, bound: &[u8]) -> Option<Vec<u8>> {
        self.table().names.get(&number_of(bound)?).cloned()
    }
}

/// Another spelling of `name` that carries a number. Each binary digit is a path component that leads nowhere: `./`
/// for 0 and `.//` for 1.
fn numbered(number: u32, name: &[u8]) -> Vec<u8> {
    let digits = (0..u32::BITS - number.leading_zeros()).rev().map(|digit| number >> digit & 1);
    let mut spelled: Vec<u8> =
        digits.flat_map(|digit| if digit == 0 { &b"./"[..] } else { b".//" }).copied().collect();
    spelled.extend_from_slice(name);
    spelled
}

/// The number that a spelling carries.
fn number_of(spelled: &[u8]) -> Option<u32> {
    let mut rest = spelled;
    let mut number: u32 = 0;
    while let Some(after) = rest.strip_prefix(b"./") {
        let one = after.strip_prefix(b"/");
        number = number.checked_mul(2)?.checked_add(one.is_some().into())?;
        rest = one.unwrap_or(after);
    }
    (number > 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spelling_carries_its_number_and_leads_to_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(".s"), "").unwrap();
        for number in (1..200).chain([u32::MAX - 1, u32::MAX]) {
            for name in [&b"s"[..], b".s", b"..s", b"..."] {
                assert_eq!(number_of(&numbered(number, name)), Some(number));
            }
            let spelled = String::from_utf8(numbered(number, b".s")).unwrap();
            assert!(directory.path().join(spelled).is_file());
        }
        for other in [&b""[..], b"s", b".s", b"/./s", b"./s", b"a/.//s", &b".//".repeat(33)] {
            assert_eq!(number_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn names_are_given_back_and_the_oldest_forgotten() {
        let names = GivenNames::default();
        assert_eq!(names.add(b"s", b"s", 108), b"s");
        let first = names.add(b"/a/s", b"s", 108);
        assert_eq!((names.given(&first), names.given(b"s")), (Some(b"/a/s".to_vec()), None));
        assert_eq!(names.add(b"b/s", b"s", 3), b"s", "no room for a number");
        let bound: Vec<_> =
            (0..REMEMBERED).map(|number| names.add(format!("{number}/s").as_bytes(), b"s", 108)).collect();
        assert_eq!(names.given(&first), None);
        assert_eq!(names.given(&bound[7]), Some(b"7/s".to_vec()));
        assert_eq!(names.table().names.len(), REMEMBERED);
    }
}
