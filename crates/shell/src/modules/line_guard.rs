// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line guard: asks before a line does harm.

use crate::chain::{Acts, Module, Ruling, View};
use crate::classify::model::Opinion;
use crate::classify::{Classifier, Context, Level, Origin, Reason, RuleError, Scope, Settings, Verdict};
use crate::counts::{self, Tally, Told};
use crate::history::now;
use crate::link::Link;
use crate::{line, settings};
use palisade_protocol::scope::{self, Profile, Wanted};
use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A second Enter that comes sooner was meant for something else, or doesn't come from a person.
const THOUGHT: Duration = Duration::from_millis(300);

/// The module.
#[derive(Debug)]
pub struct LineGuard {
    classifier: Classifier,
    context: Context,
    /// The line that the user was asked about, and when.
    asked: Option<(String, Instant)>,
    /// The link with palisaded, which makes scopes of lines.
    link: Option<Rc<RefCell<Link>>>,
    /// Where rulings are counted.
    tally: Option<Rc<Tally>>,
    scope: Scope,
    /// The rules that were confirmed once in this session.
    confirmed: HashSet<String>,
    /// The directory of the trusted lines.
    state: Option<PathBuf>,
}

impl LineGuard {
    /// The guard with these settings.
    ///
    /// # Errors
    /// When a rule of the user's is invalid.
    pub fn new(settings: &Settings) -> Result<Self, RuleError> {
        let context = Context { root: rustix::process::geteuid().is_root(), ..Context::default() };
        let classifier = Classifier::new(settings)?;
        Ok(Self {
            classifier,
            context,
            asked: None,
            link: None,
            tally: None,
            scope: settings.scope,
            confirmed: HashSet::new(),
            state: settings.state.clone(),
        })
    }

    /// Makes a scope of each line.
    #[must_use]
    pub fn with_link(mut self, link: Rc<RefCell<Link>>) -> Self {
        self.link = (self.scope != Scope::Off).then_some(link);
        self
    }

    /// Counts rulings in this tally.
    #[must_use]
    pub fn with_tally(mut self, tally: Rc<Tally>) -> Self {
        self.tally = Some(tally);
        self
    }

    /// Counts a ruling, unless incognito is on.
    fn count(&self, ruling: counts::Ruling, rule: &str, view: &View<'_>) {
        if let Some(tally) = self.tally.as_ref().filter(|_| !view.incognito) {
            let line = Some(view.line.text().to_owned());
            tally.rule(Told { time: now(), ruling, rule: rule.to_owned(), line });
        }
    }

    fn words(reason: Option<&Reason>) -> String {
        let Some(reason) = reason else { return String::new() };
        let reference =
            if reason.reference.is_empty() { String::new() } else { format!(", {}", reason.reference) };
        format!("{} ({}{reference})", reason.words, reason.rule)
    }

    fn run(&mut self, verdict: &Verdict) -> Ruling {
        self.context.session.note(verdict);
        if !verdict.of_scopes {
            // Lines that caused a warning or a question are reported in every profile.
            let suspect = verdict.level >= Level::Warn;
            self.mark(&verdict.command, if suspect { scope::Verdict::Warn } else { scope::Verdict::Watch });
        }
        Ruling::Run
    }

    /// Makes a scope of the line, labelled with the name of its first command.
    fn mark(&self, command: &str, verdict: scope::Verdict) {
        if let Some(link) = &self.link {
            link.borrow_mut().run(Wanted {
                verdict,
                label: format!("shell: {command}"),
                calls: false,
                profile: match self.scope {
                    Scope::Off | Scope::Prompt => None,
                    Scope::Audit => Some(Profile::Audit),
                    Scope::Session => Some(Profile::Session),
                    Scope::Strict => Some(Profile::Strict),
                },
            });
        }
    }
}

impl Module for LineGuard {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn renew(&mut self, settings: &settings::Settings) -> bool {
        let mut wanted = settings.guard.clone();
        wanted.state.clone_from(&self.state);
        match Classifier::new(&wanted) {
            Ok(classifier) => {
                self.classifier = classifier;
                true
            }
            Err(_) => false,
        }
    }

    /// The line's text is unknown. The line gets a scope as every other line does: it can't be known whether it only
    /// asks about scopes.
    fn unread(&mut self, _view: &View<'_>) {
        self.asked = None;
        self.mark("?", scope::Verdict::Watch);
    }

    fn commit(&mut self, view: &View<'_>, acts: &mut Acts) -> Ruling {
        let text = view.line.text();
        let asked = self.asked.take();
        if text.trim().is_empty() {
            return Ruling::Run;
        }
        let origin = match view.line.origin() {
            line::Origin::Typed => Origin::Typed,
            line::Origin::Pasted => Origin::Pasted,
            line::Origin::Machine => Origin::Machine,
        };
        self.context.directory = (!view.directory.is_empty()).then(|| view.directory.into());
        let verdict = self.classifier.classify(text, origin, &self.context);
        let mut words = Self::words(verdict.first());
        if let Some(problem) = verdict.model.as_ref().and_then(Opinion::problem) {
            if verdict.level == Level::Allow {
                acts.warn(&format!("palisade: {problem}"));
            } else {
                words.push_str("; ");
                words.push_str(&problem);
            }
        }
        let rule = verdict.first().map(|reason| reason.rule.clone()).unwrap_or_default();
        match verdict.level {
            Level::Allow => self.run(&verdict),
            Level::Warn => {
                acts.warn(&format!("palisade: {words}"));
                self.count(counts::Ruling::Warned, &rule, view);
                self.run(&verdict)
            }
            Level::ConfirmOnce if self.confirmed.contains(&rule) => self.run(&verdict),
            Level::ConfirmOnce | Level::Confirm => {
                let again = asked.as_ref().is_some_and(|(line, since)| {
                    line == text && view.now.saturating_duration_since(*since) >= THOUGHT
                });
                if again {
                    self.count(counts::Ruling::Confirmed, &rule, view);
                    self.confirmed.insert(rule);
                    // The question is answered, so it must not stay below the next line.
                    acts.say("");
                    return self.run(&verdict);
                }
                let since = match asked {
                    Some((line, since)) if line == text => since,
                    _ => {
                        self.count(counts::Ruling::Asked, &rule, view);
                        view.now
                    }
                };
                self.asked = Some((text.to_owned(), since));
                acts.say(&format!("palisade: {words}\nEnter again runs it, Ctrl-C doesn't"));
                Ruling::Hold
            }
            Level::Block => {
                acts.say(&format!("palisade: not run: {words}"));
                self.count(counts::Ruling::Blocked, &rule, view);
                Ruling::Hold
            }
        }
    }
}
