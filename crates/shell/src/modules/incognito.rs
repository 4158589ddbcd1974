// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switches incognito on and off: lines aren't remembered while it is on.

use crate::chain::{Action, Acts, Module, View};

/// The module.
#[derive(Debug, Default)]
pub struct Incognito;

impl Module for Incognito {
    fn name(&self) -> &'static str {
        "incognito"
    }

    fn action(&mut self, action: Action, view: &View<'_>, acts: &mut Acts) -> bool {
        if action != Action::Incognito {
            return false;
        }
        acts.incognito = Some(!view.incognito);
        acts.renew = true;
        acts.say(if view.incognito {
            "palisade: lines are remembered again"
        } else {
            "palisade: incognito, nothing is remembered"
        });
        true
    }

    fn status(&self, view: &View<'_>, into: &mut String) {
        if view.incognito {
            into.push_str("incognito ");
        }
    }
}
