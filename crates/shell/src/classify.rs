// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifies a line before it runs: what it would do, and whether to ask the user first.
//!
//! This is a guard-rail, not a boundary: it judges the text of a line by patterns that are known. A person who wants to
//! get around it can. A sandbox holds for every command.
//!
//! In reading order:
//!
//! - [`Settings`], [`Rule`]: what the user can configure
//! - [`Verdict`], [`Level`], [`Origin`], [`Reason`]: the result
//! - [`Context`], [`Session`]: where a line runs, and what was run before
//! - `reading`, `expansion`, `output`, `wrapping`: from text to commands, without running anything;
//!   [`palisade_shell_syntax`] parses the text itself
//! - `subject`, `argument`, `condition`, `atoms`: what is known to be dangerous
//! - `chains`, `signals`, `characters`: combinations of commands, weak signs, and odd characters
//! - [`lists`], `packages`, `version`: known bad packages and hosts
//! - [`model`]: the user's own model, which is asked where the others aren't sure
//! - [`trust`]: lines that the user has marked as intended

mod argument;
mod atoms;
mod chains;
mod characters;
mod command;
#[cfg(test)]
mod comparison;
mod condition;
mod expansion;
pub mod lists;
pub mod model;
mod output;
mod packages;
mod reading;
mod rules;
mod session;
mod settings;
mod signals;
mod subject;
#[cfg(test)]
mod tests;
pub mod trust;
mod verdict;
mod version;
mod wrapping;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

pub use atoms::{Atoms, TableError};
pub use condition::TermError;
pub use rules::{Rule, RuleError};
pub use session::{Context, Session};
pub use settings::{Scope, Settings, Strictness};
pub use verdict::{Level, Origin, Reason, Verdict};

use command::{Doubt, Reading};
use lists::Known;
use model::{Model, Opinion};
use subject::Subject;
use trust::Trust;

/// Only this many bytes of a longer line are examined.
const CAP: usize = 1 << 20;
/// At most this many reasons are given.
const REASONS: usize = 16;

/// Judges lines.
#[derive(Debug)]
pub struct Classifier {
    settings: Settings,
    trust: Option<Trust>,
    model: Option<Model>,
    flagged: Mutex<Known>,
}

impl Classifier {
    /// A classifier with the user's settings. It reads nothing yet except the user's model, if there is one, in a
    /// separate thread.
    ///
    /// # Errors
    /// When a rule of the user's is invalid.
    pub fn new(settings: &Settings) -> Result<Self, RuleError> {
        for (at, rule) in settings.rules.iter().enumerate() {
            rule.check(at + 1)?;
        }
        let trust = settings.state.as_deref().map(Trust::in_directory);
        let model = settings.model.as_ref().filter(|_| settings.enabled).map(Model::new);
        Ok(Self { settings: settings.clone(), trust, model, flagged: Mutex::default() })
    }

    /// Does the work that the first line would otherwise wait for, which takes some milliseconds. Also waits until the
    /// model is read; otherwise the first lines would be judged without it. Call it in a separate thread.
    pub fn prepare(&self) {
        let _ready = Atoms::own();
        if let Some(model) = &self.model {
            model.prepare();
        }
    }

    /// Judges a line. Runs nothing and asks nothing over the network. The time grows with the line's length. Never
    /// panics, whatever the line is.
    #[must_use]
    pub fn classify(&self, line: &str, origin: Origin, context: &Context) -> Verdict {
        if !self.settings.enabled {
            return Verdict::default();
        }
        let text = line.get(..line.floor_char_boundary(CAP)).unwrap_or(line);
        let mut reading = reading::read(text, context.root);
        if text.len() < line.len() {
            reading.doubt = Some(Doubt::Long);
        }
        let subjects: Vec<Subject<'_>> = reading
            .commands
            .iter()
            .enumerate()
            .map(|(index, command)| Subject::new(index, command))
            .collect();
        let files = subject::downloads(&reading);

        let mut reasons = characters::check(text, &reading, origin);
        let mut named = None;
        if let Some(atoms) = Atoms::own() {
            let (found, other) = atoms.find(&subjects, &reading);
            reasons.extend(found);
            named = other;
        }
        reasons.extend(chains::check(&reading, &subjects, &files, &context.session));
        reasons.extend(self.look_up(&subjects));
        let (score, sum) = signals::weigh(&reading, &subjects, origin, context.session.heat());
        reasons.extend(sum);
        if let Some(reason) = unknown(text, &reading, named) {
            reasons.push(reason);
        }
        let known = model::input::Known {
            score,
            origin,
            doubt: reading.doubt.is_some(),
            root: context.root,
            commands: reading.commands.len(),
        };
        let opinion = self.ask_model(text, &reasons, known);
        reasons.extend(opinion.as_ref().and_then(|opinion| opinion.reason(text)));
        reasons.retain(|reason| !self.is_without(reason));
        for reason in &mut reasons {
            reason.level = self.stricter(reason, origin).min(self.settings.most);
        }
        let mut verdict = Verdict {
            level: Level::Allow,
            reasons,
            score,
            downloads: files.into_iter().map(|(_, file)| file).collect(),
            command: label(&reading),
            of_scopes: origin == Origin::Typed && is_of_scopes(&reading),
            model: opinion,
        };
        self.decide(text, origin, &reading, &mut verdict);
        verdict
            .reasons
            .sort_by(|one, other| (other.level, one.span.start).cmp(&(one.level, other.span.start)));
        verdict.reasons.dedup_by(|one, other| one.rule == other.rule);
        verdict.reasons.truncate(REASONS);
        for reason in &mut verdict.reasons {
            reason.span = within(line, reason.span.clone());
        }
        verdict
    }

