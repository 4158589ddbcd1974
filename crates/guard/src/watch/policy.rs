// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that decides, as one value: it is replaced whole or not at all.

use super::counts::Count;
use super::line::{Format, FormatError};
use crate::decide::Decider;
use crate::facts::Facts;
use crate::kind::{self, Wanted};
use crate::linear::Outcome;
use crate::rule::{ObjectField, ObjectText, Rule, RuleId, RuleSet, SubjectField, SubjectText, Text};
use crate::settings::Settings;
use palisade_protocol::guard::RuleHits;

/// Rules, ready to decide, with what belongs to them.
#[derive(Debug)]
pub struct Policy {
    /// The settings that it was made from.
    pub settings: Settings,
    /// The rules as they were written.
    pub rules: RuleSet,
    /// Where they are from, for people.
    pub from: String,
    /// How often policies were loaded, this one included.
    pub generation: u64,
    decider: Decider,
    /// The same, where what the rules deny is refused: then some processes can't come to be.
    enforced: Decider,
    linkers: Vec<Text>,
    format: Format,
    hits: Vec<Count>,
    starts_matter: bool,
    kinds: Wanted,
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
    /// Compiles.
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
        let starts_matter = rules
            .iter()
            .any(|(_, rule)| rule.subject.iter().any(|field| matches!(field, SubjectField::Pattern(_))));
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
            starts_matter,
        })
    }

    /// Which kinds of files rules ask for.
    #[must_use]
    pub fn kinds(&self) -> Wanted {
        self.kinds
    }

    /// Whether some rule asks how a program was started: then each of its execs must be seen.
    #[must_use]
    pub fn starts_matter(&self) -> bool {
        self.starts_matter
    }

    /// What becomes of it.
    pub fn decide(&self, facts: &dyn Facts) -> Outcome {
        self.decider.decide(facts)
    }

    /// It was answered so.
    pub fn count(&self, outcome: Outcome) {
        if let Some(RuleId(index)) = outcome.rule
            && let Some(hits) = self.hits.get(index as usize)
        {
            hits.one();
        }
    }

    /// What becomes of it whoever asks, if that is the same for all.
    pub fn for_every_subject(&self, facts: &dyn Facts, enforcing: bool) -> Option<Outcome> {
        if enforcing { &self.enforced } else { &self.decider }.for_every_subject(facts)
    }

    /// Whether this is one of the host's run-time linkers; copies of them are programs like any other, as for
    /// fapolicyd.
    #[must_use]
    pub fn is_linker(&self, path: &[u8]) -> bool {
        self.linkers.iter().any(|linker| **linker == *path)
    }

    /// The line that is logged.
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

    /// File and line of a rule.
    #[must_use]
    pub fn origin(&self, id: RuleId) -> String {
        let place = self.rules.origin(id).place;
        format!("{}:{}", self.rules.file(place).display(), place.line)
    }
}
