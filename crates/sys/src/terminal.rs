// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program behind a pseudo-terminal, and restores the user's terminal even if the program that changed it
//! dies.
//!
//! [`open`] makes a pair, [`start`] gives a command the inner end as its controlling terminal. [`Guardian`] is a
//! process that only waits for the end of this process. No handler runs after `SIGKILL`, and none should run after an
//! abort, so another process must keep the settings.

use crate::raw;
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Both ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Pair {
    /// What the proxy reads and writes. It is closed on exec.
    pub outer: OwnedFd,
    /// The end of the shell. It is closed on exec.
    pub inner: OwnedFd,
}

/// A new pseudo-terminal of this size.
///
/// # Errors
/// The kernel's: no `/dev/pts`, or no more of them.
pub fn open(size: Winsize) -> io::Result<Pair> {
    let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&outer)?;
    unlockpt(&outer)?;
    let name = ptsname(&outer, Vec::new())?;
    let inner = rustix::fs::open(
        name.as_c_str(),
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    tcsetwinsize(&outer, size)?;
    Ok(Pair { outer, inner })
}

/// Starts `command` as the leader of a new session with `inner` as its controlling terminal and as its three standard
/// streams. The descriptors `kept` stay open in it, with the same numbers.
///
/// # Errors
/// When it can't be started; the child's errors come back as the kernel gave them.
pub fn start(command: &mut Command, inner: &OwnedFd, kept: &[BorrowedFd<'_>]) -> io::Result<Child> {
    let kept: Vec<_> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    command.stdin(inner.try_clone()?).stdout(inner.try_clone()?).stderr(inner.try_clone()?);
    let attach = move || -> io::Result<()> {
        raw::setsid()?;
        // SAFETY: needed because rustix's call wants a descriptor's owner in the child. Sound: an ioctl that takes a
        // number; standard input is the terminal by now.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for &fd in &kept {
            // SAFETY: needed to leave one descriptor open. Sound: a call on numbers.
            if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // The shell must not inherit the signals that this process ignores or blocks.
        for signal in
            [libc::SIGPIPE, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU]
        {
            // SAFETY: needed because an ignored signal stays ignored over exec. Sound: the default is always allowed.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        raw::set_signal_mask(0)?;
        Ok(())
    };
    // SAFETY: needed for a session and a terminal before exec. Sound: the closure makes system calls only; it neither
    // allocates nor takes locks.
    unsafe { command.pre_exec(attach) };
    command.spawn()
}

/// Terminal modes that a program has switched on. The guardian undoes them if the program ends without doing so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes(u8);

impl Modes {
    /// The alternate screen is shown.
    pub const ALTERNATE: u8 = 1;
    /// What is pasted is bracketed.
    pub const PASTE: u8 = 1 << 1;
    /// The mouse is reported.
    pub const MOUSE: u8 = 1 << 2;
    /// Keys are told by kitty's protocol.
    pub const KITTY: u8 = 1 << 3;
    /// The cursor is hidden.
    pub const HIDDEN: u8 = 1 << 4;
    /// Arrow keys or the keypad are in application mode.
    pub const APPLICATION: u8 = 1 << 5;
    /// A part of the screen scrolls, not all.
    pub const REGION: u8 = 1 << 6;

    /// Sets or clears a mode.
    pub fn set(&mut self, mode: u8, on: bool) {
        if on { self.0 |= mode & !DONE } else { self.0 &= !mode }
    }

    /// Whether a mode is set.
    #[must_use]
    pub fn has(self, mode: u8) -> bool {
        self.0 & mode != 0
    }

    /// The bytes that undo each mode.
    const UNDO: [(u8, &'static [u8]); 7] = [
        (Self::REGION, b"\x1b7\x1b[r\x1b8"),
        (Self::ALTERNATE, b"\x1b[?1049l"),
        (Self::PASTE, b"\x1b[?2004l"),
        (Self::MOUSE, b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"),
        (Self::KITTY, b"\x1b[=0;1u"),
        (Self::HIDDEN, b"\x1b[?25h"),
        (Self::APPLICATION, b"\x1b[?1l\x1b>"),
    ];

    /// Calls `to` with the bytes that undo each set mode.
    pub fn undo(self, mut to: impl FnMut(&[u8])) {
        for (mode, bytes) in Self::UNDO {
            if self.has(mode) {
                to(bytes);
            }
        }
    }
}

/// Tells the guardian that the terminal is in order.
const DONE: u8 = 1 << 7;

/// A process that restores a terminal's settings when this process ends without having done so, by `SIGKILL`,
/// `SIGABRT` or otherwise. It has its own session, so that no signal to this process's group reaches it.
#[derive(Debug)]
pub struct Guardian {
    pipe: File,
    process: i32,
    told: Modes,
}

impl Guardian {
    /// Keeps the settings that `terminal` has now. Call it before they are changed and before there are threads.
    ///
    /// The returned [`Raw`] has the settings that this process is about to set. If the terminal has other settings
    /// when this process has ended, another process has set them meanwhile. Then the guardian leaves them alone, and
    /// undoes only those modes that a shell at its prompt doesn't set itself.
    ///
    /// # Errors
    /// When `terminal` isn't a terminal, or no process can be made.
    pub fn start(terminal: BorrowedFd<'_>) -> io::Result<(Self, Raw)> {
        let before = settings(terminal)?;
        let mut changed = before;
        // SAFETY: needed because rustix's `make_raw` works on its own type. Sound: it changes the structure only.
        unsafe { libc::cfmakeraw(&raw mut changed) };
        let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // SAFETY: needed for a process that outlives this one. Sound: by the caller's promise there is one thread; the
        // child makes system calls only.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                watch(ours.as_raw_fd(), terminal.as_raw_fd(), &before, &changed);
                raw::exit(0)
            }
            process => {
                drop(ours);
                let guardian = Self { pipe: File::from(theirs), process, told: Modes::default() };
                Ok((guardian, Raw { before, changed }))
            }
        }
    }

    /// Adds modes that will have to be undone in a moment. The modes of before stay.
    pub fn tell_ahead(&mut self, modes: Modes) {
        self.tell(Modes(self.told.0 | modes.0));
    }

    /// Tells the guardian which modes to undo. Costs a system call if they have changed.
    pub fn tell(&mut self, modes: Modes) {
        if self.told != modes {
            self.told = modes;
            let _it_may_be_gone = self.pipe.write_all(&[modes.0]);
        }
    }

    /// Ends the guardian: the settings are restored.
    pub fn dismiss(mut self) {
        let _it_may_be_gone = self.pipe.write_all(&[DONE]);
        let pid = rustix::process::Pid::from_raw(self.process);
        drop(self.pipe);
        while matches!(rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()), Err(Errno::INTR))
        {
        }
    }

    /// Its process id.
    #[must_use]
    pub fn process(&self) -> i32 {
        self.process
    }
}

/// A terminal's settings before, and those that a proxy needs.
#[derive(Clone, Copy)]
pub struct Raw {
    before: libc::termios,
    changed: libc::termios,
}

impl core::fmt::Debug for Raw {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("Raw")
    }
}

