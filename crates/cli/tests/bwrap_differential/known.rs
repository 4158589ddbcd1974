// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the differences that are accepted (`known.list`).

use super::play::{Difference, END};

/// A line of the list.
pub(super) struct Known {
    aspect: &'static str,
    peer: &'static str,
    ours: &'static str,
    /// Which versions of the peer it is about.
    versions: &'static str,
    pub(super) line: &'static str,
}

pub(super) fn read() -> Vec<Known> {
    let lines = include_str!("known.list").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(Known::read).collect()
}

impl Known {
    fn read(line: &'static str) -> Self {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [versions, aspect, peer, ours, reason] = fields[..] else { panic!("five fields: {line}") };
        assert!(!reason.is_empty(), "no reason: {line}");
        Self { aspect, peer, ours, versions, line }
    }

    /// Whether it is about this version of the peer: `all`, `0.8`, or `-0.8`, which is every other one.
    pub(super) fn is_about(&self, version: &str) -> bool {
        match self.versions.strip_prefix('-') {
            Some(other) => !version.starts_with(other),
            None => self.versions == "all" || version.starts_with(self.versions),
        }
    }

    pub(super) fn fits(&self, version: &str, difference: &Difference) -> bool {
        self.is_about(version)
            && fits(self.aspect, &difference.aspect)
            && fits(self.peer, &difference.peer)
            && fits(self.ours, &difference.ours)
    }
}

/// Whether a text has these parts in this order, with anything for each `*` between them.
fn fits(pattern: &str, text: &str) -> bool {
    let literal = |rest: &[u8], byte: u8| (rest.first() == Some(&byte)).then_some(1);
    palisade_text::wildcard(pattern.as_bytes(), text.as_bytes(), literal, |_any| true)
}

/// The differences that no line accepts. `applied` counts how often each line does. A launch that ended in an accepted
/// other way has nothing else to compare.
pub(super) fn unknown(
    known: &[Known],
    version: &str,
    differences: &[Difference],
    applied: &mut [u64],
) -> Vec<Difference> {
    let mut unknown = Vec::new();
    for difference in differences {
        match known.iter().position(|line| line.fits(version, difference)) {
            Some(line) => {
                applied[line] += 1;
                if difference.aspect == END {
                    break;
                }
            }
            None => unknown.push(difference.clone()),
        }
    }
    unknown
}

#[test]
fn a_line_accepts_what_it_says_and_nothing_else() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*c", "abc", true),
        ("a*c", "abd", false),
        ("a", "ab", false),
        ("*b*d", "abcd", true),
        ("*b*d", "adcb", false),
    ] {
        assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
    }
    let line = Known::read("0.8 | end | 1 | 0 | why");
    let difference = |peer: &str| Difference { aspect: END.into(), peer: peer.into(), ours: "0".into() };
    assert!(line.fits("0.8.0", &difference("1")) && !line.fits("0.8.0", &difference("2")));
    assert!(!line.fits("0.11.1", &difference("1")));
    let rest = Difference { aspect: "umask".into(), peer: "1".into(), ours: "2".into() };
    let mut applied = [0];
    let found = unknown(&[line], "0.8.0", &[difference("1"), rest.clone()], &mut applied);
    assert_eq!((found.len(), applied), (0, [1]));
    let line = Known::read("-0.8 | end | 1 | 0 | why");
    assert_eq!(unknown(&[line], "0.8.0", &[rest], &mut applied).len(), 1);
}
