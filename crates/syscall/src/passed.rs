// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which calls a filter passes on to the broker because the broker judges them (not because they weren't learned).

use serde::{Deserialize, Serialize};

use crate::rules::{BROKER_LIST, DATAGRAM_LIST, INTERNET_LIST, LEARN_LIST};
use crate::{Action, Arch, Call, Rule, Syscall};

/// Whether a call of the broker's list is about sockets.
pub(crate) fn is_of_sockets(call: Syscall) -> bool {
    ["bind", "connect", "getpeername", "getsockname", "socket", "socketpair"].contains(&call.name())
}

/// Which calls a filter passes on to a broker, by the sets of rules that were added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Passed {
    /// None.
    #[default]
    Nothing,
    /// Those of `Rules::connecting`.
    Connections,
    /// Those of `Rules::brokered`.
    Names,
    /// Those of `Rules::brokered` that aren't about sockets.
    NamesOnly,
    /// Those of `Rules::with_internet`.
    Internet,
    /// Those of `Rules::brokered` that aren't about sockets, and of `Rules::with_internet`.
    NamesAndInternet,
    /// Those of `Rules::brokered` and of `Rules::with_datagrams`.
    Datagrams,
    /// Those of `Rules::learned`.
    Used,
    /// Those of `Rules::learned` and of `Rules::with_datagrams`.
    UsedAndDatagrams,
}

impl Passed {
    /// Whether the broker judges names.
    #[must_use]
    pub const fn names(self) -> bool {
        !matches!(self, Self::Nothing | Self::Connections | Self::Internet)
    }

    /// Whether connections to the internet are passed on.
    #[must_use]
    pub const fn internet(self) -> bool {
        matches!(self, Self::Internet | Self::NamesAndInternet)
    }

    /// Whether unix datagram sockets may be made.
    #[must_use]
    pub const fn datagrams(self) -> bool {
        matches!(self, Self::Datagrams | Self::UsedAndDatagrams)
    }

    /// Whether this call is passed on, if no earlier rule refuses it.
    #[must_use]
    pub fn has(self, call: &Call, arch: Arch) -> bool {
        let Some(known) = Syscall::from_number(arch, call.number) else { return false };
        self.rules(known).any(|rule| rule.tests.iter().all(|test| test.holds(&call.arguments)))
    }

    /// Whether calls of this name are passed on, for some arguments at least.
    #[must_use]
    pub fn has_some(self, call: Syscall) -> bool {
        self.rules(call).next().is_some()
    }

    fn rules(self, call: Syscall) -> impl Iterator<Item = &'static Rule> {
        let (names, used) = (self.names(), matches!(self, Self::Used | Self::UsedAndDatagrams));
        let lists = [
            (
                &BROKER_LIST,
                match self {
                    Self::Connections => call.name() == "connect",
                    Self::NamesOnly | Self::NamesAndInternet => !is_of_sockets(call),
                    _ => names,
                },
            ),
            (&DATAGRAM_LIST, self.datagrams()),
            (&INTERNET_LIST, self.internet()),
            (&LEARN_LIST, used),
        ];
        lists
            .into_iter()
            .filter(|(_list, is_in_force)| *is_in_force)
            .flat_map(|(list, _)| list.iter())
            .filter(move |(of, rule)| *of == call && rule.action == Action::Notify)
            .map(|(_of, rule)| rule)
    }
}
