// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles what programs print.

use super::{Engine, Phase};
use crate::chain::Ended;
use crate::foreground::Foreground;
use crate::links;
use crate::mark::{self, Mark, Shell};
use crate::vt::{Control, Found};
use palisade_sys::terminal::Modes;

impl Engine {
    /// Handles bytes of the shell and its programs. `to` gets the bytes for the terminal, mostly in one piece and never
    /// as a copy. `shell` gets the bytes to type to the shell.
    pub fn output(&mut self, bytes: &[u8], to: &mut dyn FnMut(&[u8]), shell: &mut dyn FnMut(&[u8])) {
        self.erase(to);
        self.overlay.outdate();
        let Some(mut scanner) = self.scanner.take() else { return };
        self.between = scanner.is_between();
        // `passed`: up to where bytes were passed on. `seen`: up to where they were examined.
        let (mut passed, mut seen) = (0, 0);
        scanner.read(bytes, |found, begun, behind| {
            let text = bytes.get(seen..begun.unwrap_or(seen)).unwrap_or_default();
            self.text(text);
            seen = behind;
            let mut endangered = false;
            let (mark, control) = match found {
                Found::Command(command) => (mark::understood(command, &self.nonce), None),
                Found::Control(control) => {
                    self.control(control);
                    endangered = self.bar.is_there() && self.endangers_bar(control);
                    (None, Some(control))
                }
                Found::Escape(byte) => {
                    self.column.escape(byte);
                    if byte == b'c' {
                        self.modes = Modes::default();
                    }
                    endangered = self.bar.is_there() && self.escape_endangers_bar(byte);
                    (None, None)
                }
            };
            let Some(mark) = mark else {
                if begun.is_none() {
                    self.let_go(to);
                }
                if endangered {
                    self.show(bytes.get(passed..behind).unwrap_or_default(), to);
                    passed = behind;
                    self.keep_bar(control, to);
                }
                return;
            };
            let before = bytes.get(passed..begun.unwrap_or(passed)).unwrap_or_default();
            self.show(before, to);
            self.held.clear();
            passed = behind;
            self.mark(&mark, to);
        });
        let open = scanner.may_be_wanted();
        let since = scanner.open_since();
        let between = scanner.is_between();
        self.scanner = Some(scanner);
        let keep = if open { since.unwrap_or(passed).max(passed) } else { bytes.len() };
        if !(open && since.is_none()) {
            self.let_go(to);
        }
        if between && seen < bytes.len() {
            self.text(bytes.get(seen..).unwrap_or_default());
        } else if let Some(since) = since
            && since > seen
        {
            self.text(bytes.get(seen..since).unwrap_or_default());
        }
        self.show(bytes.get(passed..keep).unwrap_or_default(), to);
        let rest = bytes.get(keep..).unwrap_or_default();
        if self.held.len() + rest.len() <= self.held.capacity() {
            self.held.extend_from_slice(rest);
        } else {
            self.let_go(to);
            self.show(rest, to);
        }
        if self.bar.is_due() && self.phase != Phase::Running {
            self.show_bar(to);
        }
        self.resume(shell);
    }

    /// Passes on the bytes that were held back: they are no mark.
    fn let_go(&mut self, to: &mut dyn FnMut(&[u8])) {
        if !self.held.is_empty() {
            let held = core::mem::take(&mut self.held);
            self.show(&held, to);
            self.held = held;
            self.held.clear();
        }
    }

    /// Nothing has arrived for a while, so what looks like the beginning of a mark is none. A mark arrives in one
    /// piece.
    pub(super) fn release(&mut self, to: &mut dyn FnMut(&[u8])) {
        if self.may_let_go() {
            self.let_go(to);
        }
    }

    /// Whether the held bytes may be passed on without their end. With a nonce in them they may not reach the terminal.
    pub(super) fn may_let_go(&self) -> bool {
        !self.held.is_empty() && !self.held.starts_with(b"\x1b]7717;")
    }

