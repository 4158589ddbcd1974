// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses path patterns: `~/x`, `./x`, `${runtime}/x`, `/abs`, `**/.env`.
//!
//! A pattern is checked when it is made, and expanded when a [`Context`] is known. A backslash makes
//! one of `* ? [ ] { } = $ ~ \` ordinary. Before any other character it stands for itself.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::context::Context;
use crate::{glob, suggest};

/// `PATH_MAX` of Linux: a longer path can't be passed to any call (`limits.h`).
pub const LONGEST: usize = 4096;

/// Why a text is no valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is empty.
    #[error("the path is empty")]
    Empty,
    /// The text contains a NUL byte, which no path can contain.
    #[error("a path can't hold a NUL byte")]
    Nul,
    /// The text is longer than the kernel's `PATH_MAX`.
    #[error("the path has {length} bytes; the kernel takes {LONGEST}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// `${…}` contains an unknown name.
    #[error("there is no variable `${{{name}}}`")]
    UnknownVariable {
        /// The name.
        name: String,
        /// The most similar known name.
        suggestion: Option<&'static str>,
    },
    /// `${` without `}`.
    #[error("`${{` is not closed")]
    UnclosedVariable,
    /// `$HOME` and the like.
    #[error("`${name}` is not expanded in a path")]
    ShellVariable {
        /// The name after the dollar sign.
        name: String,
    },
    /// `[` without `]`.
    #[error("`[` is not closed")]
    UnclosedClass,
    /// `[…]` could match a separator, is empty, or contains a reversed range.
    #[error("`[{class}]` is not a set of characters of a file name")]
    BadClass {
        /// The text between the brackets.
        class: String,
    },
    /// `**` beside other characters.
    #[error("`**` stands for whole directories, so it must stand alone between slashes")]
    PartialDoubleStar,
    /// `..` after a name.
    #[error("`..` after a name can't be judged without following links")]
    ParentAfterName,
    /// `~name`.
    #[error("`~` stands for your own home only")]
    OtherHome,
    /// A pattern stands where a single path is needed.
    #[error("a pattern with `*`, `?` or `[` can't name one place")]
    GlobNotAllowed,
    /// The text of a glob must be UTF-8.
    #[error("a pattern with `*`, `?` or `[` must be UTF-8")]
    GlobNotUtf8,
}

impl PatternError {
    /// What to write instead, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownVariable { suggestion: Some(name), .. } => format!("did you mean `${{{name}}}`?"),
            Self::UnknownVariable { .. } => {
                let known: Vec<String> =
                    Variable::KNOWN.iter().map(|known| format!("${{{}}}", known.known())).collect();
                format!(
                    "known variables: {}; those of the environment are in capital letters",
                    known.join(", ")
                )
            }
            Self::ShellVariable { name } => match Variable::for_shell_name(name) {
                Some(variable) => format!("write `${{{}}}`", variable.known()),
                None => format!(
                    "write `${{{name}}}` for the variable, `\\${name}` for a file name that begins so"
                ),
            },
            Self::UnclosedClass | Self::BadClass { .. } => "for the character itself write `\\[`".to_owned(),
            Self::PartialDoubleStar => "write `**/*.pem` for files at any depth".to_owned(),
            Self::ParentAfterName => "write the path without `..`".to_owned(),
            Self::OtherHome => "write the path of the other home; for a file name write `./~name`".to_owned(),
            Self::GlobNotAllowed => "for the character itself write `\\*`".to_owned(),
            _ => return None,
        })
    }
}

/// The variables for `${…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Variable {
    Home,
    Cwd,
    Project,
    User,
    Uid,
    Runtime,
    Config,
    Data,
    Cache,
    State,
    Name,
    Id,
    /// The socket of the X server in `DISPLAY`.
    X11,
    /// A variable of the caller, in capital letters.
    Environment(String),
}

impl Variable {
    /// All variables that aren't the caller's.
    const KNOWN: [Self; 13] = [
        Self::Home,
        Self::Cwd,
        Self::Project,
        Self::User,
        Self::Uid,
        Self::Runtime,
        Self::Config,
        Self::Data,
        Self::Cache,
        Self::State,
        Self::Name,
        Self::Id,
        Self::X11,
    ];

