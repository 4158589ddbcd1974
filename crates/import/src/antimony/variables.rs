// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates Antimony's paths and texts, in which `$NAME` and `~` stand for something.

use crate::text;

/// The path of the home inside Antimony's sandbox.
const HOME_INSIDE: &str = "/home/antimony";

/// Why a path can't be translated.
pub(super) type Why = &'static str;

/// The form of `$NAME` in the profile's language. `None` if it has no counterpart.
fn variable(name: &str) -> Option<String> {
    Some(match name {
        "HOME" => "${home}".to_owned(),
        "XDG_CONFIG_HOME" => "${config}".to_owned(),
        "XDG_DATA_HOME" => "${data}".to_owned(),
        "XDG_CACHE_HOME" => "${cache}".to_owned(),
        "XDG_STATE_HOME" => "${state}".to_owned(),
        "XDG_RUNTIME_DIR" => "${runtime}".to_owned(),
        "UID" => "${uid}".to_owned(),
        "USER" => "${user}".to_owned(),
        "PWD" => "${cwd}".to_owned(),
        "AT_HOME" | "ANTIMONY_HOME" | "ANTIMONY_CACHE" | "ANTIMONY_NAME" | "PID" | "FD" => return None,
        other => format!("${{{other}}}"),
    })
}

/// The pieces of a text: plain ones and names of variables.
enum Piece<'t> {
    Plain(&'t str),
    Variable(&'t str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let name = &rest[at + 1..];
        let end = name.bytes().position(|b| !(b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
        let end = end.unwrap_or(name.len());
        let stop = if end == 0 { at + 1 } else { at };
        if stop > 0 {
            out.push(Piece::Plain(&rest[..stop]));
        }
        if end > 0 {
            out.push(Piece::Variable(&name[..end]));
        }
        rest = &name[end..];
    }
    if !rest.is_empty() {
        out.push(Piece::Plain(rest));
    }
    out
}

/// A path in the form of the profile. `in_home`: a path that begins with a name, or with a slash, lies in the home.
pub(super) fn path(written: &str, in_home: bool) -> Result<String, Why> {
    if written.is_empty() {
        return Err("it is empty");
    }
    if written.contains(|c: char| c.is_control()) {
        return Err("a path can't hold control characters");
    }
    let (base, rest) = base(written, in_home)?;
    if rest.split('/').any(|name| name == "..") {
        return Err("the target of `..` isn't known without following links");
    }
    let mut out = base;
    for piece in pieces(&rest) {
        match piece {
            Piece::Plain(plain) => out.push_str(&text::exact(plain)),
            Piece::Variable(name) => {
                out.push_str(&variable(name).ok_or("it is one of Antimony's own directories")?);
            }
        }
    }
    let trimmed = out.trim_end_matches('/');
    Ok(if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() })
}

/// The beginning of a path in the form of the profile, and the rest with its slash.
fn base(written: &str, in_home: bool) -> Result<(String, String), Why> {
    let below = |rest: &str| ("~".to_owned(), format!("/{}", rest.trim_start_matches('/')));
    for home in ["~", "$HOME", HOME_INSIDE] {
        if let Some(rest) = written.strip_prefix(home)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return Ok(below(rest));
        }
    }
    if written.starts_with('~') {
        return Err("it is another user's home");
    }
    if written.starts_with('$') {
        return Ok((String::new(), written.to_owned()));
    }
    if in_home && !written.starts_with("/home/") {
        return Ok(below(written));
    }
    if !written.starts_with('/') {
        return Err(
            "a path of the system begins with `/`: Antimony finds this one relative to its working directory",
        );
    }
    Ok((String::new(), written.to_owned()))
}

/// `HOST=DEST` or a path, in the form of the profile.
pub(super) fn mapping(written: &str, in_home: bool) -> Result<String, Why> {
    match written.split_once('=') {
        Some((host, inside)) => Ok(format!("{}={}", path(host, in_home)?, path(inside, true_root(inside))?)),
        None => path(written, in_home),
    }
}

