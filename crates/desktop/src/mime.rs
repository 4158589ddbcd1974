// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets which application opens a type of files, in the user's `mimeapps.list` (Association between MIME types and
//! applications 1.0.1), in a way that can be undone.
//!
//! The file is the user's, and other programs write to it. So it is edited line by line, and an edit is undone only
//! where the file is still as the edit left it. Pure: text in, text out.

use serde::{Deserialize, Serialize};

/// A larger file isn't read.
pub(crate) const LARGEST: usize = 1 << 20;
/// The groups in which an application must be. It is the default for a type only if it is among the applications that
/// open the type at all. Its own entry may not say so.
const GROUPS: [&str; 2] = ["[Default Applications]", "[Added Associations]"];

/// The edits of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edits {
    /// The application, as its desktop entry's id.
    entry: String,
    /// Whether the file was empty.
    blank_before: bool,
    /// Whether the last line had no line end.
    unfinished_before: bool,
    /// The edits of each group.
    groups: Vec<GroupEdits>,
}

/// The edits of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GroupEdits {
    group: String,
    /// Whether the group was there without content.
    empty_before: bool,
    types: Vec<Edit>,
}

/// The edit for a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Edit {
    mime: String,
    /// The value that was there.
    before: Option<String>,
    /// The value after the edit.
    after: String,
}

impl Edits {
    /// The types for which the application was made the default.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().take(1).flat_map(|group| &group.types).map(|edit| edit.mime.as_str())
    }

    /// Whether the application is the default for `mime` in `text`.
    pub(crate) fn hold(&self, text: &str, mime: &str) -> bool {
        let list = List::new(text);
        let first = list.find(GROUPS[0], mime).and_then(|at| parts(list.value(at)).into_iter().next());
        first == Some(quoted(&self.entry))
    }
}

/// Whether the text can be a type: `application/pdf`, `x-scheme-handler/http`.
pub(crate) fn is_type(mime: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c))
    };
    mime.len() <= 255 && mime.split_once('/').is_some_and(|(kind, name)| plain(kind) && plain(name))
}

/// Puts an application before all others for these types.
pub(crate) fn set(text: &str, entry: &str, types: &[String]) -> (String, Edits) {
    let mut list = List::new(text);
    let blank_before = text.trim().is_empty();
    let unfinished_before = !text.is_empty() && !text.ends_with('\n');
    list.finish_last_line();
    let groups = GROUPS.iter().map(|group| list.set(group, entry, types)).collect();
    let edits = Edits { entry: entry.to_owned(), blank_before, unfinished_before, groups };
    (list.lines.concat(), edits)
}

/// Undoes edits. A value that others have changed since stays, without the application if the application wasn't there
/// before. `None` if nothing is left and there was something, or no file, before.
pub(crate) fn unset(text: &str, edits: &Edits) -> Option<String> {
    let mut list = List::new(text);
    for group in edits.groups.iter().rev() {
        list.unset(group, &edits.entry);
    }
    let mut text = list.lines.concat();
    if edits.unfinished_before && text.ends_with('\n') {
        text.pop();
    }
    (!text.trim().is_empty() || edits.blank_before && !text.is_empty()).then_some(text)
}

impl Edit {
    /// The value before the edit, if it is still Palisade's to restore. `None`: remove the line.
    fn back(&self, value: &str, entry: &str) -> Option<String> {
        if value == self.after {
            return self.before.clone();
        }
        let was_there = self.before.as_deref().is_some_and(|before| parts(before).contains(&quoted(entry)));
        if was_there || !parts(value).contains(&quoted(entry)) {
            return Some(value.to_owned());
        }
        Some(joined(without(parts(value), entry).into_iter())).filter(|left| !left.is_empty())
    }
}

/// The lines of a file, each with its end.
struct List {
    lines: Vec<String>,
}

impl List {
    fn new(text: &str) -> Self {
        Self { lines: text.split_inclusive('\n').map(str::to_owned).collect() }
    }

    fn finish_last_line(&mut self) {
        if let Some(last) = self.lines.last_mut()
            && !last.ends_with('\n')
        {
            last.push('\n');
        }
    }

