// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Syscall replies that a policy states for certain calls.

use crate::arguments::arguments;
use crate::rules::{BROKER_LIST, NEEDED};
use crate::{Action, Errno, Error, Rule, Rules, Syscall, list};

/// The reply that a policy states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyAction {
    /// The call is made.
    Allow,
    /// The user is asked.
    Ask,
    /// The call isn't made, and returns this value.
    Return(i64),
    /// The call isn't made, and fails.
    Deny(Errno),
}

impl ReplyAction {
    const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Ask => "asked about",
            Self::Return(_) => "answered",
            Self::Deny(_) => "denied",
        }
    }

    /// The filter's action. The filter answers by itself where it can.
    #[must_use]
    pub const fn action(self) -> Action {
        match self {
            Self::Allow => Action::Allow,
            Self::Return(0) => Action::Pretend,
            Self::Ask | Self::Return(_) => Action::Notify,
            Self::Deny(errno) => Action::Errno(errno),
        }
    }
}

/// Calls that the dynamic loader makes before a program's first instruction.
pub(crate) const LOADING: [&str; 10] =
    ["arch_prctl", "close", "fstat", "mmap", "mprotect", "munmap", "newfstatat", "openat", "pread64", "read"];

/// Calls that programs rarely make, because the vDSO answers them. A reply to one would have no effect and cause no
/// error, so it is refused.
const IN_THE_VDSO: [&str; 5] = ["clock_getres", "clock_gettime", "getcpu", "gettimeofday", "time"];

/// Checks a reply, and makes a rule of it. `when` is a condition as in `data/deny.list`, or empty.
///
/// # Errors
/// An unknown call. A condition that can't be parsed, or is about an address or an argument that the call doesn't
/// have. A reply with which no program could start or end, or that no program would receive. An allowed call that is
/// judged by its path.
pub fn rule(name: &str, when: &str, given: ReplyAction, reason: &str) -> Result<(Syscall, Rule), Error> {
    let call: Syscall = name.parse()?;
    let tests = match when.trim() {
        "" => Vec::new(),
        when => list::condition(when)
            .map_err(|text| Error::Condition { name: name.to_owned(), text: text.to_owned() })?,
    };
    if let Some(known) = arguments(call) {
        for test in &tests {
            let argument = test.argument();
            if argument >= known.count {
                return Err(Error::NoArgument { name: name.to_owned(), argument, count: known.count });
            }
            if known.addresses & 1 << argument != 0 {
                return Err(Error::Address { name: name.to_owned(), argument });
            }
        }
    }
    let needed = NEEDED.contains(&name) || (tests.is_empty() && LOADING.contains(&name));
    if needed && given != ReplyAction::Allow {
        return Err(Error::Needed { name: name.to_owned(), word: given.word() });
    }
    if IN_THE_VDSO.contains(&name) && matches!(given, ReplyAction::Return(_) | ReplyAction::Ask) {
        return Err(Error::Vdso { name: name.to_owned(), word: given.word() });
    }
    if given == ReplyAction::Allow && BROKER_LIST.iter().any(|(brokered, _)| *brokered == call) {
        return Err(Error::Judged { name: name.to_owned() });
    }
    let condition = when.trim().to_owned();
    Ok((call, Rule { action: given.action(), tests, condition, reason: reason.to_owned() }))
}

/// Looks up an error by its name.
///
/// # Errors
/// [`Error::UnknownErrno`] with the nearest known name.
pub fn errno(name: &str) -> Result<Errno, Error> {
    Errno::from_name(name).ok_or_else(|| {
        let nearest = palisade_policy::suggest::nearest(name, Errno::names().map(|(name, _)| name));
        Error::UnknownErrno { name: name.to_owned(), nearest: nearest.map(str::to_owned) }
    })
}

impl Rules {
    /// Adds rules that are tried before the existing ones.
    #[must_use]
    pub fn answered(mut self, answers: Vec<(Syscall, Rule)>) -> Self {
        for (call, rule) in answers.into_iter().rev() {
            self.put_first(call, rule);
        }
        self
    }

