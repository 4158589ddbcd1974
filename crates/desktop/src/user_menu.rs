// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts a package into the user's menu, and takes it out again. What is put there comes from the package, which anybody
//! may have made: it decides about the content of two files, and neither about their directories nor about their endings.

use crate::application::{Application, is_id};
use crate::command::{Binary, BinaryError, Means};
use crate::disk::Disk;
use crate::enable::Directories;
use crate::entry::{Entry, EntryError};
use crate::error::{shown, store_hint};
use crate::install::{self, InstallError, Order, Outcome, Wanted, What};
use crate::manifest::{Choices, Kind, Manifest, Store};
use crate::menu::Menu;
use crate::overrides::Override;
use crate::programs::Programs;
use crate::search::{self, Found};
use palisade_host::environment::Environment;
use palisade_host::places::Trustee;
use palisade_sandbox::facts::Facts;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use std::path::{Path, PathBuf};

/// Why a package isn't put into the menu, or taken out of it.
#[derive(Debug, thiserror::Error)]
pub enum MenuError {
    /// The package has nothing for menus.
    #[error("can't make a menu entry of {name}: the package contains none")]
    Nothing {
        /// The profile.
        name: String,
    },
    /// What it has can't be used.
    #[error("can't make a menu entry of {name}: the package's entry {id:?} can't be used: {why}")]
    Unusable {
        /// The profile.
        name: String,
        /// The entry's id.
        id: String,
        /// Why.
        why: String,
    },
    /// The package's own file isn't found.
    #[error("can't find the package's own file: {source}")]
    Myself {
        /// Why.
        source: std::io::Error,
    },
    /// A desktop entry can't name the package's file.
    #[error("{source}")]
    File {
        /// Why.
        source: BinaryError,
        /// The file.
        file: PathBuf,
        /// The entry's id.
        id: String,
    },
    /// The user has no home to make files in.
    #[error("can't make a menu entry for you: your home {home:?} is no directory")]
    Home {
        /// Where it should be.
        home: PathBuf,
    },
    /// The entry is another package's.
    #[error("can't make the menu entry {id}: there is one that starts {file:?}")]
    Other {
        /// The entry's id.
        id: String,
        /// The other package.
        file: PathBuf,
    },
    /// Files can't be made.
    #[error("can't make the menu entry {id}: {source}")]
    Install {
        /// The entry's id.
        id: String,
        /// Why.
        source: InstallError,
    },
    /// Files can't be removed.
    #[error("can't remove the menu entry {id}: {source}")]
    Remove {
        /// The entry's id.
        id: String,
        /// Why.
        source: InstallError,
    },
}

impl MenuError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Nothing { .. } => {
                "make the package on a host where the application has a menu entry".to_owned()
            }
            Self::Unusable { .. } => "make the package again, with this palisade".to_owned(),
            Self::File { file, id, .. } => {
                format!("mv -n {} ~/{id}.run   # then: ~/{id}.run --palisade-menu", shown(file))
            }
            Self::Home { home } => format!("mkdir -p {}", shown(home)),
            Self::Other { file, .. } => {
                format!("{} --palisade-remove-menu   # then make this one again", shown(file))
            }
            Self::Install { source: InstallError::Taken { by, .. }, .. } => {
                format!("palisade desktop disable {}", palisade_sandbox::error::quoted(by))
            }
            Self::Install { source: InstallError::Foreign { path, .. }, .. } => {
                format!("look at it, then: mv {0} {0}.old", shown(path))
            }
            Self::Install { source: InstallError::Manifest(source), .. }
            | Self::Remove { source: InstallError::Manifest(source), .. } => {
                return store_hint(source);
            }
            Self::Myself { .. } | Self::Install { .. } | Self::Remove { .. } => return None,
        })
    }
}

/// A package and a user's menu.
#[derive(Debug)]
pub struct UserMenu<'p> {
    facts: &'p Facts,
    store: Store,
    /// The package's file, without links.
    file: PathBuf,
    /// What is in the package.
    menu: Option<&'p Menu>,
}

impl<'p> UserMenu<'p> {
    /// The menu of the user that `facts` describe, and this process's own file.
    ///
    /// # Errors
    /// When the file isn't found.
    pub fn of(facts: &'p Facts, menu: Option<&'p Menu>) -> Result<Self, MenuError> {
        let file = std::env::current_exe().and_then(|path| path.canonicalize());
        Ok(Self::with(facts, menu, file.map_err(|source| MenuError::Myself { source })?))
    }

    fn with(facts: &'p Facts, menu: Option<&'p Menu>, file: PathBuf) -> Self {
        let account = &facts.account;
        let private_group = account.private_group.then_some(account.gid);
        let trustee = Trustee { uid: account.uid, private_group };
        let store = Store::new(&account.home, &facts.places.state, trustee).of_packages();
        Self { facts, store, file, menu }
    }

    /// Makes the entry and the icon, or renews them. `name` is the profile's, and `program` is the program in the package.
    ///
    /// # Errors
    /// When the package has no entry, or files that aren't this package's are in the way.
    pub fn install(&self, name: &str, program: &Path) -> Result<Outcome, MenuError> {
        let menu = self.menu.ok_or_else(|| MenuError::Nothing { name: name.to_owned() })?;
        let id = menu.id.clone();
        let home = &self.facts.account.home;
        if !home.is_dir() {
            return Err(MenuError::Home { home: home.clone() });
        }
        let order = self.order(menu, name, program)?;
        let failed = |source: InstallError| MenuError::Install { id: id.clone(), source };
        let before = self.store.read(&id).map_err(|error| failed(error.into()))?;
        if let Some(other) = before.filter(|before| !self.is_mine(before)) {
            return Err(MenuError::Other { id, file: other.binary });
        }
        self.look_for_profiles(&order).map_err(failed)?;
        let mut outcome = install::enable(&Disk::default(), &self.store, &order).map_err(failed)?;
        // A file that has become another application's package had another entry.
        for (id, _manifest) in self.mine().filter(|(other, _manifest)| *other != id) {
            let removed = install::disable(&Disk::default(), &self.store, &id)
                .map_err(|source| MenuError::Remove { id, source })?;
            outcome.removed.extend(removed.unwrap_or_default().removed);
        }
        self.touch_theme();
        Ok(outcome)
    }

