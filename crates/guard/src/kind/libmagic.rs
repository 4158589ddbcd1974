// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libmagic, for files that no other check recognizes.
//!
//! It gets a bounded copy of the first bytes, not the descriptor: so it can neither block on it nor move its offset.
//! ELF files and compound documents are left out, as in fapolicyd.

use magic::cookie::{Cookie, DatabasePaths, Flags, Load};

use super::{Ask, Kind, KindError, Untold};

/// Where distributions keep the compiled database. The variable `MAGIC`, which libmagic would follow, isn't used.
const DATABASES: &[&str] =
    &["/usr/share/misc/magic.mgc", "/usr/lib/file/magic.mgc", "/usr/share/file/magic.mgc"];

/// libmagic with its database.
pub struct Magic(Cookie<Load>);

impl std::fmt::Debug for Magic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Magic")
    }
}

impl Magic {
    /// Loads the library and its database.
    ///
    /// # Errors
    /// When libmagic or its database isn't there, or doesn't fit.
    pub fn load() -> Result<Self, KindError> {
        let flags = Flags::MIME_TYPE | Flags::ERROR | Flags::NO_CHECK_CDF | Flags::NO_CHECK_ELF;
        let cookie = Cookie::open(flags).map_err(KindError::Open)?;
        let missing = |reason: String| KindError::Database { looked: DATABASES.join(", "), reason };
        let path = DATABASES.iter().find(|path| std::path::Path::new(path).exists());
        let path = path.ok_or_else(|| missing("there is no such file".to_owned()))?;
        let paths = DatabasePaths::new([path]).map_err(|error| missing(error.to_string()))?;
        cookie.load(&paths).map(Self).map_err(|error| missing(error.to_string()))
    }
}

impl Ask for Magic {
    fn kind(&self, head: &[u8]) -> Result<Kind, Untold> {
        Ok(self.0.buffer(head).ok().map_or(Kind::UNKNOWN, |name| Kind(name.into())))
    }
}
