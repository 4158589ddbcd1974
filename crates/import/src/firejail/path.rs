// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firejail's paths: macros, shell patterns, and which paths may name the same files.

use crate::pattern::{self, ends_agree, matches};
use crate::text;
use palisade_policy::PathPattern;
use std::path::Path;

/// The directories that `${PATH}` stands for, without those that are links to others of them.
const PROGRAMS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/usr/games", "/usr/local/games"];

/// Names at the root that are links to other directories if `/usr` is merged. If it isn't merged, they aren't shown.
const MERGED: [(&str, &[&str]); 6] = [
    ("bin", &["usr", "bin"]),
    ("sbin", &["usr", "sbin"]),
    ("lib", &["usr", "lib"]),
    ("lib32", &["usr", "lib32"]),
    ("lib64", &["usr", "lib64"]),
    ("libx32", &["usr", "libx32"]),
];

/// `${RUNUSER}`, which firejail always takes from this path. `${runtime}` isn't used: if no runtime directory is known,
/// statements that hide something in it would stop each launch.
const RUNTIME: &str = "/run/user/${uid}";

/// What a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Base {
    Root,
    Home,
    Runtime,
}

/// One name of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Name {
    text: String,
    glob: bool,
    /// The length of the text before its first pattern character.
    plain: usize,
    /// The form in the profile, if it isn't the text.
    shown: Option<&'static str>,
}

/// A path or a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) base: Base,
    pub(super) names: Vec<Name>,
}

/// The facts of the host that are needed to read paths.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The names of the home's path.
    pub(super) home: Vec<String>,
    pub(super) uid: u32,
    /// What `${DOWNLOADS}` and similar macros stand for, below the home.
    pub(super) directories: Vec<(String, String)>,
}

impl Name {
    fn new(text: &str) -> Self {
        let text = pattern::with_sets(text);
        let sign = text.find(['*', '?', '[']);
        let plain = sign.unwrap_or(text.len());
        Self { text, glob: sign.is_some(), plain, shown: None }
    }

    /// Whether both may match the same name.
    fn may_be(&self, other: &Self) -> bool {
        match (self.glob, other.glob) {
            (false, false) => self.text == other.text,
            (true, false) => self.fits(&other.text),
            (false, true) => other.fits(&self.text),
            (true, true) => ends_agree(&self.text, &other.text),
        }
    }

    /// Whether this matches every name that the other matches.
    fn covers(&self, other: &Self) -> bool {
        self.text == other.text
            || (self.glob && !other.glob && self.fits(&other.text))
            || self.text == "*"
            || (self.glob
                && self.plain_beginning().len() + 1 == self.text.len()
                && self.text.ends_with('*')
                && { other.plain_beginning().starts_with(self.plain_beginning()) })
    }

    /// Whether a name matches this pattern. Comparing the beginnings decides most cases.
    fn fits(&self, name: &str) -> bool {
        name.starts_with(self.plain_beginning()) && matches(&self.text, name)
    }

    fn plain_beginning(&self) -> &str {
        &self.text[..self.plain]
    }

    /// The form in the profile. `None` for a pattern that can't be expressed. With `widen`, a pattern is used in place
    /// of a variable that may be unset: a restriction with an unset variable would stop the launch.
    fn said(&self, widen: bool) -> Option<String> {
        if let (Some(shown), false) = (self.shown, widen) {
            return Some(shown.to_owned());
        }
        if self.glob { pattern::said(&self.text, widen) } else { Some(text::exact(&self.text)) }
    }
}

