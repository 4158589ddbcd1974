// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets what is denied in scopes, and which rare calls are reported.

use super::{CALL, ScopePrograms, layout, order};
use crate::error::Error;
use libbpf_rs::MapCore;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::PoisonError;

impl ScopePrograms {
    /// Denies a file, by its file system's major and minor number and its inode number.
    ///
    /// # Errors
    /// If the map can't be written: 65,536 are the most.
    pub fn deny_file(&self, device: (u32, u32), inode: u64) -> Result<(), Error> {
        self.write("denied_files", &layout::encode_place(device, inode), &[0; 4])
    }

    /// Denies a name of at most 63 bytes without a slash. Returns `false` for other names.
    ///
    /// # Errors
    /// If the map can't be written: 65,536 are the most.
    pub fn deny_name(&self, name: &[u8]) -> Result<bool, Error> {
        let Some(key) = layout::encode_name(name) else { return Ok(false) };
        self.write("denied_names", &key, &[0; 4]).map(|()| true)
    }

    /// Whether a name can be denied.
    #[must_use]
    pub fn fits(name: &[u8]) -> bool {
        layout::encode_name(name).is_some()
    }

    /// Denies exactly these files and names. What is denied before and after stays denied during the change, unless the
    /// table has no room for both.
    ///
    /// # Errors
    /// If a map can't be written: 65,536 are the most.
    pub fn deny_only<'n>(
        &self,
        files: &[((u32, u32), u64)],
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Result<(), Error> {
        let files = files.iter().map(|(device, inode)| layout::encode_place(*device, *inode)).collect();
        let names = names.filter_map(layout::encode_name).map(Vec::from).collect();
        self.replace("denied_files", &files)?;
        self.replace("denied_names", &names)
    }

    fn replace(&self, name: &'static str, wanted: &BTreeSet<Vec<u8>>) -> Result<(), Error> {
        let write = || wanted.iter().try_for_each(|key| self.write(name, key, &[0; 4]));
        let full = write().is_err();
        let others: Vec<Vec<u8>> = self.map(name)?.keys().filter(|key| !wanted.contains(key)).collect();
        for key in others {
            self.remove(name, &key)?;
        }
        if full { write() } else { Ok(()) }
    }

    /// Reports a system call if the bit of its first argument is set in `arguments`. With [`super::ANY_ARGUMENT`], reports
    /// the call with any argument; with 0, doesn't report it any more.
    ///
    /// # Errors
    /// If the map can't be written: numbers are below 512.
    pub fn watch_call(&self, number: u32, arguments: u64) -> Result<(), Error> {
        self.write("rare", &number.to_ne_bytes(), &arguments.to_ne_bytes())
    }

    /// Starts or stops watching for rare calls. While this is on, every system call of the host takes a little longer. It
    /// ends with this process.
    ///
    /// # Errors
    /// If the program can't be attached.
    pub fn watch_calls(&self, watch: bool) -> Result<(), Error> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if !watch {
            *watching = None;
        } else if watching.is_none() {
            let link =
                order::attach(self.call.as_fd()).map_err(|source| Error::Run { program: CALL, source })?;
            *watching = Some(link);
        }
        Ok(())
    }
}