    fn set(&mut self, group: &str, entry: &str, types: &[String]) -> GroupEdits {
        let begin = self.group(group);
        let empty_before = begin.is_some_and(|at| self.is_empty_group(at));
        let mut edits = GroupEdits { group: group.to_owned(), empty_before, types: Vec::new() };
        let mut next = begin.map_or_else(
            || {
                self.lines.push(format!("{group}\n"));
                self.lines.len()
            },
            |at| at + 1,
        );
        for mime in types {
            if edits.types.iter().any(|done| done.mime == *mime) {
                continue;
            }
            let found = self.find(group, mime);
            let before = found.map(|at| self.value(at).to_owned());
            let others = before.as_deref().map(parts).unwrap_or_default();
            let after = joined(std::iter::once(quoted(entry)).chain(without(others, entry)));
            match found {
                Some(at) => self.set_value(at, &after),
                None => {
                    self.lines.insert(next, format!("{mime}={after}\n"));
                    next += 1;
                }
            }
            edits.types.push(Edit { mime: mime.clone(), before, after });
        }
        edits
    }

    fn unset(&mut self, edits: &GroupEdits, entry: &str) {
        for edit in &edits.types {
            let Some(at) = self.find(&edits.group, &edit.mime) else { continue };
            match edit.back(self.value(at), entry) {
                Some(back) => self.set_value(at, &back),
                None => drop(self.lines.remove(at)),
            }
        }
        if let Some(at) = self.group(&edits.group)
            && self.is_empty_group(at)
            && !edits.empty_before
        {
            self.lines.remove(at);
        }
    }

    /// Where a group begins.
    fn group(&self, group: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.trim() == group)
    }

    /// Whether that group has no content, not even comments.
    fn is_empty_group(&self, at: usize) -> bool {
        self.lines.get(at + 1).is_none_or(|line| line.trim_start().starts_with('['))
    }

    /// The line that counts for a type: the last one.
    fn find(&self, group: &str, mime: &str) -> Option<usize> {
        let mut inside = false;
        let mut found = None;
        for (at, line) in self.lines.iter().enumerate() {
            if line.trim_start().starts_with('[') {
                inside = line.trim() == group;
            } else if inside && line.split_once('=').is_some_and(|(key, _value)| key.trim() == mime) {
                found = Some(at);
            }
        }
        found
    }

    fn value(&self, at: usize) -> &str {
        self.lines[at].split_once('=').map_or("", |(_key, value)| value.trim())
    }

    fn set_value(&mut self, at: usize, value: &str) {
        let line = &self.lines[at];
        let start = line.find('=').map_or(line.len(), |equals| equals + 1);
        let old = &line[start..];
        let lead = &old[..old.len() - old.trim_start_matches([' ', '\t']).len()];
        let end = &old[old.trim_end().len().max(lead.len())..];
        self.lines[at] = format!("{}{lead}{value}{end}", &line[..start]);
    }
}

