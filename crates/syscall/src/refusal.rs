// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes refused calls visible: a listener returns the filter's error and reports the call.

use crate::ids;
use crate::modes::{self, MODES_LIST};
use crate::program::{IF_ANY_BIT, IF_AT_LEAST, IF_EQUAL, JUMP, LOAD, RETURN, RETURN_USER_NOTIF};
use crate::rules::{BROKER_LIST, DENY_LIST, INTERNET_LIST};
use crate::{Action, Call, Errno, Filter, Instruction, Rule, Rules, Syscall};

/// Calls that no other wall refuses: the shell outside executes what is typed into a terminal, and keyrings belong to
/// the user in every namespace. The same is true of the modes in `data/modes.list` and of socket families that no
/// network namespace has. The kernel must refuse these by itself: a compromised listener could let a call be made.
const KERNELS_OWN: [&str; 4] = ["ioctl", "add_key", "request_key", "keyctl"];

/// Calls that C libraries and language runtimes try at each start and can do without. Passing them on would wake a
/// listener in every launch, and the reports would be of no use.
const TRIED_AT_EACH_START: [&str; 2] = ["clone3", "openat2"];

impl Rules {
    /// Passes refused calls on to a listener, which returns the same error. If the listener is gone, they are still
    /// refused: the kernel answers ENOSYS.
    ///
    /// The filter itself still refuses numbers that the table doesn't know.
    #[must_use]
    pub fn telling(mut self) -> Self {
        for (call, rule) in self.each_rule() {
            if let Action::Errno(errno) = rule.action
                && is_told(call, rule)
            {
                rule.action = Action::Refuse(errno);
            }
        }
        self
    }
}

fn is_told(call: Syscall, rule: &Rule) -> bool {
    let name = call.name();
    let family = matches!(rule.action, Action::Errno(Errno::EAFNOSUPPORT | Errno::EPROTONOSUPPORT));
    !(TRIED_AT_EACH_START.contains(&name)
        || KERNELS_OWN.contains(&name)
        || family && name.starts_with("socket")
        || modes::refuses(call, rule)
        || ids::refuses(call, rule))
}

/// Why the built-in lists refuse a call with this error. `None`: they don't, so a policy does.
#[must_use]
pub fn reason(call: Syscall, errno: Errno) -> Option<&'static str> {
    let lists = BROKER_LIST.iter().chain(MODES_LIST.iter()).chain(INTERNET_LIST.iter());
    let listed = lists.filter(|(of, _rule)| *of == call);
    DENY_LIST
        .of(call)
        .iter()
        .chain(listed.map(|(_of, rule)| rule))
        .find(|rule| rule.action == Action::Errno(errno))
        .map(|rule| rule.reason.as_str())
}

impl Filter {
    /// The error that the listener has to return in place of this filter. `None` if the filter passes the call on for
    /// another reason. A filter that can't be evaluated refuses everything; the compiler makes no such filter.
    #[must_use]
    pub fn refusal(&self, call: &Call) -> Option<Errno> {
        const DATA: u32 = 0xffff;
        let Some(answer) = self.run(call) else { return Some(Errno::ENOSYS) };
        let told = answer & !DATA == RETURN_USER_NOTIF;
        u16::try_from(answer & DATA).ok().filter(|_number| told).and_then(Errno::new)
    }

