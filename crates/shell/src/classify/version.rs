// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares versions of packages, as far as lists need this.

use std::cmp::Ordering;

/// A set of a package's versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versions {
    exact: Option<String>,
    from: Option<String>,
    /// The upper end. `true`: the end is part of the set.
    until: Option<(String, bool)>,
}

impl Versions {
    /// Splits a package's name from the versions after it: `@1.2.3`, `>=1.0<2.0`, `<=2.0`.
    pub(super) fn split(text: &str) -> (&str, Self) {
        // `@scope/name@1.0`
        let scope = usize::from(text.starts_with('@'));
        let end =
            text.get(scope..).and_then(|rest| rest.find(['@', '<', '>'])).map_or(text.len(), |at| at + scope);
        let (name, rest) = text.split_at(end);
        let mut versions = Self::default();
        if let Some(exact) = rest.strip_prefix('@') {
            versions.exact = Some(exact.to_owned());
            return (name, versions);
        }
        let (from, until) = match rest.find('<') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        versions.from = from.strip_prefix(">=").map(str::to_owned);
        versions.until = match (until.strip_prefix("<="), until.strip_prefix('<')) {
            (Some(until), _) => Some((until.to_owned(), true)),
            (None, Some(until)) => Some((until.to_owned(), false)),
            (None, None) => None,
        };
        (name, versions)
    }

    /// Whether `version` is in the set. `None` is the newest version; it is in the set if the set has no upper end.
    pub(super) fn contain(&self, version: Option<&str>) -> bool {
        let Some(version) = version else { return self.exact.is_none() && self.until.is_none() };
        if let Some(exact) = &self.exact {
            return compare(exact, version) == Ordering::Equal;
        }
        let after =
            self.from.as_ref().is_none_or(|from| from == "0" || compare(from, version) != Ordering::Greater);
        let before = self.until.as_ref().is_none_or(|(until, with)| match compare(version, until) {
            Ordering::Less => true,
            Ordering::Equal => *with,
            Ordering::Greater => false,
        });
        after && before
    }
}

/// Compares numbers as numbers and other parts as text. A release is newer than a version with a name after its number
/// (`1.0-rc1`).
fn compare(one: &str, other: &str) -> Ordering {
    let clean = |version: &str| {
        let version = version.trim_start_matches(['v', '=']);
        version.split('+').next().unwrap_or_default().to_owned()
    };
    let (one, other) = (clean(one), clean(other));
    let (mut left, mut right) = (parts(&one).into_iter(), parts(&other).into_iter());
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (Some(Part::Number(0)), None) | (None, Some(Part::Number(0))) => Ordering::Equal,
            (Some(Part::Number(_)), None) => Ordering::Greater,
            (Some(Part::Text(_)), None) => Ordering::Less,
            (None, Some(Part::Number(_))) => Ordering::Less,
            (None, Some(Part::Text(_))) => Ordering::Greater,
            (Some(Part::Number(one)), Some(Part::Number(other))) => one.cmp(&other),
            (Some(Part::Text(one)), Some(Part::Text(other))) => one.cmp(other),
            (Some(Part::Number(_)), Some(Part::Text(_))) => Ordering::Greater,
            (Some(Part::Text(_)), Some(Part::Number(_))) => Ordering::Less,
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

enum Part<'v> {
    Number(u64),
    Text(&'v str),
}

fn parts(version: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for piece in version.split(['.', '-', '_']) {
        let mut rest = piece;
        while let Some(first) = rest.chars().next() {
            let digits = first.is_ascii_digit();
            let end = rest.find(|letter: char| letter.is_ascii_digit() != digits).unwrap_or(rest.len());
            let (part, tail) = rest.split_at(end);
            parts.push(if digits {
                Part::Number(part.parse().unwrap_or(u64::MAX))
            } else {
                Part::Text(part)
            });
            rest = tail;
        }
    }
    parts
}
