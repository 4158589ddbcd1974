// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The types of rules, in memory.
//!
//! A rule says `decision perm subject : object`. The first rule whose conditions all hold decides; if no rule matches,
//! access is allowed. Values are bytes, because paths are. In reading order:
//!
//! - [`parse`]: reads fapolicyd's grammar, both its forms, to a [`RuleSet`]; `line` splits one line into words, `build`
//!   knows which values a field takes
//! - [`toml`](mod@toml): the same rules as TOML
//! - [`files`]: a directory of rule files, in the order in which they count
//! - `print`: prints a rule set as text
//! - [`glob`]: what `glob:` means
//! - [`accounts`]: names of users and groups, to numbers
//! - [`error`]: what can be wrong with a rule file, and what to write instead
//! - [`lint`](mod@lint): what is valid and probably a mistake

pub mod accounts;
mod build;
pub mod error;
pub mod files;
pub mod glob;
mod line;
pub mod lint;
pub mod parse;
mod print;
pub mod toml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The value of a text attribute: bytes, as paths are.
pub type Text = Box<[u8]>;

/// Rules in the order in which they count, with the sets that they name.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) sets: Vec<NamedSet>,
    pub(crate) files: Vec<Arc<Path>>,
}

/// Identifies a rule of a [`RuleSet`]: its index. People count from one ([`RuleId::number`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// Where a rule or set was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Index of the file ([`RuleSet::file`]).
    pub file: u32,
    /// Line, from one.
    pub line: u32,
}

/// Where a rule comes from, and why it is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Where it was written.
    pub place: Place,
    /// `because = "…"` of the TOML form.
    pub because: Option<Box<str>>,
    /// A form that is kept for old rules, and what to write instead.
    pub deprecated: Option<(&'static str, &'static str)>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The answer, and where it is logged.
    pub decision: Decision,
    /// The kind of access that it applies to.
    pub permission: Permission,
    /// Conditions on the process; all must hold.
    pub subject: Box<[SubjectField]>,
    /// Conditions on the file; all must hold.
    pub object: Box<[ObjectField]>,
}

/// What a rule answers: `allow` or `deny`, with `_audit`, `_syslog` or both (`_log`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Is access allowed?
    pub allow: bool,
    /// Is it logged in the kernel's audit system?
    pub audit: bool,
    /// Is it logged in the system's log?
    pub syslog: bool,
}

/// `perm=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Permission {
    /// Opening (the default of a rule without `perm=`).
    #[default]
    Open,
    /// Opening to execute.
    Execute,
    /// Both.
    Any,
}

/// A condition on the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectField {
    /// `all`: no condition.
    All,
    /// One of the numbers.
    Number(SubjectNumber, Values<i64>),
    /// One of the texts.
    Text(SubjectText, Values<Text>),
    /// `trust=`: is its program trusted?
    Trust(bool),
    /// `pattern=`: how was it started?
    Pattern(Pattern),
}

/// Attributes of a process that are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectNumber {
    /// `auid`
    Auid,
    /// `uid`: real, effective, saved or for file systems
    Uid,
    /// `gid`: those, and the supplementary ones
    Gid,
    /// `sessionid`
    Session,
    /// `pid`
    Pid,
    /// `ppid`
    Ppid,
}

/// Attributes of a process that are texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectText {
    /// `comm`
    Comm,
    /// `exe`: paths, `glob:` patterns, `untrusted`
    Exe,
    /// `dir`: prefixes of the program's path, `execdirs`, `systemdirs`, `untrusted`
    Dir,
    /// `ftype`: MIME types
    Kind,
}

/// `pattern=`: how the process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// `normal`: a dynamically linked program
    Normal,
    /// `ld_so`: through the run-time linker
    LinkerItself,
    /// `ld_preload`: with `LD_PRELOAD` or `LD_AUDIT`
    Preload,
    /// `static`: a statically linked program
    Static,
}

