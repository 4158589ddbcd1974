// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that pass calls on to a listener: sets of them that are added to a list, and lists of them.

use super::{Action, NEEDED, Question, Rule, Rules, Test, Width};
use crate::passed::is_of_sockets;
use crate::{Arch, Errno, Error, Numbers, Syscall};
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub(crate) static BROKER_LIST: LazyLock<Vec<(Syscall, Rule)>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("../data/broker.list")).expect("data/broker.list parses")
});

pub(crate) static LEARN_LIST: LazyLock<Vec<(Syscall, Rule)>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("../data/learn.list")).expect("data/learn.list parses")
});

pub(crate) static DATAGRAM_LIST: LazyLock<Vec<(Syscall, Rule)>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("../data/datagrams.list")).expect("data/datagrams.list parses")
});

pub(crate) static INTERNET_LIST: LazyLock<Vec<(Syscall, Rule)>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    crate::list::parse(include_str!("../data/internet.list")).expect("data/internet.list parses")
});

/// Calls that could write names without the broker, or change a call that does.
const PAST_THE_BROKER: [&str; 22] = [
    "bpf",
    "chroot",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_writev",
    "ptrace",
    "setns",
    "umount2",
    "userfaultfd",
];

impl Rules {
    /// Passes on the calls that a broker answers (`data/broker.list`). Calls that are already refused stay refused.
    ///
    /// # Errors
    /// [`Error::PastTheBroker`] if an allowed call could bypass the broker.
    pub fn brokered(self) -> Result<Self, Error> {
        self.judged_by_broker(|_every_call| true)
    }

    /// As [`brokered`](Self::brokered), without the calls about sockets, which stay as they are.
    ///
    /// # Errors
    /// As [`brokered`](Self::brokered).
    pub fn brokered_names(self) -> Result<Self, Error> {
        self.judged_by_broker(|call| !is_of_sockets(call))
    }

    fn judged_by_broker(mut self, is_passed: impl Fn(Syscall) -> bool) -> Result<Self, Error> {
        for name in PAST_THE_BROKER {
            let call: Syscall = name.parse()?;
            let rules = self.of(call);
            // The user may answer a question with yes.
            let may = |rule: &Rule| matches!(rule.action, Action::Allow | Action::Notify);
            if (rules.is_empty() && self.default == Action::Allow) || rules.iter().any(may) {
                return Err(Error::PastTheBroker { name });
            }
        }
        for (call, rule) in BROKER_LIST.iter().filter(|(call, _rule)| is_passed(*call)) {
            self.add(*call, rule.clone());
        }
        Ok(self)
    }

    /// Brokered rules that allow unix datagram sockets and pass their messages on (`data/datagrams.list`), whatever
    /// the policy states about these calls. What the policy refuses stays refused.
    #[must_use]
    pub fn with_datagrams(mut self) -> Self {
        for (call, rules) in &mut self.calls {
            let refused = BROKER_LIST.iter().filter(|(of, rule)| of == call && is_of_datagrams(*of, rule));
            for (_call, refused) in refused {
                rules.retain(|rule| rule != refused);
            }
        }
        for (call, rule) in DATAGRAM_LIST.iter() {
            self.put_before_made(*call, vec![rule.clone()]);
        }
        self
    }

    /// Passes on only connections. For a command that may change what paths mean, so that names can't be protected.
    #[must_use]
    pub fn connecting(mut self) -> Self {
        let connections = BROKER_LIST.iter().filter(|(call, _)| call.name() == "connect");
        for (call, rule) in connections {
            self.add(*call, rule.clone());
        }
        self
    }

    /// Passes on connections to the internet (`data/internet.list`), and refuses every other way to another host or to
    /// another process's socket. For a command without a network namespace.
    ///
    /// # Errors
    /// [`Error::PastTheBroker`] if an allowed call could bypass the broker.
    pub fn with_internet(self) -> Result<Self, Error> {
        let mut rules = self.judged_by_broker(|_no_name| false)?;
        for (call, rule) in INTERNET_LIST.iter() {
            if rules.of(*call).iter().any(|stated| stated.action == Action::Allow) {
                return Err(Error::PastTheBroker { name: call.name() });
            }
            rules.put_before_made(*call, vec![rule.clone()]);
        }
        Ok(rules)
    }

