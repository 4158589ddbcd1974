// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names and numbers of system calls.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::Error;

/// An architecture that filters can be compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// 64-bit x86, without its 32-bit interfaces (i386, x32).
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The architecture this program was built for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Self = Self::X86_64;
    /// The architecture this program was built for.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Self = Self::Aarch64;

    /// The value in `seccomp_data.arch` (`AUDIT_ARCH_*` of `linux/audit.h`).
    #[must_use]
    pub const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }
}

/// A system call that at least one supported architecture has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Syscall {
    // The first field, so that the derived order is by name.
    name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl Syscall {
    /// The name, as in the manual's section 2.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The number of the call. `None` if the architecture doesn't have the call.
    #[must_use]
    pub const fn number(self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }

    /// The call with this number.
    #[must_use]
    pub fn from_number(arch: Arch, number: u32) -> Option<Self> {
        let numbers = match arch {
            Arch::X86_64 => &BY_NUMBER[0],
            Arch::Aarch64 => &BY_NUMBER[1],
        };
        *numbers.get(usize::try_from(number).ok()?)?
    }

    /// Every known call, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().copied()
    }
}

/// The names of calls, in order.
pub fn names(calls: &BTreeSet<Syscall>) -> Vec<&'static str> {
    calls.iter().map(|call| call.name()).collect()
}

impl FromStr for Syscall {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        TABLE.binary_search_by(|call| call.name.cmp(name)).map(|index| TABLE[index]).map_err(|_| {
            Error::UnknownCall { name: name.to_owned(), nearest: nearest(name).map(str::to_owned) }
        })
    }
}

impl fmt::Display for Syscall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Syscall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

static TABLE: LazyLock<Vec<Syscall>> = LazyLock::new(|| {
    let x86_64 = lines(include_str!("data/x86_64.calls")).map(|(number, name)| Syscall {
        name,
        x86_64: Some(number),
        aarch64: None,
    });
    let aarch64 = lines(include_str!("data/aarch64.calls")).map(|(number, name)| Syscall {
        name,
        x86_64: None,
        aarch64: Some(number),
    });
    let mut calls: Vec<Syscall> = x86_64.chain(aarch64).collect();
    calls.sort_unstable();
    calls.dedup_by(|later, earlier| {
        let same = later.name == earlier.name;
        if same {
            earlier.x86_64 = earlier.x86_64.or(later.x86_64);
            earlier.aarch64 = earlier.aarch64.or(later.aarch64);
        }
        same
    });
    calls
});

/// Indexed by number; x86-64, then aarch64.
static BY_NUMBER: LazyLock<[Vec<Option<Syscall>>; 2]> = LazyLock::new(|| {
    [Arch::X86_64, Arch::Aarch64].map(|arch| {
        let mut numbers = Vec::new();
        for call in Syscall::all() {
            let Some(index) = call.number(arch).and_then(|number| usize::try_from(number).ok()) else {
                continue;
            };
            if numbers.len() <= index {
                numbers.resize(index + 1, None);
            }
            numbers[index] = Some(call);
        }
        numbers
    })
});

/// Invalid lines are skipped. A test proves that there are none.
fn lines(text: &'static str) -> impl Iterator<Item = (u32, &'static str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (number, name) = line.split_once(' ')?;
        Some((number.parse().ok()?, name))
    })
}

/// The most similar known name, if it is similar enough to be a typing error.
fn nearest(name: &str) -> Option<&'static str> {
    // The caller may pass any text. No name is longer than 23 bytes.
    if name.len() > 40 {
        return None;
    }
    let slips = name.len().div_ceil(3).min(3);
    Syscall::all()
        .map(|call| (edits(name.as_bytes(), call.name.as_bytes()), call.name))
        .filter(|&(distance, _)| distance <= slips)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein distance.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_a_call() {
        for (text, arch, last) in [
            (include_str!("data/x86_64.calls"), Arch::X86_64, 469),
            (include_str!("data/aarch64.calls"), Arch::Aarch64, 469),
        ] {
            let expected = text.lines().filter(|line| !line.starts_with('#')).count();
            let numbers: Vec<u32> = lines(text).map(|(number, _)| number).collect();
            assert_eq!(numbers.len(), expected);
            assert!(numbers.is_sorted_by(|a, b| a < b));
            assert_eq!(numbers.last(), Some(&last));
            for (number, name) in lines(text) {
                let call: Syscall = name.parse().unwrap();
                assert_eq!(call.number(arch), Some(number), "{name}");
                assert_eq!(Syscall::from_number(arch, number), Some(call));
            }
        }
    }

    #[test]
    fn some_numbers_that_everyone_knows() {
        let number = |name: &str, arch| name.parse::<Syscall>().unwrap().number(arch);
        assert_eq!(number("execve", Arch::X86_64), Some(59));
        assert_eq!(number("execve", Arch::Aarch64), Some(221));
        assert_eq!(number("open", Arch::Aarch64), None);
        assert_eq!(number("mseal", Arch::X86_64), Some(462));
        assert_eq!(number("newfstatat", Arch::Aarch64), Some(79));
    }

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        let message = |name: &str| name.parse::<Syscall>().unwrap_err().to_string();
        assert_eq!(message("ptarce"), "unknown system call `ptarce`; did you mean `ptrace`?");
        assert_eq!(
            message("io_uring_setpu"),
            "unknown system call `io_uring_setpu`; did you mean `io_uring_setup`?"
        );
        assert_eq!(message("frobnicate"), "unknown system call `frobnicate`");
        assert_eq!(message(""), "unknown system call ``");
    }
}
