// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expands a pattern to absolute paths on this host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::below::below;
use crate::context::Context;
use crate::glob::Glob;
use crate::layer::Layer;
use crate::pattern::{PathPattern, SPECIAL, Token, Variable};

/// Why a pattern can't be expanded on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// `${project}` without a project, `${runtime}` without a runtime directory.
    #[error("`${{{variable}}}` has no value in this launch")]
    Unset {
        /// The variable's name.
        variable: String,
    },
    /// A path of the context isn't absolute, or contains `.` or `..`.
    #[error("`{variable}` is {path:?}, but must be an absolute path without `.` and `..`")]
    NotAbsolute {
        /// The variable's name.
        variable: String,
        /// Its value.
        path: PathBuf,
    },
    /// The variable's value contains a character that a file name can't contain.
    #[error("`{variable}` is {value:?}, which can't be part of a path")]
    BadName {
        /// The variable's name.
        variable: String,
        /// Its value.
        value: OsString,
    },
    /// The pattern is a glob, and a working or home directory in it isn't UTF-8.
    #[error("a variable in a pattern has a value that is not UTF-8")]
    GlobNotUtf8,
}

/// The expansion of a pattern.
#[derive(Debug, Clone)]
pub(crate) enum Expanded {
    /// One path, absolute and normal.
    Path(PathBuf),
    /// Any matching path below a directory.
    Glob(GlobPattern),
}

/// A compiled pattern: a base directory, and a glob below it.
///
/// A walk starts at the base.
#[derive(Debug, Clone)]
pub struct GlobPattern {
    base: PathBuf,
    /// The text of the glob below the base, as a policy would state it.
    written: Arc<str>,
    glob: Glob,
}

impl PartialEq for GlobPattern {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base && self.glob == other.glob
    }
}

impl Eq for GlobPattern {}

impl GlobPattern {
    /// The deepest directory that is an ancestor of every match.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The text of the glob below the base, as a policy would state it.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }

    /// How many names below the base a match lies. `None`: at any depth.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        self.glob.depth()
    }

    /// Whether this path itself matches.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        below(path, &self.base).is_some_and(|rest| self.glob.matches(rest.as_os_str().as_bytes()))
    }

    /// How many names at the end of a matching path decide that it matches: all below the base, or fewer if the
    /// pattern begins with `**`.
    #[must_use]
    pub fn decisive(&self, path: &Path) -> usize {
        below(path, &self.base).map_or(0, |rest| self.glob.decisive(rest.as_os_str().as_bytes()))
    }

    /// The shallowest match among `path` and its ancestors: there the rule starts to apply.
    #[must_use]
    pub fn begins(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.base).ok()?;
        let mut reached = PathBuf::new();
        for name in rest {
            reached.push(name);
            if self.glob.matches(reached.as_os_str().as_bytes()) {
                return Some(self.base.join(reached));
            }
        }
        None
    }
}

/// The expansion of a pattern on this host.
#[derive(Debug, Clone)]
pub enum Place {
    /// One path, absolute and normal.
    Path(PathBuf),
    /// Every path that matches.
    Glob(GlobPattern),
}

impl Place {
    /// Expands a pattern that a layer states.
    ///
    /// # Errors
    /// When the pattern refers to a value that this launch doesn't have.
    pub fn of(pattern: &PathPattern, layer: Layer, context: &Context) -> Result<Self, ExpandError> {
        Ok(match expand(pattern, layer, context)? {
            Expanded::Path(path) => Self::Path(path),
            Expanded::Glob(glob) => Self::Glob(glob),
        })
    }
}

/// Expands a pattern.
pub(crate) fn expand(
    pattern: &PathPattern,
    layer: Layer,
    context: &Context,
) -> Result<Expanded, ExpandError> {
    let tokens = anchored(pattern, layer, context)?;
    // The plain beginning ends at the last separator before the first glob character.
    let first_glob = tokens.iter().position(Token::is_glob);
    let split = match first_glob {
        None => tokens.len(),
        Some(at) => tokens[..at].iter().rposition(|token| *token == Token::Separator).map_or(0, |at| at + 1),
    };
    let base = normal(&tokens[..split]);
    if first_glob.is_none() {
        return Ok(Expanded::Path(base));
    }
    let written = written_text(&tokens[split..])?.into();
    Ok(Expanded::Glob(GlobPattern { base, written, glob: Glob::new(&tokens[split..]) }))
}

