// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile on its way to text: sections, keys, values, and comments at them.
//!
//! This isn't the policy crate's own form. That form says what a launch uses. This form says what was imported, with
//! the reasons as comments.

use crate::text;
use std::fmt::Write;

/// The sections as they are written, after the top of the file.
const ORDER: [&str; 18] = [
    "",
    "program",
    "closure",
    "default",
    "filesystem",
    "devices",
    "home",
    "files",
    "network",
    "dbus",
    "process",
    "syscalls",
    "environment",
    "limits",
    "terminal",
    "hooks",
    "behaviour",
    "launch",
];

/// A longer line is written as several lines.
const WIDTH: usize = 100;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    Number(i64),
    List(Vec<String>),
    Numbers(Vec<i64>),
    Pairs(Vec<(String, String)>),
}

#[derive(Debug, Default)]
struct Entry {
    value: Option<Value>,
    remarks: Vec<String>,
}

/// One section.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<(String, Entry)>,
}

impl Table {
    fn entry(&mut self, key: &str) -> &mut Entry {
        let at = match self.entries.iter().position(|(known, _)| known == key) {
            Some(at) => at,
            None => {
                self.entries.push((key.to_owned(), Entry::default()));
                self.entries.len() - 1
            }
        };
        &mut self.entries[at].1
    }

    /// States a value; the last one holds.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.entry(key).value = Some(value);
    }

    /// Sets the order in which keys are written. Other keys follow.
    pub(crate) fn order(&mut self, keys: &[&str]) {
        for key in keys {
            self.entry(key);
        }
    }

    pub(crate) fn text(&mut self, key: &str, value: impl Into<String>) {
        self.set(key, Value::Text(value.into()));
    }

    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        self.set(key, Value::Flag(value));
    }

    /// Adds a value to a list, unless the list has it.
    pub(crate) fn push(&mut self, key: &str, value: impl Into<String>) {
        let (entry, value) = (self.entry(key), value.into());
        match &mut entry.value {
            Some(Value::List(list)) if list.contains(&value) => {}
            Some(Value::List(list)) => list.push(value),
            other => *other = Some(Value::List(vec![value])),
        }
    }

    /// Adds a value to a list, even if the list has it.
    pub(crate) fn append(&mut self, key: &str, value: impl Into<String>) {
        match &mut self.entry(key).value {
            Some(Value::List(list)) => list.push(value.into()),
            other => *other = Some(Value::List(vec![value.into()])),
        }
    }

    pub(crate) fn number(&mut self, key: &str, value: i64) {
        match &mut self.entry(key).value {
            Some(Value::Numbers(list)) => list.push(value),
            other => *other = Some(Value::Numbers(vec![value])),
        }
    }

    /// Adds a pair to a table of strings. The last pair of a name counts.
    pub(crate) fn pair(&mut self, key: &str, name: impl Into<String>, value: impl Into<String>) {
        let (entry, pair) = (self.entry(key), (name.into(), value.into()));
        match &mut entry.value {
            Some(Value::Pairs(pairs)) => {
                pairs.retain(|(known, _)| *known != pair.0);
                pairs.push(pair);
            }
            other => *other = Some(Value::Pairs(vec![pair])),
        }
    }

    /// Adds a comment before a key; if the key is empty, before the section's keys.
    pub(crate) fn remark(&mut self, key: &str, text: impl Into<String>) {
        let (remarks, text) = (&mut self.entry(key).remarks, text.into());
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    }

    /// The value of a key so far.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(known, _entry)| known == key)?.1.value.as_ref()
    }

    fn count(&self) -> usize {
        let values = self.entries.iter().filter_map(|(_key, entry)| entry.value.as_ref());
        values
            .map(|value| match value {
                Value::List(list) => list.len(),
                Value::Numbers(list) => list.len(),
                Value::Pairs(pairs) => pairs.len(),
                _ => 1,
            })
            .sum()
    }
}

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) header: Vec<String>,
    tables: Vec<(Vec<String>, Table)>,
    /// Tables that can occur several times under one name.
    items: Vec<(Vec<String>, Table)>,
}

impl Document {
    /// A section by its path; empty for the top.
    pub(crate) fn table(&mut self, path: &[String]) -> &mut Table {
        let at = match self.tables.iter().position(|(known, _)| known == path) {
            Some(at) => at,
            None => {
                self.tables.push((path.to_vec(), Table::default()));
                self.tables.len() - 1
            }
        };
        &mut self.tables[at].1
    }

    /// Adds a table to a list of tables.
    pub(crate) fn item(&mut self, path: &[String], table: Table) {
        self.items.push((path.to_vec(), table));
    }

    /// The number of entries in all lists.
    pub(crate) fn count(&self) -> usize {
        self.tables.iter().chain(&self.items).map(|(_path, table)| table.count()).sum()
    }

