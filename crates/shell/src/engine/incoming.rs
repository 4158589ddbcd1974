// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles what is typed.

use super::{ASK, EDITOR, Engine, KEPT, PATIENCE, PROMPT, Phase, THOUGHT};
use crate::chain::{Flow, Ruling};
use crate::key::{Chord, Code, Decoder, Input};
use crate::line::Origin;
use crate::mark::Shell;
use palisade_sys::terminal::Modes;
use std::time::{Duration, Instant};

/// Whether the shell was asked what is in its editor, and the keys that are kept until it answers.
#[derive(Debug)]
pub(super) struct Asking {
    since: Option<Instant>,
    kept: Vec<u8>,
    /// The next Enter is the one for which the shell was asked.
    answered: bool,
    /// A menu is shown, which may take the Enter: then no line is run.
    menu: bool,
    /// No question is possible after the last key: the shell would take the question's bytes as part of a longer key
    /// sequence.
    unsafe_until: Until,
    /// The shell was asked since the line became uncertain.
    tried: bool,
    /// Escape was typed. The following bytes may belong to a sequence that arrives in pieces.
    escaped: bool,
    /// The kept keys wait for the editor: since when, and for how long.
    ahead: Option<(Instant, Duration)>,
    /// Waiting took too long once. Keys don't wait again until there is an editor.
    given_up: bool,
    /// The editor may not be there yet. The shell answers late to what was typed before its editor was there.
    early: bool,
    /// Some of the keys before the editor was there came faster than a person types.
    fast: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Now,
    /// The next key belongs to the one before it: control-V, control-X, Escape.
    NextKey,
    /// A search goes on until a key ends it.
    Ended,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            since: None,
            kept: Vec::with_capacity(KEPT),
            answered: false,
            menu: false,
            unsafe_until: Until::Now,
            tried: false,
            escaped: false,
            ahead: None,
            given_up: false,
            early: false,
            fast: false,
        }
    }
}

impl Asking {
    pub(super) fn is_open(&self) -> bool {
        self.since.is_some()
    }

    /// How much longer to wait for an answer; `None` if no answer is due.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let patience = if self.early { PROMPT } else { PATIENCE };
        self.since.map(|since| patience.saturating_sub(now.saturating_duration_since(since)))
    }

    /// How much longer to keep the keys that were typed ahead.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.ahead.map(|(since, patience)| patience.saturating_sub(now.saturating_duration_since(since)))
    }

    /// The shell has given back keys that were typed ahead. Keys that were kept since then come after them.
    pub(super) fn give_back(&mut self, sent: &[u8], now: Instant) {
        let room = KEPT.saturating_sub(self.kept.len());
        self.kept.splice(..0, crate::mark::keys(sent).take(room));
        self.ahead = Some((now, PROMPT));
    }

    /// The shell has answered.
    pub(super) fn answer(&mut self) {
        self.since = None;
        self.early = false;
        self.escaped = false;
    }

    /// The shell has answered, and shows a menu.
    pub(super) fn answer_menu(&mut self) {
        self.menu = self.since.is_some();
        self.answer();
    }

    pub(super) fn begin_line(&mut self) {
        self.unsafe_until = Until::Now;
        self.tried = false;
        self.escaped = false;
        self.given_up = false;
    }

    pub(super) fn begin_command(&mut self) {
        self.fast = false;
    }

    fn follow(&mut self, input: &Input<'_>) {
        self.unsafe_until = match (self.unsafe_until, input) {
            (Until::NextKey, _) => Until::Now,
            (Until::Ended, Input::Key(chord)) if *chord == Chord::ctrl('g') || *chord == Chord::ctrl('c') => {
                Until::Now
            }
            (Until::Ended, _) => Until::Ended,
            (_, Input::Key(chord)) => match (chord.code, chord.modifiers) {
                (Code::Character('r' | 's'), Chord::CTRL) => Until::Ended,
                (Code::Character('v' | 'q' | 'x'), Chord::CTRL) | (Code::Escape, _) => Until::NextKey,
                (Code::Character('0'..='9' | '-'), Chord::ALT) => Until::NextKey,
                _ => Until::Now,
            },
            _ => Until::Now,
        };
        self.tried = false;
        self.escaped |= matches!(input, Input::Key(chord) if chord.code == Code::Escape);
    }
}

