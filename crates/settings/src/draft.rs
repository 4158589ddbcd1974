// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a settings file, with changes made and taken back.

use crate::removal;
use crate::render::{Style, before_on_line, indentation};
use crate::tree::{self, Format, Kind, Malformed, Node};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;

const MARK: char = '\u{feff}';

/// A change can't be made.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text can't be understood.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A value on the way to the member isn't an object.
    #[error("line {line}, column {column}: {path:?} isn't an object")]
    NotObject {
        /// The names that lead to the value.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
    },
    /// Elements can't be put into a value that isn't an array.
    #[error("line {line}, column {column}: {path:?} isn't a list")]
    NotArray {
        /// The names that lead to the value.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
    },
    /// A table can't be added to a TOML file.
    #[error("there is no table for {path:?}")]
    NoTable {
        /// The names that lead to the member.
        path: String,
    },
}

/// A change that was made, so that it can be found and taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The names that lead to the member.
    pub path: Vec<String>,
    /// What was done.
    kind: Done,
    /// The text that was put in.
    inserted: String,
    /// The text that was there before.
    replaced: String,
    /// The value of the member, or the elements.
    pub value: Value,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Done {
    /// The text was blank and got a whole document. `made`: so many objects of the path are new.
    Document { made: usize },
    /// A member was put in front of others.
    Member { made: usize },
    /// A member was put into an empty object.
    OnlyMember { made: usize },
    /// A value was replaced.
    Value,
    /// Elements were put in front of others.
    Elements,
    /// Elements were put into an empty array.
    OnlyElements,
}

/// What became of a change that was to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// It is gone.
    Gone,
    /// It wasn't there any more.
    Absent,
    /// The value was changed by another: it stays.
    Changed,
}

/// The text of a settings file, with changes.
#[derive(Debug, Clone)]
pub struct Draft {
    format: Format,
    marked: bool,
    text: String,
    root: Option<Node>,
    changes: Vec<Change>,
}

