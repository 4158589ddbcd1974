// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a TOML file so that every value knows its line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its line.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Flag(bool),
    Number(i64),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
    /// A date or a fraction. Antimony accepts it nowhere.
    Other,
}

/// Why a text isn't TOML.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Reads a text. The entries of its tables are in the order of their lines.
pub(super) fn parse(text: &str) -> Result<Node, Mistake> {
    let lines = Lines(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: 1, value: lines.table(table.get_ref()) }),
        Err(error) => Err(Mistake {
            line: lines.of(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        }),
    }
}

struct Lines<'t>(&'t str);

impl Lines<'_> {
    fn of(&self, offset: usize) -> usize {
        let before = &self.0.as_bytes()[..offset.min(self.0.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn table(&self, table: &DeTable<'_>) -> Value {
        let mut entries: Vec<(usize, String, Node)> = table
            .iter()
            .map(|(key, value)| {
                let mut node = self.node(value);
                // The line of a table is that of its first key. The line of a value is its own.
                if matches!(node.value, Value::Table(_)) {
                    node.line = self.of(key.span().start);
                }
                (key.span().start, key.get_ref().to_string(), node)
            })
            .collect();
        entries.sort_by_key(|(at, _key, _node)| *at);
        Value::Table(entries.into_iter().map(|(_at, key, node)| (key, node)).collect())
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let line = self.of(value.span().start);
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
        Node { line, value }
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
