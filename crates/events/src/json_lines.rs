// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes events as JSON, one object on each line.

use std::io::{Error, Write};

use serde::Serialize;

use crate::Sink;
use crate::outlet::Outlet;

/// Writes each event as one line of JSON, with a single write for the line. Characters that control a terminal are
/// escaped.
#[derive(Debug)]
pub struct JsonLines<W> {
    outlet: Outlet<W>,
}

impl<W: Write> JsonLines<W> {
    /// Writes lines to `writer`, such as the `File` for a descriptor from the caller. It should be unbuffered.
    pub fn new(writer: W) -> Self {
        Self { outlet: Outlet::new(writer) }
    }
}

impl<W: Write, E: Serialize + ?Sized> Sink<E> for JsonLines<W> {
    fn emit(&mut self, event: &E) {
        match serde_json::to_string(event) {
            Ok(line) => {
                let mut line = palisade_text::json(line);
                line.push('\n');
                self.outlet.line(line.as_bytes());
            }
            Err(error) => self.outlet.fail(error.into()),
        }
    }

    fn failure(&self) -> Option<&Error> {
        self.outlet.failure()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[derive(Serialize)]
    struct Event {
        schema: u32,
        object: &'static str,
    }

    const EVENT: Event = Event { schema: 1, object: "/tmp/a\nb\u{1b}[2J" };

    #[test]
    fn an_event_is_one_line() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut sink = JsonLines::new(writer);
        sink.emit(&EVENT);
        sink.emit(&EVENT);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let line = r#"{"schema":1,"object":"/tmp/a\nb\u001b[2J"}"#;
        assert_eq!(text, format!("{line}\n{line}\n"));
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut sink = JsonLines::new(writer);
        drop(reader);
        sink.emit(&EVENT);
        sink.emit(&EVENT);
        assert!(Sink::<Event>::failure(&sink).is_none());
    }

    #[test]
    fn a_full_disk_is_a_failure_and_ends_the_stream() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut sink = JsonLines::new(full);
        sink.emit(&EVENT);
        sink.emit(&EVENT);
        let failure = Sink::<Event>::failure(&sink).unwrap();
        assert_eq!(failure.kind(), std::io::ErrorKind::StorageFull);
    }

    #[test]
    fn what_json_cant_say_is_a_failure() {
        let mut written = Vec::new();
        let mut sink = JsonLines::new(&mut written);
        let odd = std::collections::BTreeMap::from([([1u8], 1)]);
        sink.emit(&odd);
        assert!(Sink::<Event>::failure(&sink).is_some());
        sink.emit(&EVENT);
        assert_eq!(written, b"");
    }
}