impl Engine {
    /// Handles bytes of the keyboard. `to` gets the bytes for the shell.
    pub fn input(&mut self, bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
        self.key_before = core::mem::replace(&mut self.last_key, self.now);
        if self.asking.is_open() {
            self.keep(bytes, to);
            return;
        }
        let waits = self.phase == Phase::Prompt && self.shell.is_some() && !self.asking.given_up;
        if self.asking.ahead.is_some() || waits {
            // The prompt is coming, so keys wait for it. Keys that send signals don't wait.
            if !bytes.iter().any(|byte| matches!(byte, 0x03 | 0x1a | 0x1c)) {
                self.asking.fast |= is_fast(bytes);
                self.asking.ahead.get_or_insert((self.now, EDITOR));
                self.keep(bytes, to);
                return;
            }
            self.let_pass(to);
        }
        if !self.is_ours() {
            self.pass(bytes, to);
            return;
        }
        if is_fast(bytes) {
            self.line.came_from(Origin::Machine);
        }
        self.read_keys(bytes, to);
    }

    fn read_keys(&mut self, bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
        let mut decoder = core::mem::take(&mut self.decoder);
        decoder.read(bytes, |input, raw| self.one(&input, raw, to));
        self.decoder = decoder;
    }

    /// Sends on the keys that were kept for the editor, because waiting took too long.
    fn let_pass(&mut self, to: &mut dyn FnMut(&[u8])) {
        self.asking.ahead = None;
        self.asking.given_up = true;
        let mut kept = core::mem::take(&mut self.asking.kept);
        if !kept.is_empty() {
            self.pass(&kept, to);
        }
        kept.clear();
        self.asking.kept = kept;
    }

    /// Passes bytes to the program that has the keyboard. The engine doesn't know their meaning.
    fn pass(&mut self, bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
        self.ahead = true;
        self.asking.fast |= is_fast(bytes);
        if self.kitty || (self.cooked && self.modes.has(Modes::KITTY)) {
            // A command has switched kitty's protocol on, but the reading program doesn't know it and needs the old
            // bytes.
            let mut decoder = core::mem::take(&mut self.decoder);
            decoder.read(bytes, |input, raw| legacy(&input, raw, to));
            self.decoder = decoder;
            return;
        }
        if self.decoder.is_waiting() {
            // Sends the bytes that the decoder kept back.
            let mut decoder = core::mem::take(&mut self.decoder);
            decoder.give_up(|_, raw| to(raw));
        }
        self.decoder = Decoder::default();
        to(bytes);
    }

    fn keep(&mut self, bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
        if self.asking.kept.len() + bytes.len() > KEPT {
            self.line.lose();
            self.asking.answer();
            self.asking.ahead = None;
            let kept = core::mem::take(&mut self.asking.kept);
            to(&kept);
            to(bytes);
            self.asking.kept = kept;
            self.asking.kept.clear();
            return;
        }
        self.asking.kept.extend_from_slice(bytes);
    }

