// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pins programs and maps, so that they stay in force when the process ends that loaded them, and opens such pins.

use super::layout::{self, LAYOUT};
use super::{CALL, Depth, Lacks, MAPS, ORDER, PROGRAMS, SEARCH, ScopePrograms, order};
use crate::error::Error;
use crate::pins::Pins;
use libbpf_rs::{Link, MapHandle, Program};
use std::os::fd::AsFd;
use std::sync::Mutex;

impl ScopePrograms {
    /// Pins maps, links and what orders need, so that everything stays in force when this process ends for any reason.
    ///
    /// # Errors
    /// If something can't be pinned; then nothing is.
    pub fn pin(&mut self, pins: &Pins) -> Result<(), Error> {
        pins.all_or_none(|| self.pin_all(pins))
    }

    fn pin_all(&mut self, pins: &Pins) -> Result<(), Error> {
        for (name, link) in &mut self.links {
            let path = pins.link(name);
            link.pin(&path).map_err(|source| Error::Pin { operation: "pin to", path, source })?;
        }
        let search = self.search.as_ref().map(|search| (SEARCH, search));
        for (name, program) in [(ORDER, &self.order), (CALL, &self.call)].into_iter().chain(search) {
            let path = pins.program(name);
            order::pin(program.as_fd(), &path).map_err(|source| Error::File {
                operation: "pin to",
                path,
                source,
            })?;
        }
        for (name, map) in &mut self.maps {
            let path = pins.map(name);
            map.pin(&path).map_err(|source| Error::Pin { operation: "pin to", path, source })?;
        }
        Ok(())
    }

    /// Opens what another process pinned; `None` if nothing is pinned.
    ///
    /// # Errors
    /// If a pin is missing or of another version. Then use [`Pins::clear`] and load again.
    pub fn open(pins: &Pins) -> Result<Option<Self>, Error> {
        if !pins.exist() {
            return Ok(None);
        }
        let mut maps = Vec::new();
        for name in MAPS {
            let path = pins.map(name);
            let map = MapHandle::from_pinned_path(&path).map_err(|source| Error::Pin {
                operation: "open the pin",
                path,
                source,
            })?;
            maps.push((name, map));
        }
        let program = |name: &str| {
            let path = pins.program(name);
            Program::fd_from_pinned_path(&path).map_err(|source| Error::Pin {
                operation: "open the pin",
                path,
                source,
            })
        };
        let mut links = Vec::new();
        for path in pins.links()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.trim_start_matches("link-").to_owned();
            let link =
                Link::open(&path).map_err(|source| Error::Pin { operation: "open the pin", path, source })?;
            links.push((name, link));
        }
        let (order, call) = (program(ORDER)?, program(CALL)?);
        let (watching, loaded) = (Mutex::default(), Vec::new());
        let mut programs =
            Self { maps, order, call, search: None, lacks: Lacks::default(), watching, links, loaded };
        let found = programs.read("settings", &[0; 4])?.ok_or(Error::Missing("settings"))?;
        programs.lacks = layout::decode_lacks(&found);
        if programs.lacks.task_by_number {
            programs.search = Some(program(SEARCH)?);
        }
        layout::decode_settings(&found).map_err(|found| Error::Layout {
            directory: pins.directory().to_owned(),
            found,
            wanted: LAYOUT,
        })?;
        match PROGRAMS.iter().find(|program| !programs.links.iter().any(|(name, _)| name == *program)) {
            Some(program) => Err(Error::Unattached { program }),
            None => Ok(Some(programs)),
        }
    }

    /// Stops finding marks and removes everything: links, pins, maps.
    ///
    /// # Errors
    /// If the depth can't be set or a pin can't be removed.
    pub fn clear(self, pins: &Pins) -> Result<(), Error> {
        self.retire(pins)
    }

    /// As [`Self::clear`], when other code still holds these programs: they find no marks any more, and end with their last
    /// holder.
    ///
    /// # Errors
    /// If the depth can't be set or a pin can't be removed.
    pub fn retire(&self, pins: &Pins) -> Result<(), Error> {
        // The kernel detaches the programs some time later; from here on they find no marks.
        self.change(|settings| settings.depth = Depth::Off)?;
        pins.clear().map(|_| ())
    }
}
