// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiled rules: gives the same answers as [`crate::linear`], in a time that doesn't grow with the number of rules.
//!
//! Rules become rows of one condition per attribute (`rows`). Rows of one shape form a group (`group`). For each
//! attribute (`dimension`), the decision looks up the value once; the result is the rows whose condition on the
//! attribute holds, as bits (`index`). The first row whose bit is set for every attribute decides (`scan`). A decision
//! asks for another attribute only when the first row that is still possible needs it, and for cheap attributes first.
//! As long as no rule that can still match names `ftype`, no file's content is read.

mod dimension;
mod group;
mod index;
mod rows;
mod scan;

use crate::facts::{Access, Facts, Start};
use crate::linear::{self, Outcome};
use crate::rule::{Decision, RuleId, RuleSet, Text};

use dimension::{ALL, DIMENSIONS, Dimension, Mask, OBJECT};
use group::Group;
use index::{Collected, Index, Words, index};
use scan::Scan;

/// Compiled rules, ready to decide. See the module.
#[derive(Debug)]
pub struct Decider {
    rules: RuleSet,
    rows: Vec<Row>,
    indices: Vec<Index>,
    words: Words,
    groups: Vec<Group>,
    /// For each dimension the groups, a bit for each, whose rows all have a condition on it.
    conditional: [u64; DIMENSIONS],
    /// The bit of the mixed group, if there is one.
    mixed: u64,
    /// The bits of the groups whose rows ask for `pattern=ld_so`.
    for_linker: u64,
    no_linker_itself: bool,
}

/// One conjunction of a rule.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Its number in the order of the rules. A position without a row sorts after all others.
    order: u32,
    rule: RuleId,
    decision: Decision,
    /// The attributes that it has conditions on.
    mask: Mask,
    /// The rule has conditions beyond these.
    is_partial: bool,
    /// It asks for `pattern=ld_so`.
    is_for_linker: bool,
}

impl Row {
    const NOBODYS: Self = Self {
        order: u32::MAX,
        rule: RuleId(u32::MAX),
        decision: Decision::ALLOW,
        mask: 0,
        is_partial: false,
        is_for_linker: false,
    };
}

impl Decider {
    /// Compiles rules. This takes about as long as reading them.
    #[must_use]
    pub fn new(rules: &RuleSet) -> Self {
        let mut in_order = Vec::with_capacity(rules.len());
        let mut conjunctions = Vec::with_capacity(rules.len());
        for (id, rule) in rules.iter() {
            for conjunction in rows::of(rules, rule) {
                let order = index(in_order.len());
                let mut row = Row { order, rule: id, decision: rule.decision, ..Row::NOBODYS };
                row.is_partial = conjunction.is_partial;
                for (dimension, condition) in &conjunction.conditions {
                    row.mask |= dimension.bit();
                    row.is_for_linker |= *dimension == Dimension::Start
                        && matches!(condition, rows::Condition::Flags(rows::LINKER_ONLY));
                }
                in_order.push(row);
                conjunctions.push(conjunction.conditions);
            }
        }
        let (groups, positions) = group::arrange(&in_order);
        let mut collected: Vec<Collected> =
            std::iter::repeat_with(Collected::default).take(DIMENSIONS).collect();
        let mut rows = Vec::with_capacity(positions.len());
        for member in positions {
            let position = index(rows.len());
            let Some(member) = member else {
                rows.push(Row::NOBODYS);
                continue;
            };
            for (dimension, condition) in &conjunctions[member] {
                collected[*dimension as usize].add(position, condition);
            }
            rows.push(in_order[member]);
        }
        let mut words = Words::default();
        let indices = Dimension::EACH
            .into_iter()
            .zip(collected)
            .map(|(dimension, collected)| Index::build(dimension, collected, &groups, &mut words))
            .collect();
        let bits = |is: &dyn Fn(&Group) -> bool| {
            groups.iter().rev().fold(0u64, |bits, group| bits << 1 | u64::from(is(group)))
        };
        let conditional = Dimension::EACH
            .map(|dimension| bits(&|group| !group.is_mixed && group.mask & dimension.bit() != 0));
        let mixed = bits(&|group| group.is_mixed);
        let for_linker = bits(&|group| group.is_for_linker);
        Self {
            rules: rules.clone(),
            rows,
            indices,
            words,
            groups,
            conditional,
            mixed,
            for_linker,
            no_linker_itself: false,
        }
    }

    /// Sets the paths under which the host's run-time linkers can be executed.
    ///
    /// If the rules deny executing each of these paths with `pattern=ld_so` to every subject, whatever else is true of
    /// subject and file, then no process can be started that way. Conditions with that pattern then don't keep
    /// [`Decider::for_every_subject`] from giving an answer.
    ///
    /// This is sound only under two conditions. [`Facts::start`] returns [`Start::LinkerItself`] only for an exec of
    /// one of these paths and for the processes that result from it. No such process existed before the rules were
    /// enforced. `ld_preload` can't be ruled out like this: the environment of an exec doesn't belong to the executed
    /// file. Nor can `static`: static programs have no path or kind of their own, and a host without any (no busybox,
    /// no Go program) has other reasons to be fast.
    #[must_use]
    pub fn with_linkers(mut self, paths: &[Text]) -> Self {
        self.no_linker_itself = !paths.is_empty() && paths.iter().all(|path| self.denies_linker(path));
        self
    }

