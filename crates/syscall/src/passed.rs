// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which calls reach a broker for their own sake.

use serde::{Deserialize, Serialize};

use crate::rules::{BROKER_LIST, LEARN_LIST};
use crate::{Action, Arch, Call, Rule, Syscall};

/// Which calls a filter passes on to a broker, by the rules that were added for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Passed {
    /// None.
    #[default]
    Nothing,
    /// Those of [`Rules::connecting`].
    Connections,
    /// Those of [`Rules::brokered`].
    Names,
    /// Those of [`Rules::learned`].
    Used,
}

impl Passed {
    /// Whether a call that no earlier rule refused is among them.
    #[must_use]
    pub fn has(self, call: &Call, arch: Arch) -> bool {
        let Some(known) = Syscall::from_number(arch, call.number) else { return false };
        let matches = |(of, rule): &(Syscall, Rule)| {
            *of == known
                && rule.action == Action::Notify
                && rule.tests.iter().all(|test| test.holds(&call.arguments))
        };
        match self {
            Self::Nothing => false,
            Self::Connections => known.name() == "connect",
            Self::Names => BROKER_LIST.iter().any(matches),
            Self::Used => BROKER_LIST.iter().any(matches) || LEARN_LIST.iter().any(matches),
        }
    }
}
