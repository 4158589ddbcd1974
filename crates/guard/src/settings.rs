// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard's settings: the `[guard]` table of `guard.toml`.
//!
//! Rules are elsewhere: files in fapolicyd's grammar in `guard.d`, and `[[guard.rule]]` entries, which come first.

use palisade_text::Show as _;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The version of the file's language.
pub const SCHEMA: i64 = 1;

/// The largest settings file that is read, in bytes.
pub const LARGEST: usize = 1 << 20;

/// File systems that are watched by default: those that programs are stored on.
pub const FILE_SYSTEMS: &[&str] = &[
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "overlay", "tmpfs", "ramfs", "vfat",
    "exfat", "ntfs3", "iso9660", "udf", "squashfs", "erofs",
];

/// File systems whose files are served by another machine or a process. A process that opens such a file waits for the
/// server. If the guard is asked about the open, all processes that wait for the guard's answers wait, too. So these
/// are watched only if the settings name them.
pub const SERVED: &[&str] =
    &["nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "9p", "virtiofs", "fuse", "fuseblk"];

/// Why settings can't be understood.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file has something that the language doesn't allow.
    #[error("can't understand {}: {message}", path.shown())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's message, with the place.
        message: String,
        /// Line and column, from one, if the parser gives them.
        place: Option<(u32, u32)>,
    },
    /// Another version of the language.
    #[error("{} has schema {found}, and this version understands {SCHEMA}", path.shown())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: i64,
    },
    /// A path that isn't absolute.
    #[error("{}: {key}: {value} isn't an absolute path", path.shown())]
    Relative {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A number out of range.
    #[error("{}: {key}: {value} isn't between {least} and {most}", path.shown())]
    Range {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The bounds.
        least: u64,
        /// The bounds.
        most: u64,
    },
}

/// Whether denied accesses fail, or are only logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// What the rules deny, fails.
    Enforce,
    /// What the rules deny, is logged and goes on. A new host begins with this mode.
    #[default]
    Permissive,
}

/// Which of the built-in rule sets is used where no rules are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuiltIn {
    /// Programs and libraries must be trusted; shell scripts need not.
    #[default]
    KnownLibs,
    /// Scripts of every language must be trusted, too.
    Restrictive,
}

/// Which accesses are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// Opens and execs.
    #[default]
    OpenAndExecute,
    /// Execs alone: libraries, and scripts that are given to an interpreter, aren't checked.
    Execute,
}

/// How a trusted file is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recognised {
    /// By its path.
    None,
    /// By its path and size.
    #[default]
    Size,
    /// By its path and the digest that IMA keeps.
    Ima,
    /// By its path, size and SHA-256.
    Sha256,
    /// The same, and fs-verity protects its content.
    Verity,
}

/// Which mechanisms may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// All that are available: fanotify, and BPF LSM beside it.
    #[default]
    Auto,
    /// fanotify alone.
    Fanotify,
    /// BPF LSM must be available as well; without it the guard doesn't start.
    BpfLsm,
}

/// What happens when the guard's process ends unexpectedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDeath {
    /// Everything may be executed until the guard is started again.
    #[default]
    Open,
    /// What was allowed before continues, and nothing else may start. BPF LSM must be in force.
    Closed,
}

/// What is answered while the guard's process is stopped, by a signal or by a process that traces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// Everything may be opened and executed.
    #[default]
    Open,
    /// Accesses to files that users other than root may change are refused while the mode is enforce.
    Closed,
}

/// `[guard.watch]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Watch {
    /// Types of file systems.
    pub filesystems: Vec<String>,
    /// Only these mount points, if there are any.
    pub only: Vec<PathBuf>,
    /// Not these mount points. A file system is watched if any of its mount points is.
    pub exclude: Vec<PathBuf>,
    /// Which accesses are asked about.
    pub asked: Asked,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            filesystems: FILE_SYSTEMS.iter().map(|&name| name.to_owned()).collect(),
            only: Vec::new(),
            exclude: Vec::new(),
            asked: Asked::default(),
        }
    }
}

/// A source of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustFrom {
    /// Debian's package database.
    Dpkg,
    /// The rpm database.
    Rpm,
    /// `guard.trust` and `trust.d`.
    Files,
}

/// `[guard.trust]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TrustSettings {
    /// The sources of trust.
    pub sources: Vec<TrustFrom>,
    /// Directories: every executable file below them is trusted.
    pub directories: Vec<PathBuf>,
    /// How a trusted file is recognized.
    pub integrity: Recognised,
}

impl Default for TrustSettings {
    fn default() -> Self {
        Self {
            sources: vec![TrustFrom::Dpkg, TrustFrom::Rpm, TrustFrom::Files],
            directories: Vec::new(),
            integrity: Recognised::default(),
        }
    }
}

impl TrustSettings {
    /// Whether there is no source of trust. Rules then use other conditions.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.sources.is_empty() && self.directories.is_empty()
    }
}

