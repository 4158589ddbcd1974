// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What firejail's statements on files come to, path by path.
//!
//! Firejail mounts statement after statement, each over what is there; here the deepest path says what holds. So for
//! each path that is spoken of, what all statements on it and above it come to is worked out, and said at that path.
//! Where patterns leave open whether two paths are the same, those that take away count and those that give don't.

use super::path::Place;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A statement on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// There, readable.
    Show {
        write: bool,
        execute: bool,
    },
    Hide,
    ReadOnly,
    ReadWrite,
    NoExecute,
    /// Empty, the sandbox's own.
    Empty,
}

/// A statement on one place.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) verb: Verb,
    pub(super) place: Place,
    /// Of a hidden place: what `noblacklist` takes out of it.
    pub(super) except: Rc<[Place]>,
}

impl Rule {
    pub(super) fn new(verb: Verb, place: Place) -> Self {
        Self { verb, place, except: Rc::new([]) }
    }
}

/// What may be done with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) shown: bool,
    pub(super) write: bool,
    pub(super) execute: bool,
    pub(super) empty: bool,
}

/// All statements on files, in force in their order.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// Those that name one place, by it.
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

    /// The rules that may have a say, in order.
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

    /// What all rules come to at a place.
    pub(super) fn state(&self, place: &Place) -> State {
        let mut state = State::default();
        for index in self.on(place) {
            let rule = &self.rules[index];
            match rule.verb {
                Verb::Show { write, execute } if rule.place.holds(place) => {
                    state = State { shown: true, write, execute, empty: false };
                }
                Verb::Hide if !excepted(rule, place) => state.shown = false,
                Verb::ReadOnly => state.write = false,
                Verb::ReadWrite if rule.place.holds(place) && state.shown => state.write = true,
                Verb::NoExecute => state.execute = false,
                Verb::Empty => state.empty = true,
                _ => {}
            }
        }
        state
    }

    /// What is to be said: places whose state isn't that of the place above.
    pub(super) fn said(&self) -> Vec<(Place, State)> {
        let mut places: Vec<Place> = self.rules.iter().map(|rule| rule.place.clone()).collect();
        for rule in &self.rules {
            places.extend(rule.except.iter().filter(|place| rule.place.may_hold(place)).cloned());
        }
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
        let mut known: BTreeMap<Place, State> = BTreeMap::new();
        for (place, state) in places.iter().zip(&states) {
            let mut depths = (0..place.names.len()).rev();
            let above = depths.find_map(|depth| Some((depth, known.get(&place.above(depth)).copied()?)));
            // A pattern as deep, or between here and there, would hold where nothing is said.
            let contested = patterns.iter().any(|(pattern, other)| {
                *pattern != place
                    && other != state
                    && pattern.names.len() <= place.names.len()
                    && above.is_none_or(|(depth, _state)| pattern.names.len() > depth)
                    && pattern.may_hold(place)
            });
            let above = above.map(|(_depth, state)| state);
            let same = match above {
                Some(above) => above == *state || (above.empty && state.empty),
                None => !state.shown,
            };
            let nothing = !state.shown && above.is_none_or(|above| !above.shown);
            if nothing || (same && !contested) {
                continue;
            }
            known.insert(place.clone(), *state);
            out.push((place.clone(), *state));
        }
        out
    }
}

/// Whether `noblacklist` takes a place out of what a rule hides.
fn excepted(rule: &Rule, place: &Place) -> bool {
    let depth = rule.place.names.len();
    let hidden = place.above(depth);
    rule.except.iter().any(|except| {
        except.names.len() == depth
            && (except.holds(&rule.place) || except.holds(&hidden))
            // The home's path may be given in several ways; of the same length they are the same place.
            && except.base == rule.place.base
    })
}

#[cfg(test)]
mod tests {
    use super::super::path::Base;
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
        let said = rules.said();
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
    fn what_lies_in_an_empty_directory_is_not_there() {
        let rules = rules(&[(ALL, "~"), (ALL, "~/.cache/x"), (Verb::Empty, "~/.cache")]);
        assert_eq!(said(&rules), ["~ rwx", "~/.cache empty"]);
    }
}