/// The parts of a value, as they are written.
fn parts(value: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match (c, parts.last_mut()) {
            (';', _) => parts.push(String::new()),
            ('\\', Some(part)) => part.extend(std::iter::once(c).chain(rest.next())),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn without(parts: Vec<String>, entry: &str) -> Vec<String> {
    let entry = quoted(entry);
    parts.into_iter().filter(|part| *part != entry).collect()
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.map(|part| part + ";").collect()
}

/// An id as a part of a value.
fn quoted(entry: &str) -> String {
    crate::entry::escape(entry).replace(';', "\\;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(types: &[&str]) -> Vec<String> {
        types.iter().map(|mime| (*mime).to_owned()).collect()
    }

    const PDF: &str = "application/pdf";

    #[test]
    fn the_application_comes_first_and_leaves_no_trace() {
        let tiff = "image/tiff";
        for before in [
            "",
            "[Default Applications]\n",
            "[Default Applications]\napplication/pdf=evince.desktop;x.desktop;\n",
            "# mine\n\n[Default Applications]\r\napplication/pdf = evince.desktop\r\nimage/png=a.desktop\n\n[Added Associations]\napplication/pdf=b.desktop;",
            "[Added Associations]\napplication/pdf=b.desktop;\n",
            "[Added Associations]\na/b=c.desktop",
            "[Default Applications]\n[Added Associations]\n",
            "[Default Applications]\napplication/pdf=\n",
            "[Default Applications]\napplication/pdf=x.desktop;app.desktop;\n",
            "\n\n",
        ] {
            let (text, edits) = set(before, "app.desktop", &types(&[PDF, tiff, PDF]));
            assert!(edits.hold(&text, PDF) && edits.hold(&text, tiff), "{before:?}: {text:?}");
            let after = unset(&text, &edits);
            assert_eq!(after.as_deref().unwrap_or_default(), before, "{text:?}");
            assert_eq!(after.is_none(), before.is_empty());
            // Undoing an edit twice changes nothing more.
            assert_eq!(unset(before, &edits).unwrap_or_default(), before);
        }
    }

    #[test]
    fn what_others_have_done_since_stays() {
        let (text, edits) =
            set("[Default Applications]\na/b=x.desktop\n", "app.desktop", &types(&[PDF, "a/b"]));
        let changed = text
            .replace("app.desktop;\n", "other.desktop;app.desktop;\n")
            .replace("a/b=app.desktop;", "a/b=z.desktop;");
        assert_eq!(
            unset(&changed, &edits).as_deref(),
            Some(
                "[Default Applications]\napplication/pdf=other.desktop;\na/b=z.desktop;x.desktop;\n[Added Associations]\napplication/pdf=other.desktop;\na/b=other.desktop;\n"
            )
        );
        assert_eq!(unset("[Other]\n", &edits).as_deref(), Some("[Other]\n"));
        assert!(!edits.hold(&changed, PDF));
    }

    #[test]
    fn two_applications_come_and_go_in_any_order() {
        for before in ["", "[Default Applications]\napplication/pdf=x.desktop\n"] {
            let (one, first) = set(before, "a.desktop", &types(&[PDF]));
            let (both, second) = set(&one, "b.desktop", &types(&[PDF, "a/b"]));
            let in_turn = unset(&unset(&both, &second).unwrap(), &first);
            assert_eq!(in_turn.unwrap_or_default(), before);
            let other = unset(&unset(&both, &first).unwrap(), &second).unwrap_or_default();
            // The second application's earlier value named the first application.
            assert!(!other.contains("b.desktop"), "{other}");
        }
    }

    #[test]
    fn ids_with_separators_are_one_part() {
        let (text, edits) = set("", "a;b\\c.desktop", &types(&[PDF]));
        let line = "application/pdf=a\\;b\\\\c.desktop;\n";
        assert_eq!(text, format!("[Default Applications]\n{line}[Added Associations]\n{line}"));
        assert_eq!(unset(&text, &edits), None);
    }

    #[test]
    fn types_are_told_from_other_words() {
        for good in [PDF, "x-scheme-handler/http", "image/svg+xml", "inode/directory"] {
            assert!(is_type(good), "{good}");
        }
        for bad in ["", "pdf", "a/", "/b", "a/b/c", "a/b=c", "a/b\n[x]", "a/b;", "application/p f"] {
            assert!(!is_type(bad), "{bad}");
        }
    }

    #[test]
    fn whatever_list_there_was_it_comes_back() {
        const PARTS: &[&str] = &[
            "[Default Applications]",
            "\n",
            "\n",
            "[x]",
            "application/pdf",
            "=",
            "a.desktop",
            ";",
            "app.desktop;",
            "\\",
            " ",
            "\r\n",
            "#",
            "image/tiff=",
            "é",
        ];
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            let before: String = bytes.iter().map(|byte| PARTS[usize::from(*byte) % PARTS.len()]).collect();
            let (text, edits) = set(&before, "app.desktop", &types(&[PDF, "a/b"]));
            assert!(edits.hold(&text, PDF) && edits.hold(&text, "a/b"), "{before:?}: {text:?}");
            assert_eq!(unset(&text, &edits).unwrap_or_default(), before, "{text:?}");
        });
    }
}
