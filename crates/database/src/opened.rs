// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening a store while other processes make, replace or move the same file.

use crate::{Identity, Place, StoreError};
use std::path::{Path, PathBuf};

impl Place {
    /// Opens the store for writing. Makes the database if there is none, and moves a damaged one away first.
    ///
    /// `connect` opens the file that is there, and says which file that was, even if the file is no store. It returns none if
    /// there is no file. Returns the store, and where a damaged database was moved to.
    ///
    /// # Errors
    /// Those of `make` and `connect`; [`StoreError::Busy`] if other processes replace the file again and again.
    pub fn open<S>(
        &self,
        make: impl Fn(&Path, bool) -> Result<(), StoreError>,
        mut connect: impl FnMut(&mut Option<Identity>) -> Result<Option<S>, StoreError>,
    ) -> Result<(S, Option<PathBuf>), StoreError> {
        let (mut aside, mut seen) = (None, None);
        // Other processes may make a database or move one away meanwhile, but not for ever.
        for _attempt in 0..4 {
            match (connect(&mut seen), seen) {
                (Ok(Some(store)), _) => return Ok((store, aside)),
                (Ok(None), _) => self.create(&make)?,
                (Err(StoreError::Damaged { .. }), Some(damaged)) => {
                    aside = self.set_aside(damaged)?.or(aside);
                }
                (Err(error), _) => return Err(error),
            }
        }
        Err(StoreError::Busy { path: self.file.clone() })
    }

    /// Opens the store for reading; none if there is none. `connect` is that of [`Place::open`].
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn read<S>(
        &self,
        connect: impl FnOnce(&mut Option<Identity>) -> Result<Option<S>, StoreError>,
    ) -> Result<Option<S>, StoreError> {
        let mut seen = None;
        match connect(&mut seen) {
            // Another process removed or replaced the file meanwhile: the next look finds the other file.
            Err(StoreError::Sqlite { .. }) if self.identity()? != seen => Ok(None),
            found => found,
        }
    }
}
