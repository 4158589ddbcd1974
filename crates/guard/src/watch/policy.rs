// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that decides, as one value: it is replaced as a whole or not at all.

use super::counts::Count;
use super::known::Identity;
use super::line::{Format, FormatError};
use crate::decide::Decider;
use crate::facts::Facts;
use crate::kind::{self, Wanted};
use crate::linear::Outcome;
use crate::rule::{
    ObjectField, ObjectText, Pattern, Permission, Rule, RuleId, RuleSet, SubjectField, SubjectText, Text,
};
use crate::settings::Settings;
use crate::shortage::noted;
use palisade_event::{Layer, Origin};
use palisade_protocol::guard::RuleHits;

/// Compiled rules, with the settings and data that belong to them.
#[derive(Debug)]
pub struct Policy {
    /// The settings that it was made from.
    pub settings: Settings,
    /// The rules as they were written.
    pub rules: RuleSet,
    /// Where the rules are from, for people.
    pub from: String,
    /// How often policies were loaded, this one included.
    pub generation: u64,
    decider: Decider,
    /// The same for the mode enforce, where denied accesses are refused: then some processes can't exist.
    enforced: Decider,
    linkers: Vec<Text>,
    format: Format,
    hits: Vec<Count>,
    starts: Starts,
    kinds: Wanted,
}

/// Which questions must be seen to know how programs start, for rules with `pattern=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// Nothing.
    Nothing,
    /// What the run-time linker opens: the linker is refused everything if a process has executed it directly. Whether
    /// a process runs the linker is looked up when that process opens a file, so no exec needs to be seen.
    Opens,
    /// Each exec and open of a program, in their order.
    All,
}

impl Starts {
    fn of(rules: &RuleSet) -> Self {
        let patterns = |rule: &Rule| {
            let patterns = rule.subject.iter().filter_map(|field| match field {
                SubjectField::Pattern(pattern) => Some(*pattern),
                _ => None,
            });
            patterns.collect::<Vec<_>>()
        };
        let refuses_linker = |rule: &Rule| {
            let asks_nothing_else = rule.subject.iter().all(|field| {
                matches!(field, SubjectField::Pattern(Pattern::LinkerItself) | SubjectField::All)
            });
            !rule.decision.allow
                && rule.permission == Permission::Any
                && asks_nothing_else
                && rule.object.iter().all(|field| matches!(field, ObjectField::All))
        };
        let mut asked =
            rules.iter().map(|(_, rule)| rule).filter(|rule| !patterns(rule).is_empty()).peekable();
        if asked.peek().is_none() {
            return Self::Nothing;
        }
        let mut is_refused = false;
        for rule in asked {
            if patterns(rule).iter().any(|pattern| *pattern != Pattern::LinkerItself) {
                return Self::All;
            }
            is_refused |= refuses_linker(rule);
        }
        if is_refused { Self::Opens } else { Self::All }
    }
}

/// The kinds of files and programs that a rule names.
fn kinds<'a>(rules: &'a RuleSet, rule: &'a Rule) -> impl Iterator<Item = &'a Text> {
    let subjects = rule.subject.iter().filter_map(|field| match field {
        SubjectField::Text(SubjectText::Kind, values) => Some(values),
        _ => None,
    });
    let objects = rule.object.iter().filter_map(|field| match field {
        ObjectField::Text(ObjectText::Kind, values) => Some(values),
        _ => None,
    });
    subjects.chain(objects).flat_map(|values| rules.texts(values))
}

impl Policy {
    /// Compiles rules.
    ///
    /// # Errors
    /// [`FormatError`] of the settings' log format.
    pub fn new(
        settings: Settings,
        rules: RuleSet,
        linkers: Vec<Text>,
        from: String,
        generation: u64,
    ) -> Result<Self, FormatError> {
        let format = Format::parse(&settings.log.format)?;
        let decider = Decider::new(&rules);
        let enforced = Decider::new(&rules).with_linkers(&linkers);
        let hits = (0..rules.len()).map(|_| Count::default()).collect();
        let starts = Starts::of(&rules);
        let asks_of_programs = |kind: &Text| kind::is_programs(kind);
        let kinds = rules.iter().flat_map(|(_, rule)| kinds(&rules, rule)).all(asks_of_programs);
        let kinds = if kinds { Wanted::Programs } else { Wanted::Every };
        Ok(Self {
            kinds,
            settings,
            rules,
            from,
            generation,
            decider,
            enforced,
            linkers,
            format,
            hits,
            starts,
        })
    }

    /// Which kinds of files rules ask for.
    #[must_use]
    pub fn kinds(&self) -> Wanted {
        self.kinds
    }