/// Whether a destination is relative to the home: destinations are absolute otherwise.
fn true_root(inside: &str) -> bool {
    !inside.starts_with('/')
}

/// A text in which Antimony fills in nothing except its own home.
pub(super) fn literal(written: &str) -> String {
    text::plain(written).replace(HOME_INSIDE, "${home}")
}

/// A variable's value, which may be just another variable.
pub(super) fn value(written: &str) -> String {
    match pieces(written).as_slice() {
        [Piece::Variable(name)] => variable(name).unwrap_or_else(|| text::plain(written)),
        _ => literal(written),
    }
}

/// A file's content, and whether it has a variable that may be unset. Such a variable stays as it is written.
pub(super) fn content(written: &str) -> (String, bool) {
    const ALWAYS_SET: [&str; 7] =
        ["HOME", "UID", "USER", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "PWD"];
    let (mut out, mut unsure) = (String::new(), false);
    for piece in pieces(written) {
        match piece {
            Piece::Plain(plain) => out.push_str(plain),
            Piece::Variable(name) if ALWAYS_SET.contains(&name) => out.push_str(&format!("\u{0}{name}\u{0}")),
            Piece::Variable(name) => {
                unsure = true;
                out.push('$');
                out.push_str(name);
            }
        }
    }
    // The variables are filled in last: otherwise their values would be escaped like the rest of the text.
    let mut filled = literal(&out);
    for name in ALWAYS_SET {
        filled = filled.replace(&format!("\u{0}{name}\u{0}"), &variable(name).unwrap_or_default());
    }
    (filled, unsure)
}

/// A name on the bus. `{id}`, `{name}` and `{desktop}` become variables of the profile.
pub(super) fn bus_name(written: &str) -> String {
    text::plain(written).replace("{id}", "${id}").replace("{name}", "${name}").replace("{desktop}", "${id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_said_as_the_profile_says_them() {
        for (written, in_home, said) in [
            ("/etc/fonts/", false, "/etc/fonts"),
            ("$XDG_CONFIG_HOME/gtk-3.0", true, "${config}/gtk-3.0"),
            ("$HOME/.gtkrc", true, "~/.gtkrc"),
            ("~", true, "~"),
            (".zshrc", true, "~/.zshrc"),
            ("/.zshrc", true, "~/.zshrc"),
            ("/home/ann/x", true, "/home/ann/x"),
            ("/home/antimony/db", false, "~/db"),
            ("$XDG_RUNTIME_DIR/$WAYLAND_DISPLAY", true, "${runtime}/${WAYLAND_DISPLAY}"),
            ("/run/user/$UID/x", false, "/run/user/${uid}/x"),
            ("/a*b/c$d", false, "/a\\*b/c\\$d"),
            ("/x/~y", false, "/x/~y"),
        ] {
            assert_eq!(path(written, in_home).as_deref(), Ok(said), "{written}");
        }
        for wrong in ["", "usr/share/x", "/a/../b", "$AT_HOME/x", "~other/x", "/a\nb"] {
            assert!(path(wrong, false).is_err(), "{wrong}");
        }
        assert_eq!(mapping("$XDG_DATA_HOME/x=/etc/ssh", false).as_deref(), Ok("${data}/x=/etc/ssh"));
        assert_eq!(mapping("/a=/b=c", false).as_deref(), Ok("/a=/b\\=c"));
    }

    #[test]
    fn only_what_antimony_fills_in_is_filled_in() {
        assert_eq!(value("$LANG"), "${LANG}");
        assert_eq!(value("a$LANG"), "a$LANG");
        assert_eq!(value("${LANG}"), "$${LANG}");
        assert_eq!(literal("/home/antimony/db"), "${home}/db");
        assert_eq!(content("u:$UID:/home/antimony ${X} $@"), ("u:${uid}:${home} $${X} $@".to_owned(), false));
        assert_eq!(content("echo $FOO"), ("echo $FOO".to_owned(), true));
        assert_eq!(bus_name("org.mpris.{desktop}.*"), "org.mpris.${id}.*");
    }
}
