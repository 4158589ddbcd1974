// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rebuilds the trust database from packages, directories and trust files, in the calling process; palisaded uses
//! loaders.

use super::base::Base;
use super::edit::{self, Mistake, TrustFiles};
use super::filter::Filter;
use super::import::{self, Event, Origin, Progress, Request, import};
use super::store::{self, Location, Writer};
use super::{build, rpm};
use crate::settings::{TrustFrom, TrustSettings};
use std::path::Path;

/// A limit that no host reaches.
const MOST: u64 = 20_000_000;

/// Why there is no new database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Writing it.
    #[error(transparent)]
    Build(#[from] build::Error),
    /// Trust files.
    #[error(transparent)]
    Edit(#[from] edit::Error),
    /// Packages or directories.
    #[error(transparent)]
    Import(#[from] import::Error),
}

/// Messages during a rebuild.
#[derive(Debug)]
pub enum Told<'t> {
    /// A line of a trust file that can't be read.
    Mistake(&'t Mistake),
    /// The progress with packages and directories.
    Progress(&'t Progress),
    /// How many files differ from what their packages say, and so aren't trusted; more than zero.
    Differing(u64),
}

/// The sources of the database.
#[derive(Debug)]
pub struct Sources<'s> {
    /// The settings.
    pub settings: &'s TrustSettings,
    /// The administrator's trust files.
    pub files: &'s TrustFiles,
    /// Also hash files that look unchanged.
    pub everything: bool,
}

impl Sources<'_> {
    /// Rebuilds the database at `location`. Returns how many files are trusted. `filter` is called if there are
    /// packages or directories; it returns which of their files are imported.
    ///
    /// # Errors
    /// If another process writes the database, a source can't be read, or the database can't be written; and the errors
    /// of `filter`.
    pub fn rebuild<E: From<Error>>(
        &self,
        location: &Location,
        filter: impl FnOnce() -> Result<Filter, E>,
        mut tell: impl FnMut(Told<'_>),
    ) -> Result<u64, E> {
        let mut writer = Writer::lock(location).map_err(Error::from)?;
        let mut builder = writer.rebuild().map_err(Error::from)?;
        if self.settings.sources.contains(&TrustFrom::Files) {
            self.files.each(|read| {
                match read {
                    Ok(record) => builder.push(&record)?,
                    Err(mistake) => tell(Told::Mistake(&mistake)),
                }
                Ok::<(), Error>(())
            })?;
        }
        let from = self.origins();
        if !from.is_empty() {
            let request = Request {
                root: "/".into(),
                filter: filter()?,
                from,
                hard: self.everything,
                most: MOST,
                threads: None,
            };
            let previous = Base::open(&location.base()).ok();
            let mut differing = 0_u64;
            import::<Error>(&request, previous.as_ref(), |event| {
                match event {
                    Event::Trusted(record) => builder.push(&record)?,
                    Event::Differs { .. } => differing += 1,
                    Event::Progress(progress) => tell(Told::Progress(&progress)),
                    Event::Unreadable { .. } | Event::Missing { .. } | Event::Undigested { .. } => {}
                }
                Ok(())
            })?;
            if differing > 0 {
                tell(Told::Differing(differing));
            }
        }
        Ok(writer.finish(builder).map_err(Error::from)?)
    }

    fn origins(&self) -> Vec<Origin> {
        let sources = &self.settings.sources;
        let mut from = Vec::new();
        if sources.contains(&TrustFrom::Dpkg) && Path::new("/var/lib/dpkg/status").exists() {
            from.push(Origin::Packages);
        }
        // A host may have both package managers, or neither. A database that can't be read is an error that is
        // reported.
        if sources.contains(&TrustFrom::Rpm) && matches!(rpm::find(Path::new("/")), Ok(Some(_)) | Err(_)) {
            from.push(Origin::Rpm);
        }
        from.extend(self.settings.directories.iter().cloned().map(Origin::Executables));
        from
    }
}