/// The pattern's tokens with variables replaced. The first is a separator.
fn anchored(pattern: &PathPattern, layer: Layer, context: &Context) -> Result<Vec<Token>, ExpandError> {
    let tokens = pattern.tokens();
    let absolute = match tokens.first() {
        Some(Token::Separator | Token::Home) => true,
        Some(Token::Variable(Variable::Environment(name))) => {
            context.environment.get(OsStr::new(name)).is_some_and(|value| value.as_bytes().starts_with(b"/"))
        }
        Some(Token::Variable(variable)) => {
            !matches!(variable, Variable::User | Variable::Uid | Variable::Name | Variable::Id)
        }
        _ => false,
    };
    let mut out = Vec::with_capacity(tokens.len() + 64);
    if !absolute {
        let (name, start) = match &context.project {
            Some(project) if layer == Layer::Project => ("project", project),
            _ => ("cwd", &context.cwd),
        };
        put_path(name, start, &mut out)?;
        out.push(Token::Separator);
        // A glob without a slash matches at any depth, as in every ignore file.
        if pattern.is_glob() && !tokens.contains(&Token::Separator) {
            out.extend([Token::DoubleStar, Token::Separator]);
        }
    }
    for token in tokens {
        match token {
            Token::Home => put_path("home", &context.home, &mut out)?,
            Token::Variable(variable) => {
                // Another person wrote the project's file: it must not read the user's variables.
                if layer == Layer::Project && matches!(variable, Variable::Environment(_) | Variable::X11) {
                    return Err(ExpandError::Unset { variable: variable.name().to_owned() });
                }
                put_variable(variable, context, &mut out)?;
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

fn put_variable(variable: Variable, context: &Context, out: &mut Vec<Token>) -> Result<(), ExpandError> {
    let name = variable.name();
    let unset = || ExpandError::Unset { variable: name.to_owned() };
    let application = || context.application.as_ref().ok_or_else(unset);
    match &variable {
        Variable::Home => put_path(name, &context.home, out),
        Variable::Cwd => put_path(name, &context.cwd, out),
        Variable::Project => put_path(name, context.project.as_ref().ok_or_else(unset)?, out),
        Variable::Runtime => put_path(name, context.runtime_dir.as_ref().ok_or_else(unset)?, out),
        Variable::Config => put_path(name, &context.directories.config, out),
        Variable::Data => put_path(name, &context.directories.data, out),
        Variable::Cache => put_path(name, &context.directories.cache, out),
        Variable::State => put_path(name, &context.directories.state, out),
        Variable::X11 => put_path(name, &Variable::x11(context).ok_or_else(unset)?, out),
        Variable::Uid => put_name(name, context.uid.to_string().as_ref(), out),
        Variable::User => put_name(name, context.user.as_ref(), out),
        Variable::Name => put_name(name, application()?.name.as_ref(), out),
        Variable::Id => put_name(name, application()?.id().as_ref(), out),
        Variable::Environment(_) => {
            let value = context.environment.get(OsStr::new(name)).filter(|value| !value.is_empty());
            let value = value.ok_or_else(unset)?;
            if value.as_bytes().starts_with(b"/") {
                // The value is an absolute path, so it replaces everything before it.
                out.clear();
                return put_path(name, Path::new(value), out);
            }
            put_name(name, value, out)
        }
    }
}

/// Appends a single component of a path.
fn put_name(variable: &str, name: &OsStr, out: &mut Vec<Token>) -> Result<(), ExpandError> {
    let bytes = name.as_bytes();
    if bytes.is_empty()
        || bytes == b"."
        || bytes == b".."
        || bytes.iter().any(|byte| [b'/', 0].contains(byte))
    {
        return Err(ExpandError::BadName { variable: variable.to_owned(), value: name.to_owned() });
    }
    out.extend(bytes.iter().copied().map(Token::Byte));
    Ok(())
}

/// Appends a path of the context. Each of its characters stands for itself.
fn put_path(variable: &str, path: &Path, out: &mut Vec<Token>) -> Result<(), ExpandError> {
    use std::path::Component;
    let plain = path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain {
        return Err(ExpandError::NotAbsolute { variable: variable.to_owned(), path: path.to_owned() });
    }
    out.extend(path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'/' => Token::Separator,
        other => Token::Byte(*other),
    }));
    Ok(())
}

/// Joins plain tokens to a path without empty components, `.` and `..`.
fn normal(tokens: &[Token]) -> PathBuf {
    let mut path = PathBuf::from("/");
    for part in tokens.split(|token| *token == Token::Separator) {
        let name: Vec<u8> = part
            .iter()
            .filter_map(|token| match token {
                Token::Byte(byte) => Some(*byte),
                _ => None,
            })
            .collect();
        match name.as_slice() {
            b"" | b"." => {}
            // `..` can stand only at the beginning, directly after the working directory, which contains no links.
            b".." => {
                path.pop();
            }
            _ => path.push(OsString::from_vec(name)),
        }
    }
    path
}

/// Writes tokens with slashes between components. Leaves out empty components and `.`, as in a plain path.
fn written_text(tokens: &[Token]) -> Result<String, ExpandError> {
    let mut parts: Vec<String> = Vec::new();
    for part in tokens.split(|token| *token == Token::Separator) {
        let text = written_part(part)?;
        if !text.is_empty() && text != "." {
            parts.push(text);
        }
    }
    Ok(parts.join("/"))
}

/// In the syntax of a policy file.
fn written_part(part: &[Token]) -> Result<String, ExpandError> {
    let mut text: Vec<u8> = Vec::new();
    for token in part {
        match token {
            Token::Byte(byte) => {
                if SPECIAL.contains(byte) {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            Token::Star => text.push(b'*'),
            Token::DoubleStar => text.extend(b"**"),
            Token::AnyOne => text.push(b'?'),
            Token::Class(negated, members) => {
                text.extend(if *negated { b"[!".as_slice() } else { b"[" });
                text.extend(members.as_bytes());
                text.push(b']');
            }
            // These tokens were replaced before.
            Token::Separator | Token::Home | Token::Variable(_) => {}
        }
    }
    String::from_utf8(text).map_err(|_| ExpandError::GlobNotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        Context {
            home: "/home/ann".into(),
            cwd: "/home/ann/src/app".into(),
            project: Some("/home/ann/src".into()),
            user: "ann".into(),
            uid: 1000,
            runtime_dir: Some("/run/user/1000".into()),
            environment: [
                ("WAYLAND_DISPLAY".into(), "wayland-0".into()),
                ("XAUTHORITY".into(), "/tmp/x a".into()),
            ]
            .into(),
            ..Context::default()
        }
    }

    #[test]
    fn a_variable_of_the_callers_is_a_name_or_takes_the_place_of_what_is_before_it() {
        assert_eq!(path("${runtime}/${WAYLAND_DISPLAY}", Layer::User), Path::new("/run/user/1000/wayland-0"));
        assert_eq!(path("${runtime}/${XAUTHORITY}", Layer::User), Path::new("/tmp/x a"));
        assert_eq!(path("${XAUTHORITY}", Layer::User), Path::new("/tmp/x a"));
        let error = |text: &str, value: &str| {
            let mut context = context();
            context.environment.insert("X".into(), value.into());
            expand(&PathPattern::new(text).unwrap(), Layer::User, &context).unwrap_err()
        };
        assert!(matches!(error("/a/${X}", "../b"), ExpandError::BadName { .. }));
        assert!(matches!(error("/a/${X}", ".."), ExpandError::BadName { .. }));
        assert!(matches!(error("/a/${X}", "/b/../c"), ExpandError::NotAbsolute { .. }));
        assert!(matches!(error("/a/${X}", ""), ExpandError::Unset { .. }));
        assert!(matches!(error("/a/${Y_Z}", ""), ExpandError::Unset { .. }));
    }

    fn path(text: &str, layer: Layer) -> PathBuf {
        match expand(&PathPattern::new(text).unwrap(), layer, &context()).unwrap() {
            Expanded::Path(path) => path,
            Expanded::Glob(glob) => panic!("{text} is the glob {glob:?}"),
        }
    }

    fn glob(text: &str) -> GlobPattern {
        match expand(&PathPattern::new(text).unwrap(), Layer::User, &context()).unwrap() {
            Expanded::Path(path) => panic!("{text} is the path {path:?}"),
            Expanded::Glob(glob) => glob,
        }
    }

    #[test]
    fn every_way_to_write_a_path_has_its_place() {
        for (text, expected) in [
            ("/", "/"),
            ("/a//b/./c/", "/a/b/c"),
            ("~", "/home/ann"),
            ("~/x", "/home/ann/x"),
            (".", "/home/ann/src/app"),
            ("./x", "/home/ann/src/app/x"),
            ("x y", "/home/ann/src/app/x y"),
            ("../lib", "/home/ann/src/lib"),
            ("../../../../../..", "/"),
            ("${cwd}/x", "/home/ann/src/app/x"),
            ("${runtime}/bus", "/run/user/1000/bus"),
            ("/var/${user}-${uid}", "/var/ann-1000"),
            ("${user}", "/home/ann/src/app/ann"),
            (r"/a\*\=\$\~", "/a*=$~"),
            (r"\~", "/home/ann/src/app/~"),
        ] {
            assert_eq!(path(text, Layer::User), Path::new(expected), "{text}");
        }
        assert_eq!(path("x", Layer::Project), Path::new("/home/ann/src/x"));
    }

    #[test]
    fn globs_match_names_not_separators() {
        for (pattern, base, yes, no) in [
            ("**/.env", "/home/ann/src/app", vec![".env", "a/b/.env"], vec!["a/.envrc", ".env/x"]),
            ("*.pem", "/home/ann/src/app", vec!["x.pem", "a/x.pem"], vec!["x.pem/y"]),
            ("./*.pem", "/home/ann/src/app", vec!["x.pem"], vec!["a/x.pem"]),
            ("~/.ssh/id_*", "/home/ann/.ssh", vec!["id_rsa", "id_"], vec!["id_a/b", "known"]),
            ("/a/x[!b]y", "/a", vec!["xcy"], vec!["x/y", "xby"]),
            ("/a/b?", "/a", vec!["bc"], vec!["b/", "b"]),
            ("/a/**", "/a", vec!["b", "b/c"], vec![""]),
            ("/a/x[!-a-]y", "/a", vec!["xcy"], vec!["x/y", "xay", "x-y"]),
            ("/a/[0-9-]", "/a", vec!["5", "-"], vec!["a"]),
            (r"/a/{b,c}*\*", "/a", vec!["{b,c}*", "{b,c}x*"], vec!["b*", "c*"]),
        ] {
            let glob = glob(pattern);
            assert_eq!(glob.base(), Path::new(base), "{pattern}");
            for name in yes {
                assert!(glob.matches(&Path::new(base).join(name)), "{pattern} {name}");
            }
            for name in no {
                assert!(!glob.matches(&Path::new(base).join(name)), "{pattern} {name}");
            }
            assert!(!glob.matches(Path::new("/elsewhere/.env")));
        }
        assert_eq!(glob("./*.pem").depth(), Some(1));
        assert_eq!(glob("*.pem").depth(), None);
        let begins = glob("/a/**").begins(Path::new("/a/b/c"));
        assert_eq!(begins.as_deref(), Some(Path::new("/a/b")));
    }

    #[test]
    fn what_stands_for_nothing_is_an_error() {
        let mut context = context();
        context.runtime_dir = None;
        context.cwd = "/a/../b".into();
        let error = |text| expand(&PathPattern::new(text).unwrap(), Layer::User, &context).unwrap_err();
        assert_eq!(error("${runtime}/x"), ExpandError::Unset { variable: "runtime".into() });
        assert!(matches!(error("x"), ExpandError::NotAbsolute { variable, .. } if variable == "cwd"));
    }
}