    fn show(&mut self, bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
        if !bytes.is_empty() {
            self.echoed = true;
            self.chain.output(bytes);
            if self.links && self.between && self.phase == Phase::Running && !self.modes.has(Modes::ALTERNATE)
            {
                match &mut self.paths {
                    Some(paths) if !self.foreground.is_elsewhere() => {
                        let (whole, link) = &mut paths.memory;
                        let mut paths = links::Paths {
                            directory: &self.directory,
                            home: &paths.home,
                            host: &self.host,
                            is_there: &links::is_there,
                            memory: (whole, link),
                        };
                        links::link_all(bytes, &mut paths, to);
                    }
                    _ => links::link(bytes, to),
                }
            } else {
                to(bytes);
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        let Some(&last) = text.last() else { return };
        self.last_text = last;
        for &byte in text.get(text.len().saturating_sub(4)..).unwrap_or_default() {
            self.missing = match byte {
                0x80..0xc0 => self.missing.saturating_sub(1),
                0xc0..0xe0 => 1,
                0xe0..0xf0 => 2,
                0xf0.. => 3,
                _ => 0,
            };
        }
        if self.phase != Phase::Running && self.phase != Phase::Unknown {
            self.column.print(text);
        }
    }

    fn control(&mut self, control: &Control) {
        if self.phase != Phase::Running {
            self.column.control(control);
        }
        match (control.private, control.last) {
            (b'?', b'h' | b'l') => {
                let on = control.last == b'h';
                for parameter in control.parameters() {
                    match parameter {
                        47 | 1047 | 1049 => self.modes.set(Modes::ALTERNATE, on),
                        2004 => self.modes.set(Modes::PASTE, on),
                        1000 | 1002 | 1003 => self.modes.set(Modes::MOUSE, on),
                        25 => self.modes.set(Modes::HIDDEN, !on),
                        1 => self.modes.set(Modes::APPLICATION, on),
                        _ => {}
                    }
                }
            }
            (b'>' | b'=', b'u') => {
                let on = control.private == b'>' || control.parameter(0) != 0;
                self.modes.set(Modes::KITTY, on);
                self.kitty = false;
            }
            (b'<', b'u') => {
                self.modes.set(Modes::KITTY, false);
                self.kitty = false;
            }
            (0, b'r') => {
                let partly = control.parameter(0) > 1 || control.parameter(1) != 0;
                self.modes.set(Modes::REGION, partly || self.bar.is_there());
            }
            _ => {}
        }
    }

    fn mark(&mut self, mark: &Mark<'_>, to: &mut dyn FnMut(&[u8])) {
        to(mark.public());
        match mark {
            Mark::Hooked(shell, followed) => {
                self.shell = Some(*shell);
                self.followed = *followed;
            }
            Mark::Directory(sent) => {
                self.directory.clear();
                if !mark::plain(sent, &mut self.directory) {
                    self.directory.clear();
                }
                if self.directory.starts_with('/') {
                    self.tell_directory(to);
                }
                self.bar.outdate();
            }
            Mark::Done(code) => {
                self.given = false;
                self.redraws = false;
                self.bar.forget_saved();
                if self.phase == Phase::Running {
                    let duration = self.now.saturating_duration_since(self.since);
                    self.bar.last = Some((*code, duration));
                    self.bar.outdate();
                    let line = core::mem::take(&mut self.running);
                    self.with_view(|chain, view, _| {
                        let ended = Ended { line: &line, directory: view.directory, code: *code, duration };
                        chain.each(|module| module.ended(&ended, view));
                    });
                    self.running = line;
                }
                self.running.clear();
                self.set_foreground(Foreground::default());
                self.print_notices(to);
                self.kitty = self.modes.has(Modes::KITTY);
                // A prompt came without an Enter from us: the shell had keys from before, and may have more.
                self.ahead |= self.phase == Phase::Edit;
                self.phase = Phase::Prompt;
            }
            // While the editor is there, this is the same prompt, drawn again.
            Mark::Prompt => {
                self.column.set(matches!(self.last_text, b'\n' | b'\r').then_some(0).or(match self.phase {
                    Phase::Edit => self.column.get(),
                    _ => None,
                }));
            }
            Mark::Edit => {
                self.start = self.column.get();
                let late = core::mem::take(&mut self.redraws) && self.phase == Phase::Submitted;
                // The shell drew this before Enter arrived. It still has the line.
                if self.phase != Phase::Edit && !late {
                    // No mark reported the line's end. The line may still be incomplete (several lines), or the shell
                    // may not have taken it.
                    let again = self.phase == Phase::Submitted;
                    self.given &= again;
                    self.phase = Phase::Edit;
                    if core::mem::take(&mut self.bar.held) {
                        self.bar.outdate();
                    }
                    self.line.begin();
                    self.pending = 0;
                    self.asking.begin_line();
                    self.exact = false;
                    self.doubted = false;
                    if core::mem::take(&mut self.ahead) || again {
                        self.line.lose();
                    }
                    self.mention();
                }
            }
            Mark::Run => {
                self.phase = Phase::Running;
                self.redraws = false;
                self.asking.begin_command();
                self.looked = false;
                self.since = self.now;
                if self.away {
                    self.running.clear();
                }
                self.ahead = false;
                if !self.acts.warning.is_empty() {
                    to(b"\x1b[0;2m");
                    to(self.acts.warning.as_bytes());
                    to(b"\x1b[0m\r\n");
                    self.acts.warning.clear();
                }
                let line = core::mem::take(&mut self.running);
                self.with_view(|chain, view, _| chain.each(|module| module.started(&line, view)));
                self.running = line;
            }
            Mark::Execute(sent) => {
                self.running.clear();
                if !mark::plain(sent, &mut self.running) {
                    self.running.clear();
                }
            }
            Mark::Ahead(sent) => self.asking.give_back(sent, self.now),
            Mark::Line(point, sent) => {
                self.edit_on();
                self.told(*point, sent);
            }
            Mark::Reply(point, sent) => {
                self.told(*point, sent);
                self.pending = 0;
                self.exact = true;
                self.redraws = self.shell == Some(Shell::Bash);
                self.asking.answer();
            }
            Mark::Unknown => {
                self.edit_on();
                self.line.lose();
                self.pending = self.pending.saturating_sub(1);
            }
            Mark::Menu(point, sent) => {
                self.told(*point, sent);
                self.exact = true;
                self.asking.answer_menu();
            }
            Mark::Left => {
                if self.phase == Phase::Edit {
                    self.phase = Phase::Submitted;
                    self.given = true;
                }
            }
            Mark::NoReply => {
                self.pending = 0;
                self.line.lose();
                self.asking.answer();
            }
        }
    }

    /// The shell reports its editor's content without being asked: Enter was for a menu, or the shell leaves the editor
    /// next.
    fn edit_on(&mut self) {
        if self.phase == Phase::Submitted {
            self.phase = Phase::Edit;
        }
    }

    /// Tells the terminal the shell's directory (OSC 7), so that a new window of the terminal begins there. Once per
    /// prompt.
    fn tell_directory(&self, to: &mut dyn FnMut(&[u8])) {
        let mut words = String::with_capacity(16 + self.host.len() + 3 * self.directory.len());
        words.push_str("\x1b]7;");
        links::write_address(&self.host, &self.directory, &mut words);
        words.push('\x07');
        to(words.as_bytes());
    }

    /// Prints reports after a command's output, and only on the normal screen.
    fn print_notices(&mut self, to: &mut dyn FnMut(&[u8])) {
        if self.notices.is_empty() || self.phase == Phase::Edit || self.modes.has(Modes::ALTERNATE) {
            return;
        }
        if !matches!(self.last_text, b'\n' | b'\r') {
            to(b"\r\n");
        }
        for line in self.notices.lines() {
            to(b"\x1b[0;2m");
            to(line.as_bytes());
            to(b"\x1b[0m\r\n");
        }
        self.last_text = b'\n';
        self.notices.clear();
    }

    /// Applies the shell's report of what is in its editor.
    fn told(&mut self, point: usize, sent: &str) {
        let expected = self.line.is_certain().then(|| self.line.text().len());
        let hash = foresee(self.line.text());
        self.line.told(point, sent);
        self.pending = self.pending.saturating_sub(1);
        self.doubted = false;
        self.exact = expected == Some(self.line.text().len()) && hash == foresee(self.line.text());
    }
}

/// A hash that distinguishes two texts well enough to skip a question.
fn foresee(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
