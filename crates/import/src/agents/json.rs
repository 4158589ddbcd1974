// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads JSON, with comments if the agent accepts them, so that every value knows its line.

use crate::tree::{Lines, Mistake, Node, Value};
use jsonc_parser::ast::Value as Parsed;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

/// Reads a text. `comments`: comments and trailing commas are accepted.
///
/// A member that occurs twice is a mistake: the agents read the last one, and a reader of the file may see the first.
pub(super) fn parse(text: &str, comments: bool) -> Result<Node, Mistake> {
    let options = ParseOptions {
        allow_comments: comments,
        allow_trailing_commas: comments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let lines = Lines::of(text);
    let mistake = |at: usize, message: String| {
        let (line, column) = lines.place(at);
        Mistake { line, column, message }
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| mistake(error.range().start, error.kind().to_string()))?;
    let value = parsed.value.ok_or_else(|| mistake(0, "there is no value".to_owned()))?;
    node(&value, &lines)
}

fn node(value: &Parsed<'_>, lines: &Lines<'_>) -> Result<Node, Mistake> {
    let (line, column) = lines.place(value.range().start);
    let value = match value {
        Parsed::StringLit(text) => Value::Text(text.value.to_string()),
        Parsed::BooleanLit(flag) => Value::Flag(flag.value),
        Parsed::NumberLit(number) => number.value.parse().map_or(Value::Other, Value::Number),
        Parsed::NullKeyword(_) => Value::Nothing,
        Parsed::Array(array) => {
            Value::List(array.elements.iter().map(|value| node(value, lines)).collect::<Result<_, _>>()?)
        }
        Parsed::Object(object) => {
            let mut entries: Vec<(String, Node)> = Vec::new();
            let mut seen = std::collections::HashSet::new();
            for property in &object.properties {
                let name = property.name.as_str();
                if !seen.insert(name) {
                    let (line, column) = lines.place(property.range.start);
                    return Err(Mistake { line, column, message: format!("{name:?} occurs twice") });
                }
                entries.push((name.to_owned(), node(&property.value, lines)?));
            }
            Value::Table(entries)
        }
    };
    Ok(Node { line, column, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_lines() {
        let read = parse("{\n // why\n \"a\": [1, \"ä\",\n  null],\n}", true).unwrap();
        let Value::Table(entries) = &read.value else { panic!("{read:?}") };
        let Value::List(list) = &entries[0].1.value else { panic!("{read:?}") };
        let places: Vec<(usize, usize)> = list.iter().map(|node| (node.line, node.column)).collect();
        assert_eq!(places, [(3, 8), (3, 11), (4, 3)]);
    }

    #[test]
    fn what_is_no_json_is_named_with_its_place() {
        for (text, comments, place) in [
            ("", true, (1, 1)),
            ("{\n  \"a\": tru\n}", true, (2, 8)),
            ("{\n  \"a\": 1, // no\n}", false, (2, 11)),
            ("{\"a\": 1,\n \"a\": 2}", true, (2, 2)),
            ("{'a': 1}", true, (1, 2)),
            ("[1 2]", true, (1, 3)),
        ] {
            let mistake = parse(text, comments).unwrap_err();
            assert_eq!((mistake.line, mistake.column), place, "{text}: {mistake:?}");
        }
        let deep = "[".repeat(20_000);
        assert!(parse(&deep, true).is_err());
    }
}
