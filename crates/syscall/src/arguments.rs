// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Knows the arguments of each call, and which of them are addresses.

use crate::Syscall;

/// The arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arguments {
    /// How many there are.
    pub count: u8,
    /// Bit N: argument N is the address of memory that the kernel reads or writes.
    pub addresses: u8,
}

/// The arguments of a call. `None` for some old calls that no kernel has any more.
#[must_use]
pub fn arguments(call: Syscall) -> Option<Arguments> {
    let line = include_str!("data/arguments.list").lines().find_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        (name == call.name()).then_some(rest)
    })?;
    let (count, addresses) = line.split_once(' ').unwrap_or((line, ""));
    let bit = |text: &str| text.parse::<u8>().ok().map(|index| 1u8 << (index & 7));
    Some(Arguments { count: count.parse().ok()?, addresses: addresses.split(',').filter_map(bit).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_known_of_calls() {
        let of = |name: &str| arguments(name.parse().unwrap()).unwrap();
        assert_eq!(of("openat"), Arguments { count: 4, addresses: 0b10 });
        assert_eq!(of("execve"), Arguments { count: 3, addresses: 0b111 });
        assert_eq!(of("prctl"), Arguments { count: 5, addresses: 0 });
        assert_eq!(of("getpid"), Arguments { count: 0, addresses: 0 });
    }

    #[test]
    fn every_line_is_of_a_call_and_nearly_every_call_has_one() {
        let lines = include_str!("data/arguments.list").lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let call: Syscall = line.split(' ').next().unwrap().parse().unwrap();
            let arguments = arguments(call).unwrap();
            assert!(arguments.count <= 6 && arguments.addresses < 1 << arguments.count, "{line}");
        }
        let unknown = Syscall::all().filter(|call| arguments(*call).is_none()).count();
        assert!(unknown < 30, "{unknown}");
    }
}
