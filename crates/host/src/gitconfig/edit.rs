// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges whether an untrusted command may make a change of a repository's own configuration.
//!
//! Git inside a sandbox must be able to write `.git/config`: a clone, a new branch, `push -u` all do. The same file
//! names programs that git runs (`core.fsmonitor`, `filter.*.clean`), also when the user runs git outside. It also
//! decides where a push goes. So this module compares the text before and the text after. An unchanged setting is
//! allowed, whatever its value is. A new, changed or removed setting must be on the list in `keys`.
//!
//! Three aspects are judged, from the text to its meaning:
//! 1. `spelling`: new lines have the form in which git writes them. They need no interpretation then, so other
//!    readers of these files (libgit2, gitoxide, JGit) see the same as this judgement.
//! 2. Each setting with all its values, under the name that git gives it.
//! 3. The order of all settings that aren't on the list: of two values the last one counts, and what an `include`
//!    says is overridden by the settings after it.
//!
//! The text doesn't say where a path leads: a link may be put in its way afterwards. So `core.worktree` of `.git`
//! itself may only have the value that applies anyway, and new addresses on this host are refused: a push to such an
//! address runs the hooks of a repository that any user may have made. (They are allowed in a repository that was
//! made inside, because it holds nothing of the user's.) See [`Baseline`] for the meaning of "before".

mod baseline;
mod keys;
mod spelling;
mod url;
mod value;

#[cfg(test)]
mod git_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use super::CAP;
use super::syntax::{self, Entry};
use keys::{KeyStatus, Rule};

pub use baseline::Baseline;

/// Where the repository is. Both paths are absolute and canonical.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    /// The directory that contains the file: `…/.git`, `…/.git/modules/NAME`.
    pub git_directory: &'p Path,
    /// The top of the working tree; for a submodule, that of its superproject.
    pub work_tree_top: &'p Path,
}

/// Why a change is refused. It displays as one line without characters that control a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The setting (`branch.main.remote`); empty where the text itself is refused. A subsection that may hold a
    /// password (`url.https://TOKEN@host/.insteadof`) is written as `*`.
    pub key: String,
    /// The line, from 1: in the new text, or for [`Change::Removed`] in the old one. 0 if the whole file is meant.
    pub line: u32,
    /// The attempted change.
    pub change: Change,
    /// Why it is refused.
    pub reason: &'static str,
    /// Other settings whose values are refused, written like `key`.
    pub also: Vec<String>,
}

/// How many settings a message names.
const NAMED: usize = 8;

/// The kind of an attempted change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A setting that wasn't there.
    Added,
    /// Other values, or the same values elsewhere in the file.
    Changed,
    /// A setting that was there is gone.
    Removed,
    /// Text that isn't judged further.
    Text,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = one_line(&self.key);
        match self.change {
            Change::Added => write!(to, "line {}: {key} = …: {}", self.line, self.reason),
            Change::Changed => write!(to, "line {}: {key} changed: {}", self.line, self.reason),
            Change::Removed => write!(to, "{key} (line {}) removed: {}", self.line, self.reason),
            Change::Text if self.line == 0 => to.write_str(self.reason),
            Change::Text => write!(to, "line {}: {}", self.line, self.reason),
        }?;
        if self.also.is_empty() {
            return Ok(());
        }
        let named: Vec<String> = self.also.iter().take(NAMED).map(|key| one_line(key)).collect();
        write!(to, "; also refused: {}", named.join(", "))?;
        match self.also.len() - named.len() {
            0 => Ok(()),
            more => write!(to, ", and {more} more"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Escapes a name for a message. Names are untrusted: characters that would break the line or control the terminal
/// are written as escapes.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            line.extend(character.escape_unicode());
        } else {
            line.push(character);
        }
    }
    line
}

