// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses redirections and here-documents.

use std::ops::Range;

use crate::event::{Document, Event, Operator, Redirect};
use crate::fault::FaultKind;
use crate::reader::{Kind, Reader};
use crate::{document, quote, scan};

impl Reader<'_> {
    /// The number or `{name}` before a redirection's operator, and its length.
    pub(crate) fn descriptor(&self, byte: u8) -> Option<(usize, Option<u32>)> {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        let (length, descriptor) = if byte == b'{' {
            let length = quote::name_length(rest.get(1..).unwrap_or_default());
            // The shell assigns the first free number from 10 on.
            (if length > 0 && rest.get(length + 1) == Some(&b'}') { length + 2 } else { 0 }, Some(10))
        } else {
            let length = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
            (length, self.text.get(self.at..self.at + length).and_then(|digits| digits.parse().ok()))
        };
        let follows = matches!(rest.get(length), Some(b'<' | b'>'));
        ((1..=3).contains(&length) || byte == b'{' && length > 0).then_some(())?;
        follows.then_some((length, descriptor))
    }

    /// Parses a redirection at its operator, after its number.
    pub(crate) fn redirect(&mut self, descriptor: Option<u32>) {
        let start = self.at;
        let rest = self.bytes().get(start..).unwrap_or_default();
        let (operator, length) = Operator::of(rest);
        let without_tabs = rest.starts_with(b"<<-");
        self.at += length;
        while self.byte(0).is_some_and(quote::is_blank) {
            self.at += 1;
        }
        let at = self.at;
        let (end, closed) = match operator {
            Operator::Document => (document::delimiter_end(self.bytes(), at), true),
            _ => scan::word(self.bytes(), at),
        };
        self.at = self.text.ceil_char_boundary(end);
        let target = at..self.at;
        if !closed || target.is_empty() {
            self.wrong(FaultKind::Open, at, "a redirection has no target, or one that isn't closed");
        }
        if !matches!(self.kind, Kind::Simple | Kind::Closed | Kind::FunctionBody) {
            return self.wrong(
                FaultKind::Stray,
                start,
                "a redirection stands in `for`, `case` or `function`",
            );
        }
        if self.kind != Kind::Closed {
            self.begin();
        }
        let document = match operator {
            Operator::Document => Some(self.document(target.clone(), without_tabs)),
            _ => None,
        };
        self.tell(Event::Redirect(Redirect { operator, descriptor, target, document }));
    }

    /// The lines after the current line, up to the delimiter.
    fn document(&mut self, target: Range<usize>, without_tabs: bool) -> Document {
        let raw = self.bytes().get(target.clone()).unwrap_or_default();
        let is_expanded = !raw.iter().any(|byte| b"'\"\\".contains(byte));
        let start = self.resume.or_else(|| Some(scan::line_end(self.bytes(), self.at)? + 1));
        let start = start.unwrap_or(self.text.len());
        let (body, after, closed) =
            document::body(self.bytes(), start, &document::delimiter(raw), without_tabs);
        if !closed {
            self.wrong(FaultKind::Open, target.start, "a here-document isn't closed");
        }
        self.resume = Some(after);
        Document { body, is_expanded, without_tabs }
    }
}
