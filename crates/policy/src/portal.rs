// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the interfaces of the desktop portal, by which applications ask the user for access.

use crate::suggest;
use crate::value::ValueError;

/// The known interfaces, by the last part of their name: `org.freedesktop.portal.FileChooser`. From
/// xdg-desktop-portal 1.20, without those for other launchers (`Flatpak`, `Registry`).
pub const PORTALS: &[&str] = &[
    "Account",
    "Background",
    "Camera",
    "Clipboard",
    "Documents",
    "DynamicLauncher",
    "Email",
    "FileChooser",
    "FileTransfer",
    "GameMode",
    "GlobalShortcuts",
    "Inhibit",
    "InputCapture",
    "Location",
    "MemoryMonitor",
    "NetworkMonitor",
    "Notification",
    "OpenURI",
    "PowerProfileMonitor",
    "Print",
    "ProxyResolver",
    "Realtime",
    "RemoteDesktop",
    "ScreenCast",
    "Screenshot",
    "Secret",
    "Settings",
    "Trash",
    "Usb",
    "Wallpaper",
];

/// The interfaces that give an application files of the user, through the documents directory.
pub const GIVE_FILES: &[&str] = &["Documents", "FileChooser", "FileTransfer", "Screenshot"];

/// Checks that an interface is known.
///
/// # Errors
/// When it isn't, with the most similar known one.
pub fn check(name: &str) -> Result<(), ValueError> {
    if PORTALS.contains(&name) {
        return Ok(());
    }
    let nearest = suggest::nearest(name, PORTALS.iter().copied());
    Err(ValueError::Portal { name: name.to_owned(), nearest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_isnt_known_is_refused_with_the_nearest_that_is() {
        assert!(PORTALS.is_sorted());
        assert!(GIVE_FILES.iter().all(|portal| check(portal).is_ok()));
        for (given, nearest) in [("FileChoser", "`FileChooser`"), ("openuri", "`OpenURI`")] {
            let error = check(given).unwrap_err();
            assert!(error.hint().unwrap().contains(nearest), "{error}");
        }
        assert!(check("Everything").unwrap_err().hint().unwrap().contains("known portals: Account, "));
    }
}
