// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the values of listed settings.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{Place, steers, url};

/// The kinds of values.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A value that git reads as true or false.
    Bool,
    /// A number, optionally with `k`, `m` or `g`.
    Number,
    /// Exactly one of these.
    Word(&'static [&'static str]),
    /// Some of these, separated by spaces or commas; each may have a `-` before it.
    Words(&'static [&'static str]),
    /// A value of any of these kinds.
    OneOf(&'static [Kind]),
    /// Colours and attributes by name or number.
    Colour,
    /// A line of text.
    Line,
    /// Text.
    Text,
    /// The name of a reference.
    Ref,
    /// What to fetch, and under which name to keep it.
    Fetch,
    /// What to leave out of a clone.
    Filter,
    /// A repository's address.
    Url,
    /// A remote in this file, or `.`.
    Remote,
    /// A remote that was in this file before.
    EstablishedRemote,
    /// The top of the working tree.
    WorkTree,
    /// No value: the setting may be removed, but not set.
    Nothing,
}

/// The facts about the repository that values depend on.
pub(super) struct Context<'c> {
    /// The repository was made inside.
    pub(super) fresh: bool,
    /// Remotes with an address.
    pub(super) remotes: &'c BTreeSet<&'c [u8]>,
    /// Remotes that had an address before.
    pub(super) established: &'c BTreeSet<&'c [u8]>,
    pub(super) place: &'c Place<'c>,
}