/// Control characters, and characters that are invisible or change the direction of writing.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether the file may become `new`. `old` is its content before any process inside changed it; `None` only for a
/// repository that was made inside.
///
/// This is for `config`. `config.worktree` is read after it and would override `core.worktree`.
///
/// # Errors
/// [`Refusal`] with the first change that isn't allowed.
pub fn judge(old: Option<&[u8]>, new: &[u8], place: &Place<'_>) -> Result<(), Refusal> {
    if old == Some(new) {
        return Ok(());
    }
    let text =
        |reason| Refusal { key: String::new(), line: 0, change: Change::Text, reason, also: Vec::new() };
    // A NUL would end a value for git, which uses C strings.
    for text_of in [new, old.unwrap_or_default()] {
        if text_of.len() > CAP {
            return Err(text("the configuration is larger than 1 MiB"));
        }
        if text_of.contains(&0) {
            return Err(text("the configuration has a NUL byte"));
        }
    }
    spelling::judge(old.unwrap_or_default(), new)
        .map_err(|line| Refusal { line, ..text("a new line isn't written the way git writes it") })?;
    judge_settings(old, new, place)
}

/// Judges the meaning of the texts, independent of their spelling.
fn judge_settings(old: Option<&[u8]>, new: &[u8], place: &Place<'_>) -> Result<(), Refusal> {
    let unreadable = |reason| {
        move |error: syntax::SyntaxError| Refusal {
            key: String::new(),
            line: error.line(),
            change: Change::Text,
            reason,
            also: Vec::new(),
        }
    };
    let before = syntax::parse(old.unwrap_or_default())
        .map_err(unreadable("the previous configuration can't be read"))
        .map(|entries| Settings::of(&entries))?;
    let after = syntax::parse(new)
        .map_err(unreadable("git can't read this line"))
        .map(|entries| Settings::of(&entries))?;
    Comparison {
        fresh: old.is_none(),
        established: before.remotes(),
        remotes: after.remotes(),
        before: &before,
        after: &after,
        place,
    }
    .judge()
}

/// A setting's name as git forms it: `section.subsection.key`, in which the section ends at the first dot and the key
/// begins after the last. `[a.b "C"] d` and `[a "b.C"] d` are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    section: String,
    subsection: Option<Vec<u8>>,
    key: String,
}

impl Name {
    fn of(entry: &Entry) -> Self {
        let (section, subsection) = match (entry.section.split_once('.'), &entry.subsection) {
            (None, subsection) => (entry.section.as_str(), subsection.clone()),
            (Some((section, rest)), None) => (section, Some(rest.as_bytes().to_vec())),
            (Some((section, rest)), Some(subsection)) => {
                (section, Some([rest.as_bytes(), b".", subsection].concat()))
            }
        };
        Self { section: section.to_owned(), subsection, key: entry.key.clone() }
    }

    /// The name as messages show it.
    fn shown(&self) -> String {
        match &self.subsection {
            None => format!("{}.{}", self.section, self.key),
            Some(subsection) => {
                let subsection = String::from_utf8_lossy(subsection);
                let secretive = subsection.contains("://") || subsection.contains('@');
                let subsection = if secretive { "*" } else { &subsection };
                format!("{}.{subsection}.{}", self.section, self.key)
            }
        }
    }
}

/// A value and its line; the value is `None` for a key without `=`.
#[derive(Debug, Clone)]
struct Value {
    bytes: Option<Vec<u8>>,
    line: u32,
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

/// A file's settings: the values of each name in their order, and the order of the names.
struct Settings {
    values: BTreeMap<Name, Vec<Value>>,
    order: Vec<(Name, Value)>,
}

impl Settings {
    fn of(entries: &[Entry]) -> Self {
        let mut settings = Self { values: BTreeMap::new(), order: Vec::new() };
        for entry in entries {
            let name = Name::of(entry);
            let value = Value { bytes: entry.value.clone(), line: entry.line };
            settings.values.entry(name.clone()).or_default().push(value.clone());
            settings.order.push((name, value));
        }
        settings
    }

    fn of_name(&self, name: &Name) -> &[Value] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// Remotes with an address. Git treats any other name as a path.
    fn remotes(&self) -> BTreeSet<&[u8]> {
        self.values
            .iter()
            .filter(|(name, values)| {
                let address = values.last().and_then(|value| value.bytes.as_ref());
                name.section == "remote" && name.key == "url" && address.is_some_and(|url| !url.is_empty())
            })
            .filter_map(|(name, _)| name.subsection.as_deref())
            .collect()
    }

    /// Names of all sections.
    fn sections(&self) -> BTreeSet<(&str, Option<&[u8]>)> {
        self.values.keys().map(|name| (name.section.as_str(), name.subsection.as_deref())).collect()
    }

