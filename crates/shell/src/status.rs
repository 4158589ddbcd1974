// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Composes the text of the status line.

use crate::column::{is_plain, width};
use crate::foreground::Foreground;
use core::fmt::Write;
use serde::Deserialize;
use std::time::Duration;
use unicode_width::UnicodeWidthChar;

/// A part of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Where typed lines go, if not to the shell: `ssh prod`.
    Context,
    /// The shell's directory.
    Directory,
    /// The exit code of the last line.
    Exit,
    /// How long the last line took.
    Duration,
    /// Whether incognito is on.
    Incognito,
    /// Whether the guard looks at lines.
    Guard,
}

/// All of them, in their usual order.
pub const ALL: [Part; 6] =
    [Part::Context, Part::Directory, Part::Exit, Part::Duration, Part::Incognito, Part::Guard];

/// The data of the status line.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Where typed lines go.
    pub context: &'a Foreground,
    /// The shell's directory.
    pub directory: &'a str,
    /// The user's home.
    pub home: &'a str,
    /// The exit code of the last line, and how long it took.
    pub last: Option<(i32, Duration)>,
    /// Incognito is on.
    pub incognito: bool,
    /// What the guard does.
    pub guard: LineGuardState,
}

/// What the guard does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineGuardState {
    /// The guard is off.
    Off,
    /// It judges lines.
    On,
    /// It holds a line back.
    Holds,
}

/// The separator between two parts.
const BETWEEN: &str = " | ";

/// Writes the parts' text into `into`, at most this many columns wide. A `String` of 4096 bytes is enough; longer text
/// is cut.
pub fn compose(parts: &[Part], facts: &Facts<'_>, columns: usize, into: &mut String) {
    into.clear();
    for part in parts {
        let before = into.len();
        if before > 0 {
            into.push_str(BETWEEN);
        }
        let begun = into.len();
        let mut text = Cut { into: &mut *into, left: columns };
        // A full text isn't an error: the rest is cut.
        let _full = part.write(facts, &mut text);
        if into.len() == begun {
            into.truncate(before);
        }
    }
    let mut taken = 0;
    let fits = into.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > columns
    });
    if let Some((at, _)) = fits {
        into.truncate(at);
    }
}

/// A writer that accepts only harmless characters, until it is full.
struct Cut<'a> {
    into: &'a mut String,
    left: usize,
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for character in text.chars().filter(|character| is_plain(*character)) {
            self.left = self.left.checked_sub(character.width().unwrap_or(0)).ok_or(core::fmt::Error)?;
            if self.into.len() + 4 > self.into.capacity() {
                return Err(core::fmt::Error);
            }
            self.into.push(character);
        }
        Ok(())
    }
}

impl Part {
    fn write(self, facts: &Facts<'_>, to: &mut Cut<'_>) -> core::fmt::Result {
        match self {
            Self::Context => write!(to, "{}", facts.context),
            Self::Directory => {
                let below = facts
                    .directory
                    .strip_prefix(facts.home)
                    .filter(|rest| facts.home.len() > 1 && (rest.is_empty() || rest.starts_with('/')));
                match below {
                    Some(rest) => write!(to, "~{rest}"),
                    None => to.write_str(facts.directory),
                }
            }
            Self::Exit => facts.last.map_or(Ok(()), |(code, _)| write!(to, "exit {code}")),
            Self::Duration => facts.last.map_or(Ok(()), |(_, took)| write_duration(took, to)),
            Self::Incognito if facts.incognito => to.write_str("incognito"),
            Self::Incognito => Ok(()),
            Self::Guard => to.write_str(match facts.guard {
                LineGuardState::Off => "no guard",
                LineGuardState::On => "guard",
                LineGuardState::Holds => "guard: not run",
            }),
        }
    }
}

fn write_duration(took: Duration, to: &mut Cut<'_>) -> core::fmt::Result {
    let seconds = took.as_secs();
    match seconds {
        0 => write!(to, "{} ms", took.as_millis()),
        1..60 => write!(to, "{seconds}.{} s", took.subsec_millis() / 100),
        60..3600 => write!(to, "{} min {} s", seconds / 60, seconds % 60),
        _ => write!(to, "{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// How many of these columns are left after a text.
#[must_use]
pub fn rest(text: &str, columns: usize) -> usize {
    columns.saturating_sub(width(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreground::Layer;

    fn said(parts: &[Part], change: impl FnOnce(&mut Facts<'_>), columns: usize) -> String {
        in_front(parts, &Foreground::default(), change, columns)
    }

    fn in_front(
        parts: &[Part],
        context: &Foreground,
        change: impl FnOnce(&mut Facts<'_>),
        columns: usize,
    ) -> String {
        let (directory, home) = ("/home/me/src", "/home/me");
        let mut facts =
            Facts { context, directory, home, last: None, incognito: false, guard: LineGuardState::On };
        change(&mut facts);
        let mut text = String::with_capacity(4096);
        compose(parts, &facts, columns, &mut text);
        assert_eq!(text.capacity(), 4096);
        text
    }

    #[test]
    fn it_says_what_there_is_in_the_order_that_is_asked_for() {
        assert_eq!(said(&ALL, |_| (), 80), "~/src | guard");
        let somebody = Foreground::of(Layer::of(&["ssh", "prod"]).into_iter().collect());
        for (parts, columns, wanted) in [
            (&ALL[..], 80, "ssh prod | ~/src | exit 130 | 2.3 s | incognito | guard: not run"),
            (&[Part::Exit, Part::Directory], 80, "exit 130 | ~/src"),
            (&ALL, 12, "ssh prod | ~"),
        ] {
            let all = |facts: &mut Facts<'_>| {
                facts.last = Some((130, Duration::from_millis(2345)));
                facts.incognito = true;
                facts.guard = LineGuardState::Holds;
            };
            assert_eq!(in_front(parts, &somebody, all, columns), wanted);
        }
    }

    #[test]
    fn directories_below_home_only_are_shortened() {
        let of = |directory: &str, columns| {
            let context = Foreground::default();
            let (home, guard) = ("/home/me", LineGuardState::On);
            let facts = Facts { context: &context, directory, home, last: None, incognito: false, guard };
            let mut text = String::with_capacity(4096);
            compose(&[Part::Directory], &facts, columns, &mut text);
            text
        };
        for (directory, wanted) in [
            ("/home/me", "~"),
            ("/home/me2", "/home/me2"),
            ("/", "/"),
            ("/a\u{1b}[31m\u{202e}\u{200b}b", "/a[31mb"),
            ("/日本", "/日本"),
        ] {
            assert_eq!(of(directory, 80), wanted);
        }
        assert_eq!(of("/日本", 4), "/日");
        assert_eq!(of(&"/x".repeat(10_000), 200).len(), 200);
    }

    #[test]
    fn durations_are_rounded_for_people() {
        for (milliseconds, wanted) in
            [(7, "7 ms"), (59_999, "59.9 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")]
        {
            let last = Some((0, Duration::from_millis(milliseconds)));
            assert_eq!(said(&[Part::Duration], |facts| facts.last = last, 80), wanted);
        }
    }
}
