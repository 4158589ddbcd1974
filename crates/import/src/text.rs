// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes foreign text in its new places: TOML strings, comments, paths, and texts in which `${…}` is filled in.

pub(crate) use palisade_policy::render::{key, string};

/// A character as it stands in a TOML string.
fn escape(c: char, to: &mut String) {
    to.push_str(string(c.encode_utf8(&mut [0; 4])).trim_matches('"'));
}

/// A TOML string of several lines: its line breaks stay line breaks.
pub(crate) fn lines(text: &str) -> String {
    let mut out = String::from("\"\"\"\n");
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '"' => out.push_str("\\\""),
            c => escape(c, &mut out),
        }
    }
    out.push_str("\"\"\"");
    out
}

/// A comment of one line. Characters that would end it or mislead a reader are escaped as in strings.
pub(crate) fn comment(text: &str) -> String {
    let mut out = String::from("#");
    if !text.is_empty() {
        out.push(' ');
    }
    for c in text.chars() {
        if palisade_text::is_hidden(c) {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// A text in which nothing is filled in.
pub(crate) fn plain(text: &str) -> String {
    text.replace("${", "$${")
}

/// A part of a path after its beginning. Every character of it stands for itself.
pub(crate) fn exact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "*?[]{}=$\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Whether it is a name with a dot in it, with at most `.*` at its end.
pub(crate) fn is_bus_name(name: &str) -> bool {
    let plain = name.strip_suffix(".*").unwrap_or(name);
    let plain = plain.replace("${name}", "x").replace("${id}", "x.y");
    name.len() <= 255
        && plain.contains('.')
        && plain.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        })
}

/// Whether it has the form `INTERFACE.METHOD@PATH`, with stars.
pub(crate) fn is_rule(rule: &str) -> bool {
    !rule.is_empty() && rule.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-*@/".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out() {
        let nasty = "a\"\n[x]\r\n'''\"\"\"\\\u{0}\u{7f}\u{85}\u{202e}${HOME}";
        for written in [string(nasty), lines(nasty)] {
            let document = format!("x = {written}\n");
            let table: toml::Table = toml::from_str(&document).unwrap();
            assert_eq!(table["x"].as_str(), Some(nasty), "{document}");
            assert_eq!(table.len(), 1);
        }
        assert_eq!(comment("a\nb\u{202e}"), "# a\\nb\\u202E");
        assert_eq!(key("a b"), "\"a b\"");
        assert_eq!(exact("a$b*=c"), "a\\$b\\*\\=c");
        assert_eq!(plain("a${b}$c"), "a$${b}$c");
    }

    #[test]
    fn names_on_the_bus() {
        for name in ["org.a11y.Bus", "org.gtk.vfs.*", "org.x.${id}.*", "${id}", "org.mpris.${name}"] {
            assert!(is_bus_name(name), "{name}");
        }
        for name in ["", "*", ".*", "org", "org..x", "org.*.x", "org.x\ny", "a.b=c"] {
            assert!(!is_bus_name(name), "{name}");
        }
        assert!(is_rule("org.freedesktop.Secret.Service.*@/org/freedesktop/secrets"));
        assert!(!is_rule("a b") && !is_rule(""));
    }
}