    /// The settings that aren't on the list, in the file's order.
    fn guarded(&self) -> impl Iterator<Item = &(Name, Value)> {
        self.order.iter().filter(|(name, _)| matches!(keys::status(name), KeyStatus::Refused(_)))
    }
}

/// The settings of a file before and after a change.
struct Comparison<'c> {
    /// There was no file before.
    fresh: bool,
    established: BTreeSet<&'c [u8]>,
    remotes: BTreeSet<&'c [u8]>,
    before: &'c Settings,
    after: &'c Settings,
    place: &'c Place<'c>,
}

impl Comparison<'_> {
    fn judge(&self) -> Result<(), Refusal> {
        let sections = self.before.sections();
        let changed = self.after.values.iter().filter(|(name, values)| self.before.of_name(name) != *values);
        let mut refused = changed.filter_map(|(name, values)| self.setting(name, values, &sections).err());
        if let Some(first) = refused.next() {
            return Err(Refusal { also: refused.map(|other| other.key).collect(), ..first });
        }
        self.removals()?;
        self.order()
    }

    /// Judges a setting that is new or has other values. `sections` are those that were there before.
    fn setting(
        &self,
        name: &Name,
        values: &[Value],
        sections: &BTreeSet<(&str, Option<&[u8]>)>,
    ) -> Result<(), Refusal> {
        let old = self.before.of_name(name);
        let different = values.iter().enumerate().find(|(index, value)| old.get(*index) != Some(*value));
        let line = different.or(values.iter().enumerate().next_back()).map_or(0, |(_, value)| value.line);
        let change = if old.is_empty() { Change::Added } else { Change::Changed };
        let refusal = |line, reason| Refusal { key: name.shown(), line, change, reason, also: Vec::new() };
        let rule = match keys::status(name) {
            KeyStatus::Refused(reason) => return Err(refusal(line, reason)),
            KeyStatus::Listed(rule) => rule,
        };
        let new_section = !sections.contains(&(name.section.as_str(), name.subsection.as_deref()));
        self.may_be_set(name, rule, change, new_section).map_err(|reason| refusal(line, reason))?;
        let context = value::Context {
            fresh: self.fresh,
            remotes: &self.remotes,
            established: &self.established,
            place: self.place,
        };
        for value in values {
            let accepted = rule.value.accepts(value.bytes.as_deref(), &context);
            accepted.map_err(|reason| refusal(value.line, reason))?;
        }
        Ok(())
    }

    /// Whether the rule permits setting the name at all, whatever the value is.
    fn may_be_set(
        &self,
        name: &Name,
        rule: &Rule,
        change: Change,
        new_section: bool,
    ) -> Result<(), &'static str> {
        if let Some(subsection) = &name.subsection {
            value::subsection(&name.section, subsection)?;
        }
        if self.fresh {
            return Ok(());
        }
        match rule.how {
            keys::How::Free | keys::How::Stays => Ok(()),
            keys::How::Once if change == Change::Added => Ok(()),
            keys::How::WithSection | keys::How::Kept if new_section => Ok(()),
            keys::How::Established
                if name.subsection.as_deref().is_some_and(|remote| self.established.contains(remote)) =>
            {
                Ok(())
            }
            how => Err(how.refusal()),
        }
    }

    fn removals(&self) -> Result<(), Refusal> {
        for (name, values) in &self.before.values {
            if self.after.values.contains_key(name) {
                continue;
            }
            let reason = match keys::status(name) {
                KeyStatus::Listed(rule) if matches!(rule.how, keys::How::Kept | keys::How::Stays) => {
                    rule.how.refusal()
                }
                KeyStatus::Listed(_) => continue,
                KeyStatus::Refused(reason) => reason,
            };
            let line = values.first().map_or(0, |value| value.line);
            return Err(Refusal {
                key: name.shown(),
                line,
                change: Change::Removed,
                reason,
                also: Vec::new(),
            });
        }
        Ok(())
    }

    /// Both texts have the same guarded settings at this point; they must also have the same order.
    fn order(&self) -> Result<(), Refusal> {
        let moved = self.before.guarded().zip(self.after.guarded()).find(|(old, new)| old != new);
        match moved {
            None => Ok(()),
            Some((_, (name, value))) => Err(Refusal {
                key: name.shown(),
                line: value.line,
                change: Change::Changed,
                reason: "the order of such settings may not change",
                also: Vec::new(),
            }),
        }
    }
}
