// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a policy file to its statements.
//!
//! The code walks the TOML tree by hand, so that every value keeps its line and column and all mistakes are reported
//! at once.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::environment::EnvironmentRule;
use crate::grammar::{Key, Kind, SECTIONS, STRENGTHS, Section, TOP, TOP_OF_FEATURE, name_of};
use crate::layer::{Layer, Origin, SCHEMA, Sourced, Strength};
use crate::limits::{Amount, Limit, Unit};
use crate::lines::Lines;
use crate::names::{NameChange, NameSubject};
use crate::parse_error::{ParseError, Problem};
use crate::pattern::PathPattern;
use crate::rule::{Access, PathRule};
use crate::settings::LayerPolicy;
use crate::suggest;
use crate::value::{Hostname, Protect, SyscallRule, View};

/// The largest accepted file: 1 MiB.
pub const LARGEST_FILE: usize = 1 << 20;

/// The most entries of all lists together: far more than any real policy has, and few enough that no later step takes
/// long.
pub const MOST_ENTRIES: usize = 1 << 13;

/// The most errors that are reported: further ones wouldn't help the user.
const MOST_ERRORS: usize = 64;

/// A value with its place.
type Node<'t> = Spanned<DeValue<'t>>;

/// Parses a policy file.
///
/// # Errors
/// All mistakes in the file, in order of appearance, at most 64.
pub fn parse(text: &str, file: Option<&Path>, layer: Layer) -> Result<LayerPolicy, Vec<ParseError>> {
    read(text, file, layer, false)
}

/// Parses a feature's file.
///
/// # Errors
/// As [`parse`].
pub fn parse_feature(text: &str, file: Option<&Path>, layer: Layer) -> Result<LayerPolicy, Vec<ParseError>> {
    read(text, file, layer, true)
}

fn read(
    text: &str,
    file: Option<&Path>,
    layer: Layer,
    feature: bool,
) -> Result<LayerPolicy, Vec<ParseError>> {
    let policy = LayerPolicy::empty(layer, file);
    // Check this before the text is examined.
    if text.len() > LARGEST_FILE {
        return Err(vec![ParseError {
            problem: Problem::TooLarge { size: text.len() },
            file: policy.file,
            line: 1,
            column: 1,
            span: 0..0,
            text: "".into(),
        }]);
    }
    let mut reader = Reader {
        lines: Lines::new(text),
        shared: Arc::from(text),
        policy,
        strength: Strength::Set,
        prefix: "",
        entries: 0,
        errors: Vec::new(),
    };
    let (root, syntax) = DeTable::parse_recoverable(text);
    if syntax.is_empty() {
        reader.file(root.get_ref(), feature);
    }
    for error in syntax {
        let message = error.message().to_owned();
        reader.error(Problem::Syntax { message }, error.span().unwrap_or(0..0));
    }
    if reader.errors.is_empty() {
        return Ok(reader.policy);
    }
    reader.errors.sort_by_key(|error| error.span.start);
    Err(reader.errors)
}

struct Reader<'t> {
    lines: Lines<'t>,
    shared: Arc<str>,
    policy: LayerPolicy,
    strength: Strength,
    /// `default` or `locked` while inside such a table.
    prefix: &'static str,
    entries: usize,
    errors: Vec<ParseError>,
}

