// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules: which calls are denied, under which conditions, and why; in `listened`: which are passed on to a listener.

mod listened;

pub(crate) use self::listened::{BROKER_LIST, DATAGRAM_LIST, INTERNET_LIST, LEARN_LIST};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::reply::LOADING;
use crate::{Arch, Error, Syscall};

/// What the kernel does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// The kernel makes the call.
    Allow,
    /// The call isn't made; the caller gets this error.
    Errno(Errno),
    /// The call isn't made; the caller gets 0, as after a success.
    Pretend,
    /// The kernel ends the whole process, as by SIGSYS.
    KillProcess,
    /// The call is passed on to the filter's listener, which answers.
    Notify,
    /// The call is passed on to the filter's listener, which reports it and returns this error.
    Refuse(Errno),
}

/// An error number from 1 to 4095, which the kernel passes on from a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(u16);

impl Errno {
    /// "Not allowed."
    pub const EPERM: Self = Self(1);
    /// "You may not."
    pub const EACCES: Self = Self(13);
    /// "This kernel has no such call."
    pub const ENOSYS: Self = Self(38);
    /// "No such protocol."
    pub const EPROTONOSUPPORT: Self = Self(93);
    /// "No such address family."
    pub const EAFNOSUPPORT: Self = Self(97);

    /// The error with this number, if the kernel would pass the number on unchanged.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number >= 1 && number <= 4095 { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Looks up an error by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (_, number) = Self::names().find(|(known, _)| *known == name)?;
        Self::new(number)
    }

    /// Every error's name and number.
    pub fn names() -> impl Iterator<Item = (&'static str, u16)> {
        include_str!("data/errno.list").lines().filter_map(|line| {
            let (number, name) = line.split_once(' ')?;
            Some((name, number.parse().ok()?))
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::names().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allowed"),
            Self::Errno(errno) | Self::Refuse(errno) => write!(f, "refused with {errno}"),
            Self::Pretend => f.write_str("not made, and returns 0"),
            Self::KillProcess => f.write_str("ends the process"),
            Self::Notify => f.write_str("asks the broker"),
        }
    }
}

/// How much of an argument a test looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Width {
    /// The low 32 bits. Right for arguments that the kernel declares as `int`.
    Low,
    /// All 64 bits.
    Full,
}

/// What a test compares an argument with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Question {
    /// The argument is one of these values.
    In(Vec<u64>),
    /// The argument is none of these values.
    NotIn(Vec<u64>),
    /// The argument shares a bit with this mask.
    Has(u64),
}

/// A test of one argument by its value alone: the memory that it points to can change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Test {
    argument: u8,
    width: Width,
    question: Question,
}

impl Test {
    /// A test of argument 0 to 5; `None` for another index. The values are cut to `width`.
    #[must_use]
    pub fn new(argument: u8, width: Width, question: Question) -> Option<Self> {
        let cut = |value: u64| match width {
            Width::Low => value & u64::from(u32::MAX),
            Width::Full => value,
        };
        let question = match question {
            Question::In(values) => Question::In(values.into_iter().map(cut).collect()),
            Question::NotIn(values) => Question::NotIn(values.into_iter().map(cut).collect()),
            Question::Has(mask) => Question::Has(cut(mask)),
        };
        (argument < 6).then_some(Self { argument, width, question })
    }

    /// Which argument, from 0.
    #[must_use]
    pub fn argument(&self) -> u8 {
        self.argument
    }

    /// How much of the argument is compared.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// The comparison.
    #[must_use]
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Whether the test holds for these arguments.
    #[must_use]
    pub fn holds(&self, arguments: &[u64; 6]) -> bool {
        let whole = arguments[usize::from(self.argument)];
        let value = match self.width {
            Width::Low => whole & u64::from(u32::MAX),
            Width::Full => whole,
        };
        match &self.question {
            Question::In(values) => values.contains(&value),
            Question::NotIn(values) => !values.contains(&value),
            Question::Has(mask) => value & mask != 0,
        }
    }
}

/// One action for a call, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The answer.
    pub action: Action,
    /// All tests must hold. An empty list always holds.
    pub tests: Vec<Test>,
    /// The tests as they were written, with the names of the values.
    pub condition: String,
    /// The reason, for users who ask.
    pub reason: String,
}

/// A call as the kernel shows it to a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// `AUDIT_ARCH_*`.
    pub audit_arch: u32,
    /// The number, with bit 30 set for x32.
    pub number: u32,
    /// The six argument registers, including those that the call doesn't use.
    pub arguments: [u64; 6],
}

