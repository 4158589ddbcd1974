// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data format of a case in `tests/acceptance/*.toml`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One named pair: the same snippet outside and inside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique, stable, kebab-case.
    pub name: String,
    /// What is tried, for the reader of a failure.
    pub title: String,
    /// Where the case comes from: `greywall: …`, `acceptance: files`, `kernel: …`.
    pub source: String,
    /// The users that run the case.
    #[serde(default)]
    pub who: Who,
    /// Features the machine must have (`features.toml`).
    #[serde(default)]
    pub needs: Vec<String>,
    /// Where the workspace lies.
    #[serde(default)]
    pub place: Place,
    /// What the snippets are written in.
    #[serde(default)]
    pub language: Language,
    /// Files of the data directory, put after `prelude.py` before the snippets in Python.
    #[serde(default)]
    pub python: Vec<String>,
    /// Shell, run as root before `setup`; for what only root can prepare.
    pub root_setup: Option<String>,
    /// Shell, run outside as the person of the case.
    pub setup: Option<String>,
    /// Shell that starts the sandbox, which is `"$@"`; default: `exec "$@"`.
    pub via: Option<String>,
    /// The attack.
    pub inside: String,
    /// The positive control, where it can't be the attack itself.
    pub outside: Option<String>,
    /// How the host sees that the snippet had its effect: `reached` and `secret` look for that
    /// word or for the secret in what the snippet printed. Anything else is shell, which runs as the
    /// harness's user and exits with 0 if the effect is there.
    pub effect: String,
    /// Shell, like `effect`: whether the attack had a part of its effect, as the host sees it. It runs
    /// for attacks inside only, where an attack of several steps could complete some of them.
    pub trace: Option<String>,
    /// Shell, run as root at the end, whatever happened.
    pub root_cleanup: Option<String>,
    /// What Palisade must do.
    #[serde(default)]
    pub expect: Expect,
    /// The tools it is meant for.
    #[serde(default = "both_tools")]
    pub tools: Vec<String>,
    /// Further options of the tools; `$W`, `$O` and `$H` are replaced.
    #[serde(default)]
    pub options: Options,
    /// The exit code inside, where it matters.
    pub exit: Option<i32>,
    /// A text that the tool must print on stderr.
    pub stderr: Option<String>,
    /// Whether it is also accepted that the tool refuses to start (exit code 125 and a reason).
    #[serde(default)]
    pub may_stop: bool,
    /// How long the attack may take, in seconds; default: 10. The same limit holds for each other snippet.
    #[serde(default = "ten_seconds")]
    pub limit: u64,
    /// Not at the same time as any other case.
    #[serde(default)]
    pub alone: bool,
    /// What the control tool does where it differs.
    #[serde(default)]
    pub bwrap: Vec<Difference>,
    /// Gaps of Palisade's own that are known and documented.
    #[serde(default)]
    pub palisade: Vec<Difference>,
}

fn both_tools() -> Vec<String> {
    vec!["palisade".into(), "bwrap".into()]
}

fn ten_seconds() -> u64 {
    10
}

/// A tool that behaves otherwise than the case expects, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The users for which it holds.
    #[serde(default)]
    pub who: Who,
    /// What happens instead.
    pub expect: Expect,
    /// In words.
    pub why: String,
}

/// The users that run a case.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// As root only.
    Root,
    /// As an ordinary user only.
    User,
    /// Once each.
    #[default]
    Both,
}

impl Who {
    /// Whether `self` covers `one`, which is `Root` or `User`.
    #[must_use]
    pub fn covers(self, one: Who) -> bool {
        self == Who::Both || self == one
    }
}

/// Where the workspace of a case lies.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Below a home directory.
    #[default]
    Home,
    /// Below `/tmp`, which a sandbox usually replaces.
    Tmp,
}

/// What a snippet is written in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// POSIX sh.
    #[default]
    Sh,
    /// Python 3, with `prelude.py` before it.
    Python,
}

/// What must come of a case inside.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// It runs and has no effect.
    #[default]
    Refused,
    /// It runs and has its effect; for a [`Difference`]: a gap.
    Works,
    /// The tool exits before the command starts.
    Stops,
    /// One or the other, by luck.
    Either,
}

/// Options of the tools for one case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// After `palisade run`.
    #[serde(default)]
    pub palisade: Vec<String>,
    /// Before bwrap's `--chdir`.
    #[serde(default)]
    pub bwrap: Vec<String>,
}

impl Case {
    /// Whether only root can prepare it, whichever user runs the attack.
    #[must_use]
    pub fn is_prepared_by_root(&self) -> bool {
        self.root_setup.is_some()
    }

    /// What `tool` is expected to do for the user `who`, and why, where that differs from the case's own.
    #[must_use]
    pub fn expected(&self, tool: &str, who: Who) -> (Expect, Option<&str>) {
        let differences = if tool == "bwrap" { &self.bwrap } else { &self.palisade };
        differences
            .iter()
            .find(|difference| difference.who.covers(who))
            .map_or((self.expect, None), |difference| (difference.expect, Some(difference.why.as_str())))
    }
}

/// `tests/acceptance` at the root of the repository.
#[must_use]
pub fn data_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/acceptance")
}
