// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values as text, in the style of the document that they are put into.

use crate::tree::Format;
use serde_json::Value;

/// How a document is laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style<'t> {
    pub(crate) format: Format,
    /// A line's end: `\n` or `\r\n`.
    pub(crate) newline: &'static str,
    /// One level of indentation.
    pub(crate) unit: &'t str,
}

impl<'t> Style<'t> {
    /// The style of a text.
    pub(crate) fn of(text: &'t str, format: Format) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        // The first indented line of a document is one level deep.
        let indented = text.lines().map(indentation).find(|indentation| !indentation.is_empty());
        let unit = match indented {
            Some(indentation) if indentation.starts_with('\t') => "\t",
            Some(indentation) if indentation.len() <= 8 => indentation,
            _ => "  ",
        };
        Self { format, newline, unit }
    }

    /// A value in one line.
    pub(crate) fn line(&self, value: &Value) -> String {
        match value {
            Value::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(|element| self.line(element)).collect();
                format!("[{}]", elements.join(", "))
            }
            Value::Object(members) => {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| self.member(name, &self.line(value))).collect();
                format!("{{ {} }}", members.join(", "))
            }
            // TOML forbids the one control character that JSON leaves as it is.
            Value::String(text) => Value::String(text.clone()).to_string().replace('\u{7f}', "\\u007f"),
            other => other.to_string(),
        }
    }

    /// A value on several lines, if it is an object or an array. `indentation` is that of the line on which it begins.
    pub(crate) fn lines(&self, value: &Value, indentation: &str) -> String {
        let deeper = format!("{indentation}{}", self.unit);
        let (open, close, parts): (_, _, Vec<String>) = match value {
            Value::Object(members) if !members.is_empty() => {
                let part = |(name, value): (&String, &Value)| self.member(name, &self.lines(value, &deeper));
                ('{', '}', members.iter().map(part).collect())
            }
            Value::Array(elements) if elements.iter().any(|element| !element.is_string()) => {
                ('[', ']', elements.iter().map(|element| self.lines(element, &deeper)).collect())
            }
            other => return self.line(other),
        };
        let newline = self.newline;
        let parts = parts.join(&format!(",{newline}{deeper}"));
        format!("{open}{newline}{deeper}{parts}{newline}{indentation}{close}")
    }

    /// A member.
    pub(crate) fn member(&self, name: &str, value: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let quoted = || self.line(&Value::String(name.to_owned()));
        match self.format {
            Format::Json => format!("{}: {value}", quoted()),
            Format::Toml if !name.is_empty() && name.chars().all(plain) => format!("{name} = {value}"),
            Format::Toml => format!("{} = {value}", quoted()),
        }
    }
}

/// The white space at the beginning of a line.
pub(crate) fn indentation(line: &str) -> &str {
    let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(0);
    line.get(..end).unwrap_or_default()
}

/// What is on a line before a byte of the text.
pub(crate) fn before_on_line(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    before.rsplit(['\n', '\r']).next().unwrap_or_default()
}
