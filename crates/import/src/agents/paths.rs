// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths of agents' settings: where they begin, and which patterns they hold.

use crate::pattern::{self, matches};
use crate::text;

/// The largest number of paths that braces stand for.
const MOST: usize = 64;

/// How an agent writes paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// As a shell: a path that begins with a name lies below the working directory.
    Shell,
    /// The same, and `{a,b}` stands for both.
    Braces,
    /// As in `.gitignore`: a name without a slash is meant at any depth, `/x` lies below the project, and `//x` is
    /// absolute.
    Ignore,
}

/// What a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Root,
    Home,
    WorkingDirectory,
}

/// A path or a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) base: Base,
    /// The names below the base. `**` stands for any number of directories.
    names: Vec<String>,
}

/// Why a path can't be expressed.
pub(super) type Why = &'static str;

impl Spot {
    pub(super) const fn base(base: Base) -> Self {
        Self { base, names: Vec::new() }
    }

    /// The places that a path stands for.
    pub(super) fn parse(written: &str, dialect: Dialect) -> Result<Vec<Self>, Why> {
        if written.is_empty() {
            return Err("it is empty");
        }
        if written.contains(char::is_control) {
            return Err("a path can't hold control characters");
        }
        if written.starts_with('!') && dialect == Dialect::Ignore {
            return Err("an exception from another pattern can't be expressed");
        }
        let forms = match dialect {
            Dialect::Braces => braces(written)?,
            Dialect::Shell | Dialect::Ignore => vec![written.to_owned()],
        };
        forms.iter().map(|form| Self::one(form, dialect)).collect()
    }

    fn one(written: &str, dialect: Dialect) -> Result<Self, Why> {
        let (base, rest) = if let Some(rest) = written.strip_prefix('~') {
            if !rest.is_empty() && !rest.starts_with('/') {
                return Err("homes of other users aren't expanded");
            }
            (Base::Home, rest)
        } else if dialect == Dialect::Ignore {
            match (written.strip_prefix("//"), written.strip_prefix('/')) {
                (Some(rest), _) => (Base::Root, rest),
                (None, Some(rest)) => (Base::WorkingDirectory, rest),
                (None, None) => (Base::WorkingDirectory, written),
            }
        } else if written.starts_with('/') {
            (Base::Root, written)
        } else {
            (Base::WorkingDirectory, written)
        };
        let anywhere = dialect == Dialect::Ignore
            && !written.starts_with('~')
            && !written.trim_end_matches('/').contains('/')
            && !matches!(written, "." | "..");
        let mut names: Vec<String> = if anywhere { vec!["**".to_owned()] } else { Vec::new() };
        for name in rest.split('/').filter(|name| !name.is_empty() && *name != ".") {
            if name != ".." {
                // Two patterns for any number of directories in a row are one.
                if name != "**" || names.last().is_none_or(|last| last != "**") {
                    names.push(name.to_owned());
                }
                continue;
            }
            match names.last().map(String::as_str) {
                None if base == Base::Root => {}
                None if base == Base::Home => return Err("`..` leads out of the home"),
                None | Some("..") => names.push("..".to_owned()),
                Some(last) if is_pattern(last) => return Err("`..` follows a pattern"),
                Some(_plain) => {
                    names.pop();
                }
            }
        }
        // What lies in a directory is the directory, for every rule on it.
        if names.last().is_some_and(|last| last == "**") {
            names.pop();
        }
        Ok(Self { base, names })
    }

    /// A name directly below.
    pub(super) fn with(&self, name: &str) -> Self {
        let mut below = self.clone();
        below.names.push(name.to_owned());
        below
    }

    /// A path or a pattern below.
    pub(super) fn join(&self, below: &str) -> Result<Self, Why> {
        let rest = Self::one(below, Dialect::Shell)?;
        if rest.base != Base::WorkingDirectory || rest.names.first().is_some_and(|name| name == "..") {
            return Err("it doesn't lie below the directory that it belongs to");
        }
        let mut joined = self.clone();
        joined.names.extend(rest.names);
        Ok(joined)
    }

    /// Whether it is the base itself.
    pub(super) fn is_base(&self, base: Base) -> bool {
        self.base == base && self.names.is_empty()
    }

    /// Whether it may stand for several paths.
    pub(super) fn is_pattern(&self) -> bool {
        self.names.iter().any(|name| is_pattern(name))
    }