    /// The variable of this name.
    pub(crate) fn new(name: &str) -> Result<Self, PatternError> {
        if let Some(known) = Self::KNOWN.into_iter().find(|known| known.name() == name) {
            return Ok(known);
        }
        let capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(capital) {
            return Ok(match Self::for_shell_name(name) {
                Some(known) => known,
                None => Self::Environment(name.to_owned()),
            });
        }
        Err(PatternError::UnknownVariable {
            suggestion: suggest::nearest(name, Self::KNOWN.iter().map(Self::known)),
            name: name.to_owned(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Environment(name) => name,
            known => known.known(),
        }
    }

    const fn known(&self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Cwd => "cwd",
            Self::Project => "project",
            Self::User => "user",
            Self::Uid => "uid",
            Self::Runtime => "runtime",
            Self::Config => "config",
            Self::Data => "data",
            Self::Cache => "cache",
            Self::State => "state",
            Self::Name => "name",
            Self::Id => "id",
            Self::X11 => "x11",
            Self::Environment(_) => "",
        }
    }

    /// The socket of the display, if this machine serves it: `:1.0` is served at `/tmp/.X11-unix/X1`.
    pub(crate) fn x11(context: &Context) -> Option<PathBuf> {
        let display = context.environment.get(OsStr::new("DISPLAY"))?.to_str()?;
        let number = display.strip_prefix("unix").unwrap_or(display).strip_prefix(':')?.split('.').next()?;
        let fine = !number.is_empty() && number.len() < 6 && number.bytes().all(|byte| byte.is_ascii_digit());
        fine.then(|| PathBuf::from(format!("/tmp/.X11-unix/X{number}")))
    }

    fn for_shell_name(name: &str) -> Option<Self> {
        Some(match name {
            "HOME" => Self::Home,
            "PWD" => Self::Cwd,
            "USER" | "LOGNAME" => Self::User,
            "UID" => Self::Uid,
            "XDG_RUNTIME_DIR" => Self::Runtime,
            "XDG_CONFIG_HOME" => Self::Config,
            "XDG_DATA_HOME" => Self::Data,
            "XDG_CACHE_HOME" => Self::Cache,
            "XDG_STATE_HOME" => Self::State,
            _ => return None,
        })
    }
}

/// A token of a pattern. Contains bytes, because a path without globs needn't be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Byte(u8),
    Separator,
    Home,
    Variable(Variable),
    Star,
    DoubleStar,
    AnyOne,
    /// Whether the set is negated, and the text between the brackets.
    Class(bool, String),
}

impl Token {
    pub(crate) const fn is_glob(&self) -> bool {
        matches!(self, Self::Star | Self::DoubleStar | Self::AnyOne | Self::Class(..))
    }
}

/// A checked pattern, with its text as stated.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    text: OsString,
    glob: bool,
}

impl PathPattern {
    /// Checks a pattern.
    ///
    /// # Errors
    /// When the text is invalid: see [`PatternError`].
    pub fn new(text: impl AsRef<OsStr>) -> Result<Self, PatternError> {
        let text = text.as_ref();
        let glob = tokens(text)?.iter().any(Token::is_glob);
        Ok(Self { text: text.to_owned(), glob })
    }

    /// The pattern that matches exactly this path, whatever characters it contains.
    ///
    /// # Errors
    /// When it is empty, too long, or contains `..` after a name.
    pub fn exactly(path: impl AsRef<OsStr>) -> Result<Self, PatternError> {
        let path = path.as_ref().as_bytes();
        let mut text = Vec::with_capacity(path.len());
        for (at, &byte) in path.iter().enumerate() {
            let special = SPECIAL.contains(&byte) && (byte != b'~' || at == 0);
            if special {
                text.push(b'\\');
            }
            text.push(byte);
        }
        Self::new(OsString::from_vec(text))
    }

    /// Splits `HOST=DEST` at the last equals sign that isn't escaped, and checks both.
    ///
    /// # Errors
    /// When a part is no valid pattern, or a glob has a destination.
    pub fn with_destination(text: impl AsRef<OsStr>) -> Result<(Self, Option<Self>), PatternError> {
        let bytes = text.as_ref().as_bytes();
        let Some(at) = last_equals(bytes) else {
            return Ok((Self::new(text)?, None));
        };
        let host = Self::new(OsStr::from_bytes(&bytes[..at]))?;
        let destination = Self::new(OsStr::from_bytes(&bytes[at + 1..]))?;
        if host.glob || destination.glob {
            return Err(PatternError::GlobNotAllowed);
        }
        Ok((host, Some(destination)))
    }