/// `[guard.log]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Log {
    /// The content of a line, in fapolicyd's words.
    pub format: String,
    /// The most lines in a second; the others are counted.
    pub per_second: u64,
    /// Is a refusal reported on the terminal of the refused process?
    pub terminal: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: "rule,dec,perm,auid,pid,exe,:,path,ftype,trust".into(),
            per_second: 50,
            terminal: true,
        }
    }
}

/// The keys of `[guard]` that are settings; the others are rules.
pub(crate) const KEYS: [&str; 8] =
    ["mode", "rules", "backend", "on-death", "on-stop", "watch", "trust", "log"];

/// The `[guard]` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether denied accesses fail, or are only logged.
    pub mode: Mode,
    /// The built-in rules that are used if none are given.
    pub rules: BuiltIn,
    /// Which mechanisms may be used.
    pub backend: Backend,
    /// What happens when the guard dies.
    pub on_death: OnDeath,
    /// What is answered while the guard is stopped.
    pub on_stop: OnStop,
    /// What is watched.
    pub watch: Watch,
    /// What is trusted.
    pub trust: TrustSettings,
    /// The log.
    pub log: Log,
}

/// The table in the file. [`crate::rule`] reads `rule` and `sets`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    mode: Mode,
    rules: BuiltIn,
    backend: Backend,
    on_death: OnDeath,
    on_stop: OnStop,
    watch: Watch,
    trust: TrustSettings,
    log: Log,
    #[serde(rename = "rule")]
    _rule: Option<toml::Value>,
    #[serde(rename = "sets")]
    _sets: Option<toml::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: i64,
    #[serde(default)]
    guard: Table,
}

impl Settings {
    /// Parses the text of the file `path`.
    ///
    /// # Errors
    /// [`SettingsError`], with the line and column where there are any.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let file: File = toml::from_str(text).map_err(|error| SettingsError::Malformed {
            path: path.to_owned(),
            message: error.to_string(),
            place: error.span().map(|span| place(text, span.start)),
        })?;
        if file.schema != SCHEMA {
            return Err(SettingsError::Schema { path: path.to_owned(), found: file.schema });
        }
        let Table { mode, rules, backend, on_death, on_stop, watch, trust, log, .. } = file.guard;
        for (key, paths) in [
            ("watch.only", &watch.only),
            ("watch.exclude", &watch.exclude),
            ("trust.directories", &trust.directories),
        ] {
            if let Some(relative) = paths.iter().find(|path| !path.is_absolute()) {
                return Err(SettingsError::Relative {
                    path: path.to_owned(),
                    key,
                    value: relative.shown().to_string(),
                });
            }
        }
        if !(1..=100_000).contains(&log.per_second) {
            return Err(SettingsError::Range {
                path: path.to_owned(),
                key: "log.per-second",
                value: log.per_second,
                least: 1,
                most: 100_000,
            });
        }
        Ok(Self { mode, rules, backend, on_death, on_stop, watch, trust, log })
    }
}

/// Line and column of a byte position in a text, from one.
fn place(text: &str, at: usize) -> (u32, u32) {
    let before = text.get(..at).unwrap_or(text);
    let column = before.chars().rev().take_while(|&character| character != '\n').count() + 1;
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (number(before.matches('\n').count() + 1), number(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one() {
        assert_eq!((place("", 0), place("a\nbc", 3), place("a", 9)), ((1, 1), (2, 2), (1, 2)));
    }

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(text, Path::new("/etc/palisade/guard.toml"))
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse("schema = 1").ok(), Some(Settings::default()));
    }

    #[test]
    fn each_key_is_understood() {
        let settings = parse(
            r#"schema = 1
            [guard]
            mode = "enforce"
            rules = "restrictive"
            backend = "fanotify"
            on-death = "closed"
            on-stop = "closed"
            [guard.watch]
            filesystems = ["ext4"]
            only = ["/srv"]
            exclude = ["/srv/data"]
            asked = "execute"
            [guard.trust]
            sources = ["files"]
            directories = ["/opt/app"]
            integrity = "sha256"
            [guard.log]
            format = "rule,dec"
            per-second = 3
            terminal = false
            [[guard.rule]]
            allow = "any"
            "#,
        );
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(settings.mode, Mode::Enforce);
        assert_eq!((settings.on_death, settings.on_stop), (OnDeath::Closed, OnStop::Closed));
        assert_eq!(settings.watch.asked, Asked::Execute);
        assert_eq!(settings.trust.integrity, Recognised::Sha256);
        assert!(!settings.log.terminal);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, wanted) in [
            ("", "schema"),
            ("schema = 2", "schema 2"),
            ("schema = 1\n[guard]\nmod = \"enforce\"", "line 3"),
            ("schema = 1\n[guard]\nmode = \"perhaps\"", "permissive"),
            ("schema = 1\n[guard]\non-death = \"perhaps\"", "closed"),
            ("schema = 1\n[guard]\non-stop = \"perhaps\"", "closed"),
            ("schema = 1\n[guard.watch]\nonly = [\"srv\"]", "srv isn't an absolute path"),
            ("schema = 1\n[guard.log]\nper-second = 0", "log.per-second"),
        ] {
            let error = parse(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