    /// The text.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        for line in &self.header {
            let _ = writeln!(out, "{}", text::comment(line));
        }
        let _ = writeln!(out, "schema = {}", palisade_policy::SCHEMA);
        let mut tables: Vec<(&Vec<String>, &Table, bool)> =
            self.tables.iter().map(|(path, table)| (path, table, false)).collect();
        tables.extend(self.items.iter().map(|(path, table)| (path, table, true)));
        // Stable: items stay in their order.
        tables.sort_by_key(|(path, _table, item)| (place(path), *item));
        for (path, table, item) in tables {
            render_table(&mut out, path, table, item);
        }
        out
    }
}

/// The order of sections: variants come last, one after the other. Inside each, sections have their order, and
/// subsections come behind.
fn place(path: &[String]) -> (Option<String>, usize, Vec<String>) {
    let (variant, section) = match path {
        [first, name, rest @ ..] if first == "configurations" => (Some(name.clone()), rest),
        _ => (None, path),
    };
    let first = section.first().map_or("", String::as_str);
    let order = ORDER.iter().position(|known| *known == first).unwrap_or(ORDER.len());
    (variant, order, section.to_vec())
}

fn render_table(out: &mut String, path: &[String], table: &Table, item: bool) {
    let name: Vec<String> = path.iter().map(|part| text::key(part)).collect();
    let name = name.join(".");
    let (mut body, mut below) = (String::new(), String::new());
    for (key, entry) in &table.entries {
        let to = if matches!(entry.value, Some(Value::Pairs(_))) { &mut below } else { &mut body };
        if to.is_empty() && matches!(entry.value, Some(Value::Pairs(_))) {
            to.push('\n');
        }
        for remark in &entry.remarks {
            let _ = writeln!(to, "{}", text::comment(remark));
        }
        match &entry.value {
            None => {}
            Some(Value::Pairs(pairs)) => {
                let dot = if name.is_empty() { "" } else { "." };
                let _ = writeln!(to, "[{name}{dot}{}]", text::key(key));
                for (name, value) in pairs {
                    let _ = writeln!(to, "{} = {}", text::key(name), text_of(value));
                }
            }
            Some(value) => {
                let _ = writeln!(to, "{} = {}", text::key(key), written(key, value));
            }
        }
    }
    if body.is_empty() && below.is_empty() {
        return;
    }
    if !name.is_empty() && (!body.is_empty() || item) {
        let (open, close) = if item { ("[[", "]]") } else { ("[", "]") };
        let _ = writeln!(out, "\n{open}{name}{close}");
    }
    out.push_str(&body);
    out.push_str(&below);
}

fn text_of(value: &str) -> String {
    if value.contains('\n') { text::lines(value) } else { text::string(value) }
}

fn written(key: &str, value: &Value) -> String {
    match value {
        Value::Text(value) => text_of(value),
        Value::Flag(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::List(values) => list(key, &values.iter().map(|value| text::string(value)).collect::<Vec<_>>()),
        Value::Numbers(values) => list(key, &values.iter().map(i64::to_string).collect::<Vec<_>>()),
        Value::Pairs(_) => String::new(),
    }
}

fn list(key: &str, values: &[String]) -> String {
    let line = format!("[{}]", values.join(", "));
    if key.len() + line.len() + 3 <= WIDTH {
        return line;
    }
    let mut out = String::from("[\n");
    for value in values {
        let _ = writeln!(out, "    {value},");
    }
    out.push(']');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn sections_stand_in_order_with_their_comments() {
        let mut document = Document::default();
        document.header.push("from somewhere".to_owned());
        document.table(&path("configurations.a b.home")).text("policy", "none");
        document.table(&path("environment")).pair("set", "A", "1\n2");
        document.table(&path("program")).remark("path", "why\nnot");
        document.table(&path("program")).text("path", "x");
        document.table(&path("")).text("name", "x");
        let mut hook = Table::default();
        hook.append("command", "a");
        hook.append("command", "a");
        document.item(&path("hooks.before"), hook);
        let text = document.render();
        assert_eq!(
            text,
            "# from somewhere\nschema = 1\nname = \"x\"\n\n[program]\n# why\\nnot\npath = \"x\"\n\n\
             [environment.set]\nA = \"\"\"\n1\n2\"\"\"\n\n[[hooks.before]]\ncommand = [\"a\", \"a\"]\n\n\
             [configurations.\"a b\".home]\npolicy = \"none\"\n"
        );
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["environment"]["set"]["A"].as_str(), Some("1\n2"));
    }

    #[test]
    fn a_long_list_has_an_entry_to_a_line() {
        let mut table = Table::default();
        for number in 0..30 {
            table.push("read", format!("/path/{number}"));
        }
        table.push("read", "/path/0");
        assert_eq!(table.count(), 30);
        let mut out = String::new();
        render_table(&mut out, &path("filesystem"), &table, false);
        assert!(out.contains("\n    \"/path/29\",\n]\n"), "{out}");
    }
}