    /// Whether it is known to be the other one, or a directory above it.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.base == other.base && below(&self.names, &other.names)
    }

    /// Whether it may be the other one, or a directory above it: how the home and the working directory lie to each
    /// other isn't known.
    pub(super) fn may_cover(&self, other: &Self) -> bool {
        self.base != other.base || self.covers(other) || self.is_pattern()
    }

    /// The form in a profile. `None` for a pattern that can't be expressed. With `widen`, a wider pattern is used then.
    pub(super) fn said(&self, widen: bool) -> Option<String> {
        let mut out = match self.base {
            Base::Root if self.names.is_empty() => return Some("/".to_owned()),
            Base::Root => String::new(),
            Base::Home => "~".to_owned(),
            // The name of a directory above stands alone.
            Base::WorkingDirectory if self.names.first().is_some_and(|name| name == "..") => String::new(),
            Base::WorkingDirectory => ".".to_owned(),
        };
        for name in &self.names {
            if !out.is_empty() || self.base == Base::Root {
                out.push('/');
            }
            match name.as_str() {
                "**" | ".." => out.push_str(name),
                name if is_pattern(name) => out.push_str(&pattern::said(&pattern::with_sets(name), widen)?),
                name => out.push_str(&text::exact(name)),
            }
        }
        Some(out)
    }
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether a list of patterns matches the beginning of a list of names.
///
/// Only the last `**` is ever tried again, so every list ends quickly.
fn below(patterns: &[String], names: &[String]) -> bool {
    let fits =
        |pattern: &String, name: &String| pattern == name || (!is_pattern(name) && matches(pattern, name));
    let (mut at, mut of) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while let Some(pattern) = patterns.get(at) {
        if pattern == "**" {
            at += 1;
            again = Some((at, of));
        } else if names.get(of).is_some_and(|name| fits(pattern, name)) {
            at += 1;
            of += 1;
        } else {
            match again {
                Some((after, from)) if from < names.len() => {
                    again = Some((after, from + 1));
                    at = after;
                    of = from + 1;
                }
                _ => return false,
            }
        }
    }
    true
}

/// The texts that a text with braces stands for.
fn braces(written: &str) -> Result<Vec<String>, Why> {
    let Some(open) = written.find('{') else { return Ok(vec![written.to_owned()]) };
    let close = open + written[open..].find('}').ok_or("a brace isn't closed")?;
    let inside = &written[open + 1..close];
    if inside.contains('{') {
        return Err("braces inside braces can't be expressed");
    }
    let rest = braces(&written[close + 1..])?;
    let mut all = Vec::new();
    for choice in inside.split(',') {
        for rest in &rest {
            all.push(format!("{}{choice}{rest}", &written[..open]));
            if all.len() > MOST {
                return Err("the braces stand for too many paths");
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(written: &str, dialect: Dialect) -> Vec<String> {
        Spot::parse(written, dialect).unwrap().iter().map(|spot| spot.said(true).unwrap()).collect()
    }

    #[test]
    fn each_dialect_has_its_beginnings() {
        for (written, dialect, expected) in [
            ("/etc/x/", Dialect::Shell, "/etc/x"),
            ("/", Dialect::Shell, "/"),
            ("~", Dialect::Shell, "~"),
            ("~/.ssh/**", Dialect::Shell, "~/.ssh"),
            (".", Dialect::Shell, "."),
            ("./a/../b", Dialect::Shell, "./b"),
            ("../a", Dialect::Shell, "../a"),
            (".env", Dialect::Shell, "./.env"),
            ("**/.env", Dialect::Shell, "./**/.env"),
            ("a=b$c", Dialect::Shell, "./a\\=b\\$c"),
            (".env", Dialect::Ignore, "./**/.env"),
            ("secrets/", Dialect::Ignore, "./**/secrets"),
            ("./.env", Dialect::Ignore, "./.env"),
            ("/src/**", Dialect::Ignore, "./src"),
            ("//etc/x", Dialect::Ignore, "/etc/x"),
            ("src/**/*.key", Dialect::Ignore, "./src/**/*.key"),
        ] {
            assert_eq!(said(written, dialect), [expected], "{written}");
        }
        assert_eq!(said("~/.{aws,kube}/c", Dialect::Braces), ["~/.aws/c", "~/.kube/c"]);
        for (written, dialect) in [
            ("", Dialect::Shell),
            ("~ann/x", Dialect::Shell),
            ("~/../x", Dialect::Shell),
            ("a*/../x", Dialect::Shell),
            ("{a", Dialect::Braces),
            ("!x", Dialect::Ignore),
            ("a\nb", Dialect::Shell),
        ] {
            assert!(Spot::parse(written, dialect).is_err(), "{written}");
        }
    }

    #[test]
    fn which_places_cover_others() {
        let spot = |written: &str| Spot::parse(written, Dialect::Shell).unwrap().remove(0);
        assert!(spot("~/.ssh").covers(&spot("~/.ssh/id")) && !spot("~/.ssh/id").covers(&spot("~/.ssh")));
        assert!(spot("**/.env").covers(&spot("./a/.env")) && spot("**/.env").covers(&spot("./.env")));
        assert!(!spot("*.pem").covers(&spot("./a/x.pem")) && spot("*.pem").covers(&spot("./x.pem")));
        assert!(!spot("~").covers(&spot(".")) && spot("~").may_cover(&spot(".")));
        assert!(!spot("~/a").may_cover(&spot("~/b")));
    }
}
