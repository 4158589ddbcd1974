// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as values, each with its place in the text.

use jsonc_parser::ast::Value as Json;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::Value;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// The text can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct Malformed {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub reason: String,
}

impl Malformed {
    /// At a byte of a text.
    pub(crate) fn at(text: &str, offset: usize, reason: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before.get(start..).map_or(0, |part| part.chars().count()) + 1;
        Self { line, column, reason }
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The bytes of the text. Of a TOML table, those of its header.
    pub span: Range<usize>,
    /// The value.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Members, in the order of the text.
    Object(Vec<Member>),
    /// Elements.
    Array(Vec<Node>),
    /// A string.
    Text(String),
    /// Any other value.
    Other(Value),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The byte at which its name begins, with the quotes.
    pub start: usize,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// The members, if this is an object.
    #[must_use]
    pub fn members(&self) -> Option<&[Member]> {
        match &self.kind {
            Kind::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The elements, if this is an array.
    #[must_use]
    pub fn elements(&self) -> Option<&[Self]> {
        match &self.kind {
            Kind::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A member. Of several with one name it is the last, which is the one that parsers of JSON take.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members()?.iter().rfind(|member| member.name == name)
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.member(name).map(|member| &member.value)
    }

    /// The value at a path of names.
    #[must_use]
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| node.get(name.as_ref()))
    }

    /// The value without its places.
    #[must_use]
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Object(members) => {
                let values = members.iter().map(|member| (member.name.clone(), member.value.value()));
                Value::Object(values.collect())
            }
            Kind::Array(elements) => Value::Array(elements.iter().map(Self::value).collect()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::Other(value) => value.clone(),
        }
    }
}

/// Parses a text that has no byte order mark. `None`: there is no value in it, at most comments.
///
/// # Errors
/// What is wrong, and where.
pub fn parse(text: &str, format: Format) -> Result<Option<Node>, Malformed> {
    match format {
        Format::Json => json(text),
        Format::Toml => toml(text).map(Some),
    }
}

/// The agents' own parsers take no more than comments and trailing commas, so what else a lenient parser would take is
/// an error here: the agent would ignore such a file.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

fn json(text: &str) -> Result<Option<Node>, Malformed> {
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &STRICT)
        .map_err(|error| Malformed::at(text, error.range().start, error.kind().to_string()))?;
    Ok(parsed.value.map(|value| of_json(&value)))
}

fn of_json(value: &Json<'_>) -> Node {
    use jsonc_parser::common::Ranged as _;
    let range = value.range();
    let kind = match value {
        Json::Object(object) => Kind::Object(
            object
                .properties
                .iter()
                .map(|property| Member {
                    name: property.name.as_str().to_owned(),
                    start: property.range.start,
                    value: of_json(&property.value),
                })
                .collect(),
        ),
        Json::Array(array) => Kind::Array(array.elements.iter().map(of_json).collect()),
        Json::StringLit(literal) => Kind::Text(literal.value.clone().into_owned()),
        Json::BooleanLit(literal) => Kind::Other(Value::Bool(literal.value)),
        Json::NullKeyword(_) => Kind::Other(Value::Null),
        Json::NumberLit(literal) => Kind::Other(
            // A number that is out of range is kept as its digits: nothing is computed with it.
            serde_json::from_str(literal.value).unwrap_or_else(|_| Value::String(literal.value.to_owned())),
        ),
    };
    Node { span: range.start..range.end, kind }
}

fn toml(text: &str) -> Result<Node, Malformed> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Malformed::at(text, offset, error.message().to_owned())
    })?;
    let span = table.span();
    Ok(Node { span, kind: of_table(text, table.get_ref()) })
}

fn of_table(text: &str, table: &DeTable<'_>) -> Kind {
    let mut members: Vec<Member> = table
        .iter()
        .map(|(name, value)| Member {
            name: name.get_ref().clone().into_owned(),
            start: name.span().start,
            value: of_toml(text, value),
        })
        .collect();
    members.sort_by_key(|member| member.start);
    Kind::Object(members)
}

fn of_toml(text: &str, value: &Spanned<DeValue<'_>>) -> Node {
    let span = value.span();
    let kind = match value.get_ref() {
        DeValue::Table(table) => of_table(text, table),
        DeValue::Array(array) => Kind::Array(array.iter().map(|element| of_toml(text, element)).collect()),
        DeValue::String(string) => Kind::Text(string.clone().into_owned()),
        DeValue::Boolean(truth) => Kind::Other(Value::Bool(*truth)),
        _ => Kind::Other(Value::String(text.get(span.clone()).unwrap_or_default().to_owned())),
    };
    Node { span, kind }
}
