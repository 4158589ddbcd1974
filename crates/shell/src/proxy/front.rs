// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the kernel which program has the shell's terminal.

use super::Session;
use crate::engine::Engine;
use crate::foreground::Foreground;
use rustix::termios::{LocalModes, tcgetattr};

impl Session<'_> {
    /// The process group that has the shell's terminal; `None` if the kernel doesn't tell.
    fn in_front(&self) -> Option<i32> {
        rustix::termios::tcgetpgrp(self.shell.fd()).ok().map(rustix::process::Pid::as_raw_pid)
    }

    /// Finds out which program runs now, if it isn't the shell.
    pub(super) fn look_who_runs(&self, engine: &mut Engine) {
        let Some((group, home)) = self.in_front().zip(self.home) else { return };
        engine.set_foreground(Foreground::read(group, home));
    }

    /// The shell's marks say that its editor is there. Checks that the shell also has the terminal. A program may learn
    /// the nonce, for example from the shell's memory; it is still not mistaken for the shell while it runs behind
    /// another program.
    pub(super) fn look_who_edits(&mut self, engine: &mut Engine) {
        let Some(group) = self.in_front() else { return };
        let home = *self.home.get_or_insert(group);
        let foreground = if group == home { Foreground::default() } else { Foreground::read(group, home) };
        engine.set_editing(foreground);
    }

    /// Whether the shell's terminal is in the mode in which the kernel edits lines.
    pub(super) fn is_cooked(&self) -> bool {
        tcgetattr(self.shell.fd())
            .is_ok_and(|settings| settings.local_modes.contains(LocalModes::ICANON | LocalModes::ISIG))
    }
}