impl Place {
    pub(super) fn new(base: Base, path: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty()).map(Name::new).collect();
        Self { base, names }
    }

    /// A name in the runtime directory that one of the caller's variables holds.
    pub(super) fn runtime_variable(shown: &'static str, like: &str) -> Self {
        let mut place = Self::new(Base::Runtime, like);
        if let Some(last) = place.names.last_mut() {
            last.shown = Some(shown);
        }
        place
    }

    /// The places that a path stands for. There are several for `${PATH}`, and if a pattern includes the home.
    pub(super) fn parse(written: &str, known: &Known) -> Result<Vec<Self>, &'static str> {
        if written.contains(|c: char| c.is_control()) {
            return Err("a path can't hold control characters");
        }
        if written.contains(['\\', '"', '\'', '<', '>', '`', ';', '|']) {
            return Err("firejail doesn't accept these characters in paths");
        }
        if written.split('/').any(|name| name == "..") {
            return Err("firejail doesn't accept `..` in paths");
        }
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        if let Some(rest) = written.strip_prefix("${PATH}")
            && below(rest)
        {
            return Ok(PROGRAMS
                .iter()
                .map(|directory| Self::new(Base::Root, &format!("{directory}{rest}")))
                .collect());
        }
        for (sign, base) in [("${HOME}", Base::Home), ("~", Base::Home), ("${RUNUSER}", Base::Runtime)] {
            if let Some(rest) = written.strip_prefix(sign)
                && below(rest)
            {
                return Ok(vec![Self::new(base, rest)]);
            }
        }
        if let Some(rest) = written.strip_prefix("${CFG}")
            && below(rest)
        {
            return Ok(vec![Self::new(Base::Root, &format!("/etc/firejail{rest}"))]);
        }
        for (name, directory) in &known.directories {
            if let Some(rest) = written.strip_prefix(name.as_str())
                && below(rest)
            {
                return Ok(vec![Self::new(Base::Home, &format!("{directory}{rest}"))]);
            }
        }
        if written.contains("${") {
            return Err("firejail has no such macro");
        }
        if !written.starts_with('/') {
            return Err("a path begins with `/`, `~` or a macro");
        }
        Ok(Self::rooted(written, known))
    }

    /// The places of an absolute path. A path in the home or the runtime directory becomes relative to it.
    fn rooted(written: &str, known: &Known) -> Vec<Self> {
        let mut place = Self::new(Base::Root, written);
        if let Some(first) = place.names.first()
            && let Some((_name, instead)) = MERGED.iter().find(|(name, _)| *name == first.text)
        {
            place.names.splice(..1, instead.iter().map(|name| Name::new(name)));
        }
        let first_two: Vec<&str> = place.names.iter().take(2).map(|name| name.text.as_str()).collect();
        if first_two == ["var", "run"] {
            place.names.remove(0);
        }
        let runtime = ["run".to_owned(), "user".to_owned(), known.uid.to_string()];
        let mut places = Vec::new();
        let mut exactly = false;
        for (base, above) in [(Base::Home, known.home.as_slice()), (Base::Runtime, runtime.as_slice())] {
            let shorter = place.names.len().min(above.len());
            let agree = above.iter().zip(&place.names).all(|(above, name)| name.may_be(&Name::new(above)));
            if agree && !above.is_empty() {
                exactly |=
                    place.names.len() >= above.len() && place.names[..shorter].iter().all(|name| !name.glob);
                places
                    .push(Self { base, names: place.names.get(above.len()..).unwrap_or_default().to_vec() });
            }
        }
        if !exactly {
            places.insert(0, place);
        }
        places
    }

    /// Whether it may match several paths.
    pub(super) fn is_pattern(&self) -> bool {
        self.names.iter().any(|name| name.glob)
    }

    /// The place of the first `depth` names.
    pub(super) fn above(&self, depth: usize) -> Self {
        Self { base: self.base, names: self.names[..depth.min(self.names.len())].to_vec() }
    }

    /// Whether a path of `self` may contain a path of `other`, or be the same.
    pub(super) fn may_hold(&self, other: &Self) -> bool {
        self.fits(other, Name::may_be)
    }

    /// Whether every path of `other` lies in a path of `self`, or is the same.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.fits(other, Name::covers)
    }

    fn fits(&self, other: &Self, name: fn(&Name, &Name) -> bool) -> bool {
        self.base == other.base
            && self.names.len() <= other.names.len()
            && self.names.iter().zip(&other.names).all(|(own, its)| name(own, its))
    }

    /// Whether both have the same depth, and may be the same.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        self.names.len() == other.names.len() && self.may_hold(other)
    }

    /// Whether this is `names` from the root, or lies below.
    pub(super) fn is_below(&self, names: &[&str]) -> bool {
        self.base == Base::Root
            && self.names.len() >= names.len()
            && self.names.iter().zip(names).all(|(own, name)| own.text == *name)
    }

    /// The form in the profile. With `widen`, a pattern that can't be expressed may become a wider one.
    pub(super) fn said(&self, widen: bool) -> Option<String> {
        let mut out = match self.base {
            Base::Root => String::new(),
            Base::Home => "~".to_owned(),
            Base::Runtime => RUNTIME.to_owned(),
        };
        for name in &self.names {
            out.push('/');
            out.push_str(&name.said(widen)?);
        }
        if out.is_empty() {
            out.push('/');
        }
        let checkable = out.replace("${WAYLAND_DISPLAY}", "x");
        PathPattern::new(&checkable).is_ok().then_some(out)
    }

    /// The form of an argument of a program on the host. `None` for a pattern.
    pub(super) fn argument(&self) -> Option<String> {
        if self.is_pattern() {
            return None;
        }
        let mut out = match self.base {
            Base::Root => String::new(),
            Base::Home => "${home}".to_owned(),
            Base::Runtime => RUNTIME.to_owned(),
        };
        for name in &self.names {
            out.push('/');
            out.push_str(&text::plain(&name.text));
        }
        Some(out)
    }

    /// The last name.
    pub(super) fn last(&self) -> Option<&str> {
        self.names.last().map(|name| name.text.as_str())
    }
}

