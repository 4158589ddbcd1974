// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of an import: the profile so far, and what became of each statement.

use crate::document::{Document, Table, Value};
use crate::report::{At, Finding, Outcome, Report};
use palisade_policy::{Layer, parse, parse_feature};

/// The profile and the report.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) document: Document,
    pub(crate) report: Report,
    /// The variant that is being imported.
    variant: Option<String>,
}

/// A statement that is being imported, and the section and key of the profile for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'s> {
    pub(crate) at: &'s At,
    pub(crate) statement: &'s str,
    pub(crate) section: &'static str,
    pub(crate) key: &'static str,
}

impl Draft {
    /// What follows belongs to a variant, or to the whole profile again.
    pub(crate) fn of_variant(&mut self, variant: Option<&str>) {
        self.variant = variant.map(str::to_owned);
    }

    fn path(&self, section: &str) -> Vec<String> {
        let mut path = Vec::new();
        if let Some(variant) = &self.variant {
            path.extend(["configurations".to_owned(), variant.clone()]);
        }
        path.extend(section.split('.').filter(|part| !part.is_empty()).map(str::to_owned));
        path
    }

    /// A section by its name.
    pub(crate) fn table(&mut self, section: &str) -> &mut Table {
        let path = self.path(section);
        let table = self.document.table(&path);
        if section == "filesystem" {
            table.order(&["view", "working_directory", "read", "write", "execute", "hide", "tmpfs"]);
        }
        table
    }

    /// Whether a key accepts a value. The parser of policy files decides that.
    pub(crate) fn takes(section: &str, key: &str, value: Value) -> bool {
        let path: Vec<String> =
            section.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut document = Document::default();
        document.table(&path).set(key, value);
        let text = document.render();
        parse(&text, None, Layer::User).is_ok() || parse_feature(&text, None, Layer::User).is_ok()
    }

    /// Adds a value to a list, if the list accepts it.
    pub(crate) fn push(&mut self, section: &str, key: &str, text: &str) -> bool {
        let takes = Self::takes(section, key, Value::List(vec![text.to_owned()]));
        if takes {
            self.table(section).push(key, text);
        }
        takes
    }

    /// States a value, if the key accepts it.
    pub(crate) fn set(&mut self, section: &str, key: &str, value: Value) -> bool {
        let takes = Self::takes(section, key, value.clone());
        if takes {
            self.table(section).set(key, value);
        }
        takes
    }

    /// Adds a pair to a table of texts, if the table accepts it.
    pub(crate) fn pair(&mut self, section: &str, key: &str, name: &str, value: &str) -> bool {
        let takes = Self::takes(section, key, Value::Pairs(vec![(name.to_owned(), value.to_owned())]));
        if takes {
            self.table(section).pair(key, name, value);
        }
        takes
    }

    /// Adds a table to a list of tables.
    pub(crate) fn item(&mut self, section: &str, table: Table) {
        let path = self.path(section);
        self.document.item(&path, table);
    }

    /// Counts a statement that the profile expresses exactly, or that says nothing.
    pub(crate) fn taken(&mut self) {
        self.report.taken += 1;
    }

    pub(crate) fn approximated(&mut self, said: Said<'_>, why: &'static str) {
        self.find(said, Outcome::Approximated, why);
    }

    /// Reports a statement that granted or did something, and that the profile doesn't express.
    pub(crate) fn left_out(&mut self, said: Said<'_>, why: &'static str) {
        self.find(said, Outcome::LeftOut, why);
    }

    /// Reports a statement that restricted something, and that the profile doesn't express.
    pub(crate) fn not_kept(&mut self, said: Said<'_>, why: &'static str) {
        self.find(said, Outcome::NotKept, why);
    }

    /// Reports a statement that the launcher itself would refuse. It isn't known what it would have restricted.
    pub(crate) fn unknown(&mut self, at: &At, statement: &str) {
        self.report.unknown.push(Finding::new(at, statement, Outcome::NotKept, ""));
    }

    fn find(&mut self, said: Said<'_>, outcome: Outcome, why: &'static str) {
        let finding = Finding::new(said.at, said.statement, outcome, why);
        self.table(said.section).remark(said.key, finding.line());
        self.report.findings.push(finding);
    }
}
