// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fixes the error of calls like `setuid` where only one user is mapped.
//!
//! A user namespace with one mapped user knows no other number. The kernel answers `setuid(0)` with EINVAL, "no such
//! user". Programs that want to drop or change rights continue after EPERM, which the kernel returns to every user
//! who isn't root. After EINVAL they stop, as after a bug of their own. So the filter answers EPERM. The kernel still
//! handles -1: for some of these calls it means "unchanged".

use crate::rules::{DENY_LIST, Question, Width};
use crate::{Action, Errno, Error, Rule, Rules, Syscall, Test};

/// The calls, with the number of their arguments. Each argument is a user number or a group number.
const CALLS: [(&str, u8, Of); 6] = [
    ("setuid", 1, Of::User),
    ("setreuid", 2, Of::User),
    ("setresuid", 3, Of::User),
    ("setgid", 1, Of::Group),
    ("setregid", 2, Of::Group),
    ("setresgid", 3, Of::Group),
];

#[derive(Clone, Copy)]
enum Of {
    User,
    Group,
}

/// The reason in all these rules.
const REASON: &str = "inside there is no other user or group";

/// Whether a rule is one of these. The kernel refuses the same calls, only with another error.
pub(crate) fn refuses(call: Syscall, rule: &Rule) -> bool {
    rule.reason == REASON && CALLS.iter().any(|(name, ..)| *name == call.name())
}

impl Rules {
    /// Adds rules: EPERM for a change to any other user or group than the mapped ones. Adds nothing if a program may
    /// make user namespaces, in which others can be mapped.
    ///
    /// # Errors
    /// None: the names are known.
    pub fn alone(mut self, user: u32, group: u32) -> Result<Self, Error> {
        if self.may_map_users()? {
            return Ok(self);
        }
        for (name, count, of) in CALLS {
            let call: Syscall = name.parse()?;
            let own = match of {
                Of::User => user,
                Of::Group => group,
            };
            for argument in 0..count {
                let question = Question::NotIn(vec![own.into(), u32::MAX.into()]);
                // The kernel declares these arguments as 32 bits.
                let tests = Test::new(argument, Width::Low, question).into_iter().collect();
                self.add(
                    call,
                    Rule {
                        action: Action::Errno(Errno::EPERM),
                        tests,
                        condition: format!("arg{argument} not in own={own},-1={:#x}", u32::MAX),
                        reason: REASON.to_owned(),
                    },
                );
            }
        }
        Ok(self)
    }

    /// Whether a policy allows, for some arguments at least, to enter another user namespace. That is so if a call
    /// that the built-in list refuses is allowed, or passed on to a listener that may allow it.
    fn may_map_users(&self) -> Result<bool, Error> {
        for name in ["clone", "unshare", "clone3", "setns"] {
            let call: Syscall = name.parse()?;
            let rules = self.of(call);
            let last = rules.iter().position(|rule| rule.tests.is_empty());
            let reached = last.map_or(rules, |at| &rules[..=at]);
            let makes = |rule: &Rule| matches!(rule.action, Action::Allow | Action::Notify);
            let listed = || DENY_LIST.of(call).iter().all(|rule| rules.contains(rule));
            if reached.iter().any(makes) || last.is_none() && !listed() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{ReplyAction, rule};
    use crate::{Arch, Call};

    fn decide(rules: &Rules, name: &str, arguments: &[u64]) -> Action {
        let number = name.parse::<Syscall>().unwrap().number(Arch::NATIVE).unwrap();
        let mut all = [u64::MAX; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        rules.decide(Arch::NATIVE, &Call { audit_arch: Arch::NATIVE.audit(), number, arguments: all })
    }

    #[test]
    fn nobody_becomes_another_and_everybody_stays_who_they_are() {
        let rules = Rules::deny_list().alone(1000, 100).unwrap();
        const SAME: u64 = u32::MAX as u64;
        for (name, count, of) in CALLS {
            let own: u64 = if matches!(of, Of::User) { 1000 } else { 100 };
            for at in 0..usize::from(count) {
                for (number, expected) in [
                    (own, Action::Allow),
                    (own | 1 << 32, Action::Allow),
                    (SAME, Action::Allow),
                    (0, Action::Errno(Errno::EPERM)),
                    (own + 1, Action::Errno(Errno::EPERM)),
                ] {
                    for others in [own, SAME] {
                        let mut arguments = vec![others; count.into()];
                        arguments[at] = number;
                        assert_eq!(decide(&rules, name, &arguments), expected, "{name} {arguments:?}");
                    }
                }
            }
        }
        assert_eq!(decide(&rules, "setfsuid", &[0]), Action::Allow);
    }

    #[test]
    fn what_a_policy_says_comes_first() {
        let answers = vec![rule("setuid", "", ReplyAction::Return(0), "x").unwrap()];
        let rules = Rules::deny_list().answered(answers).alone(1000, 1000).unwrap();
        assert_eq!(decide(&rules, "setuid", &[0]), Action::Pretend);
    }

    #[test]
    fn where_users_may_be_mapped_the_kernel_knows() {
        for call in ["clone", "unshare", "clone3", "setns"] {
            let rules = Rules::deny_list().with(&[call], &[]).unwrap().alone(1000, 1000).unwrap();
            assert_eq!(decide(&rules, "setuid", &[0]), Action::Allow, "{call}");
        }
        let answers = vec![rule("unshare", "arg0 in 0x10020000", ReplyAction::Allow, "x").unwrap()];
        let rules = Rules::deny_list().answered(answers).alone(1000, 1000).unwrap();
        assert_eq!(decide(&rules, "setuid", &[0]), Action::Allow);
    }
}
