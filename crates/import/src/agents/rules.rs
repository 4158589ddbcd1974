// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of a file on paths, and their form in a profile.
//!
//! What a file allows is stated under `[default.filesystem]`, and what it refuses under `[filesystem]`. A statement of
//! the second kind overrides the first, however deep its path is. So a refusal counts at every depth.
//!
//! sandbox-runtime and Codex let the more specific rule decide instead. Their refusals of single paths are stated beside
//! the grants, where Palisade decides in the same way. Their patterns of refusals are stated above the grants.

use super::paths::{Base, Spot};
use crate::document::Value;
use crate::draft::{Draft, Said};
use crate::report::At;
use std::path::{Path, PathBuf};

const GRANTS: &str = "default.filesystem";
const REFUSALS: &str = "filesystem";

/// One statement of a file.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) at: At,
    /// The statement as reports quote it.
    pub(super) statement: String,
    pub(super) text: String,
}

impl Item {
    /// The statement, at a key of the profile.
    pub(super) fn said(&self, section: &'static str, key: &'static str) -> Said<'_> {
        Said { at: &self.at, statement: &self.statement, section, key }
    }
}

/// A statement on a place.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) item: Item,
    pub(super) spot: Spot,
}

/// Which files are readable without a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Reads {
    /// All files.
    #[default]
    All,
    /// These directories of the system.
    System(&'static [&'static str]),
    /// None.
    Listed,
}

/// Which of two rules on a path decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// A refusal.
    #[default]
    Refusals,
    /// The more specific rule.
    Specific,
}

/// All rules on paths.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) reads: Reads,
    pub(super) order: Order,
    pub(super) read: Vec<Rule>,
    pub(super) write: Vec<Rule>,
    /// Sockets to which a program may connect.
    pub(super) sockets: Vec<Rule>,
    pub(super) not_read: Vec<Rule>,
    /// Refusals that count at every depth, whatever the order is.
    pub(super) never_read: Vec<Rule>,
    pub(super) not_write: Vec<Rule>,
    /// Whether commands may read the working directory, whatever the rules are.
    pub(super) shows_working_directory: bool,
    /// Whether a rule that allows reading takes away what a rule above it allows to change.
    pub(super) reading_limits: bool,
    /// The user's home, in which directories of the system's list are looked for.
    pub(super) home: Option<PathBuf>,
}

const COVERED: &str = "another rule of the file refuses this path, and the refusal counts";
const WIDER: &str = "a pattern of grants could reach into what another rule refuses: name the paths";
const ROOT: &str = "no sandbox can change the whole host: name the directories";
const UNSAYABLE: &str = "Palisade's patterns can't express this one";
const OWN_TMP: &str = "the sandbox has a /tmp of its own";
const DEVICE: &str = "the sandbox has a /dev of its own: the usual devices are there";

impl Rules {
    /// Whether the file says nothing about paths.
    pub(super) fn is_empty(&self) -> bool {
        let all = [&self.read, &self.write, &self.sockets, &self.not_read, &self.never_read, &self.not_write];
        all.iter().all(|rules| rules.is_empty())
    }

    /// States all rules.
    pub(super) fn state(mut self, draft: &mut Draft) {
        self.roots(draft);
        let view = if self.reads == Reads::All { "host" } else { "closure" };
        draft.set(REFUSALS, "view", Value::Text(view.to_owned()));
        draft.set(REFUSALS, "working_directory", Value::Flag(false));
        if let Reads::System(directories) = self.reads {
            // A path that isn't there would be a note at each launch.
            for directory in
                directories.iter().filter(|directory| is_directory(directory, self.home.as_deref()))
            {
                draft.push(GRANTS, "execute", directory);
            }
        }
        for rule in &self.write {
            self.state_write(rule, draft);
        }
        for rule in &self.read {
            self.state_read(rule, draft);
        }
        for rule in &self.sockets {
            self.state_socket(rule, draft);
        }
        if self.lacks_working_directory() {
            draft.push(GRANTS, "execute", ".");
        }
        for rule in &self.not_read {
            let low = self.order == Order::Specific && !rule.spot.is_pattern();
            refuse(rule, if low { GRANTS } else { REFUSALS }, "hide", draft);
        }
        for rule in &self.never_read {
            refuse(rule, REFUSALS, "hide", draft);
        }
        for rule in &self.not_write {
            refuse(rule, REFUSALS, "protect_paths", draft);
        }
    }

