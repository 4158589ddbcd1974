// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profile of AppArmor that allows a program user namespaces: its name, its file and its text.

use std::path::{Path, PathBuf};

/// The directory of AppArmor's profiles.
pub(super) const DIRECTORY: &str = "/etc/apparmor.d";
/// The profile that packages of Palisade ship.
const SHIPPED: &str = include_str!("../../../../packaging/apparmor/palisade");
/// The program of that profile.
const PACKAGED: &str = "/usr/bin/palisade";
/// The first line of a profile that this verb has written.
const MARK: &str = "# Written by `palisade setup`; `palisade setup --undo` takes it away.";
/// Begins the line that names the copy that was installed with the profile: path, size, and time of the last change.
const INSTALLED: &str = "# Installed with it: ";

/// A program as this verb has installed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    /// Where.
    pub(super) path: PathBuf,
    /// Its size in bytes.
    pub(super) size: u64,
    /// When it was changed, in seconds since 1970.
    pub(super) changed: i64,
}

/// A profile for one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) text: String,
}

impl Profile {
    /// The profile for the program at `path`. `None`: the path has characters that a profile can't have.
    pub(super) fn new(path: &Path, installed: Option<&Installed>) -> Option<Self> {
        let path = path.to_str().filter(|path| is_plain(path))?;
        let name = name(path);
        let allowing = SHIPPED
            .replace(&format!("profile palisade {PACKAGED} "), &format!("profile {name} {path} "))
            .replace("<local/palisade>", &format!("<local/{name}>"));
        let installed = installed.map_or_else(String::new, |installed| {
            format!("{INSTALLED}{} {} {}\n", installed.path.display(), installed.size, installed.changed)
        });
        let file = Path::new(DIRECTORY).join(&name);
        Some(Self { text: format!("{MARK}\n{installed}{allowing}"), name, file })
    }

    /// The profile of a file that this verb has written, with the program that was installed with it. `None`: another
    /// wrote the file.
    pub(super) fn read(file: &Path, text: &str) -> Option<(Self, Option<Installed>)> {
        let rest = text.strip_prefix(MARK)?.strip_prefix('\n')?;
        let name = file.file_name()?.to_str()?.to_owned();
        let installed = rest.strip_prefix(INSTALLED).and_then(|line| {
            let mut words = line.lines().next()?.rsplitn(3, ' ');
            let (changed, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Installed { path: words.next()?.into(), size, changed })
        });
        Some((Self { name, file: file.to_owned(), text: text.to_owned() }, installed))
    }
}

/// Whether the path means itself in a profile, without quotes: no pattern, no variable, no white space.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte))
}

/// A name that only this path has, and that is a file's name.
fn name(path: &str) -> String {
    if path == PACKAGED {
        return "palisade".to_owned();
    }
    let mut name = "palisade-".to_owned();
    for character in path.trim_start_matches('/').chars() {
        match character {
            '/' => name.push('.'),
            '.' | '_' | '+' => name.push_str(&format!("_{:02x}", u32::from(character))),
            other => name.push(other),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_own_path_has_the_shipped_profile() {
        let profile = Profile::new(Path::new(PACKAGED), None).unwrap();
        assert_eq!(profile.name, "palisade");
        assert_eq!(profile.text, format!("{MARK}\n{SHIPPED}"));
    }

    #[test]
    fn another_path_has_a_name_of_its_own() {
        let named = |path: &str| Profile::new(Path::new(path), None).unwrap().name;
        assert_eq!(named("/usr/local/bin/palisade"), "palisade-usr.local.bin.palisade");
        assert_ne!(named("/opt/a.b/palisade"), named("/opt/a/b/palisade"));
        assert_ne!(named("/opt/a_2eb/palisade"), named("/opt/a.b/palisade"));
        let text = Profile::new(Path::new("/opt/a.b/palisade"), None).unwrap().text;
        assert!(
            text.contains("\nprofile palisade-opt.a_2eb.palisade /opt/a.b/palisade flags=(unconfined) {\n")
        );
        assert!(text.contains("<local/palisade-opt.a_2eb.palisade>") && !text.contains("<local/palisade>"));
    }

    #[test]
    fn a_path_with_a_meaning_of_its_own_has_no_profile() {
        for path in
            ["/opt/a b/palisade", "/opt/*/palisade", "/opt/@{HOME}/p", "/opt/a\n}/p", "opt/p", "/opt/\"/p"]
        {
            assert_eq!(Profile::new(Path::new(path), None), None, "{path:?}");
        }
    }

    #[test]
    fn what_was_written_is_recognised() {
        let installed = Installed { path: "/usr/local/bin/palisade".into(), size: 12, changed: -3 };
        for installed in [None, Some(installed)] {
            let profile = Profile::new(Path::new("/usr/local/bin/palisade"), installed.as_ref()).unwrap();
            assert_eq!(Profile::read(&profile.file, &profile.text), Some((profile.clone(), installed)));
        }
        assert_eq!(Profile::read(Path::new("/etc/apparmor.d/palisade"), SHIPPED), None);
    }
}
