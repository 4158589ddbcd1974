// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the screen as asciicast version 2, the format of asciinema.
//!
//! Only output is recorded. So a password that isn't echoed is never in the recording.

use crate::chain::Module;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

/// The module.
#[derive(Debug)]
pub struct Recorder {
    file: BufWriter<File>,
    begun: Instant,
    /// The bytes of a character that isn't complete yet.
    partial: Vec<u8>,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins a recording of a screen of this size.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn begin(
        file: File,
        columns: u16,
        rows: u16,
        time: u64,
        shell: &str,
        terminal: &str,
    ) -> io::Result<Self> {
        let mut recorder =
            Self { file: BufWriter::new(file), begun: Instant::now(), partial: Vec::new(), failed: None };
        let environment = serde_json::json!({ "SHELL": shell, "TERM": terminal });
        let header = format!(
            "{{\"version\": 2, \"width\": {columns}, \"height\": {rows}, \"timestamp\": {time}, \"env\": {environment}}}\n"
        );
        recorder.file.write_all(header.as_bytes())?;
        recorder.file.flush()?;
        Ok(recorder)
    }

    fn event(&mut self, kind: &str, text: &str) {
        if self.failed.is_some() {
            return;
        }
        // Output holds control characters, which the file keeps as escapes.
        let text = palisade_text::json(serde_json::Value::from(text).to_string());
        let line = format!("[{:.6}, \"{kind}\", {text}]\n", self.begun.elapsed().as_secs_f64());
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.failed = Some(error);
        }
    }
}

/// The module's name in the chain.
pub const NAME: &str = "record";

impl Module for Recorder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn observes(&self) -> bool {
        true
    }

    fn output(&mut self, bytes: &[u8]) {
        let mut text = core::mem::take(&mut self.partial);
        text.extend_from_slice(bytes);
        let mut rest = text.as_slice();
        let mut whole = String::with_capacity(rest.len());
        loop {
            match core::str::from_utf8(rest) {
                Ok(valid) => {
                    whole.push_str(valid);
                    break;
                }
                Err(error) => {
                    let (valid, more) = rest.split_at(error.valid_up_to());
                    whole.push_str(core::str::from_utf8(valid).unwrap_or_default());
                    let Some(wrong) = error.error_len() else {
                        self.partial = more.to_vec();
                        break;
                    };
                    whole.push(char::REPLACEMENT_CHARACTER);
                    rest = more.get(wrong..).unwrap_or_default();
                }
            }
        }
        if !whole.is_empty() {
            self.event("o", &whole);
        }
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.event("r", &format!("{columns}x{rows}"));
    }

    fn tick(&mut self, _view: &crate::chain::View<'_>, acts: &mut crate::chain::Acts) {
        if let Err(error) = self.file.flush() {
            self.failed.get_or_insert(error);
        }
        if let Some(error) = &self.failed
            && !matches!(error.kind(), io::ErrorKind::Other)
        {
            acts.say(&format!("palisade: the recording ends here: {error}"));
            self.failed = Some(io::Error::other("said"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_come_in_pieces_are_whole() {
        let mut file = tempfile::tempfile().unwrap();
        let mut recorder =
            Recorder::begin(file.try_clone().unwrap(), 80, 24, 7, "/bin/\"sh\"", "xterm").unwrap();
        recorder.output(b"a\xe2\x82");
        recorder.output(b"\xac\xff\x1b[0m\r\n");
        recorder.resize(100, 30);
        recorder.file.flush().unwrap();
        use std::io::{Read, Seek};
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"version": 2, "width": 80, "height": 24, "timestamp": 7, "env": {"SHELL":"/bin/\"sh\"","TERM":"xterm"}}"#
        );
        let ends = |line: &str, end: &str| assert!(line.ends_with(end), "{line}");
        ends(lines[1], r#", "o", "a"]"#);
        ends(lines[2], "\"o\", \"€\u{fffd}\\u001b[0m\\r\\n\"]");
        ends(lines[3], r#", "r", "100x30"]"#);
    }
}
