// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes what firejail's statements on files result in, path by path.
//!
//! Firejail mounts one statement after the other, each over what is there. In Palisade, the rule of the deepest path
//! decides. So for each path that a statement names, this module computes what all statements on it and above it result
//! in, and states that at this path. If patterns leave open whether two paths are the same, statements that take
//! something away count, and statements that give something don't.

use super::path::{Base, Place};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A statement on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Shows the place, readable.
    Show {
        write: bool,
        execute: bool,
    },
    Hide,
    /// Shows nothing except what later statements show in it.
    Clear,
    ReadOnly,
    ReadWrite,
    NoExecute,
    /// An empty directory of the sandbox's own.
    Empty,
}

/// A statement on one place.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) verb: Verb,
    pub(super) place: Place,
    /// For a hidden place: the exceptions by `noblacklist`.
    pub(super) except: Rc<[Place]>,
}

impl Rule {
    pub(super) fn new(verb: Verb, place: Place) -> Self {
        Self { verb, place, except: Rc::new([]) }
    }
}

/// What is allowed with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) shown: bool,
    pub(super) write: bool,
    pub(super) execute: bool,
    pub(super) empty: bool,
}

/// All statements on files, in the order in which they apply.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// The rules that name one place, by that place.
    plain: HashMap<Place, Vec<usize>>,
    globs: Vec<usize>,
}

