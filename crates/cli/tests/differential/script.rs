// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A script, which is a tree and calls in it, and its results.

use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Script {
    /// What lies in the ground first, parents before what is in them: `directory MODE PATH`, `file MODE PATH`,
    /// `fifo MODE PATH`, `link TEXT PATH`.
    pub(super) tree: Vec<String>,
    /// As `caller.c` reads them.
    pub(super) calls: Vec<String>,
}

/// The results of a script on one side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcome {
    /// A word of `caller.c` for each call, up to the one that it died of, or that never ended.
    pub(super) words: Vec<String>,
    /// The tree at the end, a line for each entry.
    pub(super) tree: Vec<String>,
}

/// The results of a script on both sides.
#[derive(Clone, Default)]
pub(super) struct Pair {
    pub(super) native: Outcome,
    pub(super) inside: Outcome,
}

/// A call that went differently, or the tree at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    /// The call's place; that of no call for the tree at the end.
    pub(super) at: usize,
    /// An error's name or `ok`.
    pub(super) native: String,
    /// The same; with a mark behind it if both are alike and something else isn't: `=` the number, `!` signals,
    /// `~` what the call made of the tree, `:` what was answered in memory.
    pub(super) inside: String,
    /// Whether what follows can be compared still.
    pub(super) goes_on: bool,
}

/// A word's parts: result, detail, signals, tree.
fn parts(word: &str) -> [&str; 4] {
    let (rest, tree) = word.split_once('~').unwrap_or((word, ""));
    let (rest, signals) = rest.split_once('!').unwrap_or((rest, ""));
    let (result, detail) = rest.split_once(':').unwrap_or((rest, ""));
    [result, detail, signals, tree]
}

fn class(result: &str) -> &str {
    if result.starts_with(|first: char| first.is_ascii_digit()) { "ok" } else { result }
}

impl Pair {
    /// The differences, up to the first after which nothing can be compared.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let mut all: Vec<Difference> = Vec::new();
        let longest = self.native.words.len().max(self.inside.words.len());
        for at in 0..longest {
            let word = |side: &Outcome| side.words.get(at).map_or("died", String::as_str).to_owned();
            let (native, inside) = (word(&self.native), word(&self.inside));
            if native == inside {
                continue;
            }
            let (native, inside) = (parts(&native), parts(&inside));
            let classes = (class(native[0]), class(inside[0]));
            let mark = if classes.0 != classes.1 {
                ""
            } else if native[0] != inside[0] {
                "="
            } else if native[2] != inside[2] {
                "!"
            } else if native[3] != inside[3] {
                "~"
            } else {
                ":"
            };
            // Of two errors neither has changed anything.
            let failed = classes.0 != "ok" && classes.1 != "ok" && classes.1 != "died";
            let goes_on = native[3] == inside[3] && native[2] == inside[2] && (failed || mark == ":");
            all.push(Difference {
                at,
                native: classes.0.to_owned(),
                inside: format!("{}{mark}", classes.1),
                goes_on,
            });
            if !goes_on {
                return all;
            }
        }
        if self.native.tree != self.inside.tree {
            let (native, inside) = ("ok".to_owned(), "ok~".to_owned());
            all.push(Difference { at: longest, native, inside, goes_on: false });
        }
        all
    }

    /// How the trees differ, for people.
    fn trees(&self) -> String {
        let without = |one: &Outcome, other: &Outcome| {
            one.tree.iter().filter(|line| !other.tree.contains(line)).cloned().collect::<Vec<_>>()
        };
        let (native, inside) = (without(&self.native, &self.inside), without(&self.inside, &self.native));
        format!("the tree at the end\n    natively: {native:#?}\n    inside:   {inside:#?}")
    }
}

/// A script with both results of each call, for people and as the caller reads it.
pub(super) struct Played<'s> {
    pub(super) script: &'s Script,
    pub(super) pair: &'s Pair,
}

impl fmt::Display for Played<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.script.tree {
            writeln!(to, "    {entry}")?;
        }
        for (at, call) in self.script.calls.iter().enumerate() {
            let word = |side: &Outcome| side.words.get(at).map_or("died", String::as_str).to_owned();
            let (native, inside) = (word(&self.pair.native), word(&self.pair.inside));
            if native == inside {
                writeln!(to, "    {call}    # {native}")?;
            } else {
                writeln!(to, "    {call}    # natively {native}, inside {inside}")?;
            }
        }
        if self.pair.native.tree != self.pair.inside.tree {
            writeln!(to, "  {}", self.pair.trees())
        } else {
            Ok(())
        }
    }
}
