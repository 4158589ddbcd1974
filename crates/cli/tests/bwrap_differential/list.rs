// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list of arguments, and the descriptors that come with it.

use std::collections::BTreeSet;
use std::fmt;

/// An option and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unit(pub(super) Vec<Vec<u8>>);

/// A descriptor that is passed: `caller.c` explains how. `A` stands for `<` and a file with `value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pass {
    pub(super) number: u32,
    pub(super) how: u8,
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct List {
    pub(super) units: Vec<Unit>,
    pub(super) passed: Vec<Pass>,
    pub(super) command: Vec<Vec<u8>>,
    /// The command looks around.
    pub(super) looks: bool,
}

impl List {
    /// The list without the options that aren't among `options`, or `None` if data for `--args` has some.
    pub(super) fn for_options(&self, options: &BTreeSet<String>) -> Option<List> {
        let is_known = |word: &[u8]| {
            !word.starts_with(b"--")
                || word == b"--unknown"
                || options.contains(&*String::from_utf8_lossy(word))
        };
        let is_given = |pass: &&Pass| {
            self.units.iter().any(|unit| unit.0.ends_with(&[pass.number.to_string().into_bytes()]))
        };
        let data = self.passed.iter().filter(|pass| pass.how == b'A').filter(is_given);
        if !data.into_iter().all(|pass| pass.value.split(|byte| *byte == 0).all(is_known)) {
            return None;
        }
        let units = self.units.iter().filter(|unit| unit.0.first().is_some_and(|option| is_known(option)));
        Some(List { units: units.cloned().collect(), ..self.clone() })
    }

    /// Each list that lacks one option of this one, the last one first.
    pub(super) fn shorter(&self) -> impl Iterator<Item = List> + '_ {
        (0..self.units.len()).rev().map(|at| {
            let mut shorter = self.clone();
            shorter.units.remove(at);
            shorter
        })
    }

    /// The paths that the command looks at.
    pub(super) fn dests(&self) -> BTreeSet<Vec<u8>> {
        let mut dests = BTreeSet::from([b"/".to_vec()]);
        for unit in &self.units {
            let last = unit.0.last().filter(|last| unit.0.len() > 1 && last.contains(&b'/'));
            let is_large = |path: &&Vec<u8>| {
                !["/usr", "/proc", "/etc", "/bin", "/lib", "/sbin", "/lib64"]
                    .iter()
                    .any(|large| path.starts_with(large.as_bytes()))
            };
            dests.extend(last.filter(is_large).cloned());
        }
        dests
    }

    pub(super) fn arguments(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.units.iter().flat_map(|unit| &unit.0).chain(&self.command)
    }
}

impl fmt::Display for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for word in self.arguments() {
            write!(formatter, " {}", quoted(word))?;
        }
        let arguments: Vec<&Vec<u8>> = self.arguments().collect();
        for pass in &self.passed {
            let number = pass.number.to_string();
            if arguments.iter().any(|word| word.ends_with(number.as_bytes())) {
                write!(formatter, "\n      {number}{}{}", char::from(pass.how), quoted(&pass.value))?;
            }
        }
        Ok(())
    }
}

fn quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-@=,:".contains(byte);
    let text = word.escape_ascii().to_string();
    if !word.is_empty() && word.iter().all(is_plain) { text } else { format!("'{text}'") }
}
