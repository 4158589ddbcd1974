// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the texts below `/proc/PID`. This module reads no file.

use super::NONE;

/// The fields of `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The parent.
    pub ppid: u32,
    /// User ids: real, effective, saved, file system.
    pub uids: Vec<u32>,
    /// Group ids: the same four, and the supplementary ones; sorted, each once.
    pub gids: Vec<u32>,
}

impl Default for Status {
    /// The values for a process that is gone.
    fn default() -> Self {
        Self { ppid: NONE, uids: Vec::new(), gids: Vec::new() }
    }
}

impl Status {
    /// Every line has a name, a colon and a tab. A line end in the process's name is written as `\n` there.
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            if let Some(rest) = line.strip_prefix(b"PPid:") {
                status.ppid = number(rest).unwrap_or(NONE);
            } else if let Some(rest) = line.strip_prefix(b"Uid:") {
                status.uids.extend(numbers(rest));
            } else if let Some(rest) = line.strip_prefix(b"Gid:") {
                status.gids.extend(numbers(rest));
            } else if let Some(rest) = line.strip_prefix(b"Groups:") {
                status.gids.reserve(rest.len() / 8);
                status.gids.extend(numbers(rest));
                // The groups come after the other three fields.
                break;
            }
        }
        status.gids.sort_unstable();
        status.gids.dedup();
        status
    }
}

/// A number with optional blanks around it. `-1` and numbers that don't fit are `None`.
pub fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u32> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).filter_map(number)
}

/// The 22nd field of `stat`. The second field is the name in parentheses; it can contain `)`, blanks and line ends, but
/// no field after it has a parenthesis.
pub fn started(stat: &[u8]) -> Option<u64> {
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let field = stat[after + 1..].split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(19)?;
    std::str::from_utf8(field).ok()?.trim_end().parse().ok()
}

/// The controlling terminal in `stat`: a pseudo-terminal or a console.
pub fn terminal(stat: &[u8]) -> Option<String> {
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let field =
        stat[behind..].split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty()).nth(4)?;
    let number: u64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
    match major {
        136..=143 => Some(format!("/dev/pts/{}", (major - 136) * 256 + minor)),
        4 if minor < 64 => Some(format!("/dev/tty{minor}")),
        4 => Some(format!("/dev/ttyS{}", minor - 64)),
        _ => None,
    }
}

/// The path that a deleted program had.
pub fn without_deleted(mut target: Vec<u8>) -> Vec<u8> {
    const DELETED: &[u8] = b" (deleted)";
    if target.len() > DELETED.len() && target.ends_with(DELETED) {
        target.truncate(target.len() - DELETED.len());
    }
    target
}

/// Finds the variables with which the run-time linker loads libraries, in an environment that is read in pieces.
#[derive(Debug, Default)]
pub struct Environment {
    /// The beginning of the unfinished variable of the last piece, as long as it could still be one of the two names.
    begun: Vec<u8>,
    /// The rest of that variable can't match any more.
    passed: bool,
}

impl Environment {
    const NAMES: [&[u8]; 2] = [b"LD_PRELOAD=", b"LD_AUDIT="];

    /// Reads the next piece. Returns whether one of the variables is in it.
    pub fn names_preload(&mut self, piece: &[u8]) -> bool {
        let mut variables = piece.split(|byte| *byte == 0).peekable();
        while let Some(variable) = variables.next() {
            if !self.passed {
                let longest = Self::NAMES[0].len();
                let wanted = longest.saturating_sub(self.begun.len()).min(variable.len());
                self.begun.extend_from_slice(&variable[..wanted]);
                if Self::NAMES.iter().any(|name| self.begun.starts_with(name)) {
                    return true;
                }
                self.passed = self.begun.len() >= longest;
            }
            // The last variable of the piece may continue in the next piece.
            if variables.peek().is_some() {
                self.begun.clear();
                self.passed = false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &[u8] = b"Name:\tx\\nPPid:\t7\nUmask:\t0022\nState:\tS\nTgid:\t9\nPid:\t9\nPPid:\t4\nTracerPid:\t0\nUid:\t0\t1000\t0\t5\nGid:\t3\t3\t3\t4\nFDSize:\t64\nGroups:\t27 100 3 \nNStgid:\t9\n";

    #[test]
    fn what_status_says() {
        let status = Status::parse(STATUS);
        assert_eq!(status, Status { ppid: 4, uids: vec![0, 1000, 0, 5], gids: vec![3, 4, 27, 100] });
        assert_eq!(Status::parse(b""), Status::default());
    }

    #[test]
    fn as_many_groups_as_there_can_be() {
        let groups: Vec<String> = (0..65_536_u32).map(|group| (group + 4_000_000_000).to_string()).collect();
        let text = format!("Gid:\t0\t0\t0\t0\nGroups:\t{} \n", groups.join(" "));
        assert!(text.len() < super::super::LONGEST);
        assert_eq!(Status::parse(text.as_bytes()).gids.len(), 65_537);
    }

    #[test]
    fn start_times() {
        let fields = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n";
        for name in ["sh", "a b", "a) R 9 9", "((\n))", "\u{fffd}"] {
            assert_eq!(started(format!("9 ({name}){fields}").as_bytes()), Some(4711), "{name}");
        }
        assert_eq!(started(b"9 (sh"), None);
    }

    #[test]
    fn terminals() {
        assert_eq!(terminal(b"7 (a) b) S 1 7 7 34818 7 0").as_deref(), Some("/dev/pts/2"));
        assert_eq!(terminal(b"7 (sh) S 1 7 7 1025 7 0").as_deref(), Some("/dev/tty1"));
        assert_eq!(terminal(b"7 (sh) S 1 7 7 0 -1 0"), None);
        assert_eq!(terminal(b"garbage"), None);
    }

    #[test]
    fn numbers_as_proc_writes_them() {
        assert_eq!(number(b"1000\n"), Some(1000));
        assert_eq!(number(b"4294967295"), Some(NONE));
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b""), None);
    }

    #[test]
    fn variables_in_any_pieces() {
        for (environment, expected) in [
            (&b"A=1\0LD_PRELOAD=x\0"[..], true),
            (b"LD_AUDIT=\0", true),
            (b"A=LD_PRELOAD=x\0", false),
            (b"A=1\nLD_PRELOAD=x\0", false),
            (b"LD_PRELOADED=x\0LD_AUDI=T\0XLD_AUDIT=1\0", false),
            (b"", false),
        ] {
            for size in 1..=environment.len().max(1) {
                let mut state = Environment::default();
                let found = environment.chunks(size).any(|piece| state.names_preload(piece));
                assert_eq!(found, expected, "{environment:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn any_bytes_are_taken() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = (Status::parse(bytes), started(bytes), number(bytes), without_deleted(bytes.to_vec()));
            let mut one = Environment::default();
            let whole = one.names_preload(bytes);
            let mut many = Environment::default();
            assert_eq!(bytes.chunks(3).any(|piece| many.names_preload(piece)), whole);
        });
    }
}