/// The action for every call that a program can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The action for known calls if no rule matches.
    pub default: Action,
    /// The action for numbers that the table doesn't know: newer calls, and the x32 interface (bit 30).
    pub unknown: Action,
    /// The action for calls through another architecture's entry, such as `int 0x80` on x86-64. Their numbers mean
    /// other calls.
    pub foreign: Action,
    calls: BTreeMap<Syscall, Vec<Rule>>,
}

/// Calls that a launch needs to start or end under the filter.
pub(crate) const NEEDED: [&str; 4] = ["execve", "exit", "exit_group", "rt_sigreturn"];

pub(crate) static DENY_LIST: LazyLock<Rules> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    Rules::parse(include_str!("data/deny.list")).expect("data/deny.list parses")
});

impl Rules {
    /// Rules that give every known call the same action, as a starting point.
    ///
    /// Unknown numbers answer ENOSYS: a program that tries a newer call has a fallback for older kernels, and the
    /// kernel itself answers this for x32 where x32 isn't configured. A foreign entry ends the process: a program of
    /// another architecture would not understand an errno, and SIGSYS is a clear end.
    #[must_use]
    pub fn new(default: Action) -> Self {
        Self {
            default,
            unknown: Action::Errno(Errno::ENOSYS),
            foreign: Action::KillProcess,
            calls: BTreeMap::new(),
        }
    }

    /// The built-in deny list, `data/deny.list`; everything else is allowed.
    #[must_use]
    pub fn deny_list() -> Self {
        DENY_LIST.clone()
    }

    /// Parses a list in the format that `data/deny.list` describes. Calls that the list doesn't name are allowed.
    ///
    /// # Errors
    /// [`Error::Line`] or [`Error::UnknownCall`] for the first invalid line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut rules = Self::new(Action::Allow);
        for (call, rule) in crate::list::parse(text)? {
            rules.add(call, rule);
        }
        Ok(rules)
    }

    /// Inserts a rule before the existing rules of `call`.
    pub(crate) fn put_first(&mut self, call: Syscall, rule: Rule) {
        self.calls.entry(call).or_default().insert(0, rule);
    }

    /// Inserts rules before the first rule of `call` that allows it. Rules that refuse it stay in front.
    pub(crate) fn put_before_made(&mut self, call: Syscall, added: Vec<Rule>) {
        let rules = self.calls.entry(call).or_default();
        let makes = |rule: &Rule| matches!(rule.action, Action::Allow | Action::Notify);
        let place = rules.iter().position(makes).unwrap_or(rules.len());
        rules.splice(place..place, added);
    }

    /// Appends a rule for `call`. The first rule that matches decides.
    pub fn add(&mut self, call: Syscall, rule: Rule) {
        self.calls.entry(call).or_default().push(rule);
    }

    /// Allows some calls and refuses others (EPERM), whatever their arguments. A name in both lists is refused.
    ///
    /// # Errors
    /// [`Error::UnknownCall`] with the nearest known name; [`Error::NeededCall`].
    pub fn with(mut self, allow: &[&str], deny: &[&str]) -> Result<Self, Error> {
        for name in allow {
            let call: Syscall = name.parse()?;
            self.calls.remove(&call);
            if self.default != Action::Allow {
                self.add(call, Rule::always(Action::Allow, "allowed by the policy"));
            }
        }
        for name in deny {
            let call: Syscall = name.parse()?;
            if NEEDED.contains(name) || LOADING.contains(name) {
                return Err(Error::NeededCall { name: (*name).to_owned() });
            }
            self.calls.insert(call, vec![Rule::always(Action::Errno(Errno::EPERM), "denied by the policy")]);
        }
        Ok(self)
    }

    /// The rules for one call, in the order in which they are tried.
    #[must_use]
    pub fn of(&self, call: Syscall) -> &[Rule] {
        self.calls.get(&call).map_or(&[], Vec::as_slice)
    }

    /// Every rule, with its call.
    pub(crate) fn each_rule(&mut self) -> impl Iterator<Item = (Syscall, &mut Rule)> {
        self.calls.iter_mut().flat_map(|(call, rules)| rules.iter_mut().map(|rule| (*call, rule)))
    }

    /// Every call that has rules, by name.
    pub fn calls(&self) -> impl Iterator<Item = (Syscall, &[Rule])> {
        self.calls.iter().map(|(call, rules)| (*call, rules.as_slice()))
    }

    /// The action for one call. This is the definition that a compiled filter must match.
    #[must_use]
    pub fn decide(&self, arch: Arch, call: &Call) -> Action {
        if call.audit_arch != arch.audit() {
            return self.foreign;
        }
        let Some(known) = Syscall::from_number(arch, call.number) else {
            return self.unknown;
        };
        self.of(known)
            .iter()
            .find(|rule| rule.tests.iter().all(|test| test.holds(&call.arguments)))
            .map_or(self.default, |rule| rule.action)
    }
}