impl Rules {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        let mut all = Self { rules, plain: HashMap::new(), globs: Vec::new() };
        for (index, rule) in all.rules.iter().enumerate() {
            if rule.place.is_pattern() {
                all.globs.push(index);
            } else {
                all.plain.entry(rule.place.clone()).or_default().push(index);
            }
        }
        all
    }

    /// The rules that may apply to a place, in order.
    fn on(&self, place: &Place) -> Vec<usize> {
        let mut found: Vec<usize> = if place.is_pattern() {
            (0..self.rules.len()).collect()
        } else {
            let above = (0..=place.names.len()).filter_map(|depth| self.plain.get(&place.above(depth)));
            above.flatten().chain(&self.globs).copied().collect()
        };
        found.retain(|index| self.rules[*index].place.may_hold(place));
        found.sort_unstable();
        found
    }

    /// What all rules result in at a place.
    pub(super) fn state(&self, place: &Place) -> State {
        let mut state = State::default();
        for index in self.on(place) {
            let rule = &self.rules[index];
            match rule.verb {
                Verb::Show { write, execute } if rule.place.holds(place) => {
                    state = State { shown: true, write, execute, empty: false };
                }
                Verb::Hide if !excepted(rule, place) => state.shown = false,
                Verb::Clear => state.shown = false,
                Verb::ReadOnly => state.write = false,
                Verb::ReadWrite if rule.place.holds(place) && state.shown => state.write = true,
                Verb::NoExecute => state.execute = false,
                Verb::Empty => {
                    state.empty = true;
                    // What it contained isn't there.
                    state.shown &= rule.place == *place;
                }
                _ => {}
            }
        }
        state
    }

    /// Whether a rule hides the place, or one above it.
    pub(super) fn hides(&self, place: &Place) -> bool {
        let of_it = |rule: &&Rule| rule.place.may_hold(place) && !excepted(rule, place);
        self.rules.iter().filter(of_it).any(|rule| rule.verb == Verb::Hide)
    }

    /// Whether a place is empty except for what is shown in it.
    pub(super) fn clears(&self, place: &Place) -> bool {
        self.rules.iter().any(|rule| rule.verb == Verb::Clear && rule.place == *place)
    }

    /// What statements show, whatever other statements take away.
    fn shows(&self) -> impl Iterator<Item = &Place> {
        let shows = self.rules.iter().filter(|rule| matches!(rule.verb, Verb::Show { .. }));
        shows.map(|rule| &rule.place)
    }

    /// For each pattern that reaches into a shown place without lying in it: the part that lies in it.
    ///
    /// If only `~/a` is shown, the part of `~/*/x` is `~/a/x`.
    fn parts(&self, shows: &[&Place]) -> Vec<Place> {
        let mut parts = Vec::new();
        for index in &self.globs {
            let pattern = &self.rules[*index].place;
            for show in shows {
                if show.may_hold(pattern) && !show.holds(pattern) {
                    let rest = pattern.names.iter().skip(show.names.len());
                    let names = show.names.iter().chain(rest).cloned().collect();
                    parts.push(Place { base: pattern.base, names });
                }
            }
        }
        parts
    }

    /// What the profile must state: places with another state than the place above. And exceptions from hiding patterns
    /// that stay hidden: what the place above shows isn't shown a second time.
    pub(super) fn said(&self) -> (Vec<(Place, State)>, Vec<Place>) {
        let mut places: Vec<Place> = self.rules.iter().map(|rule| rule.place.clone()).collect();
        for rule in &self.rules {
            places.extend(rule.except.iter().filter(|place| rule.place.may_hold(place)).cloned());
        }
        let shows: Vec<&Place> = self.shows().collect();
        places.extend(self.parts(&shows));
        places.sort_by(|a, b| (a.names.len(), a).cmp(&(b.names.len(), b)));
        places.dedup();
        let states: Vec<State> = places.iter().map(|place| self.state(place)).collect();
        let patterns: Vec<(&Place, State)> = places
            .iter()
            .zip(&states)
            .filter(|(place, _state)| place.is_pattern())
            .map(|(place, state)| (place, *state))
            .collect();
        let mut out: Vec<(Place, State)> = Vec::new();
        let mut hidden = Vec::new();
        let mut known: BTreeMap<Place, State> = BTreeMap::new();
        for (place, state) in places.iter().zip(&states) {
            // The shown part of the pattern is a place of its own.
            if place.is_pattern() && !shows.iter().any(|show| show.holds(place)) {
                continue;
            }
            let mut depths = (0..place.names.len()).rev();
            let above = depths.find_map(|depth| Some((depth, known.get(&place.above(depth)).copied()?)));
            // What would hold here without a statement: the states of the place above, and of patterns as deep as this
            // place or between both. For a pattern, also the states of places that may hold a part of it.
            let mut around: Vec<State> = patterns
                .iter()
                .filter(|(pattern, _state)| {
                    *pattern != place
                        && pattern.names.len() <= place.names.len()
                        && above.is_none_or(|(depth, _state)| pattern.names.len() > depth)
                        && pattern.may_hold(place)
                })
                .map(|(_pattern, state)| *state)
                .collect();
            if place.is_pattern() {
                around.extend(
                    out.iter().filter(|(said, _state)| said.may_hold(place)).map(|(_said, state)| *state),
                );
            }
            let above = above.map_or(State::default(), |(_depth, state)| state);
            let differs = above != *state || around.iter().any(|other| other != state);
            let shows = state.is_there() || above.is_there() || around.iter().any(State::is_there);
            if !differs || !shows {
                continue;
            }
            // In the home such places are the user's. Elsewhere they are often links, and a link can't be mounted on.
            // If nothing more is allowed without a statement, no statement is made.
            let more = above.is_more_than(state) || around.iter().any(|other| other.is_more_than(state));
            if above == *state && !more && state.shown && (place.is_pattern() || place.base == Base::Root) {
                hidden.push(place.clone());
                continue;
            }
            known.insert(place.clone(), *state);
            out.push((place.clone(), *state));
        }
        (out, hidden)
    }
}

impl State {
    /// Whether the host's files are there.
    const fn is_there(&self) -> bool {
        self.shown && !self.empty
    }

    /// Whether it allows something that the other doesn't.
    const fn is_more_than(&self, other: &Self) -> bool {
        self.is_there()
            && (!other.is_there() || (self.write && !other.write) || (self.execute && !other.execute))
    }
}

