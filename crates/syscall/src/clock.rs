// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the calls that read or use the time of day, for a sandbox with a time of its own.

use crate::broker::replies::{Made, PolicyReply};
use crate::group::EXECUTING;
use crate::{Action, Arch, Rule, Rules, Syscall};
use std::sync::LazyLock;

static CLOCK_LIST: LazyLock<Vec<(Syscall, Rule)>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("data/clock.list")).expect("data/clock.list parses")
});

impl Rules {
    /// Passes on the calls that use the time of day (`data/clock.list`), unless an earlier rule answers them. Also
    /// returns what the broker does with them.
    #[must_use]
    pub fn timed(mut self, arch: Arch) -> (Self, Vec<PolicyReply>) {
        let mut answers = Vec::new();
        for (call, rule) in CLOCK_LIST.iter() {
            self.add(*call, rule.clone());
            if rule.action == Action::Notify
                && !EXECUTING.contains(&call.name())
                && let Some(number) = call.number(arch)
            {
                answers.push(PolicyReply { number, tests: rule.tests.clone(), made: Made::Clock });
            }
        }
        (self, answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Errno};

    fn decide(rules: &Rules, name: &str, arguments: [u64; 6]) -> Action {
        let number = name.parse::<Syscall>().unwrap().number(Arch::X86_64).unwrap();
        rules.decide(Arch::X86_64, &Call { audit_arch: Arch::X86_64.audit(), number, arguments })
    }

    #[test]
    fn what_knows_the_time_of_day_is_passed_on_and_nothing_else() {
        let (rules, answers) = Rules::deny_list().timed(Arch::X86_64);
        assert_eq!(answers.len(), 7);
        let clock = |id: u64| decide(&rules, "clock_gettime", [id, 1, 0, 0, 0, 0]);
        for id in [0, 5, 8, 11, 1 << 32] {
            assert_eq!(clock(id), Action::Notify, "{id}");
        }
        for id in [1, 2, 3, 4, 6, 7, 9, u64::MAX] {
            assert_eq!(clock(id), Action::Allow, "{id}");
        }
        let sleep = |id, flags| decide(&rules, "clock_nanosleep", [id, flags, 1, 0, 0, 0]);
        assert_eq!(sleep(0, 1), Action::Notify);
        assert_eq!(sleep(0, 0), Action::Allow);
        assert_eq!(sleep(1, 1), Action::Allow);
        let wait = |operation, timeout| decide(&rules, "futex", [8, operation, 0, timeout, 0, u64::MAX]);
        assert_eq!(wait(0x189, 7), Action::Notify);
        assert_eq!(wait(0x109, 1 << 32), Action::Notify);
        assert_eq!(wait(0x189, 0), Action::Allow);
        assert_eq!(wait(0x89, 7), Action::Allow);
        assert_eq!(wait(0x80, 7), Action::Allow);
        assert_eq!(decide(&rules, "futex_wait", [8, 0, 0, 0, 7, 0]), Action::Errno(Errno::ENOSYS));
        assert_eq!(decide(&rules, "futex_wait", [8, 0, 0, 0, 7, 1]), Action::Allow);
        assert_eq!(decide(&rules, "timerfd_settime", [3, 1, 7, 0, 0, 0]), Action::Notify);
        assert_eq!(decide(&rules, "timerfd_settime", [3, 0, 7, 0, 0, 0]), Action::Allow);
        assert_eq!(decide(&rules, "execve", [0; 6]), Action::Notify);
    }

    #[test]
    fn what_the_policy_denies_stays_denied() {
        let (rules, _) =
            Rules::deny_list().with(&[], &["clock_gettime", "time"]).unwrap().timed(Arch::X86_64);
        assert_eq!(decide(&rules, "clock_gettime", [0; 6]), Action::Errno(Errno::EPERM));
        assert_eq!(decide(&rules, "clock_gettime", [1, 0, 0, 0, 0, 0]), Action::Errno(Errno::EPERM));
        assert_eq!(decide(&rules, "time", [0; 6]), Action::Errno(Errno::EPERM));
    }
}