    /// The result that the kernel would get. Knows only the instructions that the compiler writes.
    fn run(&self, call: &Call) -> Option<u32> {
        let (mut value, mut at) = (0, 0usize);
        loop {
            let Instruction { code, jt, jf, k } = *self.program.get(at)?;
            at += 1;
            let holds = match code {
                LOAD => {
                    value = load(call, k)?;
                    continue;
                }
                JUMP => {
                    at = at.checked_add(usize::try_from(k).ok()?)?;
                    continue;
                }
                RETURN => return Some(k),
                IF_EQUAL => value == k,
                IF_AT_LEAST => value >= k,
                IF_ANY_BIT => value & k != 0,
                _ => return None,
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }
}

/// Loads 32 bits of `struct seccomp_data`.
fn load(call: &Call, offset: u32) -> Option<u32> {
    match offset {
        0 => Some(call.number),
        4 => Some(call.audit_arch),
        _ => {
            let argument = call.arguments.get(usize::try_from(offset.checked_sub(16)? / 8).ok()?)?;
            let shift = if offset.is_multiple_of(8) { 0 } else { 32 };
            u32::try_from(argument >> shift & u64::from(u32::MAX)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, compile};

    fn call(name: &str, arguments: [u64; 6]) -> Call {
        let number = name.parse::<Syscall>().unwrap().number(Arch::X86_64).unwrap();
        Call { audit_arch: Arch::X86_64.audit(), number, arguments }
    }

    #[test]
    fn what_is_refused_is_passed_on_with_its_error_and_nothing_else_is() {
        let rules = Rules::deny_list().brokered().unwrap().keeping_modes(true);
        let filter = compile(&rules.clone().telling(), Arch::X86_64).unwrap();
        let mut refused = 0;
        for known in Syscall::all() {
            let Some(number) = known.number(Arch::X86_64) else { continue };
            for first in [0, 1, 2, 16, 0x1_0000_0001, 0o4755, 0x7e02_0000, 0x5412, u64::MAX] {
                for arguments in [[first, 0, 0, 0, 0, 0], [0, first, 0x40, 0o4000, 0, 0], [first; 6]] {
                    let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments };
                    let expected = match rules.decide(Arch::X86_64, &call) {
                        Action::Errno(errno) if is_told_of(&rules, known, &call) => Some(errno),
                        _ => None,
                    };
                    assert_eq!(filter.refusal(&call), expected, "{known} {arguments:?}");
                    refused += usize::from(expected.is_some());
                }
            }
        }
        assert!(refused > 1000, "{refused}");
        let decide = |name, arguments| rules.clone().telling().decide(Arch::X86_64, &call(name, arguments));
        for name in TRIED_AT_EACH_START {
            assert_eq!(decide(name, [0; 6]), Action::Errno(Errno::ENOSYS));
        }
        // Calls that no other wall refuses: TIOCSTI, the set-user-ID bit, keyrings, AF_VSOCK, a netlink protocol.
        for (name, arguments, errno) in [
            ("ioctl", [0, 0x5412, 0, 0, 0, 0], Errno::EPERM),
            ("chmod", [0, 0o4755, 0, 0, 0, 0], Errno::EPERM),
            ("openat", [0, 0, 0o101, 0o4755, 0, 0], Errno::EPERM),
            ("keyctl", [0; 6], Errno::EPERM),
            ("socket", [40, 1, 0, 0, 0, 0], Errno::EAFNOSUPPORT),
            ("socket", [16, 3, 9, 0, 0, 0], Errno::EPROTONOSUPPORT),
        ] {
            assert_eq!(decide(name, arguments), Action::Errno(errno), "{name}");
        }
        assert_eq!(decide("socket", [1, 2, 0, 0, 0, 0]), Action::Refuse(Errno::EACCES));
        assert_eq!(decide("ptrace", [0; 6]), Action::Refuse(Errno::EPERM));
    }

    fn is_told_of(rules: &Rules, known: Syscall, call: &Call) -> bool {
        let mut rules = rules.of(known).iter();
        let deciding = rules.find(|rule| rule.tests.iter().all(|test| test.holds(&call.arguments)));
        deciding.is_some_and(|rule| is_told(known, rule))
    }

    #[test]
    fn a_filter_that_cant_be_followed_refuses() {
        let unknown = Instruction { code: 0x16, jt: 0, jf: 0, k: 0 };
        let far = Instruction { code: JUMP, jt: 0, jf: 0, k: u32::MAX };
        for program in [vec![], vec![unknown], vec![far]] {
            assert_eq!(Filter { program }.refusal(&call("read", [0; 6])), Some(Errno::ENOSYS));
        }
    }

    #[test]
    fn the_lists_give_the_reason_that_fits_the_error() {
        let reason = |name: &str, errno| reason(name.parse().unwrap(), errno);
        assert!(reason("socket", Errno::EPROTONOSUPPORT).unwrap().contains("route protocol"));
        assert!(reason("socket", Errno::EACCES).unwrap().contains("sockets of others"));
        assert!(reason("chmod", Errno::EPERM).unwrap().contains("give away"));
        assert_eq!(reason("ptrace", Errno::EACCES), None);
        assert_eq!(reason("getpid", Errno::EPERM), None);
    }
}
