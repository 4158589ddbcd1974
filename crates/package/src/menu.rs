// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a package contains for menus. A package doesn't unpack it: the user asks for it, and `palisade_desktop` makes the
//! files.

use serde::{Deserialize, Serialize};

/// The largest entry, and the largest icon.
const LARGEST: usize = 1 << 20;
/// The longest name of a file, with an ending.
const LONGEST: usize = 200;

/// A menu entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Menu {
    /// The desktop entry's id, which its file and its icon are named by.
    pub id: String,
    /// The desktop entry. It starts the program by its path inside.
    pub entry: String,
    /// The icon.
    pub icon: Option<Icon>,
}

/// An icon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Icon {
    /// The size of a PNG image. `None` for an SVG image.
    pub size: Option<u16>,
    /// The image.
    pub bytes: Vec<u8>,
}

impl Menu {
    /// Checks that its name leads nowhere else and that it isn't too large.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let begins = self.id.chars().next().is_some_and(|c| !".-".contains(c));
        if !begins || self.id.len() > LONGEST || !self.id.chars().all(plain) {
            return Err("its menu entry has a name that leads elsewhere");
        }
        let icon = self.icon.as_ref().map_or(0, |icon| icon.bytes.len());
        if self.entry.len() > LARGEST || icon > LARGEST {
            return Err("its menu entry is too large");
        }
        Ok(())
    }
}
