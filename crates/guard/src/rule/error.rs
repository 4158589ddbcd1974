// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of rule files, and what to write instead.
//!
//! fapolicyd drops some of what it doesn't understand and loads the rest. A rule that silently lost a condition allows
//! or denies more than its author meant. Everything of that kind is an error here.

use palisade_text::Show as _;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// How many complaints of one load are kept; the others are counted.
pub const MOST_COMPLAINTS: usize = 20;
/// How many fields a subject or an object has at most. (fapolicyd writes past its array after the eleventh.)
pub const MOST_FIELDS: usize = 32;

/// A mistake in a line or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The first word is none of the decisions.
    #[error("unknown decision")]
    UnknownDecision {
        /// The nearest known one.
        suggestion: Option<&'static str>,
    },
    /// `perm=` with something else than open, execute or any.
    #[error("unknown permission")]
    UnknownPermission,
    /// `perm=` is not right after the decision.
    #[error("`perm=` isn't right after the decision")]
    MisplacedPermission,
    /// A field that a subject or an object doesn't have.
    #[error("unknown {side} field")]
    UnknownField {
        /// `subject` or `object`.
        side: &'static str,
        /// The nearest known one.
        suggestion: Option<&'static str>,
    },
    /// A field that fapolicyd had before version 2.0 and dropped then.
    #[error("a {side} has no such field any more (fapolicyd 2.0 dropped it)")]
    DroppedField {
        /// `subject` or `object`.
        side: &'static str,
    },
    /// A word without `=`.
    #[error("`=` is missing")]
    MissingEquals,
    /// No subject before the colon.
    #[error("the rule has no subject")]
    MissingSubject,
    /// No object after the colon.
    #[error("the rule has no object")]
    MissingObject,
    /// More fields than the limit.
    #[error("more than {MOST_FIELDS} fields")]
    TooManyFields,
    /// More rules than there are numbers for.
    #[error("more rules than 2^31")]
    TooManyRules,
    /// A quote without its end.
    #[error("a quote isn't closed")]
    OpenQuote,
    /// Text right after the end of a quote.
    #[error("text right after a closing quote")]
    AfterQuote,
    /// A comma in a quote: fapolicyd makes two values of it.
    #[error("a comma within a quote")]
    CommaInQuote,
    /// A NUL byte.
    #[error("a NUL byte")]
    Nul,
    /// A line that begins with `%` and has no `=`.
    #[error("a set without `=`")]
    SetWithoutValues,
    /// A set's name has other characters than letters, digits and `_`.
    #[error("not the name of a set")]
    SetName,
    /// A set without members.
    #[error("the set is empty")]
    EmptySet,
    /// A set of this name exists.
    #[error("the set was already defined in line {line}")]
    RedefinedSet {
        /// The line of the definition.
        line: u32,
    },
    /// No set of this name was defined before.
    #[error("the set wasn't defined before")]
    UndefinedSet {
        /// The nearest known one.
        suggestion: Option<String>,
    },
    /// `+=` for another set than `%languages`.
    #[error("only %languages can be extended")]
    NotExtendable,
    /// Text after the values of a set.
    #[error("text after the values of a set")]
    AfterSet,
    /// A set of numbers where texts are needed, or the other way round.
    #[error("`{field}` takes {expected}; the set has {found}")]
    SetType {
        /// The field.
        field: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What the set has.
        found: &'static str,
    },
    /// `trust` and `pattern` take one word.
    #[error("`{field}` takes one value, not a list or set")]
    SingleValue {
        /// The field.
        field: &'static str,
    },
    /// A list of numbers that has no number.
    #[error("`{field}` has no value")]
    NoValue {
        /// The field.
        field: &'static str,
    },
    /// Not a number, or a number out of range.
    #[error("`{field}` takes numbers from {lowest} to {highest}")]
    Number {
        /// The field.
        field: &'static str,
        /// The lowest.
        lowest: i64,
        /// The highest.
        highest: i64,
    },
    /// The first item of the set is a number, but this one isn't.
    #[error("not a number, but the first item of the set is a number")]
    MixedSet,
    /// No such user.
    #[error("unknown user")]
    UnknownUser,
    /// No such group.
    #[error("unknown group")]
    UnknownGroup,
    /// `trust` is 0 or 1.
    #[error("`trust` is 0 or 1")]
    Trust,
    /// `pattern` with another word than the four.
    #[error("unknown pattern")]
    UnknownPattern {
        /// The nearest known one.
        suggestion: Option<&'static str>,
    },
    /// `glob:` elsewhere than in exe and path.
    #[error("`{field}` takes no glob")]
    Glob {
        /// The field.
        field: &'static str,
    },
    /// A glob that doesn't begin with a slash, ends in a backslash, or has a `[` without its `]`.
    #[error("not a glob of an absolute path")]
    BadGlob,
    /// Not 64 lowercase hexadecimal digits.
    #[error("not a SHA-256 of 64 lowercase hexadecimal digits")]
    BadHash,
    /// Not TOML at all.
    #[error("the file is not valid TOML: {message}")]
    Toml {
        /// What the TOML parser says.
        message: String,
    },
    /// A TOML key that isn't known in its table.
    #[error("unknown key")]
    UnknownKey {
        /// The nearest known one.
        suggestion: Option<&'static str>,
    },
    /// A TOML value of another type.
    #[error("`{key}` takes {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
    },
    /// `untrusted` as a path, in TOML.
    #[error("`untrusted` is no path here")]
    UntrustedWord,
    /// A TOML rule that doesn't say exactly one of `allow` and `deny`.
    #[error("a rule needs either `allow` or `deny`")]
    AllowOrDeny,
}

