// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enables and disables one user's applications, and reports what is enabled.

use crate::application::Application;
use crate::command::Binary;
use crate::disk::Disk;
use crate::error::{DesktopError, FindError};
use crate::install::{self, Outcome};
use crate::manifest::{Choices, Store};
use crate::note::Note;
use crate::status::{self, Report};
use crate::{enable, mime};
use palisade_host::places::Trustee;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::is_profile_name;
use std::ffi::OsStr;

/// A user's applications that are started by their profiles.
#[derive(Debug)]
pub struct Desktop<'f> {
    facts: &'f mut Facts,
    store: Store,
}

/// An application that has been enabled.
#[derive(Debug)]
pub struct Enabled {
    /// The profile.
    pub name: String,
    /// What happened to the files.
    pub outcome: Outcome,
    /// Notes about the files.
    pub notes: Vec<Note>,
    /// The unit for `systemd --user`, if there is one; it isn't started.
    pub unit: Option<String>,
}

/// An application that has been disabled.
#[derive(Debug)]
pub struct Disabled {
    /// What happened to the files. `None` if it wasn't enabled.
    pub outcome: Option<Outcome>,
    /// The unit that it had. The unit may be running.
    pub unit: Option<String>,
}

impl<'f> Desktop<'f> {
    /// The desktop of the user that `facts` describe.
    pub fn of(facts: &'f mut Facts) -> Self {
        let account = &facts.account;
        let private_group = account.private_group.then_some(account.gid);
        let trustee = Trustee { uid: account.uid, private_group };
        let store = Store::new(&account.home, &facts.places.state, trustee);
        Self { facts, store }
    }

    /// Makes an application's link, desktop entries and services start its profile. What an earlier call made and this
    /// one doesn't ask for is removed. With `force`, files in the way are kept aside.
    ///
    /// # Errors
    /// When there is no such profile, its name can't be used, or files can't be made.
    pub fn enable(&mut self, name: &OsStr, choices: &Choices, force: bool) -> Result<Enabled, FindError> {
        let application = Application::find(self.facts, name)?;
        Ok(self.enable_found(&application, choices, force)?)
    }

    fn enable_found(
        &self,
        application: &Application,
        choices: &Choices,
        force: bool,
    ) -> Result<Enabled, DesktopError> {
        if let Some(mime) = choices.mime.iter().find(|mime| !mime::is_type(mime)) {
            return Err(DesktopError::Type { mime: mime.clone() });
        }
        let home = &self.facts.account.home;
        if !home.is_dir() {
            return Err(DesktopError::Home { home: home.clone() });
        }
        let myself = std::env::current_exe().and_then(|path| path.canonicalize());
        let binary = Binary::new(&myself.map_err(|source| DesktopError::Myself { source })?)?;
        let prepared = enable::prepare(self.facts, application, &binary, choices, force)?;
        let name = application.name.clone();
        match install::enable(&Disk::default(), &self.store, &prepared.order) {
            Ok(outcome) => Ok(Enabled { name, outcome, notes: prepared.notes, unit: prepared.unit }),
            Err(source) => {
                let again = enable::command(&name, choices);
                Err(DesktopError::Enable { name, source, again })
            }
        }
    }

    /// Removes what was made for an application, and restores what was there before. A file that was changed since stays.
    ///
    /// # Errors
    /// When what was made can't be determined or removed.
    pub fn disable(&self, name: &str) -> Result<Disabled, DesktopError> {
        let manifest = self.store.read(name).ok().flatten();
        let outcome = install::disable(&Disk::default(), &self.store, name)
            .map_err(|source| DesktopError::Disable { name: name.to_owned(), source })?;
        // systemd removes what `systemctl enable` made. It can do so without the unit, too.
        let unit = manifest.filter(|manifest| manifest.choices.service).map(|_one| enable::unit_name(name));
        Ok(Disabled { outcome, unit })
    }

    /// What is enabled of an application, and whether it is still as it was made.
    ///
    /// # Errors
    /// When what was made can't be determined.
    pub fn status(&self, name: &str) -> Result<Report, DesktopError> {
        status::report(&self.store, name)
    }

    /// The names of all enabled applications.
    ///
    /// # Errors
    /// When they can't be determined.
    pub fn names(&self) -> Result<Vec<String>, DesktopError> {
        self.store.names().map_err(|source| DesktopError::State { source })
    }

    /// The name of an application for which something may have been made. Its profile may be gone since.
    ///
    /// # Errors
    /// When there is neither such a profile nor anything made for it.
    pub fn known(&mut self, name: &OsStr) -> Result<String, FindError> {
        match name.to_str().filter(|name| is_profile_name(name)) {
            Some(known) if self.store.file(known).symlink_metadata().is_ok() => Ok(known.to_owned()),
            _ => Application::find(self.facts, name).map(|application| application.name),
        }
    }
}