/// A condition on the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectField {
    /// `all`: no condition.
    All,
    /// One of the texts.
    Text(ObjectText, Values<Text>),
    /// `trust=`: is it trusted?
    Trust(bool),
}

/// Attributes of a file that are texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectText {
    /// `path`: paths, `glob:` patterns, `untrusted`
    Path,
    /// `dir`: prefixes of its path, `execdirs`, `systemdirs`, `untrusted`
    Dir,
    /// `device`
    Device,
    /// `ftype`: MIME types, `any`
    Kind,
    /// `filehash`: SHA-256, 64 lowercase hexadecimal digits
    Hash,
}

/// The alternatives of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values<T> {
    /// Written in the rule.
    Listed(Box<[T]>),
    /// `%name`: index of a set ([`RuleSet::sets`]).
    Named(usize),
}

/// `%name=…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSet {
    /// Its name, without the `%`.
    pub name: Box<str>,
    /// What is in it.
    pub members: Members,
    /// Where it was (first) written.
    pub place: Place,
}

/// The members of a named set. The first item determines the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// Numbers.
    Numbers(Vec<i64>),
    /// Texts.
    Texts(Vec<Text>),
}

/// The word in `exe=`, `path=` and `dir=` for files that aren't in the trust database.
pub const UNTRUSTED: &[u8] = b"untrusted";
/// The word in `dir=` for [`EXECUTABLE_DIRECTORIES`].
pub const EXECDIRS: &[u8] = b"execdirs";
/// The word in `dir=` for [`SYSTEM_DIRECTORIES`].
pub const SYSTEMDIRS: &[u8] = b"systemdirs";
/// The word in an object's `ftype=` for every kind.
pub const ANY_KIND: &[u8] = b"any";
/// The prefix that makes an item of `exe=` or `path=` a pattern.
pub const GLOB: &[u8] = b"glob:";

/// What `execdirs` stands for (fapolicyd.rules(5)).
pub const EXECUTABLE_DIRECTORIES: &[&[u8]] =
    &[b"/usr/", b"/bin/", b"/sbin/", b"/lib/", b"/lib64/", b"/usr/libexec/"];
/// What `systemdirs` stands for: the same, and `/etc/`.
pub const SYSTEM_DIRECTORIES: &[&[u8]] =
    &[b"/etc/", b"/usr/", b"/bin/", b"/sbin/", b"/lib/", b"/lib64/", b"/usr/libexec/"];

impl RuleId {
    /// The number that people and audit records use: from one.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0 + 1
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl RuleSet {
    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Is there no rule (so that everything is allowed)?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        (0..).map(RuleId).zip(&self.rules)
    }

    /// One rule. Panics if `id` belongs to another set.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.index()]
    }

    /// Where a rule comes from. Panics if `id` belongs to another set.
    #[must_use]
    pub fn origin(&self, id: RuleId) -> &Origin {
        &self.origins[id.index()]
    }

    /// The named sets, in the order in which they were defined.
    #[must_use]
    pub fn sets(&self) -> &[NamedSet] {
        &self.sets
    }

    /// The file that a place is in.
    #[must_use]
    pub fn file(&self, place: Place) -> &Path {
        self.files.get(place.file as usize).map_or(Path::new("?"), |path| path)
    }

    /// The files that were read, in order.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().map(|path| path.to_path_buf()).collect()
    }

    /// The numbers that a condition lists.
    #[must_use]
    pub fn numbers<'a>(&'a self, values: &'a Values<i64>) -> &'a [i64] {
        match values {
            Values::Listed(numbers) => numbers,
            Values::Named(set) => match &self.sets[*set].members {
                Members::Numbers(numbers) => numbers,
                Members::Texts(_) => &[],
            },
        }
    }

    /// The texts that a condition lists.
    #[must_use]
    pub fn texts<'a>(&'a self, values: &'a Values<Text>) -> &'a [Text] {
        match values {
            Values::Listed(texts) => texts,
            Values::Named(set) => match &self.sets[*set].members {
                Members::Texts(texts) => texts,
                Members::Numbers(_) => &[],
            },
        }
    }

    /// Does a condition list this text exactly?
    pub(crate) fn lists(&self, values: &Values<Text>, word: &[u8]) -> bool {
        self.texts(values).iter().any(|text| **text == *word)
    }

    /// Does the object's field at this index require an untrusted object because it is a `path` and the subject's field
    /// at the same index is `exe=untrusted` or `dir=untrusted`?
    ///
    /// fapolicyd had this meaning before rules could say `trust=0`, and keeps it for the rules written then.
    pub(crate) fn needs_untrusted_object(&self, rule: &Rule, index: usize) -> bool {
        matches!(rule.object.get(index), Some(ObjectField::Text(ObjectText::Path, _)))
            && matches!(
                rule.subject.get(index),
                Some(SubjectField::Text(SubjectText::Exe | SubjectText::Dir, values)) if self.lists(values, UNTRUSTED)
            )
    }

    pub(crate) fn push(&mut self, rule: Rule, origin: Origin) {
        self.rules.push(rule);
        self.origins.push(origin);
    }
}