/// One mistake, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The file.
    pub file: Arc<std::path::Path>,
    /// Line, from one.
    pub line: u32,
    /// Column in bytes, from one.
    pub column: u32,
    /// The wrong text, at most 80 bytes of it, with unprintable bytes escaped.
    pub text: String,
    /// What is wrong.
    pub error: RuleError,
}

/// Why rules weren't loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The rules have mistakes.
    #[error("{}", render(complaints, *more))]
    Refused {
        /// The mistakes, in the order of the files; at most [`MOST_COMPLAINTS`].
        complaints: Vec<Complaint>,
        /// How many more there were.
        more: usize,
    },
    /// A file or directory can't be read.
    #[error("cannot read {}: {source}", file.shown())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Users other than root may write the file. Those users would decide what may execute.
    #[error("users other than root can write {}: {reason}\n  hint: {hint}", file.shown())]
    Writable {
        /// Which.
        file: PathBuf,
        /// Its owner or mode.
        reason: String,
        /// A command that helps.
        hint: String,
    },
    /// The rules are larger than one policy may be.
    #[error("{} is larger than {} MiB", file.shown(), crate::rule::files::LARGEST_POLICY >> 20)]
    TooLarge {
        /// The file that exceeded the limit.
        file: PathBuf,
    },
    /// There is a rules.d and also a fapolicyd.rules: it is ambiguous which one counts.
    #[error(
        "both {} and {} have rules\n  hint: delete one of them", directory.shown(), file.shown()
    )]
    Both {
        /// The directory.
        directory: PathBuf,
        /// The file.
        file: PathBuf,
    },
}

