// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user can rely on, and which of it a policy requires.

use crate::value::ValueError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a user can rely on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// A path that isn't granted isn't visible.
    Hidden,
    /// A path that isn't granted for writing stays unchanged.
    Unchanged,
    /// A file that isn't granted for execution doesn't run.
    NotExecuted,
    /// Rules below granted paths, and for other places, hold.
    RulesHold,
    /// Protected names stay unchanged.
    NamesProtected,
    /// Processes outside can't be seen.
    ProcessesUnseen,
    /// Processes outside can't be sent signals.
    SignalsInside,
    /// Everything inside ends with the launcher.
    EndsTogether,
    /// No data leaves by the network.
    NoNetwork,
    /// Only allowed hosts can be reached.
    HostsFiltered,
    /// Abstract sockets of the host can't be reached.
    NoAbstractSockets,
    /// Message buses are reached through their filters only.
    BusesFiltered,
    /// Dangerous system calls are refused.
    CallsRefused,
    /// System calls are answered as the policy says.
    CallsAnswered,
    /// No process inside can type into the terminal.
    TerminalSafe,
    /// A command of root isn't root on the host.
    RootIsNobody,
    /// Memory is bounded.
    MemoryBounded,
    /// The number of processes is bounded.
    ProcessesBounded,
}

impl Guarantee {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 18] = [
        Self::Hidden,
        Self::Unchanged,
        Self::NotExecuted,
        Self::RulesHold,
        Self::NamesProtected,
        Self::ProcessesUnseen,
        Self::SignalsInside,
        Self::EndsTogether,
        Self::NoNetwork,
        Self::HostsFiltered,
        Self::NoAbstractSockets,
        Self::BusesFiltered,
        Self::CallsRefused,
        Self::CallsAnswered,
        Self::TerminalSafe,
        Self::RootIsNobody,
        Self::MemoryBounded,
        Self::ProcessesBounded,
    ];

    /// The name by which a policy requires it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Unchanged => "unchanged",
            Self::NotExecuted => "not-executed",
            Self::RulesHold => "rules-hold",
            Self::NamesProtected => "names-protected",
            Self::ProcessesUnseen => "processes-unseen",
            Self::SignalsInside => "signals-inside",
            Self::EndsTogether => "ends-together",
            Self::NoNetwork => "no-network",
            Self::HostsFiltered => "hosts-filtered",
            Self::NoAbstractSockets => "no-abstract-sockets",
            Self::BusesFiltered => "buses-filtered",
            Self::CallsRefused => "calls-refused",
            Self::CallsAnswered => "calls-answered",
            Self::TerminalSafe => "terminal-safe",
            Self::RootIsNobody => "root-is-nobody",
            Self::MemoryBounded => "memory-bounded",
            Self::ProcessesBounded => "processes-bounded",
        }
    }

    /// The guarantee in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Hidden => "what isn't granted isn't there",
            Self::Unchanged => "what isn't granted for writing stays as it is",
            Self::NotExecuted => "what isn't granted for execution doesn't run",
            Self::RulesHold => "the file rules are enforced",
            Self::NamesProtected => "protected names stay as they are",
            Self::ProcessesUnseen => "processes outside can't be seen",
            Self::SignalsInside => "processes outside can't be sent signals",
            Self::EndsTogether => "everything inside ends with the launcher",
            Self::NoNetwork => "nothing leaves by the network",
            Self::HostsFiltered => "only allowed hosts are reached",
            Self::NoAbstractSockets => "abstract sockets of the host are out of reach",
            Self::BusesFiltered => "the message buses are filtered",
            Self::CallsRefused => "dangerous system calls are refused",
            Self::CallsAnswered => "calls are answered as the policy says",
            Self::TerminalSafe => "nothing is typed into your terminal",
            Self::RootIsNobody => "a command of root isn't root on the host",
            Self::MemoryBounded => "memory is bounded",
            Self::ProcessesBounded => "the number of processes is bounded",
        }
    }

    /// The guarantee of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guarantee| guarantee.name() == name)
    }

    /// Checks a name.
    ///
    /// # Errors
    /// When no guarantee has it.
    pub(crate) fn check(name: &str) -> Result<(), ValueError> {
        match Self::named(name) {
            Some(_known) => Ok(()),
            None => Err(ValueError::Word { text: name.to_owned(), what: "the name of a guarantee" }),
        }
    }
}

/// The guarantees without which a launch fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Required {
    /// Every guarantee that the policy asks for.
    all: bool,
    named: BTreeSet<Guarantee>,
}

impl Required {
    /// Every guarantee, or those that are named.
    pub(crate) fn new(all: bool, named: impl IntoIterator<Item = Guarantee>) -> Self {
        Self { all, named: named.into_iter().collect() }
    }

    /// No guarantee: a launch does what the host permits.
    #[must_use]
    pub const fn none() -> Self {
        Self { all: false, named: BTreeSet::new() }
    }

    /// Whether a launch fails without the guarantee.
    #[must_use]
    pub fn has(&self, guarantee: Guarantee) -> bool {
        self.all || self.named.contains(&guarantee)
    }

    /// Whether the policy names the guarantee, so that it is required even with `best_effort`.
    #[must_use]
    pub fn names(&self, guarantee: Guarantee) -> bool {
        self.named.contains(&guarantee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_which_json_has_too() {
        for guarantee in Guarantee::ALL {
            assert_eq!(Guarantee::named(guarantee.name()), Some(guarantee));
            assert_eq!(serde_json::to_value(guarantee).unwrap(), guarantee.name());
        }
        assert!(Guarantee::check("hiden").is_err());
    }

    #[test]
    fn what_is_named_is_required_in_any_case() {
        let all = Required::new(true, []);
        assert!(Guarantee::ALL.into_iter().all(|guarantee| all.has(guarantee)));
        let one = Required::new(false, [Guarantee::Hidden]);
        assert!(one.names(Guarantee::Hidden) && one.has(Guarantee::Hidden) && !one.has(Guarantee::NoNetwork));
        assert!(!Required::none().has(Guarantee::Hidden));
    }
}
