// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of a TOML or JSON file, each with its line, and the reader of TOML.

use crate::report::At;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its line.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: usize,
    /// Its column, in characters, counted from 1.
    pub(crate) column: usize,
    pub(crate) value: Value,
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    Number(i64),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
    /// JSON's `null`.
    Nothing,
    /// A date or a fraction. No format accepts it anywhere.
    Other,
}

impl Node {
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(crate) fn at(&self) -> At {
        At::line(self.line)
    }

    /// The value as reports quote it.
    pub(crate) fn quoted(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("{text:?}"),
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::List(list) => {
                format!("[{}]", list.iter().map(Self::quoted).collect::<Vec<_>>().join(", "))
            }
            Value::Table(_) => "{…}".to_owned(),
            Value::Nothing => "null".to_owned(),
            Value::Other => "…".to_owned(),
        }
    }
}

/// Why a text can't be read.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// Reads a text. The entries of its tables are in the order of their lines.
pub(crate) fn parse(text: &str) -> Result<Node, Mistake> {
    let reader = Reader { lines: Lines::of(text) };
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: 1, column: 1, value: reader.table(table.get_ref()) }),
        Err(error) => {
            let (line, column) = reader.lines.place(error.span().map_or(0, |span| span.start));
            Err(Mistake { line, column, message: error.message().to_owned() })
        }
    }
}

/// Where the lines of a text begin.
pub(crate) struct Lines<'t> {
    text: &'t str,
    begins: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_at, byte)| *byte == b'\n').map(|(at, _byte)| at + 1);
        Self { text, begins: std::iter::once(0).chain(breaks).collect() }
    }

    /// The line and the column of an offset, both counted from 1.
    pub(crate) fn place(&self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        let line = self.begins.partition_point(|begin| *begin <= offset);
        let begin = self.begins[line - 1];
        let before = &self.text.as_bytes()[begin..offset];
        // The bytes that begin a character.
        (line, 1 + before.iter().filter(|byte| **byte & 0xc0 != 0x80).count())
    }
}

struct Reader<'t> {
    lines: Lines<'t>,
}

impl Reader<'_> {
    fn table(&self, table: &DeTable<'_>) -> Value {
        let mut entries: Vec<(usize, String, Node)> = table
            .iter()
            .map(|(key, value)| {
                let mut node = self.node(value);
                // The line of a table is that of its first key. The line of a value is its own.
                if matches!(node.value, Value::Table(_)) {
                    (node.line, node.column) = self.lines.place(key.span().start);
                }
                (key.span().start, key.get_ref().to_string(), node)
            })
            .collect();
        entries.sort_by_key(|(at, _key, _node)| *at);
        Value::Table(entries.into_iter().map(|(_at, key, node)| (key, node)).collect())
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let (line, column) = self.lines.place(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Other, Value::Number)
            }
            DeValue::Array(list) => Value::List(list.iter().map(|value| self.node(value)).collect()),
            DeValue::Table(table) => self.table(table),
            DeValue::Float(_) | DeValue::Datetime(_) => Value::Other,
        };
        Node { line, column, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_lines() {
        let node = parse("b = 1\na = [\n \"x\",\n \"y\"]\n\n[t.u]\nk = true\n").unwrap();
        let Value::Table(root) = &node.value else { panic!("{node:?}") };
        let keys: Vec<&str> = root.iter().map(|(key, _node)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "t"]);
        let Value::List(list) = &root[1].1.value else { panic!("{node:?}") };
        assert_eq!(list.iter().map(|node| node.line).collect::<Vec<_>>(), [3, 4]);
        let mistake = parse("a = 1\nb = [\n").unwrap_err();
        assert!(mistake.line >= 2, "{mistake:?}");
    }
}