impl Raw {
    /// Sets the proxy's settings: each byte arrives as it is typed, and none has a meaning for the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter(&self, terminal: BorrowedFd<'_>) -> io::Result<()> {
        set(terminal.as_raw_fd(), &self.changed)
    }

    /// Restores the settings of before.
    ///
    /// # Errors
    /// The kernel's.
    pub fn leave(&self, terminal: BorrowedFd<'_>) -> io::Result<()> {
        set(terminal.as_raw_fd(), &self.before)
    }

    /// Gives a new pseudo-terminal the settings of before.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give(&self, inner: &impl AsFd) -> io::Result<()> {
        set(inner.as_fd().as_raw_fd(), &self.before)
    }
}

fn settings(terminal: BorrowedFd<'_>) -> io::Result<libc::termios> {
    // SAFETY: needed to have the structure as the C library has it, which a child can get unchanged. Sound: zeroes
    // are valid, and the call fills it.
    unsafe {
        let mut settings: libc::termios = core::mem::zeroed();
        match libc::tcgetattr(terminal.as_raw_fd(), &raw mut settings) {
            0 => Ok(settings),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn set(terminal: i32, settings: &libc::termios) -> io::Result<()> {
    // SAFETY: needed as in `settings`. Sound: the structure is whole.
    match unsafe { libc::tcsetattr(terminal, libc::TCSANOW, settings) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the guardian does: async-signal-safe calls only.
fn watch(pipe: i32, terminal: i32, before: &libc::termios, changed: &libc::termios) {
    let _it_has_one = raw::setsid();
    let _cosmetic = raw::prctl(libc::PR_SET_NAME, c"palisade-tty".as_ptr() as usize, 0);
    let (low, high) = (pipe.min(terminal), pipe.max(terminal));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, i32::MAX)] {
        if let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last))
            && first <= last
        {
            let _closed = raw::close_range(first, last, 0);
        }
    }
    let mut modes = Modes::default();
    loop {
        let mut said = [0u8; 64];
        // SAFETY: needed to read without the standard library. Sound: the buffer is as long as said.
        let read = unsafe { libc::read(pipe, said.as_mut_ptr().cast(), said.len()) };
        match usize::try_from(read) {
            Ok(0) => break,
            Ok(read) => match said.get(..read).and_then(|said| said.last()) {
                Some(&last) if last & DONE != 0 => return,
                Some(&last) => modes = Modes(last),
                None => {}
            },
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // SAFETY: needed to find out which program had the terminal last. Sound: as in `settings`.
    let now = unsafe { rustix::fd::BorrowedFd::borrow_raw(terminal) };
    let Ok(now) = settings(now) else { return };
    let taken =
        now.c_lflag != changed.c_lflag || now.c_iflag != changed.c_iflag || now.c_oflag != changed.c_oflag;
    if taken {
        // A shell has the terminal and has set these modes for its prompt. It knows nothing of the other modes.
        modes.set(Modes::PASTE | Modes::APPLICATION, false);
    }
    let say = |bytes: &[u8]| {
        // SAFETY: needed to write without the standard library. Sound: the bytes are as many as said.
        let _nobody_may_look = unsafe { libc::write(terminal, bytes.as_ptr().cast(), bytes.len()) };
    };
    modes.undo(say);
    if taken {
        return;
    }
    say(b"\x1b[0m\r\n\x1b[J");
    let _it_may_be_gone = set(terminal, before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

    #[test]
    fn a_command_has_the_terminal_and_its_size() {
        let pair = open(SIZE).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "stty size; tty -s && ps -o tpgid= -p $$ >/dev/null && echo mine >/dev/tty"]);
        let mut child = start(&mut command, &pair.inner, &[]).unwrap();
        drop((pair.inner, command));
        let mut said = Vec::new();
        // The kernel answers EIO when no process has the inner end any more.
        let _end = File::from(pair.outer).read_to_end(&mut said);
        assert!(child.wait().unwrap().success());
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("24 80") && said.contains("mine"), "{said}");
    }

    #[test]
    fn what_was_told_is_undone() {
        let mut modes = Modes::default();
        modes.set(Modes::ALTERNATE, true);
        modes.set(Modes::HIDDEN, true);
        modes.set(Modes::HIDDEN, false);
        let mut said = Vec::new();
        modes.undo(|bytes| said.extend_from_slice(bytes));
        assert_eq!(said, b"\x1b[?1049l");
    }
}
