// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles the window's size, and tells the shell its part of the window.

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

    /// Tells the shell the size of its part of the window.
    pub(super) fn tell_size(&self, engine: &Engine) {
        let Ok(mut size) = tcgetwinsize(rustix::stdio::stdout()) else { return };
        let (_, rows) = engine.inner_size();
        if rows != size.ws_row {
            // The height in pixels must belong to the same rows.
            let pixels = u32::from(size.ws_ypixel) * u32::from(rows) / u32::from(size.ws_row.max(1));
            size.ws_ypixel = u16::try_from(pixels).unwrap_or(size.ws_ypixel);
            size.ws_row = rows;
        }
        let _told = tcsetwinsize(self.shell.fd(), size);
    }
}
