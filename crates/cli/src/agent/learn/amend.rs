// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds statements to the text of a profile. Comments and the order of the text stay.
//!
//! The result is parsed: it has to hold the old statements, the additions and nothing else. A text that is written in another
//! way than the usual one may fail that check, and then nothing is changed.

use super::additions::{Additions, Entries};
use palisade_policy::{Layer, parse, render};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The longest line of a list on one line.
const LINE: usize = 100;
const INDENT: &str = "    ";

/// The text with the additions. `None` if they can't be added so that exactly they are new.
pub(super) fn amend(text: &str, file: &Path, additions: &Additions) -> Option<String> {
    let read = |text: &str| parse(text, Some(file), Layer::User).ok();
    let wanted = additions.added_to(read(text)?);
    let mut amended = text.to_owned();
    for list in additions.lists() {
        amended = insert(&amended, &list)?;
    }
    let found = read(&amended)?;
    (render(&found) == render(&wanted)).then_some(amended)
}

/// The text with more entries in one list.
fn insert(text: &str, list: &Entries) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let section = table.get_ref().get(list.section).and_then(|section| section.get_ref().as_table());
    if let Some(value) = section.and_then(|section| section.get(list.key)) {
        let DeValue::Array(array) = value.get_ref() else { return None };
        let span = value.span();
        let close = span
            .end
            .checked_sub(1)
            .filter(|close| text.get(*close..).is_some_and(|rest| rest.starts_with(']')))?;
        let last = array.iter().last().map(|entry| entry.span().end);
        return extend(text, (span.start, last, close), &list.entries);
    }
    let statement = format!("{} = {}\n", list.key, new(list.key, &list.entries));
    if section.is_some() {
        // Behind the line with the section's name. The check finds out whether that line was another text.
        let header = format!("[{}]", list.section);
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            at += line.len();
            let named = line.trim().strip_prefix(&header);
            if named.is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('#')) {
                let end = if line.ends_with('\n') { "" } else { "\n" };
                return Some(format!("{}{end}{statement}{}", text.get(..at)?, text.get(at..)?));
            }
        }
        return None;
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{end}\n[{}]\n{statement}", list.section))
}

/// A new list.
fn new(key: &str, entries: &[String]) -> String {
    let line = entries.join(", ");
    if key.len() + line.len() + "[ = ]".len() <= LINE {
        return format!("[{line}]");
    }
    format!("[\n{}]", lines(INDENT, entries))
}

fn lines(indent: &str, entries: &[String]) -> String {
    entries.iter().map(|entry| format!("{indent}{entry},\n")).collect()
}

/// The text with more entries in the list that starts at `start`, whose last entry ends at `last` and whose bracket closes at
/// `close`.
fn extend(
    text: &str,
    (start, last, close): (usize, Option<usize>, usize),
    more: &[String],
) -> Option<String> {
    let end = last.unwrap_or(start + 1);
    if !text.get(start..close)?.contains('\n') {
        let comma = if last.is_some() { ", " } else { "" };
        return Some(format!("{}{comma}{}{}", text.get(..end)?, more.join(", "), text.get(end..)?));
    }
    // What stands between the last entry and the bracket: a comma perhaps, and comments.
    let between = text.get(end..close)?;
    let has_comma = between.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains(',')));
    let comma = if last.is_some() && !has_comma { "," } else { "" };
    let before_bracket =
        between.rfind('\n').filter(|at| between.get(at + 1..).is_some_and(|rest| rest.trim().is_empty()));
    let (body, tail) = match before_bracket {
        Some(at) => between.split_at(at + 1),
        // The bracket follows the last entry on its line.
        None => (between, ""),
    };
    let line_break = if body.ends_with('\n') { "" } else { "\n" };
    let head = text.get(..end)?;
    let last_line = head.rsplit('\n').next().unwrap_or_default();
    let indent =
        last_line.get(..last_line.len() - last_line.trim_start().len()).filter(|indent| !indent.is_empty());
    let added = lines(indent.unwrap_or(INDENT), more);
    Some(format!("{head}{comma}{body}{line_break}{added}{tail}{}", text.get(close..)?))
}

#[cfg(test)]
mod tests {
    use super::super::additions::{Additions, allowing};
    use super::amend;
    use palisade_policy::{Access, Layer, LayerPolicy, parse};
    use std::path::Path;

    fn additions(hosts: &[&str], path: &str) -> Additions {
        let mut words = LayerPolicy::command_line();
        if !path.is_empty() {
            words.add_path(Access::Read, path, 0).unwrap();
        }
        Additions {
            hosts: hosts.iter().map(|host| allowing(host.parse().unwrap())).collect(),
            paths: words.settings.paths,
            ..Additions::default()
        }
    }

    fn amended(text: &str, hosts: &[&str], path: &str) -> Option<String> {
        amend(text, Path::new("/p.toml"), &additions(hosts, path))
    }

    #[test]
    fn entries_follow_those_of_a_list_and_comments_stay() {
        let cases = [
            (
                "[network]\nallow = [\"a.example\"] # why\n",
                "[network]\nallow = [\"a.example\", \"b.example:1\"] # why\n",
            ),
            (
                "[network]\nallow = [\n  \"a.example\", # ] , why\n  # last\n]\n",
                "[network]\nallow = [\n  \"a.example\", # ] , why\n  # last\n  \"b.example:1\",\n]\n",
            ),
            (
                "[network]\nallow = [\n    { host = \"a.example\", reason = \"x\" } # no, comma\n]\n",
                "[network]\nallow = [\n    { host = \"a.example\", reason = \"x\" }, # no, comma\n    \"b.example:1\",\n]\n",
            ),
            (
                "[network]\nallow = [\"a.example\",\n    \"c.example\"]\n",
                "[network]\nallow = [\"a.example\",\n    \"c.example\",\n    \"b.example:1\",\n]\n",
            ),
            (
                "[network] # hosts\nmode = \"filtered\"\n",
                "[network] # hosts\nallow = [\"b.example:1\"]\nmode = \"filtered\"\n",
            ),
            ("name = \"p\"", "name = \"p\"\n\n[network]\nallow = [\"b.example:1\"]\n"),
        ];
        for (before, after) in cases {
            let (before, after) = (format!("schema = 1\n{before}"), format!("schema = 1\n{after}"));
            assert_eq!(amended(&before, &["b.example:1"], "").as_ref(), Some(&after), "{before}");
        }
    }

    #[test]
    fn many_entries_get_a_line_each() {
        let hosts: Vec<String> = (0..9).map(|number| format!("host-{number}.example:443")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let text = amended("schema = 1\n", &hosts, "~/a").unwrap();
        assert!(text.contains("allow = [\n    \"host-0.example:443\",\n"), "{text}");
        assert!(text.ends_with("\n[filesystem]\nread = [\"~/a\"]\n"), "{text}");
        assert_eq!(parse(&text, None, Layer::User).unwrap().settings.hosts.len(), 9);
    }

    /// A wrong place makes other statements, or none: then the text stays as it is.
    #[test]
    fn a_text_that_cannot_be_amended_stays() {
        for text in [
            "schema = 1\nnetwork = { mode = \"filtered\" }\n",
            "schema = 1\ndescription = \"\"\"\n[network]\n\"\"\"\nnetwork.mode = \"filtered\"\n",
            "schema = 1\nnot a profile",
        ] {
            assert_eq!(amended(text, &["b.example:1"], ""), None, "{text}");
        }
    }
}
