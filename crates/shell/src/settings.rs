// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shell's settings file: `shell.toml`.

use crate::chain::Action;
use crate::classify;
use crate::key::Chord;
use crate::status::{self, Part};
use palisade_text::Show as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the file's format.
pub const SCHEMA: i64 = 1;
/// The largest settings file that is accepted, in bytes.
pub const LARGEST: usize = 1 << 20;

/// Why the settings can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file can't be read.
    #[error("can't read {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is too large for a settings file.
    #[error("{} is larger than {LARGEST} bytes", path.shown())]
    Large {
        /// The file.
        path: PathBuf,
    },
    /// The content isn't valid.
    #[error("can't understand {}: {message}", path.shown())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The place and the problem, as the parser reports it, with a caret below the place.
        message: String,
        /// The word that the user probably meant.
        meant: Option<String>,
    },
    /// The file has another version of the format.
    #[error("{} has schema {found}, and this version understands {SCHEMA}", path.shown())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
    },
}

impl SettingsError {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Malformed { meant: Some(meant), .. } => Some(format!("did you mean `{meant}`?")),
            Self::Schema { .. } => {
                Some(format!("write schema = {SCHEMA}, and see what changed in docs/shell.md"))
            }
            _ => None,
        }
    }
}

/// The modules. Keys pass them in the order of the list in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Keys that are bound to actions.
    Keymap,
    /// Lines that aren't remembered.
    Incognito,
    /// The pick list.
    Pick,
    /// The ghost text: the line that is likely to be typed next, dim behind the cursor.
    Ghost,
    /// The history.
    History,
    /// The line guard, which asks before a line does harm.
    Guard,
    /// Addresses in output become links that can be clicked.
    Links,
    /// The status, in the window's title or its last row.
    Status,
}

/// All modules, in the recommended order.
const ALL: [Name; 7] =
    [Name::Keymap, Name::Incognito, Name::Pick, Name::Ghost, Name::History, Name::Guard, Name::Status];

/// `[ghost]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ghost {
    /// The number of characters from which on ghost text is shown.
    pub from: usize,
    /// How many rows ghost text may take.
    pub rows: usize,
}

impl Default for Ghost {
    fn default() -> Self {
        Self { from: 1, rows: 3 }
    }
}

/// `[history]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct History {
    /// Incognito is on from the start.
    pub incognito: bool,
    /// A line that begins with a space isn't remembered.
    pub ignore_space: bool,
    /// A line that seems to contain a secret isn't remembered, either.
    pub ignore_secrets: bool,
}

impl Default for History {
    fn default() -> Self {
        Self { incognito: false, ignore_space: true, ignore_secrets: true }
    }
}

/// `[status]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Status {
    /// The status line uses the window's last row.
    pub row: bool,
    /// The parts of the status line, in this order.
    pub show: Vec<Part>,
}

impl Default for Status {
    fn default() -> Self {
        Self { row: false, show: status::ALL.to_vec() }
    }
}

/// `[links]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Links {
    /// Paths of existing files become links, too.
    pub paths: bool,
}

impl Default for Links {
    fn default() -> Self {
        Self { paths: true }
    }
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The modules, in their order.
    pub modules: Vec<Name>,
    /// The keys with their actions.
    pub keys: Vec<(Chord, Action)>,
    /// Ghost text.
    pub ghost: Ghost,
    /// What the history remembers.
    pub history: History,
    /// The status line.
    pub status: Status,
    /// What becomes a link.
    pub links: Links,
    /// The line guard's settings.
    pub guard: classify::Settings,
}

/// The keys that are bound unless the file changes them.
const KEYS: [(&str, Action); 7] = [
    ("right", Action::Accept),
    ("end", Action::Accept),
    ("ctrl-e", Action::Accept),
    ("ctrl-right", Action::AcceptWord),
    ("alt-right", Action::AcceptPart),
    ("alt-down", Action::Pick),
    ("alt-i", Action::Incognito),
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            modules: ALL.to_vec(),
            keys: KEYS.iter().filter_map(|(key, action)| Some((key.parse().ok()?, *action))).collect(),
            ghost: Ghost::default(),
            history: History::default(),
            status: Status::default(),
            links: Links::default(),
            guard: classify::Settings::default(),
        }
    }
}