impl Kind {
    /// Whether a value is of this kind; `None` is a key without `=`.
    pub(super) fn accepts(self, value: Option<&[u8]>, context: &Context<'_>) -> Result<(), &'static str> {
        let bytes = match (self, value) {
            (Self::Bool, None) => return Ok(()),
            (Self::OneOf(kinds), value) => {
                let fits = kinds.iter().any(|kind| kind.accepts(value, context).is_ok());
                return fits.then_some(()).ok_or("this value isn't allowed");
            }
            (_, None) => return Err("it needs a value"),
            (_, Some(bytes)) => bytes,
        };
        let known = |is: bool, reason| is.then_some(()).ok_or(reason);
        match self {
            Self::Bool => known(is_bool(bytes), "its value must be true or false"),
            Self::Number => known(is_number(bytes), "its value must be a number"),
            Self::Word(words) => {
                known(words.iter().any(|word| word.as_bytes() == bytes), "this value isn't allowed")
            }
            Self::Words(words) => {
                let named = bytes.split(|byte| matches!(byte, b' ' | b',')).filter(|word| !word.is_empty());
                let mut named = named.map(|word| word.strip_prefix(b"-").unwrap_or(word));
                known(
                    named.all(|word| words.iter().any(|one| one.as_bytes() == word)),
                    "this value isn't allowed",
                )
            }
            Self::OneOf(_) => Ok(()), // answered above
            Self::Colour => known(made_of(bytes, b"# -_"), "its value must be a colour"),
            Self::Line => known(is_text(bytes, &[]), "its value has control characters"),
            Self::Text => known(is_text(bytes, &['\n', '\t']), "its value has control characters"),
            Self::Ref => known(is_reference(bytes, 0), "its value isn't the name of a reference"),
            Self::Fetch => fetch(bytes, context.fresh),
            Self::Filter => known(made_of(bytes, b":=+%./_-"), "its value isn't a filter"),
            Self::Url => match url::read(bytes)? {
                url::Leads::ThisHost if !context.fresh => {
                    Err("a push to a repository on this host runs that repository's hooks")
                }
                _ => Ok(()),
            },
            Self::Remote => known(
                bytes == b"." || (context.remotes.contains(bytes) && remote_name(bytes).is_ok()),
                "its value isn't a remote's name in this file",
            ),
            Self::EstablishedRemote => {
                let remotes = if context.fresh { context.remotes } else { context.established };
                known(remotes.contains(bytes), "its value isn't the name of a remote that was there before")
            }
            Self::WorkTree => work_tree(bytes, context.place),
            Self::Nothing => Err("it isn't among the settings that may be changed from inside"),
        }
    }
}

/// Whether a section in which something is set may have this name.
pub(super) fn subsection(section: &str, name: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() || name.iter().any(u8::is_ascii_control) {
        return Err("a section can't have this name");
    }
    match section {
        "remote" => remote_name(name),
        // The submodule's repository is `.git/modules/NAME`.
        "submodule" => {
            let climbs = name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..");
            if climbs || matches!(name.first(), Some(b'-' | b'/')) {
                return Err("a submodule can't have this name");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A remote's name must not look like what a user types for an address, a path or this repository (`.`): git would
/// look for such a remote first.
fn remote_name(name: &[u8]) -> Result<(), &'static str> {
    let odd = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b':' | b'\\' | b'~' | b'@');
    if name.is_empty() || matches!(name.first(), Some(b'-' | b'.')) || name.iter().any(odd) {
        return Err("a remote can't have this name");
    }
    Ok(())
}

fn is_bool(value: &[u8]) -> bool {
    let words: [&[u8]; 9] = [b"true", b"yes", b"on", b"1", b"false", b"no", b"off", b"0", b""];
    words.iter().any(|word| word.eq_ignore_ascii_case(value))
}

fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let digits = match digits.split_last() {
        Some((b'k' | b'K' | b'm' | b'M' | b'g' | b'G', rest)) => rest,
        _ => digits,
    };
    (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

fn made_of(value: &[u8], others: &[u8]) -> bool {
    value.len() <= 200 && value.iter().all(|byte| byte.is_ascii_alphanumeric() || others.contains(byte))
}

fn is_text(value: &[u8], but: &[char]) -> bool {
    std::str::from_utf8(value)
        .is_ok_and(|text| text.chars().all(|character| but.contains(&character) || !steers(character)))
}

/// git-check-ref-format(1), with one level allowed, and up to `stars` asterisks.
fn is_reference(name: &[u8], stars: usize) -> bool {
    let forbidden = |byte: &u8| {
        byte.is_ascii_control() || matches!(byte, b' ' | b':' | b'?' | b'[' | b'\\' | b'^' | b'~')
    };
    !name.is_empty()
        && name != b"@"
        && !matches!(name.first(), Some(b'-' | b'+'))
        && !matches!(name.last(), Some(b'.'))
        && !name.iter().any(forbidden)
        && name.iter().filter(|byte| **byte == b'*').count() <= stars
        && !name.windows(2).any(|pair| pair == b".." || pair == b"@{")
        && name
            .split(|byte| *byte == b'/')
            .all(|part| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock"))
}

/// Fetched refs must be kept with the remote branches or the tags, or not at all. In a repository made inside they
/// may be kept anywhere: a mirror keeps everything unchanged.
fn fetch(value: &[u8], fresh: bool) -> Result<(), &'static str> {
    let value = value.strip_prefix(b"+").unwrap_or(value);
    if let Some(except) = value.strip_prefix(b"^") {
        return is_reference(except, 1).then_some(()).ok_or("its value isn't a refspec for fetch");
    }
    let (from, to) = match value.iter().position(|byte| *byte == b':') {
        Some(colon) => (&value[..colon], &value[colon + 1..]),
        None => (value, &b""[..]),
    };
    if !is_reference(from, 1) || !(to.is_empty() || is_reference(to, 1)) {
        return Err("its value isn't a refspec for fetch");
    }
    let apart = to.is_empty() || to.starts_with(b"refs/remotes/") || to.starts_with(b"refs/tags/");
    if apart || (fresh && to.starts_with(b"refs/")) {
        return Ok(());
    }
    Err("fetched references may be stored only below refs/remotes and refs/tags")
}

/// The working tree of `.git` is the directory around it. That of a submodule lies below the superproject's, but in
/// no directory of git's, where a checked-out file could be a hook.
fn work_tree(value: &[u8], place: &Place<'_>) -> Result<(), &'static str> {
    const OUTSIDE: &str = "the working tree would be elsewhere";
    let resolved = resolved(place.git_directory, Path::new(OsStr::from_bytes(value))).ok_or(OUTSIDE)?;
    if place.git_directory.file_name() == Some(OsStr::new(".git")) {
        return (place.git_directory.parent() == Some(&resolved)).then_some(()).ok_or(OUTSIDE);
    }
    let parts: Vec<&OsStr> = place.git_directory.iter().collect();
    if !parts.windows(2).any(|pair| pair == [".git", "modules"]) {
        return Err(OUTSIDE);
    }
    let below = resolved.strip_prefix(place.work_tree_top).map_err(|_| OUTSIDE)?;
    let of_git = |part: &OsStr| {
        let part = part.as_bytes().to_ascii_lowercase();
        part == b".git" || part.starts_with(b"git~")
    };
    if below.as_os_str().is_empty() || below.iter().any(of_git) {
        return Err(OUTSIDE);
    }
    Ok(())
}

/// Where a path leads from `base`, which is canonical. A path that goes up again after going down is refused: git
/// never writes one, and its meaning depends on links.
fn resolved(base: &Path, path: &Path) -> Option<PathBuf> {
    let mut resolved = base.to_owned();
    let mut descended = path.is_absolute();
    for component in path.components() {
        match component {
            Component::RootDir => resolved = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir if descended => return None,
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(part) => {
                descended = true;
                resolved.push(part);
            }
            Component::Prefix(_) => return None,
        }
    }
    (!path.as_os_str().is_empty()).then_some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(kind: Kind, value: &str) -> bool {
        let origin: &[u8] = b"origin";
        let context = Context {
            fresh: false,
            remotes: &BTreeSet::from([origin, b"a/b"]),
            established: &BTreeSet::from([origin]),
            place: &Place { git_directory: Path::new("/w/.git/modules/sub"), work_tree_top: Path::new("/w") },
        };
        kind.accepts(Some(value.as_bytes()), &context).is_ok()
    }

    fn check(kind: Kind, good: &[&str], bad: &[&str]) {
        for value in good {
            assert!(accepts(kind, value), "{kind:?} should take {value:?}");
        }
        for value in bad {
            assert!(!accepts(kind, value), "{kind:?} shouldn't take {value:?}");
        }
    }

    #[test]
    fn simple_values() {
        check(Kind::Bool, &["true", "No", "", "1"], &["2", "!x", "true "]);
        check(Kind::Number, &["0", "-1", "512m", "9"], &["", "k", "0x1", "12345678901234567890", "a"]);
        check(Kind::Colour, &["bold red", "#ff0000"], &["\x1b[1m", "a\nb", "a;b"]);
        check(Kind::Line, &["Ann O'Neil", "ä"], &["a\nb", "a\x1bb", "\u{9b}m", "\u{202e}x"]);
        check(Kind::Text, &["a\n\tb"], &["a\x07"]);
        check(Kind::Word(&["a"]), &["a"], &["A", "", "a b"]);
        check(Kind::OneOf(&[Kind::Bool, Kind::Word(&["x"])]), &["x", "on"], &["y"]);
        check(Kind::Filter, &["blob:none", "blob:limit=1m"], &["a b", "!x"]);
        check(Kind::Nothing, &[], &["", "x"]);
    }

    #[test]
    fn references_and_refspecs() {
        let good = ["main", "refs/heads/a", "origin/main", "@x", "ä/b"];
        let bad = [
            "", "@", "-x", "+x", "a..b", "a b", "a:b", "a//b", "/a", "a/", ".a", "a.lock", "a@{1}", "*", "a.",
        ];
        check(Kind::Ref, &good, &bad);
        let good = [
            "+refs/heads/*:refs/remotes/origin/*",
            "refs/tags/v1:refs/tags/v1",
            "+refs/pull/*/head:refs/remotes/origin/pr/*",
            "refs/heads/main",
            "^refs/heads/tmp/*",
        ];
        let bad = [
            "+refs/*:refs/*",
            "main:refs/heads/main",
            "a:../x",
            ":refs/remotes/x",
            "a:refs/remotes/../heads/x",
            "",
        ];
        check(Kind::Fetch, &good, &bad);
    }

    #[test]
    fn remotes() {
        check(Kind::Remote, &["origin", "."], &["other", "", "./x", "a/b", "https://example.org/x"]);
        check(Kind::EstablishedRemote, &["origin"], &["other", "."]);
        for name in ["", ".", "..", "-x", "a/b", "host:path", "https://example.org", "a b", ".git", "~x"] {
            assert!(subsection("remote", name.as_bytes()).is_err(), "{name:?}");
        }
        for (section, name) in [("remote", "my.fork-2"), ("submodule", "libs/x"), ("branch", "a/b\"c")] {
            assert!(subsection(section, name.as_bytes()).is_ok(), "{name:?}");
        }
        for name in ["../x", "a/../b", "a\\..\\b", "-x", "/x", "", "a\x1b"] {
            assert!(subsection("submodule", name.as_bytes()).is_err(), "{name:?}");
        }
    }

    #[test]
    fn addresses_on_this_host_only_where_nothing_was() {
        check(Kind::Url, &["https://example.org/x"], &["/srv/x", "../x", "ext::sh -c id", ""]);
    }

    #[test]
    fn the_working_tree_of_a_submodule_is_below() {
        let good = ["../../../sub", "../../../a/b/", "/w/sub", "../../.././sub", "../../../.vim/x"];
        let bad = [
            "..",
            ".",
            "../../..",
            "../../../..",
            "../../../../x",
            "/w",
            "/",
            "/etc",
            "/w/../etc",
            "",
            "../hooks",
            "../../../sub/../../x",
            "../../../link/../x",
            "../../../.GIT/hooks",
            "/w/sub/.git",
            "../../../git~1/x",
        ];
        check(Kind::WorkTree, &good, &bad);
    }

    #[test]
    fn the_working_tree_of_a_repository_is_around_it() {
        let place = Place { git_directory: Path::new("/w/.git"), work_tree_top: Path::new("/w") };
        for (value, fine) in [("..", true), ("/w", true), ("../sub", false), (".", false), ("/", false)] {
            assert_eq!(work_tree(value.as_bytes(), &place).is_ok(), fine, "{value}");
        }
        let linked = Place { git_directory: Path::new("/w/.git/worktrees/x"), ..place };
        assert!(work_tree(b"../../../sub", &linked).is_err(), "a linked one is where its directory says");
    }
}
