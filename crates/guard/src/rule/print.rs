// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a rule set as text that parses to the same rules.
//!
//! (The exception is a value with a line break or NUL, which only the TOML form can have: the byte is printed
//! unchanged.)

use std::fmt;

use super::{Members, ObjectField, RuleId, RuleSet, SubjectField, Text, Values};

impl RuleSet {
    /// One rule, as text in the form with a colon. Bytes that aren't UTF-8 are kept: this is no [`String`].
    #[must_use]
    pub fn print(&self, id: RuleId) -> Vec<u8> {
        let rule = self.rule(id);
        let mut out = rule.decision.name().as_bytes().to_vec();
        out.extend_from_slice(b" perm=");
        out.extend_from_slice(rule.permission.name().as_bytes());
        for field in &rule.subject {
            out.push(b' ');
            match field {
                SubjectField::All => out.extend_from_slice(b"all"),
                SubjectField::Number(number, values) => {
                    self.print_numbers(&mut out, number.name(), values);
                }
                SubjectField::Text(text, values) => self.print_texts(&mut out, text.name(), values),
                SubjectField::Trust(trust) => print_trust(&mut out, *trust),
                SubjectField::Pattern(pattern) => {
                    out.extend_from_slice(b"pattern=");
                    out.extend_from_slice(pattern.name().as_bytes());
                }
            }
        }
        out.extend_from_slice(b" :");
        for field in &rule.object {
            out.push(b' ');
            match field {
                ObjectField::All => out.extend_from_slice(b"all"),
                ObjectField::Text(text, values) => self.print_texts(&mut out, text.name(), values),
                ObjectField::Trust(trust) => print_trust(&mut out, *trust),
            }
        }
        out
    }

    /// All sets and then all rules, a line each.
    #[must_use]
    pub fn print_all(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for set in &self.sets {
            out.push(b'%');
            out.extend_from_slice(set.name.as_bytes());
            out.push(b'=');
            match &set.members {
                Members::Numbers(numbers) => join_numbers(&mut out, numbers),
                Members::Texts(texts) => join_texts(&mut out, texts),
            }
            out.push(b'\n');
        }
        for (id, _) in self.iter() {
            out.extend_from_slice(&self.print(id));
            out.push(b'\n');
        }
        out
    }

    /// A rule for people: [`RuleSet::print`] with invalid UTF-8 replaced.
    #[must_use]
    pub fn show(&self, id: RuleId) -> String {
        String::from_utf8_lossy(&self.print(id)).into_owned()
    }

    fn print_numbers(&self, out: &mut Vec<u8>, name: &str, values: &Values<i64>) {
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        match values {
            Values::Listed(numbers) => join_numbers(out, numbers),
            Values::Named(set) => self.print_name(out, *set),
        }
    }

    fn print_texts(&self, out: &mut Vec<u8>, name: &str, values: &Values<Text>) {
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        match values {
            Values::Listed(texts) => join_texts(out, texts),
            Values::Named(set) => self.print_name(out, *set),
        }
    }

    fn print_name(&self, out: &mut Vec<u8>, set: usize) {
        out.push(b'%');
        out.extend_from_slice(self.sets[set].name.as_bytes());
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.print_all()))
    }
}

fn print_trust(out: &mut Vec<u8>, trust: bool) {
    out.extend_from_slice(if trust { b"trust=1" } else { b"trust=0" });
}

fn join_numbers(out: &mut Vec<u8>, numbers: &[i64]) {
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(number.to_string().as_bytes());
    }
}

fn join_texts(out: &mut Vec<u8>, texts: &[Text]) {
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        // A text with a quote needs quotes, because a quote after `=` would begin a quoted part. A backslash alone
        // needs none.
        if !text.iter().any(|byte| matches!(byte, b' ' | b'\t' | b',' | b'"' | b'\r')) {
            out.extend_from_slice(text);
            continue;
        }
        out.push(b'"');
        for &byte in text {
            if matches!(byte, b'"' | b'\\' | b',') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}
