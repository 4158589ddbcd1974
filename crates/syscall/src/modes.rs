// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refuses modes by which a file gives away rights: the set-user-ID bit, and on files the set-group-ID bit.

use crate::{Rule, Rules, Syscall};
use std::collections::BTreeMap;
use std::sync::LazyLock;

type List = Vec<(Syscall, Rule)>;

pub(crate) static MODES_LIST: LazyLock<List> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("data/modes.list")).expect("data/modes.list parses")
});

static UNJUDGED_LIST: LazyLock<List> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("data/modes-unjudged.list")).expect("data/modes-unjudged.list parses")
});

/// Whether a rule is one of those that refuse such modes.
pub(crate) fn refuses(call: Syscall, rule: &Rule) -> bool {
    MODES_LIST.iter().chain(UNJUDGED_LIST.iter()).any(|(of, listed)| *of == call && listed == rule)
}

impl Rules {
    /// Adds rules that refuse modes by which a file gives away rights (`data/modes.list`). Without a broker that
    /// judges modes by the kind of file (`judged`), also adds `data/modes-unjudged.list`.
    ///
    /// The new rules come before every rule that lets a call be made. A policy that allows the whole call, or a user
    /// who answers a question, hasn't looked at the mode.
    #[must_use]
    pub fn keeping_modes(mut self, judged: bool) -> Self {
        let unjudged = if judged { &[][..] } else { UNJUDGED_LIST.as_slice() };
        let mut by_call: BTreeMap<Syscall, Vec<Rule>> = BTreeMap::new();
        for (call, rule) in MODES_LIST.iter().chain(unjudged) {
            by_call.entry(*call).or_default().push(rule.clone());
        }
        for (call, rules) in by_call {
            self.put_before_made(call, rules);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{ReplyAction, rule};
    use crate::{Action, Arch, Call, Errno};

    const SET_USER_ID: u64 = 0o4755;
    const SET_GROUP_ID: u64 = 0o2755;
    const PLAIN: u64 = 0o1777;
    const EPERM: Action = Action::Errno(Errno::EPERM);

    /// A call, the index of its mode argument, and the index and bits of the flags with which it makes a file.
    type Moded = (&'static str, usize, Option<(usize, u64)>);

    const CALLS: [Moded; 11] = [
        ("open", 2, Some((1, 0o100))),
        ("openat", 3, Some((2, 0o101))),
        ("creat", 1, None),
        ("mknod", 1, None),
        ("mknodat", 2, None),
        ("mkdir", 1, None),
        ("mkdirat", 2, None),
        ("chmod", 1, None),
        ("fchmod", 1, None),
        ("fchmodat", 2, None),
        ("fchmodat2", 2, None),
    ];

    fn decide(rules: &Rules, name: &str, arguments: [u64; 6]) -> Action {
        let number = name.parse::<Syscall>().unwrap().number(Arch::X86_64).unwrap();
        rules.decide(Arch::X86_64, &Call { audit_arch: Arch::X86_64.audit(), number, arguments })
    }

    fn with_mode((_, mode, flags): Moded, value: u64) -> [u64; 6] {
        let mut arguments = [u64::MAX; 6];
        arguments[mode] = value;
        if let Some((index, value)) = flags {
            arguments[index] = value;
        }
        arguments
    }

    #[test]
    fn no_call_sets_the_bits_whatever_the_policy_allows() {
        let names = CALLS.map(|(name, ..)| name);
        let allowed = Rules::deny_list().with(&names, &[]).unwrap();
        for (rules, judged) in [
            (Rules::deny_list().keeping_modes(false), false),
            (allowed.clone().keeping_modes(false), false),
            (Rules::deny_list().brokered().unwrap().keeping_modes(true), true),
            (allowed.brokered().unwrap().keeping_modes(true), true),
        ] {
            for of_call in CALLS {
                let made = if judged { Action::Notify } else { Action::Allow };
                let decide = |mode| decide(&rules, of_call.0, with_mode(of_call, mode));
                assert_eq!(decide(SET_USER_ID), EPERM, "{}", of_call.0);
                // The kernel reads only 16 bits.
                assert_eq!(decide(SET_USER_ID | 1 << 32 | 1 << 16), EPERM, "{}", of_call.0);
                assert_eq!(decide(PLAIN | 1 << 43), made, "{}", of_call.0);
                let for_group = match of_call.0 {
                    "mkdir" | "mkdirat" => made,
                    name if name.contains("chmod") && judged => made,
                    _ => EPERM,
                };
                assert_eq!(decide(SET_GROUP_ID), for_group, "{}", of_call.0);
            }
            assert_eq!(decide(&rules, "openat2", [0; 6]), Action::Errno(Errno::ENOSYS));
        }
    }

    /// If no file is made, the mode argument is whatever the register held.
    #[test]
    fn opening_what_is_there_has_no_mode() {
        let rules = Rules::deny_list().keeping_modes(false);
        // O_RDONLY, O_WRONLY|O_TRUNC, O_DIRECTORY.
        for flags in [0, 0o1001, 0o200_000] {
            assert_eq!(decide(&rules, "open", [0, flags, u64::MAX, 0, 0, 0]), Action::Allow);
            assert_eq!(decide(&rules, "openat", [0, 0, flags, u64::MAX, 0, 0]), Action::Allow);
        }
        // O_TMPFILE|O_RDWR makes a file.
        assert_eq!(decide(&rules, "openat", [0, 0, 0o20_200_002, SET_USER_ID, 0, 0]), EPERM);
    }

    #[test]
    fn answers_that_make_nothing_come_first_and_a_question_later() {
        let answered = |given| Rules::deny_list().answered(vec![rule("chmod", "", given, "x").unwrap()]);
        for (given, set, plain) in [
            (ReplyAction::Return(0), Action::Pretend, Action::Pretend),
            (ReplyAction::Deny(Errno::EACCES), Action::Errno(Errno::EACCES), Action::Errno(Errno::EACCES)),
            (ReplyAction::Ask, EPERM, Action::Notify),
        ] {
            let rules = answered(given).keeping_modes(false);
            assert_eq!(decide(&rules, "chmod", [0, SET_USER_ID, 0, 0, 0, 0]), set);
            assert_eq!(decide(&rules, "chmod", [0, PLAIN, 0, 0, 0, 0]), plain);
        }
    }

    #[test]
    fn every_architecture_has_a_rule_for_each_of_its_calls() {
        let rules = Rules::deny_list().keeping_modes(false);
        for (name, ..) in CALLS {
            assert!(!rules.of(name.parse().unwrap()).is_empty(), "{name}");
        }
        // An architecture lacks only calls that the other calls replace.
        let lacking = |arch| {
            CALLS.iter().filter(|(name, ..)| name.parse::<Syscall>().unwrap().number(arch).is_none()).count()
        };
        assert_eq!((lacking(Arch::X86_64), lacking(Arch::Aarch64)), (0, 5));
    }
}