impl Decision {
    /// `allow`
    pub const ALLOW: Self = Self { allow: true, audit: false, syslog: false };
    /// `deny`
    pub const DENY: Self = Self { allow: false, audit: false, syslog: false };
    /// The names of all decisions.
    pub const NAMES: [&'static str; 8] = [
        "allow",
        "deny",
        "allow_audit",
        "deny_audit",
        "allow_syslog",
        "deny_syslog",
        "allow_log",
        "deny_log",
    ];

    /// The decision of this name.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        let (allow, rest) = match (name.strip_prefix(b"allow"), name.strip_prefix(b"deny")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return None,
        };
        let (audit, syslog) = match rest {
            b"" => (false, false),
            b"_audit" => (true, false),
            b"_syslog" => (false, true),
            b"_log" => (true, true),
            _ => return None,
        };
        Some(Self { allow, audit, syslog })
    }

    /// Its word in an event.
    #[must_use]
    pub fn word(self) -> palisade_event::Decision {
        use palisade_event::Decision;
        match (self.allow, self.audit, self.syslog) {
            (true, false, false) => Decision::Allow,
            (false, false, false) => Decision::Deny,
            (true, true, false) => Decision::AllowAudit,
            (false, true, false) => Decision::DenyAudit,
            (true, false, true) => Decision::AllowSyslog,
            (false, false, true) => Decision::DenySyslog,
            (true, true, true) => Decision::AllowLog,
            (false, true, true) => Decision::DenyLog,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.word().word()
    }

    /// Is the decision logged?
    #[must_use]
    pub fn is_logged(self) -> bool {
        self.audit || self.syslog
    }
}

/// Implements a fixed vocabulary: each value with its word.
macro_rules! words {
    ($type:ident: $($variant:ident = $word:literal),+ $(,)?) => {
        impl $type {
            /// All words.
            pub const NAMES: &'static [&'static str] = &[$($word),+];

            /// The value of a word.
            #[must_use]
            pub fn named(word: &[u8]) -> Option<Self> {
                $(if word == $word.as_bytes() { return Some(Self::$variant); })+
                None
            }

            /// Its word.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words!(Permission: Open = "open", Execute = "execute", Any = "any");
words!(Pattern: Normal = "normal", LinkerItself = "ld_so", Preload = "ld_preload", Static = "static");
words!(SubjectNumber: Auid = "auid", Uid = "uid", Gid = "gid", Session = "sessionid", Pid = "pid", Ppid = "ppid");
words!(SubjectText: Comm = "comm", Exe = "exe", Dir = "dir", Kind = "ftype");
words!(ObjectText: Path = "path", Dir = "dir", Device = "device", Kind = "ftype", Hash = "filehash");