/// The directories in the home that `${DOWNLOADS}` and similar macros stand for.
pub(super) fn directories(home: &Path, config: &Path) -> Vec<(String, String)> {
    const NAMES: [(&str, &str, &str); 9] = [
        ("${DESKTOP}", "XDG_DESKTOP_DIR", "Desktop"),
        ("${DOCUMENTS}", "XDG_DOCUMENTS_DIR", "Documents"),
        ("${DOWNLOADS}", "XDG_DOWNLOAD_DIR", "Downloads"),
        ("${MUSIC}", "XDG_MUSIC_DIR", "Music"),
        ("${PICTURES}", "XDG_PICTURES_DIR", "Pictures"),
        ("${PROJECTS}", "XDG_PROJECTS_DIR", "Projects"),
        ("${PUBLICSHARE}", "XDG_PUBLICSHARE_DIR", "Public"),
        ("${TEMPLATES}", "XDG_TEMPLATES_DIR", "Templates"),
        ("${VIDEOS}", "XDG_VIDEOS_DIR", "Videos"),
    ];
    let file = crate::source::read(&config.join("user-dirs.dirs")).map(|read| read.text).unwrap_or_default();
    let told = |variable: &str| {
        let line = file.lines().map(str::trim).find(|line| line.starts_with(&format!("{variable}=\"")))?;
        let value = line.split('"').nth(1)?;
        let home = home.to_str()?;
        let below = value.strip_prefix("$HOME/").or_else(|| value.strip_prefix(home)?.strip_prefix('/'))?;
        let below = below.trim_matches('/');
        let plain = !below.is_empty() && below.split('/').all(|name| name != ".." && !name.is_empty());
        (plain && !below.contains(['*', '?', '[', '\\']) && !below.contains(char::is_control))
            .then(|| below.to_owned())
    };
    let mut out = Vec::new();
    for (macro_name, variable, usual) in NAMES {
        out.push((macro_name.to_owned(), format!("/{}", told(variable).unwrap_or_else(|| usual.to_owned()))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known {
            home: vec!["home".to_owned(), "ann".to_owned()],
            uid: 1000,
            directories: vec![("${DOWNLOADS}".to_owned(), "/Downloads".to_owned())],
        }
    }

    fn said(written: &str) -> Vec<String> {
        let places = Place::parse(written, &known()).unwrap();
        places.iter().filter_map(|place| place.said(false)).collect()
    }

    #[test]
    fn paths_are_said_as_they_are_meant() {
        for (written, expected) in [
            ("${HOME}/.ssh", vec!["~/.ssh"]),
            ("~/My Files", vec!["~/My Files"]),
            ("/home/ann/.ssh", vec!["~/.ssh"]),
            ("/home/bob/.ssh", vec!["/home/bob/.ssh"]),
            ("/home/*/.ssh", vec!["/home/*/.ssh", "~/.ssh"]),
            ("/home", vec!["/home", "~"]),
            ("/run/user/1000/bus", vec!["/run/user/${uid}/bus"]),
            ("${RUNUSER}/wayland-*", vec!["/run/user/${uid}/wayland-*"]),
            ("${DOWNLOADS}", vec!["~/Downloads"]),
            ("/var/run/x", vec!["/run/x"]),
            ("/bin/su", vec!["/usr/bin/su"]),
            ("/etc/{a}=$b", vec!["/etc/\\{a\\}\\=\\$b"]),
            ("/usr/share/**/x", vec!["/usr/share/*/x"]),
            ("/dev/video[0-9]*", vec!["/dev/video[0-9]*"]),
            ("/dev/[^a]x", vec!["/dev/[!a]x"]),
            ("/", vec!["/", "~", "/run/user/${uid}"]),
        ] {
            assert_eq!(said(written), expected, "{written}");
        }
        assert_eq!(said("${PATH}/gcc").len(), PROGRAMS.len());
        for wrong in ["x", "${NOSUCH}/x", "/a/../b", "/a\\b", "/a\nb", "${HOMEX}/a"] {
            assert!(Place::parse(wrong, &known()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_set_that_cannot_be_said_is_wider_or_nothing() {
        assert_eq!(Place::new(Base::Home, "[[:xdigit:]]").said(false).as_deref(), Some("~/[0-9a-fA-F]"));
        let place = Place::new(Base::Home, ".x[[:space:]]");
        assert_eq!(place.said(false), None);
        assert!(place.said(true).is_some());
        assert!(place.may_hold(&Place::new(Base::Home, ".x1]/y")), "the set ends at its first bracket");
    }

    #[test]
    fn which_places_hold_others() {
        let place = |path: &str| Place::new(Base::Home, path);
        assert!(place(".config").holds(&place(".config/x")));
        assert!(place("").holds(&place(".config")));
        assert!(!place(".config").holds(&Place::new(Base::Root, ".config")));
        assert!(place(".*").holds(&place(".bashrc")));
        assert!(place(".zsh*").may_hold(&place(".zshrc")));
        assert!(!place(".zsh*").may_hold(&place(".bashrc")));
        assert!(place(".a*").may_hold(&place(".ab*")) && place(".a*").holds(&place(".ab*")));
        assert!(place(".ab*").may_hold(&place(".a*")) && !place(".ab*").holds(&place(".a*")));
        assert!(!place("*-gcc").may_hold(&place("*-ld")));
        assert!(place("x[0-9]").may_hold(&place("x7")) && !place("x[0-9]").may_hold(&place("xa")));
        assert!(!place(&"*a".repeat(500)).may_hold(&place(&"a".repeat(499))));
        assert!(place("x[!0-9]").may_hold(&place("xa")) && !place("x[!0-9]").may_hold(&place("x7")));
    }
}