    /// Checks a pattern that must stand for one path.
    ///
    /// # Errors
    /// When it is no valid pattern or contains a glob.
    pub fn one_path(text: impl AsRef<OsStr>) -> Result<Self, PatternError> {
        let pattern = Self::new(text)?;
        if pattern.glob {
            return Err(PatternError::GlobNotAllowed);
        }
        Ok(pattern)
    }

    /// Whether it can match more than one path.
    #[must_use]
    pub const fn is_glob(&self) -> bool {
        self.glob
    }

    /// The text as stated.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.text
    }

    /// The text as stated, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.text.to_str()
    }

    /// Whether it means another path in another working directory.
    pub(crate) fn depends_on_cwd(&self) -> bool {
        let tokens = self.tokens();
        let anchored = matches!(tokens.first(), Some(Token::Separator | Token::Home | Token::Variable(_)));
        !anchored
            || tokens.iter().any(|token| matches!(token, Token::Variable(Variable::Cwd | Variable::Project)))
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        // This can't fail: the text was checked when the pattern was made.
        tokens(&self.text).unwrap_or_default()
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text.to_string_lossy())
    }
}

impl fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

/// Serialised lossily: serialised rules are for users and tools to read, never to apply.
impl Serialize for PathPattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text.to_string_lossy())
    }
}

/// The characters that a backslash makes ordinary.
pub(crate) const SPECIAL: &[u8] = br"*?[]{}=$~\";

fn last_equals(text: &[u8]) -> Option<usize> {
    let mut last = None;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' if text.get(at + 1).is_some_and(|next| SPECIAL.contains(next)) => at += 1,
            b'=' => last = Some(at),
            _ => {}
        }
        at += 1;
    }
    last
}

/// Splits a text into tokens, and checks everything that needs no context.
fn tokens(text: &OsStr) -> Result<Vec<Token>, PatternError> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Err(PatternError::Empty);
    }
    if bytes.len() > LONGEST {
        return Err(PatternError::TooLong { length: bytes.len() });
    }
    if bytes.contains(&0) {
        return Err(PatternError::Nul);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at + 1..];
        let (token, used) = match byte {
            b'\\' => match rest.first() {
                Some(&next) if SPECIAL.contains(&next) => (Token::Byte(next), 2),
                _ => (Token::Byte(b'\\'), 1),
            },
            b'/' => (Token::Separator, 1),
            b'~' if at == 0 => match rest.first() {
                None | Some(b'/') => (Token::Home, 1),
                Some(_) => return Err(PatternError::OtherHome),
            },
            b'?' => (Token::AnyOne, 1),
            b'*' if rest.first() == Some(&b'*') => (Token::DoubleStar, 2),
            b'*' => (Token::Star, 1),
            b'[' => class(rest)?,
            b'$' => variable(rest)?,
            other => (Token::Byte(other), 1),
        };
        out.push(token);
        at += used;
    }
    check_double_stars(&out)?;
    check_parents(&out)?;
    if out.iter().any(Token::is_glob) && text.to_str().is_none() {
        return Err(PatternError::GlobNotUtf8);
    }
    Ok(out)
}

/// Parses a set of characters after its `[`. Returns its length in bytes, including `[`.
fn class(rest: &[u8]) -> Result<(Token, usize), PatternError> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let end = rest.iter().position(|byte| *byte == b']').ok_or(PatternError::UnclosedClass)?;
    let Ok(members) = std::str::from_utf8(&rest[start..end]) else {
        return Err(PatternError::GlobNotUtf8);
    };
    let members = members.to_owned();
    if !class_is_sound(&members) {
        return Err(PatternError::BadClass { class: members });
    }
    Ok((Token::Class(negated, members), end + 2))
}

/// Whether no range is reversed and none contains the separator: a set stands for one character of a name.
fn class_is_sound(members: &str) -> bool {
    let Some(ranges) = glob::ranges(members) else { return false };
    let sound = |(low, high): &(char, char)| !(*low..=*high).contains(&'/');
    !ranges.is_empty() && !members.contains('\\') && ranges.iter().all(sound)
}

/// Parses a variable after its `$`. Returns its length in bytes, including `$`.
fn variable(rest: &[u8]) -> Result<(Token, usize), PatternError> {
    match rest.first() {
        Some(b'{') => {
            let end = rest.iter().position(|byte| *byte == b'}').ok_or(PatternError::UnclosedVariable)?;
            let name = String::from_utf8_lossy(&rest[1..end]);
            Variable::new(&name).map(|variable| (Token::Variable(variable), end + 2))
        }
        Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
            let name: Vec<u8> = rest
                .iter()
                .copied()
                .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                .collect();
            Err(PatternError::ShellVariable { name: String::from_utf8_lossy(&name).into_owned() })
        }
        _ => Ok((Token::Byte(b'$'), 1)),
    }
}