impl RuleError {
    /// A name for the class of error, for exit codes and reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::UnknownDecision { .. } => "rules.unknown-decision",
            Self::UnknownPermission => "rules.unknown-permission",
            Self::MisplacedPermission => "rules.misplaced-permission",
            Self::UnknownField { .. } => "rules.unknown-field",
            Self::DroppedField { .. } => "rules.dropped-field",
            Self::MissingEquals => "rules.missing-equals",
            Self::MissingSubject => "rules.missing-subject",
            Self::MissingObject => "rules.missing-object",
            Self::TooManyFields => "rules.too-many-fields",
            Self::TooManyRules => "rules.too-many-rules",
            Self::OpenQuote => "rules.open-quote",
            Self::AfterQuote => "rules.after-quote",
            Self::CommaInQuote => "rules.comma-in-quote",
            Self::Nul => "rules.nul",
            Self::SetWithoutValues => "rules.set-without-values",
            Self::SetName => "rules.set-name",
            Self::EmptySet => "rules.empty-set",
            Self::RedefinedSet { .. } => "rules.redefined-set",
            Self::UndefinedSet { .. } => "rules.undefined-set",
            Self::NotExtendable => "rules.not-extendable",
            Self::AfterSet => "rules.after-set",
            Self::SetType { .. } => "rules.set-type",
            Self::SingleValue { .. } => "rules.single-value",
            Self::NoValue { .. } => "rules.no-value",
            Self::Number { .. } => "rules.number",
            Self::MixedSet => "rules.mixed-set",
            Self::UnknownUser => "rules.unknown-user",
            Self::UnknownGroup => "rules.unknown-group",
            Self::Trust => "rules.trust",
            Self::UnknownPattern { .. } => "rules.unknown-pattern",
            Self::Glob { .. } => "rules.glob",
            Self::BadGlob => "rules.bad-glob",
            Self::BadHash => "rules.bad-hash",
            Self::Toml { .. } => "rules.toml",
            Self::UnknownKey { .. } => "rules.unknown-key",
            Self::WrongType { .. } => "rules.wrong-type",
            Self::UntrustedWord => "rules.untrusted-word",
            Self::AllowOrDeny => "rules.allow-or-deny",
        }
    }

    /// What to write instead, if there is a suggestion.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let fixed = match self {
            Self::UnknownDecision { suggestion: Some(word) }
            | Self::UnknownField { suggestion: Some(word), .. }
            | Self::UnknownKey { suggestion: Some(word) }
            | Self::UnknownPattern { suggestion: Some(word) } => {
                return Some(format!("did you mean `{word}`?"));
            }
            Self::UndefinedSet { suggestion: Some(name) } => return Some(format!("did you mean `%{name}`?")),
            Self::UnknownDecision { .. } => {
                "a rule begins with allow or deny, or with a form such as deny_audit, deny_syslog or deny_log"
            }
            Self::UnknownPermission => "write perm=open, perm=execute or perm=any",
            Self::MisplacedPermission => {
                "write `allow perm=any uid=0 : all`; without a colon there is no `perm=`"
            }
            Self::UnknownField { side: "object", .. } => {
                "an object has path, dir, device, ftype, trust, filehash"
            }
            Self::UnknownField { .. } => {
                "a subject has auid, uid, gid, sessionid, pid, ppid, trust, comm, exe, dir, ftype, pattern"
            }
            Self::DroppedField { .. } => "use `dir=` or `path=` instead",
            Self::MissingEquals => {
                "write fields as name=value, and one ` : ` before the object; put comments on their own lines"
            }
            Self::MissingSubject => "write `all` for every process",
            Self::MissingObject => "write `: all` for every file",
            Self::OpenQuote => "close it with `\"`; write a quote inside as `\\\"`",
            Self::AfterQuote => "a quoted value ends with a space or a comma",
            Self::CommaInQuote => {
                "quote each value by itself (`\"a b\",\"c d\"`); write a comma inside a value as `\\,`"
            }
            Self::SetName => "letters, digits and `_`, as in `%my_set=a,b`",
            Self::SetWithoutValues => "write `%name=a,b`",
            Self::RedefinedSet { .. } => "give the second one another name, or list its items in the first",
            Self::UndefinedSet { .. } => "define it above the rule, as `%name=a,b`",
            Self::NotExtendable => "list all of the set's items where it is defined",
            Self::AfterSet => "items are separated by commas without spaces; quote an item that has a space",
            Self::Number { lowest: 0, .. } => "-1 (\"unset\") is 4294967295",
            Self::MixedSet => "if the items are texts, begin the set with one that isn't a number",
            Self::UnknownUser | Self::UnknownGroup => {
                "it must be in /etc/passwd or /etc/group; for an account of a directory service, write its number"
            }
            Self::UnknownPattern { .. } => "write normal, ld_so, ld_preload or static",
            Self::Glob { .. } => {
                "exe and path take globs; `dir=` matches everything that begins with its value"
            }
            Self::BadGlob => "write `glob:/…`, and close every `[`; write `\\[` for the character itself",
            Self::BadHash => "`sha256sum FILE` prints it",
            Self::UntrustedWord => "write `trust = false`",
            Self::AllowOrDeny => "write `allow = \"execute\"` or `deny = \"any\"`",
            _ => return None,
        };
        Some(fixed.to_owned())
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.shown(), self.line, self.column, self.error)?;
        if !self.text.is_empty() {
            write!(f, ": `{}`", self.text)?;
        }
        write!(f, " [{}]", self.error.class())?;
        match self.error.hint() {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

fn render(complaints: &[Complaint], more: usize) -> String {
    let mut lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// The part of the wrong text that is shown.
pub(crate) fn shown(text: &[u8]) -> String {
    palisade_text::bytes(&text[..text.len().min(80)]).to_string()
}