    /// The rules that were compiled.
    #[must_use]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Decides one open or exec. Doesn't allocate.
    #[must_use]
    pub fn decide(&self, facts: &dyn Facts) -> Outcome {
        let mut scan = Scan::new(self);
        while let Some(at) = self.next_possible(&mut scan, ALL, facts) {
            let row = &self.rows[at as usize];
            let holds = !self.needs_lookup(&scan, row)
                || linear::mismatch(&self.rules, self.rules.rule(row.rule), facts).is_none();
            if holds {
                return Outcome { rule: Some(row.rule), decision: row.decision };
            }
            scan.pass(at);
        }
        Outcome::NO_RULE
    }

    /// The decision for this file and access that holds for every subject; `None` if the decision may depend on the
    /// subject.
    ///
    /// Asks only for the access and for what is known of the file. If different rules decide for different subjects,
    /// but all give the same answer and none logs, that counts as one answer, with the last of these rules.
    ///
    /// The answer is never wrong for a subject: it assumes that a subject can have every combination of attributes,
    /// except the one that [`Decider::with_linkers`] rules out.
    #[must_use]
    pub fn for_every_subject(&self, facts: &dyn Facts) -> Option<Outcome> {
        let mut scan = Scan::new(self);
        if self.no_linker_itself {
            scan.drop_groups(self.for_linker);
        }
        // What the rules so far answer to some subjects.
        let mut some: Option<Decision> = None;
        loop {
            let Some(at) = self.next_possible(&mut scan, OBJECT, facts) else {
                return together(some, Outcome::NO_RULE);
            };
            scan.pass(at);
            let row = &self.rows[at as usize];
            let is_impossible = (row.is_for_linker && self.no_linker_itself)
                || (self.needs_lookup(&scan, row)
                    && linear::object_mismatch(&self.rules, self.rules.rule(row.rule), facts).is_some());
            if is_impossible {
                continue;
            }
            if row.mask & !OBJECT == 0 {
                return together(some, Outcome { rule: Some(row.rule), decision: row.decision });
            }
            if row.decision.is_logged() || some.is_some_and(|some| some != row.decision) {
                return None;
            }
            if some.is_none() {
                // Further rules that give some subjects the same answer change nothing.
                some = Some(row.decision);
                scan.drop_groups(self.groups.iter().rev().fold(0, |bits, group| {
                    bits << 1 | u64::from(group.asks_subject && group.decision == row.decision)
                }));
            }
        }
    }

    /// Do the rules deny executing the run-time linker at this path, for every value of what isn't known of subject and
    /// file?
    fn denies_linker(&self, path: &[u8]) -> bool {
        const KNOWN: Mask = Dimension::Access.bit()
            | Dimension::Path.bit()
            | Dimension::Directory.bit()
            | Dimension::Start.bit();
        let facts = Linker { path };
        let mut scan = Scan::new(self);
        while let Some(at) = self.next_possible(&mut scan, KNOWN, &facts) {
            let row = &self.rows[at as usize];
            if row.decision.allow {
                return false;
            }
            if row.mask & !KNOWN == 0 && !self.needs_lookup(&scan, row) {
                return true;
            }
            scan.pass(at);
        }
        false
    }

    /// The first row whose conditions on `known` hold. Asks for the attributes in `known` that it needs.
    fn next_possible(&self, scan: &mut Scan<'_>, known: Mask, facts: &dyn Facts) -> Option<u32> {
        loop {
            let at = scan.first()?;
            let needed = scan.unresolved(self.rows[at as usize].mask & known);
            if needed == 0 {
                return Some(at);
            }
            scan.resolve(Dimension::first_of(needed), facts);
        }
    }

    /// Are the row's bits not enough to know that it matches?
    fn needs_lookup(&self, scan: &Scan<'_>, row: &Row) -> bool {
        row.is_partial || scan.is_unsure_of(row.mask)
    }
}

/// The outcome for all subjects, if earlier rules answer some of them.
fn together(some: Option<Decision>, rest: Outcome) -> Option<Outcome> {
    match some {
        Some(some) if some != rest.decision => None,
        _ => Some(rest),
    }
}

/// An exec of the run-time linker. Only its path, the access and the start pattern are known.
struct Linker<'p> {
    path: &'p [u8],
}

impl Facts for Linker<'_> {
    fn access(&self) -> Access {
        Access::Execute
    }
    fn start(&self) -> Start {
        Start::LinkerItself
    }
    fn path(&self) -> &[u8] {
        self.path
    }

    // Never asked for.
    fn auid(&self) -> u32 {
        u32::MAX
    }
    fn uids(&self) -> &[u32] {
        &[]
    }
    fn gids(&self) -> &[u32] {
        &[]
    }
    fn session(&self) -> u32 {
        u32::MAX
    }
    fn pid(&self) -> u32 {
        u32::MAX
    }
    fn ppid(&self) -> u32 {
        u32::MAX
    }
    fn subject_trusted(&self) -> bool {
        false
    }
    fn comm(&self) -> &[u8] {
        b"?"
    }
    fn exe(&self) -> &[u8] {
        b"?"
    }
    fn subject_kind(&self) -> &str {
        "?"
    }
    fn preloads(&self) -> bool {
        false
    }
    fn device(&self) -> &[u8] {
        b"?"
    }
    fn kind(&self) -> &str {
        "?"
    }
    fn trusted(&self) -> bool {
        false
    }
    fn hash(&self) -> Option<&str> {
        None
    }
}
