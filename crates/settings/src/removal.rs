// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes a member or elements that are no longer surrounded by the text with which they were inserted: somebody has
//! edited the file beside them, or a program has written it anew.

use crate::render::before_on_line;
use crate::tree::{Format, Member, Node};
use std::ops::Range;

/// The ranges of the text to remove, from its end to its beginning.
pub(crate) type Ranges = Vec<Range<usize>>;

/// What to remove so that `members[index]` of `object` is gone.
pub(crate) fn of_member(
    text: &str,
    object: &Node,
    members: &[Member],
    index: usize,
    format: Format,
) -> Option<Ranges> {
    let member = members.get(index)?;
    let lead = before_on_line(text, member.start);
    if format == Format::Toml && !lead.contains('{') && text.get(object.span.clone())?.get(..1) != Some("{") {
        return Some(one(whole_line(text, member.start - lead.len(), member.value.span.end)));
    }
    let spans: Vec<Range<usize>> = members.iter().map(|member| member.start..member.value.span.end).collect();
    Some(of_parts(text, &object.span, &spans, index..index + 1))
}

/// What to remove so that these elements of an array are gone.
pub(crate) fn of_elements(text: &str, array: &Node, elements: &[Node], which: Range<usize>) -> Ranges {
    let spans: Vec<Range<usize>> = elements.iter().map(|element| element.span.clone()).collect();
    of_parts(text, &array.span, &spans, which)
}

fn one(range: Range<usize>) -> Ranges {
    std::iter::once(range).collect()
}

/// A line of TOML, with its end.
fn whole_line(text: &str, start: usize, end: usize) -> Range<usize> {
    let rest = text.get(end..).unwrap_or_default();
    start..rest.find('\n').map_or(text.len(), |newline| end + newline + 1)
}

/// Removes `which` of the parts between the brackets at the ends of `outer`.
fn of_parts(text: &str, outer: &Range<usize>, parts: &[Range<usize>], which: Range<usize>) -> Ranges {
    let (Some(first), Some(last)) = (parts.get(which.start), parts.get(which.end.saturating_sub(1))) else {
        return Vec::new();
    };
    let comma = comma_after(text, last.end);
    if which.end < parts.len() {
        // What follows takes the place, with its own comments.
        let end = comma.map_or(last.end, |comma| comma + 1);
        return one(first.start..past_blanks(text, end));
    }
    let end = comma.map_or(last.end, |comma| comma + 1);
    let Some(before) = which.start.checked_sub(1).and_then(|index| parts.get(index)) else {
        // Nothing is left. White space between the brackets belonged to what is gone.
        let inner = outer.start + 1..outer.end.saturating_sub(1);
        let left = |range: Range<usize>| text.get(range).is_some_and(|left| left.trim().is_empty());
        let bare = left(inner.start..first.start) && left(end..inner.end);
        return one(if bare { inner } else { before_blanks(text, first.start)..end });
    };
    let own = before_blanks(text, first.start)..end;
    match (comma, comma_after(text, before.end)) {
        // The document has trailing commas: the one before becomes that.
        (Some(_), _) | (None, None) => one(own),
        (None, Some(between)) if between >= own.start => one(between..end),
        (None, Some(between)) => vec![own, between..between + 1],
    }
}

/// The comma after a value, past white space and comments.
fn comma_after(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b',', _) => return Some(at),
            (byte, _) if byte.is_ascii_whitespace() => at += 1,
            (b'/', Some(b'/')) | (b'#', _) => at += text.get(at..)?.find('\n')?,
            (b'/', Some(b'*')) => at += text.get(at..)?.find("*/")? + 2,
            _ => return None,
        }
    }
}

/// Past the blanks after `at`, and past one line's end with the indentation of the next line.
fn past_blanks(text: &str, at: usize) -> usize {
    let blank = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.len() - rest.trim_start_matches([' ', '\t']).len()
    };
    let end = blank(at);
    let rest = text.get(end..).unwrap_or_default();
    let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    if newline == 0 { end } else { blank(end + newline) }
}

/// Before the blanks in front of `at`, and before the line's end in front of them.
fn before_blanks(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
    let before = before.strip_suffix('\n').map_or(before, |line| line.strip_suffix('\r').unwrap_or(line));
    before.len()
}
