// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the keys that the user typed before the shell's prompt and that no program has read yet. fish needs this
//! because it can't look itself.
//!
//! fish's hook runs this code and waits for it, so no other process reads the terminal meanwhile. bash and zsh read
//! these keys themselves.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};

/// At most this many bytes are taken.
const MOST: usize = 64 << 10;

/// Takes the bytes that wait in a terminal and encodes them as in a mark ([`crate::mark::keys`]). Takes nothing if the
/// terminal belongs to another process group, or if the kernel still edits its lines. In the second case, a line
/// without its end could not be read with the rest, and it would come before the rest.
#[must_use]
pub fn take(terminal: BorrowedFd<'_>) -> Vec<u8> {
    let raw = tcgetattr(terminal).is_ok_and(|settings| !settings.local_modes.contains(LocalModes::ICANON));
    let ours = tcgetpgrp(terminal).is_ok_and(|group| group.as_raw_pid() == palisade_sys::process::group());
    let mut taken = Vec::new();
    let mut buffer = [0; 4096];
    while raw && ours && taken.len() < MOST {
        let now = Timespec::default();
        let mut set = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
        match poll(&mut set, Some(&now)) {
            Ok(1) => {}
            Err(Errno::INTR) => continue,
            _ => break,
        }
        match rustix::io::read(terminal, &mut buffer) {
            Ok(count @ 1..) => taken.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    sent(&taken)
}

/// Keys in the encoding of a mark. A NUL (Ctrl-Space) is left out: no shell's text can contain it.
fn sent(keys: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(keys.len());
    for &key in keys {
        let escaped = match key {
            b'\\' => b'\\',
            b'\n' | b'\r' => b'n',
            b'\t' => b't',
            0x1b => b'e',
            0x07 => b'a',
            0x18 => b'x',
            0x1a => b'z',
            0 => continue,
            other => {
                sent.push(other);
                continue;
            }
        };
        sent.extend_from_slice(&[b'\\', escaped]);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_sys::terminal;
    use rustix::termios::{OptionalActions, Winsize, tcsetattr};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    #[test]
    fn keys_come_back_as_they_were() {
        let typed = b"ls \\x\n\x1b[A\x07\x18\x1a\t\xff\x00\x01";
        assert_eq!(
            crate::mark::keys(&sent(typed)).collect::<Vec<u8>>(),
            b"ls \\x\r\x1b[A\x07\x18\x1a\t\xff\x01"
        );
        bolero::check!().for_each(|typed: &[u8]| {
            let back: Vec<u8> = crate::mark::keys(&sent(typed)).collect();
            let wanted: Vec<u8> = typed
                .iter()
                .filter(|key| **key != 0)
                .map(|&key| if key == b'\n' { b'\r' } else { key })
                .collect();
            assert_eq!(back, wanted);
            // The terminal must not take the bytes for a control sequence, and they must not end the word in a shell.
            assert!(
                !sent(typed).iter().any(|byte| matches!(byte, 0 | 0x07 | b'\n' | b'\r' | 0x18 | 0x1a | 0x1b))
            );
        });
    }

    /// What this process finds in a terminal that is its controlling terminal.
    const INSIDE: &str = "PALISADE_AHEAD_INSIDE";

    #[test]
    fn what_waits_is_taken_once_and_not_while_the_kernel_edits() {
        const NAME: &str = "ahead::tests::what_waits_is_taken_once_and_not_while_the_kernel_edits";
        if std::env::var_os(INSIDE).is_some() {
            let terminal = rustix::stdio::stdin();
            assert_eq!(take(terminal), b"", "the kernel edits");
            let mut settings = tcgetattr(terminal).unwrap();
            settings.local_modes.remove(LocalModes::ICANON);
            tcsetattr(terminal, OptionalActions::Now, &settings).unwrap();
            assert_eq!(take(terminal), b"echo a\\nb");
            assert_eq!(take(terminal), b"");
            assert_eq!(take(std::fs::File::open("/dev/null").unwrap().as_fd()), b"");
            return;
        }
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = terminal::open(size).unwrap();
        let settings = tcgetattr(&pair.inner).unwrap();
        rustix::io::write(&pair.outer, b"echo a\rb").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]).env(INSIDE, "1").stdout(Stdio::null());
        let mut child = terminal::start(&mut command, &pair.inner, &[]).unwrap();
        assert!(child.wait().unwrap().success());
        // From here on the terminal is not ours: nothing is taken, although bytes wait.
        let mut raw = settings;
        raw.local_modes.remove(LocalModes::ICANON);
        tcsetattr(&pair.inner, OptionalActions::Now, &raw).unwrap();
        rustix::io::write(&pair.outer, b"x").unwrap();
        assert_eq!(take(pair.inner.as_fd()), b"");
    }
}