/// Whether `noblacklist` makes a place an exception from what a rule hides.
fn excepted(rule: &Rule, place: &Place) -> bool {
    let depth = rule.place.names.len();
    let hidden = place.above(depth);
    rule.except.iter().any(|except| {
        except.names.len() == depth
            && (except.holds(&rule.place) || except.holds(&hidden))
            // The home's path may be written in several ways. Two of the same length are the same place.
            && except.base == rule.place.base
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Verb = Verb::Show { write: true, execute: true };

    fn place(path: &str) -> Place {
        match path.strip_prefix("~") {
            Some(rest) => Place::new(Base::Home, rest),
            None => Place::new(Base::Root, path),
        }
    }

    fn rules(list: &[(Verb, &str)]) -> Rules {
        Rules::new(list.iter().map(|(verb, path)| Rule::new(*verb, place(path))).collect())
    }

    fn said(rules: &Rules) -> Vec<String> {
        let spell = |state: State| {
            let sign = |on: bool, c: char| if on { c } else { '-' };
            match state {
                State { shown: false, empty: false, .. } => "hidden".to_owned(),
                State { empty: true, .. } => "empty".to_owned(),
                State { write, execute, .. } => format!("r{}{}", sign(write, 'w'), sign(execute, 'x')),
            }
        };
        let (said, _hidden) = rules.said();
        said.into_iter()
            .map(|(place, state)| format!("{} {}", place.said(true).unwrap(), spell(state)))
            .collect()
    }

    #[test]
    fn the_order_of_firejail_becomes_depth_here() {
        let rules = rules(&[
            (ALL, "~"),
            (Verb::Hide, "~/.ssh"),
            (Verb::ReadOnly, "~/.config"),
            (Verb::ReadWrite, "~/.config/app"),
            (Verb::NoExecute, "~"),
            (Verb::Hide, "~/.config/app/secret"),
            (Verb::Hide, "/root"),
        ]);
        assert_eq!(
            said(&rules),
            ["~ rw-", "~/.config r--", "~/.ssh hidden", "~/.config/app rw-", "~/.config/app/secret hidden"]
        );
    }

    #[test]
    fn a_grant_below_what_is_hidden_is_none() {
        let rules =
            rules(&[(ALL, "~/.config/app"), (Verb::Hide, "~/.config"), (ALL, "~/.x"), (Verb::Hide, "~/.x*")]);
        assert_eq!(said(&rules), [""; 0]);
    }

    #[test]
    fn a_pattern_takes_away_where_it_may_and_gives_where_it_must() {
        let rules = rules(&[
            (ALL, "~/.foo*"),
            (Verb::ReadOnly, "~/.foo-x*"),
            (ALL, "~/.bar"),
            (Verb::ReadOnly, "~/.b*"),
            (Verb::ReadWrite, "~/.ba?"),
        ]);
        assert_eq!(said(&rules), ["~/.bar rwx", "~/.foo* r-x", "~/.foo-x* r-x"]);
    }

    #[test]
    fn exceptions_are_said_where_a_pattern_would_hold() {
        let except: Rc<[Place]> = Rc::new([place("~/.config/app"), place("~/.mozilla")]);
        let hide = |path: &str| Rule { verb: Verb::Hide, place: place(path), except: Rc::clone(&except) };
        let rules = Rules::new(vec![
            Rule::new(ALL, place("~")),
            hide("~/.config/*"),
            hide("~/.mozilla"),
            hide("~/.ssh"),
        ]);
        assert_eq!(said(&rules), ["~ rwx", "~/.ssh hidden", "~/.config/* hidden", "~/.config/app rwx"]);
    }

    #[test]
    fn a_pattern_is_said_for_the_part_that_is_shown() {
        let rules = rules(&[
            (ALL, "~/ab"),
            (Verb::Hide, "~/a*/x"),
            (Verb::ReadOnly, "~/*/y*"),
            (Verb::Hide, "~/b*/x"),
        ]);
        assert_eq!(said(&rules), ["~/ab rwx", "~/ab/x hidden", "~/ab/y* r-x"]);
    }

    #[test]
    fn what_is_no_home_is_not_shown_twice() {
        let except: Rc<[Place]> = Rc::new([place("/usr/bin/python3")]);
        let hide = Rule { verb: Verb::Hide, place: place("/usr/bin/pyth*"), except };
        let rules = Rules::new(vec![Rule::new(ALL, place("/usr/bin")), hide]);
        assert_eq!(said(&rules), ["/usr/bin rwx", "/usr/bin/pyth* hidden"]);
        assert_eq!(rules.said().1, [place("/usr/bin/python3")]);
    }

    #[test]
    fn what_lies_in_an_empty_directory_is_not_there() {
        let all = rules(&[(ALL, "~"), (ALL, "~/.cache/x"), (Verb::Empty, "~/.cache")]);
        assert_eq!(said(&all), ["~ rwx", "~/.cache empty"]);
        let own = rules(&[(ALL, "~/.cache/x"), (Verb::Empty, "~/.cache")]);
        assert_eq!(said(&own), [""; 0]);
    }
}