    /// Takes out the rules about everything: they decide about the view.
    fn roots(&mut self, draft: &mut Draft) {
        let is_root = |rule: &Rule| rule.spot.is_base(Base::Root);
        let refused: Vec<Rule> = self.not_read.extract_if(.., |rule| is_root(rule)).collect();
        let never: Vec<Rule> = self.never_read.extract_if(.., |rule| is_root(rule)).collect();
        let shown: Vec<Rule> = self.read.extract_if(.., |rule| is_root(rule)).collect();
        if !shown.is_empty() {
            self.reads = Reads::All;
        }
        for rule in &shown {
            if refused.is_empty() && never.is_empty() {
                draft.taken();
            } else {
                draft.approximated(rule.item.said(REFUSALS, "view"), COVERED);
            }
        }
        if !refused.is_empty() && self.reads == Reads::All {
            self.reads = Reads::Listed;
        }
        if !never.is_empty() || (self.order == Order::Refusals && !refused.is_empty()) {
            // Nothing may be read, whatever other rules allow.
            let grants = [&mut self.read, &mut self.write, &mut self.sockets];
            for rule in grants.into_iter().flat_map(|rules| rules.drain(..)) {
                draft.approximated(rule.item.said(GRANTS, "read"), COVERED);
            }
            self.reads = Reads::Listed;
            self.shows_working_directory = false;
        }
        for _rule in refused.iter().chain(&never) {
            draft.taken();
        }
    }

