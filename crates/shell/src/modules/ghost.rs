// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes the ghost text behind the cursor: all of it, a word, or a part of a path.

use crate::chain::{Action, Acts, Module, View};

/// The module.
#[derive(Debug, Default)]
pub struct Ghost;

/// The part of the ghost text that an action takes.
fn taken(tail: &str, action: Action) -> &str {
    let stops = match action {
        Action::Accept => return tail,
        Action::AcceptWord => " \t",
        Action::AcceptPart => " \t/=:,",
        _ => return "",
    };
    // Stop characters in front of the text are taken, too. For a part of a path, the one behind it is also taken.
    let begun = tail.find(|character| !stops.contains(character)).unwrap_or(tail.len());
    let rest = tail.get(begun..).unwrap_or_default();
    let end = rest.find(|character| stops.contains(character)).map_or(tail.len(), |end| begun + end);
    let behind = tail.get(end..).and_then(|rest| rest.chars().next());
    let end = match behind {
        Some('/' | '=' | ':' | ',') if action == Action::AcceptPart => end + 1,
        _ => end,
    };
    tail.get(..end).unwrap_or(tail)
}

impl Module for Ghost {
    fn name(&self) -> &'static str {
        "ghost"
    }

    fn action(&mut self, action: Action, view: &View<'_>, acts: &mut Acts) -> bool {
        if view.ghost.is_empty() || !view.line.is_certain() || !view.line.is_at_end() {
            return false;
        }
        let taken = taken(view.ghost, action);
        acts.type_text(taken);
        !taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_parts_are_taken_with_what_is_in_front() {
        for (tail, action, wanted) in [
            ("t push origin", Action::Accept, "t push origin"),
            ("t push origin", Action::AcceptWord, "t"),
            (" push origin", Action::AcceptWord, " push"),
            (" /usr/share/doc", Action::AcceptPart, " /usr/"),
            ("share/doc", Action::AcceptPart, "share/"),
            ("doc", Action::AcceptPart, "doc"),
            ("   ", Action::AcceptWord, "   "),
            ("ä ö", Action::AcceptWord, "ä"),
            ("x", Action::Pick, ""),
        ] {
            assert_eq!(taken(tail, action), wanted, "{tail} {action:?}");
        }
    }
}
