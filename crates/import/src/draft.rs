// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an import has come to so far: the profile, and what became of each statement.

use crate::document::{Document, Table, Value};
use crate::report::{At, Finding, Outcome, Report};
use palisade_policy::{Layer, parse, parse_feature};

/// The profile and the report.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) document: Document,
    pub(crate) report: Report,
    /// The variant that is spoken of.
    variant: Option<String>,
}

/// A statement that is being imported, and where the profile speaks of such things.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'s> {
    pub(crate) at: &'s At,
    pub(crate) statement: &'s str,
    pub(crate) section: &'static str,
    pub(crate) key: &'static str,
}

impl Draft {
    /// What follows is said of a variant, or of the whole again.
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

    /// Whether a key takes a value: as the parser of policy files says, which is asked.
    pub(crate) fn takes(section: &str, key: &str, value: Value) -> bool {
        let path: Vec<String> =
            section.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut document = Document::default();
        document.table(&path).set(key, value);
        let text = document.render();
        parse(&text, None, Layer::User).is_ok() || parse_feature(&text, None, Layer::User).is_ok()
    }

    /// Adds to a list if the list takes it.
    pub(crate) fn push(&mut self, section: &str, key: &str, text: &str) -> bool {
        let takes = Self::takes(section, key, Value::List(vec![text.to_owned()]));
        if takes {
            self.table(section).push(key, text);
        }
        takes
    }

    /// States a value if the key takes it.
    pub(crate) fn set(&mut self, section: &str, key: &str, value: Value) -> bool {
        let takes = Self::takes(section, key, value.clone());
        if takes {
            self.table(section).set(key, value);
        }
        takes
    }

    /// Adds to a table of texts if it takes the pair.
    pub(crate) fn pair(&mut self, section: &str, key: &str, name: &str, value: &str) -> bool {
        let takes = Self::takes(section, key, Value::Pairs(vec![(name.to_owned(), value.to_owned())]));
        if takes {
            self.table(section).pair(key, name, value);
        }
        takes
    }

    /// One more table of a list of tables.
    pub(crate) fn item(&mut self, section: &str, table: Table) {
        let path = self.path(section);
        self.document.item(&path, table);
    }

    /// A statement is said exactly, or said nothing.
    pub(crate) fn taken(&mut self) {
        self.report.taken += 1;
    }

    pub(crate) fn approximated(&mut self, said: Said<'_>, why: &'static str) {
        self.find(said, Outcome::Approximated, why);
    }

    /// A statement that granted or did something.
    pub(crate) fn left_out(&mut self, said: Said<'_>, why: &'static str) {
        self.find(said, Outcome::LeftOut, why);
    }

    /// A statement that kept something away.
    pub(crate) fn not_kept(&mut self, said: Said<'_>, why: &'static str) {
        self.find(said, Outcome::NotKept, why);
    }

    /// A statement that the launcher itself would refuse: what it kept away nobody knows.
    pub(crate) fn unknown(&mut self, at: &At, statement: &str) {
        self.report.unknown.push(Finding::new(at, statement, Outcome::NotKept, ""));
    }

    fn find(&mut self, said: Said<'_>, outcome: Outcome, why: &'static str) {
        let finding = Finding::new(said.at, said.statement, outcome, why);
        self.table(said.section).remark(said.key, finding.line());
        self.report.findings.push(finding);
    }
}
