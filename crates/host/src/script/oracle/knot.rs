// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognises scripts that the parser must not get: it would take for ever, or need a deeper stack than it has.

/// How deeply brackets and groups of commands may be nested.
const DEEPEST: usize = 100;
/// How many `(` may follow each other. Each may begin a group or, with the next one, an arithmetic command. Each
/// further one doubles the parser's time: 20 µs for 10 of them, 0.3 s for 24.
const ROW: usize = 8;

/// Whether brackets and groups of commands are nested so deeply that the parser would take too long or need too much
/// stack. The count ignores quotes.
pub(super) fn is_knotted(text: &str) -> bool {
    let (mut brackets, mut groups, mut prefixes, mut row) = (0_usize, 0_usize, 0, 0);
    let mut before = b'\n';
    let (mut begins_command, mut in_comment) = (true, false);
    let mut word = String::new();
    for byte in text.bytes().chain([b'\n']) {
        if in_comment {
            in_comment = byte != b'\n';
            continue;
        }
        in_comment = byte == b'#' && before.is_ascii_whitespace();
        match byte {
            b'(' | b'{' | b'[' => brackets += 1,
            b')' | b'}' | b']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        row = match byte {
            b'(' => row + 1,
            b' ' | b'\t' | b'\\' => row,
            b'\n' if before == b'\\' => row,
            _ => 0,
        };
        if byte.is_ascii_whitespace() || b";&|(){}`\"".contains(&byte) {
            match word.as_str() {
                "" => {}
                "!" | "time" | "coproc" if begins_command => prefixes += 1,
                "if" | "while" | "until" | "for" | "case" | "select" if begins_command => groups += 1,
                "fi" | "done" | "esac" if begins_command => groups = groups.saturating_sub(1),
                "then" | "do" | "else" | "elif" => begins_command = true,
                _ => (begins_command, prefixes) = (false, 0),
            }
            begins_command |= byte == b'\n' || !byte.is_ascii_whitespace();
            word.clear();
        } else if word.len() < 8 {
            word.push(byte.into());
        }
        before = byte;
        if brackets.max(groups).max(prefixes) > DEEPEST || row > ROW {
            return true;
        }
    }
    false
}
