// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits a line into words, roughly as a shell would: quotes hold a word together, and nothing is expanded.

use std::ops::Range;

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word's bytes, without quotes around the whole word.
    pub(super) range: Range<usize>,
    /// Whether it is the first word of a command.
    pub(super) starts_command: bool,
}

pub(super) fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut start, mut quote, mut escaped, mut starts_command) = (None, None, false, true);
    let mut end = |start: &mut Option<usize>, at: usize, starts_command: &mut bool| {
        let Some(from) = start.take() else { return };
        words.push(Word { range: unquoted(line, from..at), starts_command: *starts_command });
        *starts_command = false;
    };
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                escaped = true;
                start.get_or_insert(at);
            }
            (Some(_), _) => {}
            (None, '"' | '\'') => {
                quote = Some(c);
                start.get_or_insert(at);
            }
            (None, c) if c.is_whitespace() => {
                end(&mut start, at, &mut starts_command);
                starts_command |= c == '\n';
            }
            // An address contains `&` and `;` between its parameters. A user who doesn't quote the address still means
            // one word.
            (None, '|' | ';' | '&') if !start.is_some_and(|from| line[from..at].contains("://")) => {
                end(&mut start, at, &mut starts_command);
                starts_command = true;
            }
            (None, '(' | '{') if start.is_none() => starts_command = true,
            (None, _) => {
                start.get_or_insert(at);
            }
        }
    }
    end(&mut start, line.len(), &mut starts_command);
    words
}

fn unquoted(line: &str, range: Range<usize>) -> Range<usize> {
    let text = &line[range.clone()];
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if inner.is_some_and(|inner| !inner.contains(quote)) {
            return range.start + 1..range.end - 1;
        }
    }
    range
}