    /// From the reasons to the action: applies the user's rules and trusted lines.
    fn decide(&self, line: &str, origin: Origin, reading: &Reading, verdict: &mut Verdict) {
        let strongest = verdict.reasons.iter().map(|reason| reason.level).max().unwrap_or_default();
        let rule =
            self.settings.rules.iter().find_map(|rule| Some((rule, rule.matches(line, origin, reading)?)));
        let forbidden = rule.as_ref().is_some_and(|(rule, _)| rule.action == Level::Block);
        verdict.level = match rule {
            Some((rule, _)) if rule.action == Level::Allow => Level::Allow,
            Some((rule, span)) => {
                verdict.reasons.push(rule.reason(span));
                strongest.max(rule.action)
            }
            None => strongest,
        };
        if verdict.level == Level::Allow || forbidden {
            return;
        }
        match self.trust.as_ref().map(|trust| trust.contains(line)) {
            Some(Ok(true)) => verdict.level = Level::Allow,
            Some(Err(error)) => verdict.reasons.push(Reason {
                rule: "trust/unreadable".to_owned(),
                level: Level::Warn,
                span: 0..0,
                words: format!("Can't read the list of trusted lines: {error}"),
                reference: String::new(),
            }),
            Some(Ok(false)) | None => {}
        }
    }

    /// The opinion of the user's model. The model is asked only where the earlier tiers see something and don't ask the
    /// user.
    fn ask_model(&self, line: &str, reasons: &[Reason], known: model::input::Known) -> Option<Opinion> {
        let model = self.model.as_ref()?;
        let counted = reasons.iter().filter(|reason| !self.is_without(reason));
        let strongest = counted.map(|reason| reason.level).max().unwrap_or_default();
        Some(if strongest > Level::Warn {
            Opinion::NotAsked("the rules ask already")
        } else if strongest == Level::Allow && known.score == 0 && !known.doubt {
            Opinion::NotAsked("the rules see nothing in it")
        } else {
            model.ask(model::input::features(line, known))
        })
    }

    /// What the lists say about packages and hosts in the line.
    fn look_up(&self, subjects: &[Subject<'_>]) -> Vec<Reason> {
        if !subjects.iter().any(packages::concerns) {
            return Vec::new();
        }
        let mut known = self.flagged.lock().unwrap_or_else(PoisonError::into_inner);
        match known.now(self.settings.state.as_deref()) {
            Ok(flagged) => packages::check(subjects, flagged),
            Err(error) => vec![Reason {
                rule: "lists/unreadable".to_owned(),
                level: Level::Warn,
                span: 0..0,
                words: format!("Can't look it up in the lists: {error}"),
                reference: String::new(),
            }],
        }
    }

    fn is_without(&self, reason: &Reason) -> bool {
        let group = reason.rule.split('/').next().unwrap_or_default();
        self.settings.without.iter().any(|name| name == group || *name == reason.rule)
    }

    fn stricter(&self, reason: &Reason, origin: Origin) -> Level {
        let strictness = match origin {
            Origin::Typed => return reason.level,
            Origin::Pasted => self.settings.pasted,
            Origin::Machine => self.settings.machine,
        };
        // A paste of several lines is by itself no reason to ask.
        if reason.rule == "characters/many-lines" {
            return reason.level;
        }
        match (strictness, reason.level, origin) {
            (Strictness::Same, level, _) => level,
            (Strictness::Strictest, Level::Confirm | Level::ConfirmOnce, _) => Level::Block,
            (Strictness::Stricter, Level::Warn, Origin::Pasted) => Level::ConfirmOnce,
            (Strictness::Stricter | Strictness::Strictest, Level::Warn | Level::ConfirmOnce, _) => {
                Level::Confirm
            }
            (_, level, _) => level,
        }
    }
}

/// The reason why a line that can't be parsed isn't safe: it is deeper or longer than an intended line would be, or it
/// isn't valid shell and it contains a dangerous name.
fn unknown(line: &str, reading: &Reading, named: Option<&atoms::Atom>) -> Option<Reason> {
    let named = named.filter(|atom| atom.level >= Level::Confirm);
    let words = match (reading.doubt, named) {
        (Some(Doubt::Deep | Doubt::Long), _) => {
            "It is too long or too deeply nested to be understood as a whole"
        }
        (Some(Doubt::Open | Doubt::Stray), Some(_)) => {
            "It isn't a complete line of shell, and it names something dangerous"
        }
        _ => return None,
    };
    Some(Reason {
        rule: "unknown/not-understood".to_owned(),
        level: Level::Warn,
        span: 0..line.len(),
        words: words.to_owned(),
        reference: "T1027".to_owned(),
    })
}

/// The first command's name, shortened.
fn label(reading: &Reading) -> String {
    let name = reading.commands.iter().map(command::Command::name).find(|name| !name.is_empty());
    palisade_text::shown(name.unwrap_or_default()).at_most(40).to_string()
}

/// Whether the line only asks about scopes. Such a line gets no scope, because a process in a scope can't ask about
/// scopes.
fn is_of_scopes(reading: &Reading) -> bool {
    let mut commands = reading.commands.iter().filter(|command| !command.wrapper).peekable();
    commands.peek().is_some()
        && reading.doubt.is_none()
        && commands.all(|command| {
            command.name() == "palisade"
                && command.arguments().first().is_some_and(|word| word.value == "scope")
                && command.arguments().get(1).is_none_or(|word| word.value != "run")
        })
}

/// Clamps a span to the line and moves its ends to character boundaries.
fn within(line: &str, span: Range<usize>) -> Range<usize> {
    let start = line.floor_char_boundary(span.start.min(line.len()));
    let end = line.ceil_char_boundary(span.end.clamp(start, line.len()));
    start..end.max(start)
}