impl Draft {
    /// Begins with a file's content.
    ///
    /// # Errors
    /// The content isn't UTF-8, or it isn't of this format.
    pub fn new(bytes: &[u8], format: Format) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            Malformed::at(&String::from_utf8_lossy(valid), valid.len(), "this isn't UTF-8".to_owned())
        })?;
        let (marked, text) = text.strip_prefix(MARK).map_or((false, text), |text| (true, text));
        let root = tree::parse(text, format)?;
        Ok(Self { format, marked, text: text.to_owned(), root, changes: Vec::new() })
    }

    /// The values as they are now. `None`: the text is blank.
    #[must_use]
    pub fn root(&self) -> Option<&Node> {
        self.root.as_ref()
    }

    /// The value at a path of names.
    #[must_use]
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Node> {
        self.root.as_ref()?.at(path)
    }

    /// The content as it is now.
    #[must_use]
    pub fn content(&self) -> String {
        let mark = if self.marked { MARK.to_string() } else { String::new() };
        mark + &self.text
    }

    /// Whether there is neither a value nor a comment.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Takes the changes that were made since the beginning.
    #[must_use]
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// The line and the column of a byte, counted from 1.
    #[must_use]
    pub fn place(&self, offset: usize) -> (usize, usize) {
        let place = Malformed::at(&self.text, offset, String::new());
        (place.line, place.column)
    }

    /// Gives the member at a path a value. Nothing is changed if it has the value.
    ///
    /// # Errors
    /// A value on the way isn't an object, or the file is TOML and has no such table.
    pub fn set(&mut self, path: &[&str], value: &Value) -> Result<(), EditError> {
        if let Some(node) = self.at(path) {
            if node.value() == *value {
                return Ok(());
            }
            let span = node.span.clone();
            let lead = indentation(before_on_line(&self.text, span.start)).to_owned();
            let inserted = self.style().lines(value, &lead);
            return self.splice(path, Done::Value, span, inserted, value);
        }
        let Some(root) = &self.root else { return self.set_document(path, value) };
        let depth = (1..path.len()).rev().find(|depth| root.at(path.get(..*depth).unwrap_or(path)).is_some());
        let depth = depth.unwrap_or(0);
        let (parent, missing) = path.split_at(depth);
        let object = root.at(parent).unwrap_or(root);
        let Some(members) = object.members() else { return Err(self.not_object(parent, object)) };
        let Some((name, rest)) = missing.split_first() else { return Ok(()) };
        let nested = nested(rest, value);
        let style = self.style();
        // The header of a table is no place for a member.
        let has_place = |start: usize| {
            let lead = before_on_line(&self.text, start);
            self.format == Format::Json || lead.contains('{') || !lead.contains('[')
        };
        let (done, at, inserted) = match members.iter().find(|member| has_place(member.start)) {
            Some(first) => {
                let lead = before_on_line(&self.text, first.start);
                let (text, separator) = self.in_front(lead, &nested, style);
                (Done::Member { made: rest.len() }, first.start, style.member(name, &text) + &separator)
            }
            None if self.format == Format::Toml => {
                return Err(EditError::NoTable { path: path.join(".") });
            }
            None => {
                let text = self.only(object, depth, |indentation| match indentation {
                    Some(indentation) => style.member(name, &style.lines(&nested, indentation)),
                    None => style.member(name, &style.line(&nested)),
                });
                (Done::OnlyMember { made: rest.len() }, object.span.start + 1, text)
            }
        };
        self.splice(path, done, at..at, inserted, value)
    }

    /// Puts elements at the beginning of the list at a path. A missing list is made.
    ///
    /// # Errors
    /// As [`Draft::set`], or the value there isn't a list.
    pub fn prepend(&mut self, path: &[&str], values: &[Value]) -> Result<(), EditError> {
        let Some(node) = self.at(path) else { return self.set(path, &Value::Array(values.to_vec())) };
        let Some(elements) = node.elements() else {
            let (line, column) = self.place(node.span.start);
            return Err(EditError::NotArray { path: path.join("."), line, column });
        };
        let style = self.style();
        let (done, at, inserted) = match elements.first() {
            Some(first) => {
                let lead = before_on_line(&self.text, first.span.start);
                let parts = values.iter().map(|value| {
                    let (text, separator) = self.in_front(lead, value, style);
                    // In TOML the elements of a list are separated by commas, too, and a line's end is only white space.
                    let comma =
                        if self.format == Format::Toml && !separator.contains(',') { "," } else { "" };
                    text + comma + &separator
                });
                (Done::Elements, first.span.start, parts.collect::<String>())
            }
            None => {
                let text = self.only(node, path.len(), |indentation| {
                    let part = |value: &Value| match indentation {
                        Some(indentation) if !value.is_string() => style.lines(value, indentation),
                        _ => style.line(value),
                    };
                    values.iter().map(part).collect::<Vec<_>>().join(", ")
                });
                (Done::OnlyElements, node.span.start + 1, text)
            }
        };
        self.splice(path, done, at..at, inserted, &Value::Array(values.to_vec()))
    }

    /// Whether a change that was made earlier is in the text.
    #[must_use]
    pub fn has(&self, change: &Change) -> bool {
        let Some(node) = self.at(&change.path) else { return false };
        match change.kind {
            Done::Elements | Done::OnlyElements => self.elements_of(node, &change.value).is_some(),
            _ => node.value() == change.value,
        }
    }

    /// Takes back a change that was made earlier. Of several, the last must be taken back first.
    ///
    /// # Errors
    /// Without the change, the text can't be understood. It is then unchanged.
    pub fn undo(&mut self, change: &Change) -> Result<Undone, Malformed> {
        let Some(root) = &self.root else { return Ok(Undone::Absent) };
        let exact = self.exact(root, change);
        let replacement =
            if exact.is_some() || change.kind == Done::Value { change.replaced.as_str() } else { "" };
        let ranges = match exact {
            Some(range) => vec![range],
            None => match self.at(&change.path) {
                None => return Ok(Undone::Absent),
                Some(_) if !self.has(change) => return Ok(Undone::Changed),
                Some(node) => self.parts(node, change),
            },
        };
        let mut text = self.text.clone();
        for range in ranges {
            text.replace_range(range, replacement);
        }
        let mut draft = Self { root: tree::parse(&text, self.format)?, text, ..self.clone() };
        draft.remove_made(change)?;
        *self = draft;
        Ok(Undone::Gone)
    }

    /// The text of the change where it was put in, with nothing changed in it.
    fn exact(&self, root: &Node, change: &Change) -> Option<Range<usize>> {
        let made = change.made();
        let (top, _made) = change.path.split_at(change.path.len().checked_sub(made)?);
        let start = match change.kind {
            Done::Document { .. } => return (self.text == change.inserted).then_some(0..self.text.len()),
            Done::Value => {
                let span = root.at(&change.path)?.span.clone();
                return (self.text.get(span.clone())? == change.inserted).then_some(span);
            }
            Done::Member { .. } => {
                let (name, parent) = top.split_last()?;
                root.at(parent)?.member(name)?.start
            }
            Done::OnlyMember { .. } => root.at(top.split_last()?.1)?.span.start + 1,
            Done::Elements => root.at(&change.path)?.elements()?.first()?.span.start,
            Done::OnlyElements => root.at(&change.path)?.span.start + 1,
        };
        let end = start + change.inserted.len();
        let range = start..end;
        // Something must follow what was put in front, and nothing else may be in what was empty.
        let parts = |node: &Node| match &node.kind {
            Kind::Object(members) => members.len(),
            Kind::Array(elements) => elements.len(),
            _ => 0,
        };
        let holds = match change.kind {
            Done::Member { .. } => parts(root.at(top.split_last()?.1)?) > 1,
            Done::OnlyMember { .. } => parts(root.at(top.split_last()?.1)?) == 1,
            Done::Elements => parts(root.at(&change.path)?) > change.count(),
            _ => parts(root.at(&change.path)?) == change.count(),
        };
        (holds && self.text.get(range.clone())? == change.inserted).then_some(range)
    }

    /// What to remove of a change that has been edited or laid out anew.
    fn parts(&self, node: &Node, change: &Change) -> removal::Ranges {
        match change.kind {
            Done::Value => vec![node.span.clone()],
            Done::Elements | Done::OnlyElements => {
                let elements = node.elements().unwrap_or_default();
                let which = self.elements_of(node, &change.value).unwrap_or(0..0);
                removal::of_elements(&self.text, node, elements, which)
            }
            _ => self.whole_member(&change.path).unwrap_or_default(),
        }
    }

    fn whole_member(&self, path: &[String]) -> Option<removal::Ranges> {
        let (name, parent) = path.split_last()?;
        let object = self.at(parent)?;
        let members = object.members()?;
        let index = members.iter().rposition(|member| member.name == *name)?;
        removal::of_member(&self.text, object, members, index, self.format)
    }

    /// Removes the objects that were made for a member, if nothing else is in them.
    fn remove_made(&mut self, change: &Change) -> Result<(), Malformed> {
        for made in 1..=change.made() {
            let Some(path) = change.path.get(..change.path.len() - made) else { break };
            let is_empty = |node: &Node| node.members().is_some_and(<[_]>::is_empty);
            if path.is_empty() || !self.at(path).is_some_and(is_empty) {
                break;
            }
            for range in self.whole_member(path).unwrap_or_default() {
                self.text.replace_range(range, "");
            }
            self.root = tree::parse(&self.text, self.format)?;
        }
        Ok(())
    }

    /// Where elements with these values are, one after the other.
    fn elements_of(&self, array: &Node, values: &Value) -> Option<Range<usize>> {
        let values = values.as_array().filter(|values| !values.is_empty())?;
        let elements: Vec<Value> = array.elements()?.iter().map(Node::value).collect();
        let start = elements.windows(values.len()).position(|window| window == values.as_slice())?;
        Some(start..start + values.len())
    }

    fn style(&self) -> Style<'_> {
        Style::of(&self.text, self.format)
    }

    /// A value in front of another member or element, and what separates the two. `lead` is what is on the line before.
    fn in_front(&self, lead: &str, value: &Value, style: Style<'_>) -> (String, String) {
        let begins_line = lead.chars().all(|c| c == ' ' || c == '\t');
        match self.format {
            Format::Json if begins_line => (style.lines(value, lead), format!(",{}{lead}", style.newline)),
            // A dotted key is written again in front of the next one.
            Format::Toml if !lead.contains(['{', '[']) => {
                (style.line(value), format!("{}{lead}", style.newline))
            }
            _ => (style.line(value), ", ".to_owned()),
        }
    }

    /// Text for an object or a list that is empty. `text` gets the indentation, unless all is on one line.
    fn only(&self, node: &Node, depth: usize, text: impl Fn(Option<&str>) -> String) -> String {
        let style = self.style();
        let inner = self.text.get(node.span.start + 1..node.span.end.saturating_sub(1)).unwrap_or_default();
        let lead = indentation(before_on_line(&self.text, node.span.start));
        let deeper = format!("{lead}{}", style.unit);
        let newline = style.newline;
        let in_lines = self.format == Format::Json && (depth == 0 || self.text.contains('\n'));
        match inner {
            "" if in_lines => format!("{newline}{deeper}{}{newline}{lead}", text(Some(&deeper))),
            "" => text(None),
            _ if inner.contains('\n') => format!("{newline}{deeper}{}", text(Some(&deeper))),
            _ => format!(" {}", text(None)),
        }
    }

    /// Puts a whole document into a text that is blank or has comments only.
    fn set_document(&mut self, path: &[&str], value: &Value) -> Result<(), EditError> {
        let style = self.style();
        let document = style.lines(&nested(path, value), "");
        let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { style.newline };
        let inserted = format!("{}{gap}{document}{}", self.text, style.newline);
        let replaced = self.text.clone();
        let made = path.len().saturating_sub(1);
        let all = 0..self.text.len();
        self.splice(path, Done::Document { made }, all, inserted, value)?;
        if let Some(change) = self.changes.last_mut() {
            change.replaced = replaced;
        }
        Ok(())
    }

    fn splice(
        &mut self,
        path: &[&str],
        kind: Done,
        range: Range<usize>,
        inserted: String,
        value: &Value,
    ) -> Result<(), EditError> {
        let replaced = self.text.get(range.clone()).unwrap_or_default().to_owned();
        let mut text = self.text.clone();
        text.replace_range(range, &inserted);
        self.root = tree::parse(&text, self.format)?;
        self.text = text;
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        self.changes.push(Change { path, kind, inserted, replaced, value: value.clone() });
        Ok(())
    }

    fn not_object(&self, path: &[&str], node: &Node) -> EditError {
        let (line, column) = self.place(node.span.start);
        EditError::NotObject { path: path.join("."), line, column }
    }
}

impl Change {
    /// How many objects were made for the member.
    const fn made(&self) -> usize {
        match self.kind {
            Done::Document { made } | Done::Member { made } | Done::OnlyMember { made } => made,
            Done::Value | Done::Elements | Done::OnlyElements => 0,
        }
    }

    fn count(&self) -> usize {
        self.value.as_array().map_or(1, Vec::len)
    }
}

/// A value below objects with these names.
fn nested(names: &[&str], value: &Value) -> Value {
    names
        .iter()
        .rev()
        .fold(value.clone(), |value, name| Value::Object([((*name).to_owned(), value)].into_iter().collect()))
}