impl Rule {
    /// A rule without a condition.
    #[must_use]
    pub fn always(action: Action, reason: &str) -> Self {
        Self { action, tests: Vec::new(), condition: String::new(), reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Syscall {
        name.parse().unwrap()
    }

    #[test]
    fn the_deny_list_gives_a_reason_for_everything() {
        let rules = Rules::deny_list();
        assert!(rules.calls().count() > 60);
        for (call, rules) in rules.calls() {
            assert!(rules.iter().all(|rule| rule.reason.len() > 5), "{call}");
        }
    }

    /// The tests on the kernel execute what the list contains. This one notices a rule that is missing.
    #[test]
    fn the_deny_list_has_what_is_promised() {
        let promised = "io_uring_setup io_uring_enter io_uring_register userfaultfd ptrace process_vm_readv \
            process_vm_writev pidfd_getfd process_madvise kcmp move_pages mount umount2 pivot_root chroot open_tree \
            open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr open_by_handle_at bpf \
            perf_event_open keyctl add_key request_key kexec_load kexec_file_load init_module finit_module \
            delete_module reboot swapon swapoff acct quotactl quotactl_fd nfsservctl syslog settimeofday \
            clock_settime adjtimex clock_adjtime ioperm iopl setns clone3";
        for name in promised.split_whitespace() {
            assert_eq!(Rules::deny_list().explain(call(name), Arch::X86_64).rules.len(), 1, "{name}");
            assert_eq!(Rules::deny_list().of(call(name))[0].tests, [], "{name}");
        }
        let decide = |name: &str, arguments| {
            let number = call(name).number(Arch::X86_64).unwrap();
            let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments };
            Rules::deny_list().decide(Arch::X86_64, &call)
        };
        let first = |value| [value, 0, 0, 0, 0, 0];
        let second = |value| [u64::MAX, value, 0, 0, 0, 0];
        for bit in [17, 25, 26, 27, 28, 29, 30] {
            assert_eq!(decide("clone", first(1 << bit | 17)), Action::Errno(Errno::EPERM), "bit {bit}");
            assert_eq!(decide("unshare", first(1 << bit)), Action::Errno(Errno::EPERM), "bit {bit}");
        }
        // The flags of fork and pthread_create.
        assert_eq!(decide("clone", first(0x0120_0011)), Action::Allow);
        assert_eq!(decide("clone", first(0x003d_0f00)), Action::Allow);
        for request in [0x5412, 0x541c, 0x5423] {
            assert_eq!(decide("ioctl", second(request)), Action::Errno(Errno::EPERM));
        }
        for request in [0x5401, 0x5413, 0x5421, 0x8910] {
            assert_eq!(decide("ioctl", second(request)), Action::Allow);
        }
        for family in 0..64 {
            let expected = match family {
                1 | 2 | 10 | 16 => Action::Allow,
                _ => Action::Errno(Errno::EAFNOSUPPORT),
            };
            assert_eq!(decide("socket", first(family)), expected, "family {family}");
        }
        // ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC.
        for persona in [0x004_0000, 0x040_0000] {
            assert_eq!(decide("personality", first(persona)), Action::Errno(Errno::EPERM));
        }
    }

    #[test]
    fn a_name_allows_or_denies_the_whole_call_and_deny_wins() {
        let rules = Rules::deny_list().with(&["ptrace", "ioctl", "bpf"], &["socket", "bpf"]).unwrap();
        assert_eq!(rules.of(call("ptrace")), []);
        assert_eq!(rules.of(call("ioctl")), []);
        assert_eq!(rules.of(call("socket")).len(), 1);
        assert_eq!(rules.of(call("bpf"))[0].reason, "denied by the policy");
    }

    #[test]
    fn an_allow_list_works_by_names_too() {
        let rules = Rules::new(Action::KillProcess).with(&["read"], &[]).unwrap();
        let decide = |number| {
            let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments: [0; 6] };
            rules.decide(Arch::X86_64, &call)
        };
        assert_eq!(decide(0), Action::Allow);
        assert_eq!(decide(1), Action::KillProcess);
    }

    #[test]
    fn what_a_launch_needs_cant_be_denied() {
        let error = Rules::deny_list().with(&[], &["execve"]).unwrap_err();
        assert_eq!(error, Error::NeededCall { name: "execve".into() });
    }
}