fn check_double_stars(tokens: &[Token]) -> Result<(), PatternError> {
    let separator = |token: Option<&Token>| matches!(token, None | Some(Token::Separator));
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        if *token == Token::DoubleStar && !(separator(before) && separator(tokens.get(at + 1))) {
            return Err(PatternError::PartialDoubleStar);
        }
    }
    Ok(())
}

/// `..` may stand at the beginning of a relative pattern (the working directory contains no links) and nowhere else.
fn check_parents(tokens: &[Token]) -> Result<(), PatternError> {
    let mut named = matches!(tokens.first(), Some(Token::Separator));
    for part in tokens.split(|token| *token == Token::Separator) {
        let dots = |count: usize| part.len() == count && part.iter().all(|t| *t == Token::Byte(b'.'));
        if dots(2) && named {
            return Err(PatternError::ParentAfterName);
        }
        named |= !part.is_empty() && !dots(1) && !dots(2);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_meant_is_refused_with_a_hint() {
        let error = |text: &str| PathPattern::new(text).unwrap_err();
        assert_eq!(error(""), PatternError::Empty);
        assert_eq!(error("a\0b"), PatternError::Nul);
        assert_eq!(error("${hmoe}/x").hint().unwrap(), "did you mean `${home}`?");
        assert_eq!(error("$HOME/x").hint().unwrap(), "write `${home}`");
        assert_eq!(error("~root/x"), PatternError::OtherHome);
        assert_eq!(error("/a[b"), PatternError::UnclosedClass);
        assert!(matches!(error("/a[+-9]"), PatternError::BadClass { .. }));
        assert!(matches!(error("/a[z-a]"), PatternError::BadClass { .. }));
        assert!(matches!(error("/a[+-,-9]"), PatternError::BadClass { .. }), "from + to 9");
        assert!(matches!(error("/a[b-c-a]"), PatternError::BadClass { .. }));
        assert_eq!(error("/a/b**"), PatternError::PartialDoubleStar);
        assert_eq!(error("/a/../b"), PatternError::ParentAfterName);
        assert_eq!(error("/.."), PatternError::ParentAfterName);
        assert_eq!(error("~/../b"), PatternError::ParentAfterName);
        assert_eq!(error(&"a".repeat(5000)), PatternError::TooLong { length: 5000 });
    }

    #[test]
    fn the_last_plain_equals_sign_splits() {
        let split = |text: &str| {
            let (host, destination) = PathPattern::with_destination(text).unwrap();
            (host.to_string(), destination.map(|d| d.to_string()))
        };
        assert_eq!(split("/a=/b"), ("/a".into(), Some("/b".into())));
        assert_eq!(split("/a=b=/c"), ("/a=b".into(), Some("/c".into())));
        assert_eq!(split(r"/a\=b"), (r"/a\=b".into(), None));
        assert_eq!(split(r"/a=/b\=c"), ("/a".into(), Some(r"/b\=c".into())));
        assert_eq!(PathPattern::with_destination("/a/*=/b"), Err(PatternError::GlobNotAllowed));
        assert_eq!(PathPattern::with_destination("/a="), Err(PatternError::Empty));
    }

    #[test]
    fn any_name_can_be_written() {
        for name in ["/a*b", "/[id]/x", "~", "/a=b", "/new\nline", "/$x", r"/back\slash", "/a b"] {
            let pattern = PathPattern::exactly(name).unwrap();
            assert!(!pattern.is_glob(), "{name}");
            let bytes: Vec<u8> = pattern
                .tokens()
                .into_iter()
                .map(|token| match token {
                    Token::Byte(byte) => byte,
                    Token::Separator => b'/',
                    other => panic!("{name}: {other:?}"),
                })
                .collect();
            assert_eq!(bytes, name.as_bytes());
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_fine_without_globs() {
        assert!(PathPattern::new(OsStr::from_bytes(b"/a\xff")).is_ok());
        assert_eq!(PathPattern::new(OsStr::from_bytes(b"/a\xff*")), Err(PatternError::GlobNotUtf8));
    }
}
