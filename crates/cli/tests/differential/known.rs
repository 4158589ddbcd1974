// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the known differences (`known.list`).

use super::play::Wall;
use super::script::{Difference, Script};

/// A line of the list.
pub(super) struct Known {
    calls: Vec<&'static str>,
    /// Parts of the call's text; with `!` before one that it mustn't have.
    parts: Vec<&'static str>,
    native: &'static str,
    inside: &'static str,
    pub(super) walls: Vec<&'static str>,
    pub(super) line: &'static str,
    /// A long game needn't meet it.
    pub(super) is_rare: bool,
}

pub(super) fn read() -> Vec<Known> {
    let lines = include_str!("known.list").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(Known::read).collect()
}

impl Known {
    fn read(line: &'static str) -> Self {
        let (columns, reason) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(!reason.trim().is_empty(), "no reason: {line}");
        let columns: Vec<&str> = columns.split_whitespace().collect();
        let [calls, parts, native, inside, walls] = columns[..] else { panic!("five columns: {line}") };
        let words = |list: &'static str| list.split(',').filter(|word| *word != "-").collect::<Vec<_>>();
        for wall in walls.split(',') {
            assert!(Wall::ALL.iter().any(|known| known.name() == wall), "no such wall: {line}");
        }
        let is_rare = reason.starts_with("rarely: ");
        Self { calls: words(calls), parts: words(parts), native, inside, walls: words(walls), line, is_rare }
    }

    fn applies(&self, wall: Wall, call: &str, difference: &Difference) -> bool {
        let name = call.split(' ').next().unwrap_or_default();
        let has = |part: &&str| match part.strip_prefix('!') {
            Some(part) => !call.contains(part),
            None => call.contains(part),
        };
        let is_error = |class: &str| {
            class.starts_with('E') && class.ends_with(|last: char| last.is_ascii_alphanumeric())
        };
        let is = |pattern: &str, class: &str| {
            pattern.split(',').any(|one| one == "*" || one == class || one == "error" && is_error(class))
        };
        (self.calls == ["*"] || self.calls.contains(&name))
            && self.walls.contains(&wall.name())
            && is(self.native, &difference.native)
            && is(self.inside, &difference.inside)
            && self.parts.iter().all(has)
    }
}

/// The call of a difference; `end` where it is the tree's at the end.
pub(super) fn call_of<'s>(script: &'s Script, difference: &Difference) -> &'s str {
    script.calls.get(difference.at).map_or("end", String::as_str)
}

/// The first line that says that it is known.
pub(super) fn find(known: &[Known], wall: Wall, script: &Script, difference: &Difference) -> Option<usize> {
    let call = call_of(script, difference);
    known.iter().position(|one| one.applies(wall, call, difference))
}
