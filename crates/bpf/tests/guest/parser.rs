// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gets AppArmor's compiler of profiles, 4.0 or newer: older ones have no rules for user namespaces. It is the machine's own, or
//! that of Debian 13 with its C library, unpacked into `target/guest` and installed nowhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::directory;

/// The directory of the compiler and its libraries in the guest.
pub(crate) const INSIDE: &str = "/parser";
/// The loader in that directory.
pub(crate) const LOADER: &str = "ld-linux-x86-64.so.2";
/// The program in that directory, and where hosts have it.
pub(crate) const PARSER: &str = "apparmor_parser";
/// The features that a profile may name.
const ABI: &str = "/etc/apparmor.d/abi/4.0";

/// Fetches both packages of a release, by the host's own server of packages and with the host's keys. The host's
/// configuration, lists and packages stay as they are.
const FETCH: &str = r#"
set -e
mkdir -p lists/partial cache/archives/partial none
server=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
[ -n "$server" ] || server=$(sed -n 's/^deb  *\(\[[^]]*\]  *\)\{0,1\}\([^ ]*\).*/\2/p' /etc/apt/sources.list | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $server trixie main" >sources.list
: >status
own() {
    apt-get -qq -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts="$PWD/none" -o Dir::Etc::preferencesparts="$PWD/none" \
        -o Dir::State::lists="$PWD/lists" -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD/cache" "$@"
}
own update
own download apparmor libc6
for package in *.deb; do
    dpkg-deb -x "$package" unpacked
done
rm -rf lists cache ./*.deb
"#;

/// The files for the guest: their paths there, and where they are on this machine.
pub(crate) fn files() -> Result<Vec<(PathBuf, PathBuf)>, String> {
    if let Some(own) = own() {
        return own;
    }
    let place = directory().join("apparmor");
    if !place.exists() {
        // Under another name until everything is there, because a run may be stopped here.
        let partly = directory().join(format!("apparmor.{}", std::process::id()));
        fs::create_dir_all(&partly).map_err(|error| format!("make {}: {error}", partly.display()))?;
        let output = Command::new("sh").args(["-c", FETCH]).current_dir(&partly).output();
        let output = output.map_err(|error| format!("fetch {PARSER}: {error}"))?;
        if !output.status.success() {
            let _ = fs::remove_dir_all(&partly);
            return Err(format!("fetch {PARSER}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        fs::rename(&partly, &place).map_err(|error| format!("move to {}: {error}", place.display()))?;
    }
    let unpacked = place.join("unpacked");
    let first = |paths: &[&str]| {
        let mut found = paths.iter().map(|path| unpacked.join(path)).filter(|path| path.exists());
        found.next().ok_or_else(|| format!("{} has none of {paths:?}", unpacked.display()))
    };
    let mut files = vec![
        (inside(PARSER), first(&["usr/sbin/apparmor_parser", "sbin/apparmor_parser"])?),
        (ABI.into(), first(&["etc/apparmor.d/abi/4.0"])?),
    ];
    for library in [LOADER, "libc.so.6"] {
        let places = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib64", "lib64"];
        let paths = places.map(|place| format!("{place}/{library}"));
        files.push((inside(library), first(&paths.each_ref().map(String::as_str))?));
    }
    Ok(files)
}

fn inside(name: &str) -> PathBuf {
    Path::new(INSIDE).join(name)
}

/// The machine's own, if it is new enough.
fn own() -> Option<Result<Vec<(PathBuf, PathBuf)>, String>> {
    let parser = ["/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    if !Path::new(ABI).exists() {
        return None;
    }
    let libraries = match crate::archive::libraries(Path::new(parser)) {
        Ok(libraries) => libraries,
        Err(error) => return Some(Err(format!("ldd {parser}: {error}"))),
    };
    let mut files = vec![(inside(PARSER), parser.into()), (ABI.into(), ABI.into())];
    for library in libraries {
        files.push((inside(&library.file_name()?.to_string_lossy()), library));
    }
    Some(Ok(files))
}

/// Becomes the compiler, which has libraries of its own.
pub(crate) fn execute(arguments: &[String]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    let path = |name: &str| format!("{INSIDE}/{name}");
    Command::new(path(LOADER)).args(["--library-path", INSIDE, &path(PARSER)]).args(arguments).exec()
}
