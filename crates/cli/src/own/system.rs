// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of the host's package manager: dpkg or rpm lists its file.

use super::OwnError;
use super::installation::{Installation, Program, RELEASE, with_rights};
use palisade_guard::trust::{dpkg, rpm};
use palisade_text::quoted;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const ROOT: &str = "/";

pub(super) fn find(program: &Program<'_>) -> Result<Option<Installation>, OwnError> {
    let (path, names) = (program.path.to_owned(), names(program.path));
    match of_dpkg(&names) {
        Ok(None) => {}
        Ok(Some(package)) => return Ok(Some(by_dpkg(&package))),
        Err(source) => return Err(OwnError::Dpkg { path, source }),
    }
    let package = of_rpm(&names).map_err(|source| OwnError::Rpm { path, source })?;
    Ok(package.map(|package| by_rpm(&package)))
}

/// The path, and the one that a package has for it that was built before `/bin` was a link to `/usr/bin`.
fn names(path: &Path) -> Vec<PathBuf> {
    let older = path.strip_prefix("/usr").ok().map(|rest| Path::new(ROOT).join(rest));
    std::iter::once(path.to_owned()).chain(older).collect()
}

fn is_one_of(names: &[PathBuf], path: &[u8]) -> bool {
    names.iter().any(|name| name.as_os_str().as_bytes() == path)
}

fn of_dpkg(names: &[PathBuf]) -> Result<Option<String>, dpkg::Error> {
    let database = match dpkg::Database::open(Path::new(ROOT)) {
        Err(dpkg::Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    for name in names {
        if let Some(package) = database.owner(name.as_os_str().as_bytes())? {
            return Ok(Some(text(&package.name)));
        }
    }
    Ok(None)
}

fn of_rpm(names: &[PathBuf]) -> Result<Option<String>, rpm::Error> {
    let Some(database) = rpm::find(Path::new(ROOT))? else { return Ok(None) };
    let mut found = None;
    rpm::packages(&database, |package| {
        if package.files.iter().any(|file| is_one_of(names, &file.path)) {
            found = Some(text(&package.name));
        }
        Ok::<_, rpm::Error>(())
    })?;
    Ok(found)
}

fn text(name: &[u8]) -> String {
    OsStr::from_bytes(name).to_string_lossy().into_owned()
}

fn by_dpkg(package: &str) -> Installation {
    let end = format!("   # FILE: the newest .deb, {RELEASE}");
    let name = quoted(package);
    let (update, remove) = if has("apt-get") {
        (format!("apt-get install ./FILE{end}"), format!("apt-get remove {name}"))
    } else {
        (format!("dpkg --install FILE{end}"), format!("dpkg --remove {name}"))
    };
    let database = Path::new("/var/lib/dpkg");
    Installation::new(
        "dpkg",
        format!("by dpkg, as the package {package}"),
        with_rights(database, update),
        with_rights(database, remove),
    )
}

fn by_rpm(package: &str) -> Installation {
    let end = format!("   # FILE: the newest .rpm, {RELEASE}");
    let name = quoted(package);
    let (update, remove) = if has("dnf") {
        (format!("dnf install ./FILE{end}"), format!("dnf remove {name}"))
    } else if has("zypper") {
        (format!("zypper install ./FILE{end}"), format!("zypper remove {name}"))
    } else {
        (format!("rpm --upgrade FILE{end}"), format!("rpm --erase {name}"))
    };
    let database = Path::new("/usr/lib/sysimage/rpm");
    Installation::new(
        "rpm",
        format!("by rpm, as the package {package}"),
        with_rights(database, update),
        with_rights(database, remove),
    )
}

fn has(program: &str) -> bool {
    Path::new("/usr/bin").join(program).is_file()
}