#[derive(Debug)]
struct Key(Chord);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.to_string().cmp(&other.0.to_string())
    }
}

/// The file's structure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    schema: i64,
    modules: Option<Vec<Name>>,
    #[serde(default)]
    keys: BTreeMap<Key, Action>,
    #[serde(default)]
    ghost: Ghost,
    #[serde(default)]
    history: History,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    links: Links,
    #[serde(default)]
    guard: classify::Settings,
}

impl Settings {
    /// Parses the text of the file `path`.
    ///
    /// # Errors
    /// [`SettingsError`], with the place in the file.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        if text.len() > LARGEST {
            return Err(SettingsError::Large { path: path.to_owned() });
        }
        let mut file: File = toml::from_str(text).map_err(|error| SettingsError::Malformed {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
            meant: meant(error.message()),
        })?;
        if file.schema != SCHEMA {
            return Err(SettingsError::Schema { path: path.to_owned(), found: file.schema });
        }
        let mut settings = Self::default();
        for (Key(chord), action) in core::mem::take(&mut file.keys) {
            settings.keys.retain(|(other, _)| *other != chord);
            if action != Action::None {
                settings.keys.push((chord, action));
            }
        }
        let mut modules = file.modules.take().unwrap_or(settings.modules);
        let mut seen = Vec::new();
        modules.retain(|name| {
            let first = !seen.contains(name);
            seen.push(*name);
            first
        });
        let File { ghost, history, status, links, guard, .. } = file;
        Ok(Self { modules, ghost, history, status, links, guard, ..settings })
    }

    /// Reads a file. A missing file gives the defaults.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(SettingsError::Read { path: path.to_owned(), source }),
        }
    }
}

/// The valid word that is nearest to the wrong one, if the message names the valid words and one of them is near.
fn meant(message: &str) -> Option<String> {
    let mut words = message.split('`').skip(1).step_by(2);
    let found = words.next()?;
    words
        .map(|word| (distance(found, word), word))
        .filter(|(distance, word)| *distance <= word.len().max(3) / 3)
        .min()
        .map(|(_, word)| word.to_owned())
}

/// The number of insertions, deletions, changes and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(text, Path::new("/home/u/.config/palisade/shell.toml"))
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse("schema = 1").unwrap(), Settings::default());
        assert_eq!(Settings::default().keys.len(), KEYS.len(), "each key can be read");
    }

    #[test]
    fn each_key_is_understood() {
        let settings = parse(
            r#"schema = 1
            modules = ["ghost", "keymap", "ghost"]
            [keys]
            "right" = "none"
            "ctrl-f" = "accept"
            [ghost]
            from = 3
            rows = 1
            [history]
            incognito = true
            [status]
            row = true
            show = ["exit", "context"]
            "#,
        )
        .unwrap();
        assert_eq!(settings.modules, [Name::Ghost, Name::Keymap]);
        assert!(settings.keys.contains(&("ctrl-f".parse().unwrap(), Action::Accept)));
        assert!(!settings.keys.iter().any(|(chord, _)| *chord == "right".parse().unwrap()));
        assert_eq!((settings.ghost.from, settings.history.incognito), (3, true));
        assert_eq!(settings.status, Status { row: true, show: vec![Part::Exit, Part::Context] });
    }

    #[test]
    fn what_is_wrong_is_shown_with_a_caret_and_what_was_meant() {
        for (text, words, hint) in [
            ("schema = 1\n[gohst]\nfrom = 1", "^", Some("did you mean `ghost`?")),
            ("schema = 1\n[ghost]\nform = 1", "^", Some("did you mean `from`?")),
            ("schema = 1\nmodules = [\"keymp\"]", "line 2", Some("did you mean `keymap`?")),
            ("schema = 1\n[keys]\n\"crtl-a\" = \"accept\"", "crtl", None),
            ("schema = 1\n[keys]\n\"ctrl-a\" = \"acept\"", "line 3", Some("did you mean `accept`?")),
            ("schema = 2", "schema 2", Some("write schema = 1, and see what changed in docs/shell.md")),
            ("", "schema", None),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.hint().as_deref(), hint, "{error}");
        }
    }

    #[test]
    fn any_text_is_understood_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _any = parse(&String::from_utf8_lossy(bytes));
        });
    }
}