    /// Handles one key.
    fn one(&mut self, input: &Input<'_>, raw: &[u8], to: &mut dyn FnMut(&[u8])) {
        if self.asking.is_open() {
            return self.keep(raw, to);
        }
        if !self.is_ours() {
            return self.pass(raw, to);
        }
        self.asking.follow(input);
        self.overlay.outdate();
        self.acts.clear();
        // A hint stays at least as long as it takes to read it.
        const SEEN: Duration = Duration::from_secs(2);
        if !self.acts.hinted && self.now.saturating_duration_since(self.hinted) > SEEN {
            self.acts.hint.clear();
        }
        self.echoed = false;
        if let Input::Mouse { column, row, pressed: true, .. } = input {
            self.with_view(|chain, view, acts| chain.each(|module| module.click(*column, *row, view, acts)));
        }
        let flow = self.with_view(|chain, view, acts| chain.input(input, view, acts));
        self.settings_of_acts();
        match flow {
            Flow::Forward => {}
            Flow::Swallow => return,
            Flow::Replace => {
                let typed = core::mem::take(&mut self.acts.typed);
                for character in typed.chars() {
                    match u8::try_from(character) {
                        Ok(byte @ 0..0x20) => self.line.apply(&Input::Key(Chord::of_control(byte))),
                        _ => self.line.apply(&Input::Text(character)),
                    }
                }
                self.overlay.advance(&typed);
                self.pending += typed.chars().count();
                to(typed.as_bytes());
                self.acts.typed = typed;
                self.acts.typed.clear();
                return;
            }
        }
        match input {
            Input::Text(character) => self.overlay.advance(character.encode_utf8(&mut [0; 4])),
            _ => self.overlay.misfit(),
        }
        match input {
            Input::Key(chord) if *chord == Chord::plain(Code::Enter) || *chord == Chord::ctrl('j') => {
                self.enter(input, raw, to);
            }
            Input::Key(chord)
                if *chord == Chord::ctrl('c')
                    || *chord == Chord::ctrl('d') && self.line.text().is_empty() =>
            {
                self.line.lose();
                self.acts.hint.clear();
                // The following keys are for a new prompt, if the shell shows one.
                self.phase = Phase::Prompt;
                self.asking.begin_command();
                self.forward(input, raw, to);
            }
            _ => {
                // Text typed into a search isn't part of the line: zsh reports what the search has found.
                if self.followed && !self.searches() {
                    self.line.apply(input);
                } else {
                    self.line.lose();
                }
                self.exact = false;
                self.forward(input, raw, to);
            }
        }
    }

    fn forward(&mut self, input: &Input<'_>, raw: &[u8], to: &mut dyn FnMut(&[u8])) {
        self.pending += 1;
        if self.kitty { legacy(input, raw, to) } else { to(raw) }
    }

    /// Handles Enter: the line is run unless a module holds it.
    fn enter(&mut self, input: &Input<'_>, raw: &[u8], to: &mut dyn FnMut(&[u8])) {
        // The last report of zsh may belong to an earlier key than the last one.
        let recent = self.now.saturating_duration_since(self.key_before) < Duration::from_millis(250);
        let zsh = self.shell == Some(Shell::Zsh);
        // During a search the shell can't be asked. If the search has found another line since the last report, that
        // line would run.
        if self.searches() && self.pending > 0 {
            self.line.lose();
        }
        // If zsh has reported since the last key, its report is more reliable than the cursor's position. While zsh
        // asks the user something below the line, it would take our question for the user's answer.
        let doubted = self.doubted && !(zsh && self.pending == 0);
        let unsure =
            !self.line.is_certain() || doubted || (zsh && !self.exact && (recent || self.pending > 0));
        if unsure && !core::mem::take(&mut self.asking.answered) && self.may_ask() {
            self.ask(to);
            self.asking.answered = true;
            return self.keep(raw, to);
        }
        if self.line.is_certain() && !doubted {
            let ruling = self.with_view(|chain, view, acts| chain.commit(view, acts));
            self.settings_of_acts();
            if ruling == Ruling::Hold {
                self.asking.menu = false;
                self.bar.held = true;
                self.bar.outdate();
                return;
            }
            self.running.clear();
            self.running.push_str(self.line.text());
        } else {
            self.with_view(|chain, view, _| chain.each(|module| module.unread(view)));
            self.running.clear();
        }
        self.asking.answered = false;
        if core::mem::take(&mut self.asking.menu) {
            self.line.lose();
        } else {
            self.phase = Phase::Submitted;
        }
        self.given = true;
        self.forward(input, raw, to);
    }

