// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The atoms: each is one known danger, with the condition under which it applies.
//!
//! The atoms are a text table, which is parsed when the first line is classified. An automaton finds in one pass which
//! atoms may apply to a line. Only the conditions of these atoms are evaluated.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::command::Reading;
use super::condition::{COMMAND, Condition, TermError, render};
use super::subject::Subject;
use super::verdict::{Level, Reason};

const TABLE: &str = include_str!("atoms.table");

/// One known danger.
#[derive(Debug)]
pub(super) struct Atom {
    group: &'static str,
    name: &'static str,
    pub(super) level: Level,
    reference: &'static str,
    words: &'static str,
    condition: Condition,
}

/// All atoms, prepared for searching.
#[derive(Debug)]
pub struct Atoms {
    atoms: Vec<Atom>,
    automaton: AhoCorasick,
    /// For each pattern of the automaton: its atom, and whether the pattern is more than a program's name.
    owners: Vec<(u32, bool)>,
    /// Atoms for which no text is required to be in the line.
    always: Vec<u32>,
}

/// An error in the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A line is neither a heading nor an atom.
    #[error("line {line} of the atoms: {text}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// A condition is invalid.
    #[error("line {line} of the atoms: {source}")]
    Term {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        source: TermError,
    },
    /// There are too many atoms.
    #[error("the atoms don't fit into an automaton: {0}")]
    Automaton(String),
}

impl Atoms {
    /// Palisade's own atoms.
    #[must_use]
    pub fn own() -> Option<&'static Self> {
        static OWN: OnceLock<Option<Atoms>> = OnceLock::new();
        // A test checks that the table can be parsed.
        OWN.get_or_init(|| Atoms::parse(TABLE).ok()).as_ref()
    }

    /// Parses a table.
    ///
    /// A heading `= group level reference words` gives what the atoms below it have in common. `name: condition` is an
    /// atom; `# words` after it are optional and replace the heading's words. In words, `{}` stands for the atom's
    /// name.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn parse(table: &'static str) -> Result<Self, TableError> {
        let mut atoms: Vec<Atom> = Vec::new();
        let mut heading: Option<(&str, Level, &str, &str)> = None;
        for (number, line) in table.lines().enumerate() {
            let line_number = number + 1;
            let wrong = || TableError::Line { line: line_number, text: line.to_owned() };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(head) = line.strip_prefix("= ") {
                let mut parts = head.splitn(4, ' ');
                let (Some(group), Some(level), Some(reference), Some(words)) =
                    (parts.next(), parts.next().and_then(Level::of_letter), parts.next(), parts.next())
                else {
                    return Err(wrong());
                };
                heading = Some((group, level, reference, words));
                continue;
            }
            let (group, level, reference, words) = heading.ok_or_else(wrong)?;
            let (name, rest) = line.split_once(": ").ok_or_else(wrong)?;
            let (condition, own) = match rest.split_once(" # ") {
                Some((condition, own)) => (condition, Some(own)),
                None => (rest, None),
            };
            let condition = Condition::parse(condition)
                .map_err(|source| TableError::Term { line: line_number, source })?;
            atoms.push(Atom { group, name, level, reference, words: own.unwrap_or(words), condition });
        }
        let mut patterns = Vec::new();
        let mut owners = Vec::new();
        let mut always = Vec::new();
        for (index, atom) in atoms.iter().enumerate() {
            let index = u32::try_from(index).map_err(|error| TableError::Automaton(error.to_string()))?;
            let anchors = atom.condition.anchors();
            if anchors.is_empty() {
                always.push(index);
            }
            for anchor in anchors {
                let telling = !anchor.starts_with(COMMAND) && anchor.len() >= 6;
                patterns.push(anchor);
                owners.push((index, telling));
            }
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // A DFA needs half the time per byte of the other kinds. For 5,000 atoms it takes some megabytes of memory.
            .kind(Some(AhoCorasickKind::DFA))
            .build(&patterns)
            .map_err(|error| TableError::Automaton(error.to_string()))?;
        Ok(Self { atoms, automaton, owners, always })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// How often the automaton finds a text of an atom. For measuring the automaton alone.
    #[must_use]
    pub fn scan(&self, text: &str) -> usize {
        self.automaton.find_overlapping_iter(text).count()
    }

    /// The group, name and reference of each.
    pub fn list(&self) -> impl Iterator<Item = (String, Level, &'static str)> {
        self.atoms.iter().map(|atom| (format!("{}/{}", atom.group, atom.name), atom.level, atom.reference))
    }

    /// Returns a reason for each atom whose condition holds. Also returns the strongest of the atoms whose text is in
    /// the line but whose condition does not hold.
    pub(super) fn find(&self, subjects: &[Subject<'_>], reading: &Reading) -> (Vec<Reason>, Option<&Atom>) {
        let (text, starts) = render(subjects);
        let mut candidates: Vec<(u32, u32, bool)> = Vec::new();
        for found in self.automaton.find_overlapping_iter(&text) {
            let Some((owner, telling)) = self.owners.get(found.pattern().as_usize()) else { continue };
            let command = starts.partition_point(|start| *start <= found.start()).saturating_sub(1);
            let candidate = (*owner, u32::try_from(command).unwrap_or(u32::MAX), *telling);
            if candidates.last() != Some(&candidate) {
                candidates.push(candidate);
            }
        }
        for owner in &self.always {
            candidates
                .extend((0..u32::try_from(subjects.len()).unwrap_or_default()).map(|at| (*owner, at, false)));
        }
        candidates.sort_unstable();
        candidates.dedup_by_key(|(owner, command, _)| (*owner, *command));
        let mut reasons = Vec::new();
        let mut named: Option<&Atom> = None;
        for (owner, command, telling) in candidates {
            let atom = usize::try_from(owner).ok().and_then(|owner| self.atoms.get(owner));
            let subject = usize::try_from(command).ok().and_then(|command| subjects.get(command));
            let (Some(atom), Some(subject)) = (atom, subject) else { continue };
            match atom.condition.holds(subject, reading) {
                Some(span) => reasons.push(atom.reason(span)),
                None if telling && named.is_none_or(|other| other.level < atom.level) => named = Some(atom),
                None => {}
            }
        }
        (reasons, named)
    }
}

impl Atom {
    fn reason(&self, span: std::ops::Range<usize>) -> Reason {
        Reason {
            rule: format!("{}/{}", self.group, self.name),
            level: self.level,
            span,
            words: self.words.replace("{}", self.name),
            reference: self.reference.to_owned(),
        }
    }
}
