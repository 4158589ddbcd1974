// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The menu entry of a package: what is packed of this host's, and what a packed program makes of it for its user. The
//! crate `palisade_desktop` reads and makes the files.

use crate::desktop::words;
use crate::output;
use palisade::Situation;
use palisade_desktop::menu::{self, Menu};
use palisade_desktop::note::Note;
use palisade_desktop::user_menu::{MenuError, UserMenu};
use palisade_package::manifest::Manifest;
use palisade_package::menu as packed;
use palisade_sandbox::facts::Facts;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the package of a profile gets for menus. Without a usable entry the package is made without one.
pub(crate) fn take(
    situation: &Situation,
    name: &str,
    program: &Path,
    is_other: bool,
    notes: &mut Vec<String>,
) -> Option<packed::Menu> {
    let taken = match menu::take(&situation.facts, name, &situation.loaded, program, is_other) {
        Ok(taken) => taken?,
        Err(error) => {
            notes.push(format!("the package has no menu entry: {error}"));
            return None;
        }
    };
    notes.extend(taken.lost.into_iter().map(|lost| words::note(&Note::Lost(lost))));
    let Menu { id, entry, icon } = taken.menu;
    let icon = icon.map(|icon| packed::Icon { size: icon.size, bytes: icon.bytes });
    Some(packed::Menu { id, entry, icon })
}

/// What a package has for menus, for the crate that makes the files.
fn of(manifest: &Manifest) -> Option<Menu> {
    let packed::Menu { id, entry, icon } = manifest.menu.clone()?;
    let icon = icon.map(|icon| palisade_desktop::Icon { size: icon.size, bytes: icon.bytes });
    Some(Menu { id, entry, icon })
}

/// Puts this package into the user's menu.
pub(crate) fn install(facts: &Facts, manifest: &Manifest) -> Result<(), MenuError> {
    let program = Path::new(OsStr::from_bytes(&manifest.program));
    let menu = of(manifest);
    let menu = UserMenu::of(facts, menu.as_ref())?;
    let outcome = menu.install(&manifest.name, program)?;
    output::say(&words::outcome(&manifest.name, "in the menu", &outcome));
    if let Some(covered) = menu.covered() {
        output::note(&format_args!("menus show it instead of {covered:?}"));
    }
    Ok(())
}

/// Takes this package out of the user's menu.
pub(crate) fn remove(facts: &Facts, manifest: &Manifest) -> Result<(), MenuError> {
    match UserMenu::of(facts, of(manifest).as_ref())?.remove()? {
        Some(outcome) => output::say(&words::outcome(&manifest.name, "no longer in the menu", &outcome)),
        None => output::note(&"nothing of this package was in the menu"),
    }
    Ok(())
}