    /// Adds rules that pass calls on, unless another rule answers them.
    ///
    /// # Errors
    /// [`Error::UnknownCall`].
    pub fn passing(mut self, calls: &[&str], reason: &str) -> Result<Self, Error> {
        for name in calls {
            self.add(name.parse()?, Rule::always(Action::Notify, reason));
        }
        Ok(self)
    }

    /// Adds rules that pass every open on, unless another rule answers it.
    ///
    /// # Errors
    /// None: the names are known.
    pub fn opening(mut self) -> Result<Self, Error> {
        self = self.passing(&["open", "openat", "creat"], "the policy answers the opens of some paths")?;
        let reason = "its flags lie in memory, where no filter can see them; programs fall back to openat";
        self.add("openat2".parse()?, Rule::always(Action::Errno(Errno::ENOSYS), reason));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Call};

    #[test]
    fn answers_that_cant_be_are_refused_with_the_reason() {
        for (name, when, given, message) in [
            (
                "sethostnam",
                "",
                ReplyAction::Ask,
                "unknown system call `sethostnam`; did you mean `sethostname`?",
            ),
            (
                "prctl",
                "arg0 is 3",
                ReplyAction::Ask,
                "invalid condition on the arguments of `prctl`: `arg0 is 3`",
            ),
            ("openat", "arg1 in 3", ReplyAction::Ask, "argument 1 of `openat` is an address"),
            ("getpid", "arg0 in 3", ReplyAction::Ask, "`getpid` has no arguments"),
            ("kill", "arg2 in 3", ReplyAction::Ask, "`kill` has arguments 0 to 1, and no argument 2"),
            ("execve", "", ReplyAction::Deny(Errno::EPERM), "`execve` can't be denied"),
            ("exit_group", "arg0 in 1", ReplyAction::Return(0), "`exit_group` can't be answered"),
            ("mmap", "", ReplyAction::Ask, "`mmap` can't be asked about"),
            (
                "clock_gettime",
                "",
                ReplyAction::Return(0),
                "`clock_gettime` can't be answered: the kernel's vDSO",
            ),
            ("time", "", ReplyAction::Ask, "run `palisade interpose --fake time=2030-01-01 -- COMMAND`"),
            ("unlink", "", ReplyAction::Allow, "`unlink` is judged by its path"),
        ] {
            let error = rule(name, when, given, "x").unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_first_answer_that_fits_is_given() {
        let answers = vec![
            rule("prctl", "arg0 in 15", ReplyAction::Return(0), "x").unwrap(),
            rule("prctl", "arg0 has 0x10", ReplyAction::Return(7), "x").unwrap(),
            rule("prctl", "", ReplyAction::Deny(Errno::EACCES), "x").unwrap(),
            rule("ptrace", "arg0 in 0", ReplyAction::Allow, "x").unwrap(),
        ];
        let rules = Rules::deny_list().answered(answers);
        let decide = |name: &str, first| {
            let number = name.parse::<Syscall>().unwrap().number(Arch::X86_64).unwrap();
            let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments: [first, 0, 0, 0, 0, 0] };
            rules.decide(Arch::X86_64, &call)
        };
        assert_eq!(decide("prctl", 15), Action::Pretend);
        assert_eq!(decide("prctl", 16), Action::Notify);
        assert_eq!(decide("prctl", 4), Action::Errno(Errno::EACCES));
        assert_eq!(decide("ptrace", 0), Action::Allow);
        assert_eq!(decide("ptrace", 1), Action::Errno(Errno::EPERM));
    }

    #[test]
    fn what_would_lead_past_the_broker_cant_be_allowed_for_some_arguments_either() {
        let rules = |given| {
            Rules::deny_list().answered(vec![rule("ptrace", "arg0 in 0", given, "x").unwrap()]).brokered()
        };
        assert_eq!(rules(ReplyAction::Allow).unwrap_err(), Error::PastTheBroker { name: "ptrace" });
        assert_eq!(rules(ReplyAction::Ask).unwrap_err(), Error::PastTheBroker { name: "ptrace" });
        assert!(rules(ReplyAction::Deny(Errno::EACCES)).is_ok());
    }
}
