// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads single values from the TOML tree, each with the type that its key takes.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{MOST_ENTRIES, Node, Problem, Reader};
use crate::suggest;

impl Reader<'_> {
    pub(super) fn checked<T>(
        &mut self,
        value: Result<T, crate::value::ValueError>,
        span: &Range<usize>,
    ) -> Option<T> {
        value.map_err(|error| self.error(Problem::Value(error), span.clone())).ok()
    }

    pub(super) fn wrong_type(
        &mut self,
        key: &str,
        expected: &'static str,
        found: &DeValue<'_>,
        span: Range<usize>,
    ) {
        let problem = Problem::WrongType {
            key: key.to_owned(),
            expected,
            found: match found {
                DeValue::String(_) => "a string",
                DeValue::Integer(_) => "a number",
                DeValue::Float(_) => "a fraction",
                DeValue::Boolean(_) => "true or false",
                DeValue::Datetime(_) => "a date",
                DeValue::Array(_) => "a list",
                DeValue::Table(_) => "a table",
            },
        };
        self.error(problem, span);
    }

    pub(super) fn string(&mut self, key: &str, node: &Node<'_>) -> Option<String> {
        match node.get_ref() {
            DeValue::String(text) => Some(text.as_ref().to_owned()),
            other => {
                self.wrong_type(key, "a string", other, node.span());
                None
            }
        }
    }

    pub(super) fn one_of<T: Copy>(
        &mut self,
        key: &str,
        node: &Node<'_>,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let text = self.string(key, node)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let possible: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
        let problem = Problem::UnknownValue {
            key: key.to_owned(),
            suggestion: suggest::nearest(&text, possible.iter().copied()),
            value: text,
            possible,
        };
        self.error(problem, node.span());
        None
    }

    pub(super) fn switch(&mut self, key: &str, node: &Node<'_>) -> Option<bool> {
        match node.get_ref() {
            DeValue::Boolean(yes) => Some(*yes),
            other => {
                self.wrong_type(key, "true or false", other, node.span());
                None
            }
        }
    }

    pub(super) fn integer(&mut self, key: &str, expected: &'static str, node: &Node<'_>) -> Option<i64> {
        let DeValue::Integer(integer) = node.get_ref() else {
            self.wrong_type(key, expected, node.get_ref(), node.span());
            return None;
        };
        match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Some(number),
            Err(_) => {
                let problem = Problem::OutOfRange { key: key.to_owned(), largest: i64::MAX.unsigned_abs() };
                self.error(problem, node.span());
                None
            }
        }
    }

    /// A number of a user or group. The largest value is excluded: -1 means "no change" to the kernel.
    pub(super) fn number(&mut self, key: &str, node: &Node<'_>) -> Option<u32> {
        let number = self.integer(key, "a whole number", node)?;
        let number = u32::try_from(number).ok().filter(|n| *n != u32::MAX);
        if number.is_none() {
            let problem = Problem::OutOfRange { key: key.to_owned(), largest: u64::from(u32::MAX - 1) };
            self.error(problem, node.span());
        }
        number
    }

    pub(super) fn table<'n, 't>(&mut self, key: &str, node: &'n Node<'t>) -> Option<&'n DeTable<'t>> {
        match node.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.wrong_type(key, "a table", other, node.span());
                None
            }
        }
    }

    pub(super) fn list<'n, 't>(&mut self, key: &str, node: &'n Node<'t>) -> Vec<&'n Node<'t>> {
        let DeValue::Array(items) = node.get_ref() else {
            self.wrong_type(key, "a list of strings", node.get_ref(), node.span());
            return Vec::new();
        };
        let mut out = Vec::new();
        for item in items.iter() {
            if !self.count(&item.span()) {
                break;
            }
            out.push(item);
        }
        out
    }

    pub(super) fn strings(&mut self, key: &str, node: &Node<'_>) -> Vec<(String, Range<usize>)> {
        let mut out = Vec::new();
        for item in self.list(key, node) {
            if let Some(text) = self.string(key, item) {
                out.push((text, item.span()));
            }
        }
        out
    }

    /// Counts an entry. Reports once if there are too many.
    pub(super) fn count(&mut self, span: &Range<usize>) -> bool {
        self.entries += 1;
        if self.entries == MOST_ENTRIES + 1 {
            self.error(Problem::TooManyEntries, span.clone());
        }
        self.entries <= MOST_ENTRIES
    }
}