    /// The system's entry that menus no longer show, because the package's has the same id.
    #[must_use]
    pub fn covered(&self) -> Option<PathBuf> {
        let file = format!("applications/{}.desktop", self.menu?.id);
        let directories =
            search::data_directories(&self.facts.environment, &Directories::of(self.facts).data);
        directories.into_iter().map(|directory| directory.join(&file)).find(|path| path.exists())
    }

    /// Removes what was made for this file. `None` if nothing was made.
    ///
    /// # Errors
    /// When what was made can't be determined or removed.
    pub fn remove(&self) -> Result<Option<Outcome>, MenuError> {
        if let Some(Menu { id, .. }) = self.menu.filter(|menu| is_id(&menu.id)) {
            // A list that can't be read could be this file's.
            let failed = |source: crate::manifest::ManifestError| MenuError::Remove {
                id: id.clone(),
                source: source.into(),
            };
            self.store.read(id).map_err(failed)?;
        }
        let mut all: Option<Outcome> = None;
        for (id, _manifest) in self.mine() {
            let removed = install::disable(&Disk::default(), &self.store, &id)
                .map_err(|source| MenuError::Remove { id, source })?;
            if let Some(removed) = removed {
                let all = all.get_or_insert_default();
                all.removed.extend(removed.removed);
                all.left.extend(removed.left);
            }
        }
        self.touch_theme();
        Ok(all)
    }

    /// What the package's data become here.
    fn order(&self, menu: &Menu, name: &str, program: &Path) -> Result<Order, MenuError> {
        let unusable = |why: String| MenuError::Unusable { name: name.to_owned(), id: menu.id.clone(), why };
        if !is_id(&menu.id) {
            return Err(unusable("its name can't be that of a file".to_owned()));
        }
        let binary = Binary::new(&self.file).map_err(|source| MenuError::File {
            source,
            file: self.file.clone(),
            id: menu.id.clone(),
        })?;
        let text = rewritten(menu, name, program, &binary).map_err(|error| unusable(error.to_string()))?;
        let data = Directories::of(self.facts).data;
        let entry = data.join("applications").join(format!("{}.desktop", menu.id));
        let file = |kind, path, bytes| Wanted { kind, path, what: What::File(bytes), origin: None };
        let mut files = vec![file(Kind::DesktopEntry, entry, text.into_bytes())];
        if let Some(icon) = &menu.icon {
            let place =
                icon.place(&menu.id).ok_or_else(|| unusable("its icon has no known size".to_owned()))?;
            files.push(file(Kind::Icon, data.join(place), icon.bytes.clone()));
        }
        Ok(Order {
            name: menu.id.clone(),
            binary: self.file.clone(),
            choices: Choices::default(),
            files,
            defaults: None,
            force: false,
        })
    }

    /// Whether this file is the one that a list is about: it is there, or it was moved since.
    fn is_mine(&self, manifest: &Manifest) -> bool {
        let is_named = self.menu.is_some_and(|menu| menu.id == manifest.name);
        manifest.binary == self.file || (is_named && !manifest.binary.exists())
    }

    /// What was made for this file. A list that can't be read concerns only its own package.
    fn mine(&self) -> impl Iterator<Item = (String, Manifest)> {
        let names = self.store.names().unwrap_or_default().into_iter();
        let lists = names.filter_map(|name| {
            let manifest = self.store.read(&name).ok().flatten()?;
            Some((name, manifest))
        });
        lists.filter(|(_name, manifest)| self.is_mine(manifest))
    }

    /// A palisade of this host may have made a file of the same name for a profile.
    fn look_for_profiles(&self, order: &Order) -> Result<(), InstallError> {
        let store = self.store.of_profiles();
        for name in store.names().unwrap_or_default() {
            let Ok(Some(manifest)) = store.read(&name) else { continue };
            if let Some(taken) = order.files.iter().find(|wanted| manifest.file(&wanted.path).is_some()) {
                return Err(InstallError::Taken { path: taken.path.clone(), by: name });
            }
        }
        Ok(())
    }

    /// Menus look for new icons when the theme's directory has a new time.
    fn touch_theme(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        let theme = Directories::of(self.facts).data.join("icons/hicolor");
        let _not_there = rustix::fs::utimensat(CWD, &theme, &now, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// The package's entry, with the package's file in every `Exec`. It is read again, and only what is understood is written:
/// another program than Palisade may have made the package.
fn rewritten(menu: &Menu, name: &str, program: &Path, binary: &Binary) -> Result<String, EntryError> {
    let application =
        Application { name: name.to_owned(), programs: vec![program.to_owned()], ..Application::default() };
    // The program is recognised by its path alone: nothing of this host is the application's.
    let programs = Programs::new(&Environment::empty(), Path::new(""), vec![program.to_owned()]);
    let entry = Entry::parse(menu.entry.as_bytes())?;
    let found = Found { path: PathBuf::new(), relative: PathBuf::new(), bytes: Vec::new(), entry };
    let over = Override {
        application: &application,
        means: Means::Package,
        binary,
        programs: &programs,
        separate: true,
    };
    Ok(over.of(&found)?.text)
}

#[cfg(test)]
#[path = "user_menu_tests.rs"]
mod tests;