impl Reader<'_> {
    fn error(&mut self, problem: Problem, span: Range<usize>) {
        if self.errors.len() == MOST_ERRORS {
            return;
        }
        let span = self.lines.within(span);
        let (line, column) = self.lines.place(span.start);
        self.errors.push(ParseError {
            problem,
            file: self.policy.file.clone(),
            line,
            column,
            span,
            text: Arc::clone(&self.shared),
        });
    }

    fn sourced<T>(&self, value: T, span: Range<usize>) -> Sourced<T> {
        let (line, column) = self.lines.place(span.start);
        Sourced {
            value,
            origin: Origin { layer: self.policy.layer, file: self.policy.file.clone(), line, column },
            strength: self.strength,
        }
    }

    fn file(&mut self, root: &DeTable<'_>, feature: bool) {
        let mut known: Vec<&'static str> = if feature { TOP_OF_FEATURE.to_vec() } else { TOP.to_vec() };
        known.extend(SECTIONS.iter().map(|section| section.name));
        known.extend(STRENGTHS);
        self.refuse_unknown(root, "", &known);
        self.schema(root);
        self.policy.name = self.words(root, "name").pop();
        self.policy.description = self.words(root, "description").pop();
        self.policy.caveat = self.words(root, "caveat").pop();
        self.policy.says_inherits = find(root, "inherits").is_some() && !feature;
        if feature {
            self.feature(root);
        } else {
            self.policy.inherits = self.names_in(root, "inherits");
            self.stanza(root);
            self.agent(root);
        }
        self.policy.features = self.wants(root);
        self.sections(root);
        for (name, strength) in STRENGTHS.into_iter().zip([Strength::Default, Strength::Locked]) {
            let Some((key, node)) = find_with_key(root, name) else {
                continue;
            };
            if strength == Strength::Locked && !crate::layer::may_lock(self.policy.layer) {
                let layer = self.policy.layer;
                self.error(Problem::LockNotAllowed { layer }, key);
                continue;
            }
            let Some(table) = self.table(name, node) else {
                continue;
            };
            (self.strength, self.prefix) = (strength, name);
            let known: Vec<&'static str> = SECTIONS.iter().map(|section| section.name).collect();
            self.refuse_unknown(table, name, &known);
            self.sections(table);
            (self.strength, self.prefix) = (Strength::Set, "");
        }
        if !feature {
            self.configurations(root);
        }
    }

    fn schema(&mut self, root: &DeTable<'_>) {
        let Some(node) = find(root, "schema") else {
            return self.error(Problem::MissingSchema, 0..0);
        };
        let Some(found) = self.integer("schema", "a whole number", node) else {
            return;
        };
        if found != i64::from(SCHEMA) {
            self.error(Problem::UnsupportedSchema { found }, node.span());
        }
    }

    fn words(&mut self, root: &DeTable<'_>, key: &str) -> Vec<Sourced<String>> {
        let text = find(root, key).and_then(|node| Some((self.string(key, node)?, node.span())));
        text.map(|(text, span)| self.sourced(text, span)).into_iter().collect()
    }

    fn sections(&mut self, tables: &DeTable<'_>) {
        for section in SECTIONS {
            let Some(node) = find(tables, section.name) else {
                continue;
            };
            if let Some(table) = self.table(section.name, node) {
                self.section(section, table);
            }
        }
    }

    fn section(&mut self, section: &'static Section, table: &DeTable<'_>) {
        let known: Vec<&'static str> = section.keys.iter().map(|key| key.name).collect();
        self.refuse_unknown(table, section.name, &known);
        for key in section.keys {
            if let Some(node) = find(table, key.name) {
                self.key(section, key, node);
            }
        }
    }

    fn refuse_unknown(&mut self, table: &DeTable<'_>, within: &'static str, known: &[&'static str]) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let problem = Problem::UnknownKey {
                    key: name.to_owned(),
                    within,
                    suggestion: suggest::nearest(name, known.iter().copied()),
                    known: known.to_vec(),
                };
                self.error(problem, key.span());
            }
        }
    }

    fn key(&mut self, section: &Section, key: &Key, node: &Node<'_>) {
        let name = name_of(section.name, key.name, self.prefix);
        let span = node.span();
        match key.kind {
            Kind::View => {
                let views = View::ALL.map(|view| (view.key(), view));
                if let Some(view) = self.one_of(&name, node, &views) {
                    let view = self.sourced(view, span);
                    self.policy.settings.view.push(view);
                }
            }
            Kind::Network(of) => self.network(&name, of, node),
            Kind::Paths(access) => self.paths(&name, access, node),
            Kind::Protect => {
                if let Some(protect) = self.protect(&name, node) {
                    let protect = self.sourced(protect, span);
                    self.policy.settings.protect.push(protect);
                }
            }
            Kind::Names { protect } => self.names(&name, protect, node),
            Kind::Hostname => {
                if let Some(text) = self.string(&name, node)
                    && let Some(hostname) = self.checked(Hostname::new(&text), &span)
                {
                    let hostname = self.sourced(hostname, span);
                    self.policy.settings.hostname.push(hostname);
                }
            }
            Kind::Uid => {
                if let Some(uid) = self.number(&name, node) {
                    let uid = self.sourced(uid, span);
                    self.policy.settings.uid.push(uid);
                }
            }
            Kind::Gid => {
                if let Some(gid) = self.number(&name, node) {
                    let gid = self.sourced(gid, span);
                    self.policy.settings.gid.push(gid);
                }
            }
            Kind::Cwd => {
                if let Some(text) = self.string(&name, node) {
                    match PathPattern::one_path(&text) {
                        Ok(path) => {
                            let path = self.sourced(path, span);
                            self.policy.settings.cwd.push(path);
                        }
                        Err(error) => self.error(Problem::Pattern(error), span),
                    }
                }
            }
            Kind::BestEffort => {
                if let Some(yes) = self.switch(&name, node) {
                    let yes = self.sourced(yes, span);
                    self.policy.settings.best_effort.push(yes);
                }
            }
            Kind::InheritTerminal => {
                if let Some(yes) = self.switch(&name, node) {
                    let yes = self.sourced(yes, span);
                    self.policy.settings.inherit_terminal.push(yes);
                }
            }
            Kind::Syscalls { allow } => {
                for (text, span) in self.strings(&name, node) {
                    if let Some(rule) = self.checked(SyscallRule::new(&text, allow), &span) {
                        let rule = self.sourced(rule, span);
                        self.policy.settings.syscalls.push(rule);
                    }
                }
            }
            Kind::Answers => self.answers(&name, node),
            Kind::Processors => self.processors(&name, node),
            Kind::Time => self.time(&name, node),
            Kind::KeepVariables => self.variables(&name, node, EnvironmentRule::keep),
            Kind::RemoveVariables => self.variables(&name, node, EnvironmentRule::remove),
            Kind::SetVariables => self.set_variables(&name, node),
            Kind::Amount(limit) => self.amount(&name, limit, node),
            Kind::Choice(choice) => {
                if let Some(chosen) = self.one_of(&name, node, &choice.possible()) {
                    let chosen = self.sourced(chosen, span);
                    self.policy.settings.chosen.push(chosen);
                }
            }
            Kind::Word(word) => {
                if let Some(text) = self.string(&name, node)
                    && self.checked(word.check(&text), &span).is_some()
                {
                    let stated = self.sourced((word, text), span);
                    self.policy.settings.words.push(stated);
                }
            }
            Kind::Switch(switch) => {
                if let Some(yes) = self.switch(&name, node) {
                    let stated = self.sourced((switch, yes), span);
                    self.policy.settings.switches.push(stated);
                }
            }
            Kind::List(list) => self.words_of(&name, list, node),
            Kind::Made(made) => self.made(&name, made, node),
            Kind::Hooks(when) => self.hooks(&name, when, node),
        }
    }

    fn protect(&mut self, name: &str, node: &Node<'_>) -> Option<Protect> {
        // Before the broker existed, this key contained the list of paths.
        if matches!(node.get_ref(), DeValue::Array(_)) {
            self.error(Problem::Renamed { key: name.to_owned(), now: "protect_paths" }, node.span());
            return None;
        }
        self.one_of(name, node, &Protect::ALL.map(|protect| (protect.key(), protect)))
    }

    fn names(&mut self, key: &str, protect: bool, node: &Node<'_>) {
        for (text, span) in self.strings(key, node) {
            match NameSubject::new(&text) {
                Ok(name) => {
                    let change = self.sourced(NameChange { name, protect }, span);
                    self.policy.settings.names.push(change);
                }
                Err(error) => self.error(Problem::Name(error), span),
            }
        }
    }

    fn paths(&mut self, name: &str, access: Access, node: &Node<'_>) {
        for (text, span) in self.strings(name, node) {
            let read = if access.takes_destination() {
                PathPattern::with_destination(&text)
            } else {
                PathPattern::new(&text).map(|pattern| (pattern, None))
            };
            match read {
                Ok((pattern, destination)) => {
                    let stated = self.sourced((), span);
                    self.policy.settings.paths.push(PathRule {
                        pattern,
                        destination,
                        access,
                        origin: stated.origin,
                        strength: stated.strength,
                    });
                }
                Err(error) => self.error(Problem::Pattern(error), span),
            }
        }
    }

    fn variables(
        &mut self,
        name: &str,
        node: &Node<'_>,
        make: fn(&str) -> Result<EnvironmentRule, crate::value::ValueError>,
    ) {
        for (text, span) in self.strings(name, node) {
            if let Some(rule) = self.checked(make(&text), &span) {
                let rule = self.sourced(rule, span);
                self.policy.settings.environment.push(rule);
            }
        }
    }

    fn set_variables(&mut self, name: &str, node: &Node<'_>) {
        let Some(table) = self.table(name, node) else {
            return;
        };
        for (variable, value) in table {
            let span = variable.span();
            if !self.count(&span) {
                return;
            }
            let Some(text) = self.string(variable.get_ref(), value) else {
                continue;
            };
            if let Err(error) = crate::template::check(&text) {
                self.error(Problem::Pattern(error), value.span());
                continue;
            }
            let rule = EnvironmentRule::set(variable.get_ref(), &text);
            if let Some(rule) = self.checked(rule, &span) {
                let rule = self.sourced(rule, span);
                self.policy.settings.environment.push(rule);
            }
        }
    }

    fn amount(&mut self, name: &str, limit: Limit, node: &Node<'_>) {
        let read = match node.get_ref() {
            DeValue::String(text) => limit.unit().parse(text),
            DeValue::Integer(_) => match self.integer(name, "", node) {
                Some(number) => Amount::from_integer(number),
                None => return,
            },
            other => {
                let expected = match limit.unit() {
                    Unit::Bytes => "a size (`4096`, `\"512M\"`, `\"unlimited\"`)",
                    Unit::Count => "a count (`256`, `\"unlimited\"`)",
                    Unit::Seconds => "a time (`90`, `\"5m\"`, `\"unlimited\"`)",
                };
                return self.wrong_type(name, expected, other, node.span());
            }
        };
        match read {
            Ok(amount) => {
                let stated = self.sourced((limit, amount), node.span());
                self.policy.settings.limits.push(stated);
            }
            Err(error) => self.error(Problem::Amount(error), node.span()),
        }
    }
}

fn find<'n, 't>(table: &'n DeTable<'t>, key: &str) -> Option<&'n Node<'t>> {
    Some(find_with_key(table, key)?.1)
}

fn find_with_key<'n, 't>(table: &'n DeTable<'t>, key: &str) -> Option<(Range<usize>, &'n Node<'t>)> {
    let (key, node) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    Some((key.span(), node))
}

mod application;
mod network;
mod replies;
mod values;

pub(crate) use application::{AGENT, HOOK, STANZA};
pub(crate) use network::ENTRY;

#[cfg(test)]
mod application_tests;
#[cfg(test)]
mod tests;
