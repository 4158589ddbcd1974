// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The window's size, and what of it the shell has.

use super::Session;
use crate::engine::Engine;
use rustix::termios::{tcgetwinsize, tcsetwinsize};

impl Session<'_> {
    pub(super) fn resize(&mut self, engine: &mut Engine) {
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) {
            let screen = &mut self.screen;
            engine.resize(size.ws_col, size.ws_row, &mut |bytes| screen.put(bytes));
            self.tell_size(engine);
        }
    }

    /// Tells the shell the size of what it has of the window.
    pub(super) fn tell_size(&self, engine: &Engine) {
        let Ok(mut size) = tcgetwinsize(rustix::stdio::stdout()) else { return };
        let (_, rows) = engine.inner_size();
        if rows != size.ws_row {
            // The height in pixels is that of these rows, too.
            let pixels = u32::from(size.ws_ypixel) * u32::from(rows) / u32::from(size.ws_row.max(1));
            size.ws_ypixel = u16::try_from(pixels).unwrap_or(size.ws_ypixel);
            size.ws_row = rows;
        }
        let _told = tcsetwinsize(self.shell.fd(), size);
    }
}