    /// Whether zsh, which reports after each key, is in a search by what is typed.
    fn searches(&self) -> bool {
        self.shell == Some(Shell::Zsh) && self.asking.unsafe_until == Until::Ended
    }

    fn may_ask(&self) -> bool {
        self.shell.is_some() && self.asking.unsafe_until == Until::Now
    }

    fn ask(&mut self, to: &mut dyn FnMut(&[u8])) {
        self.asking.since = Some(self.now);
        self.asking.tried = true;
        to(ASK);
    }

    /// Whether the shell is to be asked before Enter is pressed.
    pub(super) fn wants_to_ask(&self) -> bool {
        self.is_ours()
            && !self.line.is_certain()
            && self.followed
            && self.shell == Some(Shell::Bash)
            && !self.asking.tried
            && !self.asking.escaped
            && self.may_ask()
            && !self.decoder.is_waiting()
    }

    /// Nothing has arrived for a while: asks the shell, gives up waiting, or draws. `to` is for the shell, `show` for
    /// the terminal.
    pub fn settle(&mut self, to: &mut dyn FnMut(&[u8]), show: &mut dyn FnMut(&[u8])) {
        if let Some(left) = self.asking.left(self.now) {
            if !left.is_zero() {
                return;
            }
            self.line.lose();
            self.asking.answer();
            self.resume(to);
            return;
        }
        self.release(show);
        if self.asking.patience(self.now).is_some_and(|left| left.is_zero()) {
            self.let_pass(to);
        }
        if self.decoder.is_waiting() {
            let mut decoder = core::mem::take(&mut self.decoder);
            decoder.give_up(|input, raw| self.one(&input, raw, to));
        }
        if self.wants_to_ask() {
            if self.now.saturating_duration_since(self.last_key) >= THOUGHT {
                self.ask(to);
            }
            self.show_bar(show);
            return;
        }
        self.draw(show);
        self.show_bar(show);
    }

    /// Handles the keys that were kept while the shell was asked.
    pub fn resume(&mut self, to: &mut dyn FnMut(&[u8])) {
        if self.asking.is_open() || self.asking.kept.is_empty() {
            return;
        }
        let ahead = self.asking.ahead.is_some();
        if ahead {
            if self.phase != Phase::Edit {
                return;
            }
            self.asking.ahead = None;
            self.asking.early = true;
            if core::mem::take(&mut self.asking.fast) {
                self.line.came_from(Origin::Machine);
            }
        }
        let mut kept = core::mem::take(&mut self.asking.kept);
        let spare = Vec::new();
        self.asking.kept = spare;
        let before = self.last_key;
        if self.is_ours() {
            self.read_keys(&kept, to);
        } else {
            self.pass(&kept, to);
        }
        self.last_key = before;
        // Only few bytes were kept again: an Enter and what was typed after it.
        let anew = core::mem::take(&mut self.asking.kept);
        kept.clear();
        kept.extend_from_slice(&anew);
        self.asking.kept = kept;
        self.asking.early &= self.asking.is_open();
    }
}

/// Whether these bytes, read at once, come from no person: they contain a line's text and its end.
fn is_fast(bytes: &[u8]) -> bool {
    bytes.len() > 4 && bytes.contains(&b'\r') && !bytes.contains(&0x1b)
}

/// Converts a key to the bytes that terminals sent before kitty's protocol. A key without such bytes stays as it is.
fn legacy(input: &Input<'_>, raw: &[u8], to: &mut dyn FnMut(&[u8])) {
    match input {
        Input::Key(chord) if raw.len() > 2 && raw.last() == Some(&b'u') => match chord.legacy() {
            Some((bytes, count)) => to(bytes.get(..count).unwrap_or_default()),
            None => to(raw),
        },
        // The old protocol has no releases of keys.
        Input::Other if raw.first() == Some(&0x1b) && raw.last() == Some(&b'u') => {}
        _ => to(raw),
    }
}