    /// Brokered rules that also pass on the calls from which a command is learned (`data/learn.list`).
    ///
    /// # Errors
    /// Those of [`brokered`](Self::brokered).
    pub fn learned(self) -> Result<Self, Error> {
        let mut rules = self.brokered()?;
        for (call, rule) in LEARN_LIST.iter() {
            rules.add(*call, rule.clone());
        }
        Ok(rules)
    }

    /// Also passes on every call that isn't in `allowed`, unless it is refused already. Returns the numbers of these
    /// calls, including those that a broker answers for another reason.
    ///
    /// Calls that a launch needs to start or end are never passed on.
    #[must_use]
    pub fn watched(mut self, allowed: &BTreeSet<Syscall>, arch: Arch) -> (Self, Numbers) {
        let mut numbers = Numbers::default();
        for (call, number) in self.outside(allowed, arch) {
            self.add(call, Rule::always(Action::Notify, "wasn't learned"));
            numbers.insert(number);
        }
        (self, numbers)
    }

    /// Also passes on `execve`, and adds it to `numbers`. A recorder of calls must know when a process executes
    /// another program.
    #[must_use]
    pub fn executing(mut self, numbers: &mut Numbers, arch: Arch) -> Self {
        if let Ok(call) = "execve".parse::<Syscall>()
            && let Some(number) = call.number(arch)
        {
            self.add(call, Rule::always(Action::Notify, "executes another program"));
            numbers.insert(number);
        }
        self
    }

    /// Gives `action` to every call that isn't in `allowed`. For filters without a listener.
    #[must_use]
    pub fn only(mut self, allowed: &BTreeSet<Syscall>, action: Action, arch: Arch) -> Self {
        for (call, _number) in self.outside(allowed, arch) {
            self.add(call, Rule::always(action, "wasn't learned"));
        }
        self
    }

    /// Calls that aren't in `allowed` and that the rules don't refuse.
    fn outside(&self, allowed: &BTreeSet<Syscall>, arch: Arch) -> Vec<(Syscall, u32)> {
        let refused = |rule: &Rule| {
            rule.tests.is_empty()
                && matches!(
                    rule.action,
                    Action::Errno(_) | Action::Refuse(_) | Action::KillProcess | Action::Pretend
                )
        };
        Syscall::all()
            .filter(|call| !allowed.contains(call) && !NEEDED.contains(&call.name()))
            .filter(|call| !self.of(*call).iter().any(refused))
            .filter_map(|call| Some((call, call.number(arch)?)))
            .collect()
    }

    /// Rules for a program that serves a given socket: its `bind` and `listen` calls are passed on. It can make only
    /// unix sockets.
    ///
    /// # Errors
    /// None: the names are known.
    pub fn serving(mut self) -> Result<Self, Error> {
        const AF_UNIX: u64 = 1;
        for name in ["bind", "listen"] {
            let call: Syscall = name.parse()?;
            self.calls.insert(call, vec![Rule::always(Action::Notify, "serves a socket that it is given")]);
        }
        let others = Test { argument: 0, width: Width::Low, question: Question::NotIn(vec![AF_UNIX]) };
        self.add(
            "socket".parse()?,
            Rule {
                action: Action::Errno(Errno::EAFNOSUPPORT),
                tests: vec![others],
                condition: "arg0 not in AF_UNIX".to_owned(),
                reason: "it may serve unix sockets only".to_owned(),
            },
        );
        Ok(self)
    }
}

/// Whether a rule of `data/broker.list` refuses unix datagram sockets.
fn is_of_datagrams(call: Syscall, rule: &Rule) -> bool {
    matches!(call.name(), "socket" | "socketpair") && rule.action == Action::Errno(Errno::EACCES)
}
