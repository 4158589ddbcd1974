// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes events as lines for users.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{Error, IsTerminal, Stderr, Write};

use crate::Sink;
use crate::outlet::Outlet;
use palisade_text::shown;

/// Whether lines have colour. The meaning of a line never depends on colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Text only.
    Plain,
    /// With escape sequences.
    Colour,
}

impl Style {
    /// Colour on a terminal that supports it, unless `NO_COLOR` is set and not empty (<https://no-color.org>).
    #[must_use]
    pub fn choose(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        let capable = term.is_some_and(|name| !name.is_empty() && name != "dumb");
        if terminal && capable && !refused { Self::Colour } else { Self::Plain }
    }

    /// The style for `stream`, by this process's environment.
    #[must_use]
    pub fn of(stream: &impl IsTerminal) -> Self {
        let variable = |name| std::env::var_os(name);
        Self::choose(stream.is_terminal(), variable("NO_COLOR").as_deref(), variable("TERM").as_deref())
    }
}

/// Writes each event's line after the program's name, because the confined program writes to the same terminal.
#[derive(Debug)]
pub struct Words<W> {
    outlet: Outlet<W>,
    style: Style,
    quiet: bool,
}

impl Words<Stderr> {
    /// Writes to standard error in the style for it. `quiet` suppresses all lines.
    #[must_use]
    pub fn stderr(quiet: bool) -> Self {
        let stderr = std::io::stderr();
        let style = Style::of(&stderr);
        Self { quiet, ..Self::new(stderr, style) }
    }
}

impl<W: Write> Words<W> {
    /// Writes to `writer`.
    pub fn new(writer: W, style: Style) -> Self {
        Self { outlet: Outlet::new(writer), style, quiet: false }
    }

    /// Writes one line without characters that control the terminal: confined programs choose the names.
    fn line(&mut self, text: &str) {
        let (start, end) = match self.style {
            Style::Plain => ("", ""),
            Style::Colour => ("\x1b[1m", "\x1b[0m"),
        };
        self.outlet.line(format!("{start}palisade:{end} {}\n", shown(text)).as_bytes());
    }
}

impl<W: Write, E: Display + ?Sized> Sink<E> for Words<W> {
    fn emit(&mut self, event: &E) {
        if !self.quiet {
            self.line(&event.to_string());
        }
    }

    fn failure(&self) -> Option<&Error> {
        self.outlet.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: Style, event: &str) -> String {
        let mut text = Vec::new();
        Words::new(&mut text, style).emit(event);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_line_names_its_writer() {
        assert_eq!(written(Style::Plain, "refused: write /a"), "palisade: refused: write /a\n");
        assert_eq!(written(Style::Colour, "x"), "\x1b[1mpalisade:\x1b[0m x\n");
    }

    #[test]
    fn a_name_cant_steer_the_terminal() {
        assert_eq!(
            written(Style::Plain, "read /tmp/\x1b]0;x\x07\nä\u{9b}1m\u{202e}\u{200b}"),
            "palisade: read /tmp/\\u{1b}]0;x\\u{7}\\nä\\u{9b}1m\\u{202e}\\u{200b}\n"
        );
    }

    #[test]
    fn quiet_is_quiet() {
        let mut text = Vec::new();
        let mut words = Words { quiet: true, ..Words::new(&mut text, Style::Plain) };
        words.emit("x");
        assert_eq!(text, b"");
    }

    #[test]
    fn colour_only_where_it_is_wanted() {
        let os = |text: &'static str| Some(OsStr::new(text));
        assert_eq!(Style::choose(true, None, os("xterm")), Style::Colour);
        assert_eq!(Style::choose(true, os(""), os("xterm")), Style::Colour);
        assert_eq!(Style::choose(true, os("1"), os("xterm")), Style::Plain);
        assert_eq!(Style::choose(false, None, os("xterm")), Style::Plain);
        assert_eq!(Style::choose(true, None, os("dumb")), Style::Plain);
        assert_eq!(Style::choose(true, None, None), Style::Plain);
    }

    #[test]
    fn several_sinks_each_get_it_and_one_that_is_gone_harms_none() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (mut good_reader, good_writer) = std::io::pipe().unwrap();
        let mut sinks: Vec<Box<dyn Sink<str>>> =
            vec![Box::new(Words::new(writer, Style::Plain)), Box::new(crate::JsonLines::new(good_writer))];
        sinks.emit("one");
        sinks.emit("two");
        assert!(sinks.failure().is_none());
        drop(sinks);
        assert_eq!(std::io::read_to_string(&mut good_reader).unwrap(), "\"one\"\n\"two\"\n");
    }
}