    /// What must be seen of how programs start.
    #[must_use]
    pub fn starts(&self) -> Starts {
        self.starts
    }

    /// The decision about an access.
    pub fn decide(&self, facts: &dyn Facts) -> Outcome {
        self.decider.decide(facts)
    }

    /// Counts the rule that decided.
    pub fn count(&self, outcome: Outcome) {
        if let Some(RuleId(index)) = outcome.rule
            && let Some(hits) = self.hits.get(index as usize)
        {
            hits.one();
        }
    }

    /// The decision that holds for every process, if there is one.
    pub fn for_every_subject(&self, facts: &dyn Facts, enforcing: bool) -> Option<Outcome> {
        if enforcing { &self.enforced } else { &self.decider }.for_every_subject(facts)
    }

    /// Whether this is one of the host's run-time linkers. Copies of them are programs like any other, as in fapolicyd.
    #[must_use]
    pub fn is_linker(&self, path: &[u8]) -> bool {
        self.linkers.iter().any(|linker| **linker == *path)
    }

    /// Whether this is the C library of one of the linkers. It is in the same directory, and executing it prints its
    /// version.
    pub(super) fn is_c_library(&self, path: &[u8]) -> bool {
        let directory = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (own, name) = path.split_at(directory(path));
        [&b"/libc.so"[..], b"/libc-2", b"/libpthread-2"].iter().any(|begin| name.starts_with(begin))
            && self.linkers.iter().any(|linker| linker[..directory(linker)] == *own)
    }

    /// Whether a program is one of the linkers, at any path that a process sees. The files at the linkers' paths are
    /// looked up each time: there are few, and packages replace them.
    pub(super) fn is_linkers_program(&self, program: Identity) -> bool {
        let is_at = |linker: &Text| {
            let there = noted(rustix::fs::stat(&**linker));
            there.is_ok_and(|there| Identity::of(&there).key() == program.key())
        };
        self.linkers.iter().any(is_at)
    }

    /// The log line.
    pub fn line(&self, outcome: Outcome, facts: &dyn Facts) -> String {
        self.format.line(outcome.rule.map(RuleId::number), outcome.decision.name(), facts)
    }

    /// Every rule with its hits.
    #[must_use]
    pub fn hits(&self) -> Vec<RuleHits> {
        self.rules
            .iter()
            .zip(&self.hits)
            .map(|((id, _), hits)| RuleHits {
                number: id.number(),
                origin: self.origin(id),
                text: self.rules.show(id),
                hits: hits.get(),
            })
            .collect()
    }

    /// The place of a rule. Only root can have written it.
    #[must_use]
    pub fn place(&self, id: RuleId) -> Origin {
        let place = self.rules.origin(id).place;
        Origin::line(Layer::Administrator, self.rules.file(place), place.line)
    }

    /// File and line of a rule.
    #[must_use]
    pub fn origin(&self, id: RuleId) -> String {
        let place = self.rules.origin(id).place;
        format!("{}:{}", self.rules.file(place).display(), place.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::accounts::AccountFiles;
    use crate::rule::parse::parse;
    use std::path::Path;

    fn starts(rules: &str) -> Starts {
        let rules =
            parse(Path::new("rules"), rules.as_bytes(), &AccountFiles::host()).expect("they are right");
        Starts::of(&rules)
    }

    #[test]
    fn an_exec_is_seen_where_rules_tell_one_from_an_open() {
        let refused = "deny perm=any pattern=ld_so : all\n";
        let rest = "allow perm=any all : all\n";
        assert_eq!(starts(rest), Starts::Nothing);
        assert_eq!(starts(&format!("{refused}{rest}")), Starts::Opens);
        assert_eq!(starts(&format!("allow perm=any exe=/bin/x : all\n{refused}{rest}")), Starts::Opens);
        assert_eq!(
            starts(&format!("allow perm=any uid=0 pattern=ld_so : all\n{refused}{rest}")),
            Starts::Opens
        );
        for asks_more in [
            "deny perm=execute pattern=ld_so : all\n",
            "deny perm=open pattern=ld_so : all\n",
            "deny perm=any uid=7 pattern=ld_so : all\n",
            "deny perm=any pattern=ld_so : ftype=application/x-executable\n",
            "allow perm=any pattern=ld_so : all\n",
            "deny perm=any pattern=static : all\n",
            "deny perm=any pattern=ld_preload : all\n",
        ] {
            assert_eq!(starts(&format!("{asks_more}{rest}")), Starts::All, "{asks_more}");
        }
        assert_eq!(starts(&format!("{refused}deny perm=any pattern=static : all\n{rest}")), Starts::All);
    }
}
