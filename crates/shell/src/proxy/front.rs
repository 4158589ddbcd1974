// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who has the shell's terminal, as the kernel says.

use super::Session;
use crate::engine::Engine;
use crate::foreground::Foreground;
use rustix::termios::{LocalModes, tcgetattr};

impl Session<'_> {
    /// The process group that has the shell's terminal; `None`: the kernel doesn't say.
    fn in_front(&self) -> Option<i32> {
        rustix::termios::tcgetpgrp(self.shell.fd()).ok().map(rustix::process::Pid::as_raw_pid)
    }

    /// Who runs now, if not the shell.
    pub(super) fn look_who_runs(&self, engine: &mut Engine) {
        let Some((group, home)) = self.in_front().zip(self.home) else { return };
        engine.set_foreground(Foreground::read(group, home));
    }

    /// The shell's marks say that its editor is there: whether it has the terminal, too. Who learns the nonce, from the
    /// shell's memory say, isn't taken for the shell as long as it runs behind somebody else.
    pub(super) fn look_who_edits(&mut self, engine: &mut Engine) {
        let Some(group) = self.in_front() else { return };
        let home = *self.home.get_or_insert(group);
        let foreground = if group == home { Foreground::default() } else { Foreground::read(group, home) };
        engine.set_editing(foreground);
    }

    /// Whether the shell's side reads lines that the kernel edits.
    pub(super) fn is_cooked(&self) -> bool {
        tcgetattr(self.shell.fd())
            .is_ok_and(|settings| settings.local_modes.contains(LocalModes::ICANON | LocalModes::ISIG))
    }
}
