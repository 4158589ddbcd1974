// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interfaces of the desktop portal, by which applications ask the user for what they mustn't take.

use crate::suggest;
use crate::value::ValueError;

/// Those that are known, by the last part of the interface's name: `org.freedesktop.portal.FileChooser`. Of
/// xdg-desktop-portal 1.20, without what serves other launchers (`Flatpak`, `Registry`).
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

/// Those that give an application files of the user's: through the directory of documents.
pub const GIVE_FILES: &[&str] = &["Documents", "FileChooser", "FileTransfer", "Screenshot"];

/// Whether it is one.
///
/// # Errors
/// When it isn't, with the nearest that is.
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