    /// Whether a refusal is known to decide about a grant.
    fn refused<'r>(&'r self, grant: &Rule, mut more: impl Iterator<Item = &'r Rule>) -> bool {
        let plain = |rule: &&Rule| match self.order {
            Order::Refusals => rule.spot.covers(&grant.spot),
            Order::Specific if rule.spot.is_pattern() => rule.spot.covers(&grant.spot),
            Order::Specific => rule.spot == grant.spot,
        };
        self.not_read.iter().any(|rule| plain(&rule))
            || self.never_read.iter().any(|rule| rule.spot.covers(&grant.spot))
            || more.any(|rule| rule.spot.covers(&grant.spot))
    }

    /// Whether a grant could reach into what a refusal beside it hides.
    fn reaches(&self, grant: &Rule) -> bool {
        let beside = |rule: &Rule| !rule.spot.is_pattern() && self.order == Order::Specific;
        grant.spot.is_pattern() && self.not_read.iter().any(beside)
    }

    fn state_write(&self, rule: &Rule, draft: &mut Draft) {
        let said = rule.item.said(GRANTS, "write");
        if rule.spot.is_base(Base::Root) {
            return draft.left_out(said, ROOT);
        }
        let Some(path) = rule.spot.said(false) else { return draft.left_out(said, UNSAYABLE) };
        match path.as_str() {
            "/tmp" => return draft.approximated(said, OWN_TMP),
            "/dev/null" | "/dev/zero" | "/dev/tty" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin"
            | "/dev/random" | "/dev/urandom" | "/dev/full" => return draft.taken(),
            "/dev" => return draft.approximated(said, DEVICE),
            _ => {}
        }
        if self.refused(rule, std::iter::empty()) {
            return draft.approximated(said, COVERED);
        }
        if self.not_write.iter().any(|refusal| refusal.spot.covers(&rule.spot)) {
            // Without a view of all files, what may be written may be read.
            if self.reads != Reads::All && !self.reaches(rule) {
                draft.push(GRANTS, "execute", &path);
            }
            return draft.approximated(said, COVERED);
        }
        if self.reaches(rule) {
            return draft.left_out(said, WIDER);
        }
        if path.starts_with("/dev/") {
            if draft.push("devices", "allow", &path) {
                draft.taken();
            } else {
                draft.left_out(said, UNSAYABLE);
            }
        } else if draft.push(GRANTS, "write", &path) {
            draft.push(GRANTS, "execute", &path);
            draft.taken();
        } else {
            draft.left_out(said, UNSAYABLE);
        }
    }

    fn state_read(&self, rule: &Rule, draft: &mut Draft) {
        let said = rule.item.said(GRANTS, "execute");
        if self.refused(rule, std::iter::empty()) {
            return draft.approximated(said, COVERED);
        }
        let around = |refusal: &Rule| refusal.spot.may_cover(&rule.spot);
        let beside = self.order == Order::Specific && self.not_read.iter().any(around);
        if self.reads == Reads::All && !beside && !self.reading_limits {
            return draft.taken();
        }
        if self.reaches(rule) {
            return draft.left_out(said, WIDER);
        }
        let Some(path) = rule.spot.said(false) else { return draft.left_out(said, UNSAYABLE) };
        if path == "/tmp" {
            return draft.approximated(said, OWN_TMP);
        }
        if !draft.push(GRANTS, "execute", &path) {
            return draft.left_out(said, UNSAYABLE);
        }
        if self.reading_limits {
            // A path that isn't there yet is kept as it is, too.
            if !self.write.iter().any(|write| rule.spot.may_cover(&write.spot)) {
                draft.push(REFUSALS, "protect_paths", &path);
            }
            return draft.taken();
        }
        // A rule on a deeper path would take away what a grant above it allows.
        if self.write.iter().any(|write| write.spot.covers(&rule.spot) && self.open(&write.spot, &rule.spot))
        {
            draft.push(GRANTS, "write", &path);
        }
        draft.taken();
    }

    /// Whether nothing between two places is refused.
    fn open(&self, above: &Spot, below: &Spot) -> bool {
        let between =
            |rule: &Rule| rule.spot.may_cover(below) && (rule.spot.is_pattern() || !rule.spot.covers(above));
        !self.not_read.iter().chain(&self.not_write).any(between)
            && above
                .said(false)
                .is_some_and(|path| path != "/tmp" && path != "/" && !path.starts_with("/dev"))
    }

    fn state_socket(&self, rule: &Rule, draft: &mut Draft) {
        let said = rule.item.said(GRANTS, "write");
        if self.refused(rule, self.not_write.iter()) {
            return draft.approximated(said, COVERED);
        }
        if rule.spot.is_pattern() {
            return draft.left_out(said, "name each socket: a socket of another service may match a pattern");
        }
        match rule.spot.said(false) {
            Some(path) if path != "/" && draft.push(GRANTS, "write", &path) => draft.taken(),
            _ => draft.left_out(said, UNSAYABLE),
        }
    }

    /// Whether the working directory needs a rule to be shown. If a granted directory may contain it, a rule would take
    /// away what that grant allows.
    fn lacks_working_directory(&self) -> bool {
        let readable = self.shows_working_directory || self.reads == Reads::All;
        let around = |rule: &Rule| {
            rule.spot.is_base(Base::WorkingDirectory)
                || (rule.spot.base != Base::WorkingDirectory && !rule.spot.is_base(Base::Root))
        };
        let refused = |rule: &Rule| rule.spot.base != Base::WorkingDirectory;
        readable
            && !self.write.iter().any(around)
            && !(self.order == Order::Specific && self.not_read.iter().any(refused))
    }
}

/// Whether a path of the system's list is a directory of this host, and no link to another one.
fn is_directory(path: &str, home: Option<&Path>) -> bool {
    let place = match (path.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_below), None) => return false,
        (None, _) => PathBuf::from(path),
    };
    place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

fn refuse(rule: &Rule, section: &'static str, key: &'static str, draft: &mut Draft) {
    let said = rule.item.said(section, key);
    match rule.spot.said(false) {
        Some(path) if draft.push(section, key, &path) => draft.taken(),
        _ => match rule.spot.said(true) {
            Some(path) if draft.push(section, key, &path) => {
                draft.approximated(said, "the pattern is wider: a set became any character");
            }
            _ => draft.not_kept(said, UNSAYABLE),
        },
    }
}
