// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the system's files for an application: its desktop entry, and services of the session bus that start it.

use crate::application::Application;
use crate::entry::{Entry, EntryError, LARGEST};
use crate::exec::{self, Invocation, Piece};
use crate::programs::Programs;
use palisade_host::environment::Environment;
use palisade_host::file::{self, FileError, Links};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The key that marks Palisade's own entries.
pub(crate) const MARK: &str = "X-Palisade-Profile";
/// The group of a service file.
const SERVICE: &str = "D-BUS Service";
/// How deep entries may lie below `applications`. Directories there are part of an entry's id; systems use one level only.
const DEEPEST: usize = 4;
/// At most this many files are considered. Systems have some hundreds.
const MOST: usize = 20_000;

/// A file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// It can't be read.
    #[error("can't read the application's desktop entry: {0}")]
    Read(#[from] FileError),
    /// It isn't understood.
    #[error("can't use the application's desktop entry {path:?}: {source}")]
    Entry {
        /// The file.
        path: PathBuf,
        /// Why.
        source: EntryError,
    },
}

/// A desktop entry of the system's.
#[derive(Debug)]
pub(crate) struct Found {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its place below `applications`.
    pub(crate) relative: PathBuf,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
    /// The content, parsed.
    pub(crate) entry: Entry,
}

/// The desktop entries of an application.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// The entry that represents the application.
    pub(crate) main: Option<Found>,
    /// Others that start its program.
    pub(crate) others: Vec<Found>,
}

/// A service of the session bus.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Service {
    /// Its name on the bus.
    pub(crate) bus_name: String,
    /// The file.
    pub(crate) path: PathBuf,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
    /// What its program is started with.
    pub(crate) arguments: Vec<String>,
}

/// The system's directories of data, best first, without the user's own.
pub(crate) fn data_directories(environment: &Environment, own: &Path) -> Vec<PathBuf> {
    let mut directories = environment.absolute_list("XDG_DATA_DIRS");
    if environment.get("XDG_DATA_DIRS").is_none() {
        directories = vec!["/usr/local/share".into(), "/usr/share".into()];
    }
    let own = (own.to_owned(), own.canonicalize().ok());
    directories.retain(|directory| {
        *directory != own.0 && (own.1.is_none() || directory.canonicalize().ok() != own.1)
    });
    directories
}

/// The application's entries. The entry with the application's id or name must be usable. An entry that only starts its
/// program is skipped if it isn't usable.
pub(crate) fn entries(
    directories: &[PathBuf],
    application: &Application,
    programs: &Programs,
) -> Result<Entries, SearchError> {
    let mut candidates = candidates(directories, "applications", "desktop");
    let names = application.id.iter().chain([&application.name]);
    let ids: Vec<String> = names.map(|name| format!("{name}.desktop")).collect();
    let mut main = None;
    for id in &ids {
        if let Some(at) = candidates.iter().position(|candidate| candidate.id == *id) {
            main = read(&candidates.remove(at))?;
            if main.is_some() {
                break;
            }
        }
    }
    let mut others: Vec<(Rank, Found)> = Vec::new();
    for candidate in &candidates {
        if let Ok(Some(found)) = read(candidate)
            && let Some(rank) = Rank::of(&found.entry, programs)
        {
            others.push((rank, found));
        }
    }
    // The sort is stable: among equal ranks the best directory comes first, then the id.
    others.sort_by(|(a, _found), (b, _other)| a.cmp(b));
    let mut others = others.into_iter().map(|(_rank, found)| found);
    if main.is_none() {
        main = others.next();
    }
    Ok(Entries { main, others: others.collect() })
}

/// Entries come first that are for people, and that start the program rather than one of its functions.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    hidden: bool,
    arguments: usize,
}

impl Rank {
    fn of(entry: &Entry, programs: &Programs) -> Option<Self> {
        let main = entry.application().ok()?;
        let words = exec::split(main.raw("Exec")?).ok()?;
        let found = Invocation::of(&words, |word| programs.is_program(word))?;
        let text = |word: &exec::Word| word.0.iter().any(|piece| matches!(piece, Piece::Text(_)));
        programs.is_program(&found.program).then(|| Self {
            hidden: main.flag("NoDisplay"),
            arguments: found.words().iter().filter(|word| text(word)).count(),
        })
    }
}

/// A file that may be read.
#[derive(Debug)]
struct Candidate {
    id: String,
    path: PathBuf,
    relative: PathBuf,
}

/// The files with that ending, by directory and name. Of several files with one id only the first counts, as on the desktop.
fn candidates(directories: &[PathBuf], below: &str, ending: &str) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut known = BTreeSet::new();
    for directory in directories {
        let top = directory.join(below);
        let mut found = Vec::new();
        walk(&top, Path::new(""), ending, DEEPEST, &mut found);
        found.sort();
        for relative in found {
            let Some(id) = relative.to_str().map(|relative| relative.replace('/', "-")) else { continue };
            if known.len() < MOST && known.insert(id.clone()) {
                all.push(Candidate { id, path: top.join(&relative), relative });
            }
        }
    }
    all
}

fn walk(top: &Path, below: &Path, ending: &str, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(names) = std::fs::read_dir(top.join(below)) else { return };
    for name in names.filter_map(Result::ok) {
        if found.len() >= MOST {
            return;
        }
        let relative = below.join(name.file_name());
        if relative.extension().is_some_and(|extension| extension == ending) {
            found.push(relative);
        } else if depth > 1 && name.path().is_dir() {
            walk(top, &relative, ending, depth - 1, found);
        }
    }
}

/// Reads an entry. `None` if it isn't one of the system's: it is marked as deleted, or it is Palisade's own.
fn read(candidate: &Candidate) -> Result<Option<Found>, SearchError> {
    let bytes = file::read(&candidate.path, LARGEST, Links::Follow)?;
    let failed = |source| SearchError::Entry { path: candidate.path.clone(), source };
    let entry = Entry::parse(&bytes).map_err(failed)?;
    let main = entry.application().map_err(failed)?;
    if main.flag("Hidden") || main.raw(MARK).is_some() {
        return Ok(None);
    }
    Ok(Some(Found { path: candidate.path.clone(), relative: candidate.relative.clone(), bytes, entry }))
}

/// The services of the session bus that are the application: its id names them, or they start its program.
pub(crate) fn services(
    directories: &[PathBuf],
    application: &Application,
    programs: &Programs,
) -> Vec<Service> {
    let mut directories = directories.to_vec();
    // The bus looks there, whatever the variable says.
    let built_in = PathBuf::from("/usr/share");
    if !directories.contains(&built_in) {
        directories.push(built_in);
    }
    let mut services = Vec::new();
    let mut taken = BTreeSet::new();
    for candidate in candidates(&directories, "dbus-1/services", "service") {
        // The bus doesn't look into subdirectories.
        if candidate.relative.components().count() != 1 {
            continue;
        }
        let Ok(bytes) = file::read(&candidate.path, LARGEST, Links::Follow) else { continue };
        let Ok(entry) = Entry::parse(&bytes) else { continue };
        let Some(group) = entry.group(SERVICE) else { continue };
        let Some(bus_name) = group.text("Name").filter(|name| is_bus_name(name)) else { continue };
        // If two files claim one name, the bus takes the first.
        if !taken.insert(bus_name.clone()) {
            continue;
        }
        let Some(Ok(words)) = group.raw("Exec").map(exec::split) else { continue };
        let Some(found) = Invocation::of(&words, |word| programs.is_program(word)) else { continue };
        if programs.is_program(&found.program) || application.id.as_ref() == Some(&bus_name) {
            let arguments = if found.opaque { Vec::new() } else { found.arguments };
            services.push(Service { bus_name, path: candidate.path, bytes, arguments });
        }
    }
    services
}

fn is_bus_name(name: &str) -> bool {
    name.contains('.') && crate::application::is_id(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Share {
        root: tempfile::TempDir,
    }

    impl Share {
        fn new() -> Self {
            Self { root: tempfile::tempdir().unwrap() }
        }

        fn directories(&self) -> Vec<PathBuf> {
            vec![self.root.path().join("local"), self.root.path().join("share")]
        }

        fn write(&self, path: &str, text: impl AsRef<[u8]>) {
            let path = self.root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn application(&self, path: &str, more: &str) {
            self.write(path, format!("[Desktop Entry]\nType=Application\nName=x\n{more}\n"));
        }
    }

    fn programs() -> Programs {
        Programs::new(&Environment::from_iter([("PATH", "/none")]), Path::new("/p"), vec!["app".into()])
    }

    fn application(id: Option<&str>) -> Application {
        Application { name: "name".into(), id: id.map(str::to_owned), ..Application::default() }
    }

    fn main(share: &Share, id: Option<&str>) -> Option<PathBuf> {
        let found = entries(&share.directories(), &application(id), &programs()).unwrap();
        found.main.map(|main| main.relative)
    }

    #[test]
    fn the_id_goes_before_the_name_and_that_before_the_program() {
        let share = Share::new();
        assert_eq!(main(&share, None), None);
        share.application("share/applications/z.desktop", "Exec=app --other %U");
        share.application("share/applications/y.desktop", "Exec=app %U\nNoDisplay=true");
        share.application("share/applications/sub/x.desktop", "Exec=/usr/bin/app %U");
        share.application("share/applications/else.desktop", "Exec=else");
        assert_eq!(main(&share, Some("org.x")), Some("sub/x.desktop".into()));
        share.application("share/applications/name.desktop", "Exec=whatever");
        assert_eq!(main(&share, Some("org.x")), Some("name.desktop".into()));
        share.application("share/applications/org.x.desktop", "Exec=whatever");
        assert_eq!(main(&share, Some("org.x")), Some("org.x.desktop".into()));
        let all = entries(&share.directories(), &application(Some("org.x")), &programs()).unwrap();
        let others: Vec<PathBuf> = all.others.into_iter().map(|found| found.relative).collect();
        assert_eq!(others, ["sub/x.desktop", "z.desktop", "y.desktop"].map(PathBuf::from));
    }

    #[test]
    fn the_first_directory_counts() {
        let share = Share::new();
        share.application("share/applications/name.desktop", "Exec=a");
        share.application("local/applications/name.desktop", "Exec=b\nHidden=true");
        assert_eq!(main(&share, None), None, "what is said to be deleted is");
        share.application("local/applications/name.desktop", "Exec=b");
        let found = entries(&share.directories(), &application(None), &programs()).unwrap();
        assert!(found.main.unwrap().path.starts_with(share.root.path().join("local")));
    }

    #[test]
    fn a_named_file_that_cannot_be_used_is_an_error_and_another_is_passed_over() {
        let share = Share::new();
        share.write("share/applications/a.desktop", b"[Desktop Entry]\nType=Application\nExec=app \xff\n");
        share.write("share/applications/b.desktop", vec![b'x'; LARGEST + 1]);
        assert_eq!(main(&share, None), None);
        share.write("share/applications/name.desktop", vec![b'x'; LARGEST + 1]);
        let error = entries(&share.directories(), &application(None), &programs()).unwrap_err();
        assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
    }

    #[test]
    fn links_in_a_circle_end() {
        let share = Share::new();
        share.application("share/applications/sub/name.desktop", "Exec=app");
        let top = share.root.path().join("share/applications");
        std::os::unix::fs::symlink(&top, top.join("sub/again")).unwrap();
        std::os::unix::fs::symlink("name.desktop", top.join("name.desktop")).unwrap();
        assert!(entries(&share.directories(), &application(None), &programs()).is_err(), "a link to itself");
    }

    #[test]
    fn services_are_those_of_the_id_or_the_program() {
        let share = Share::new();
        let service = |path: &str, name: &str, exec: &str| {
            share.write(
                path,
                format!("[D-BUS Service]\nName={name}\nExec={exec}\nSystemdService=x.service\n"),
            );
        };
        service("share/dbus-1/services/a.service", "org.x", "/usr/libexec/xd --daemon");
        service("share/dbus-1/services/b.service", "org.b", "/usr/bin/app --gapplication-service '50%'");
        service("share/dbus-1/services/c.service", "org.c", "/usr/bin/else");
        service("share/dbus-1/services/d.service", "../d", "/usr/bin/app");
        service("local/dbus-1/services/e.service", "org.e", "/usr/bin/else");
        service("share/dbus-1/services/e.service", "org.e", "/usr/bin/app");
        let found = services(&share.directories(), &application(Some("org.x")), &programs());
        let seen: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|service| {
                (service.bus_name.as_str(), service.arguments.iter().map(String::as_str).collect())
            })
            .collect();
        assert_eq!(seen, [("org.x", vec!["--daemon"]), ("org.b", vec!["--gapplication-service", "50%"])]);
    }

    #[test]
    fn the_users_own_directory_is_none_of_the_systems() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&own, root.path().join("link")).unwrap();
        let list = format!("{0}/own:{0}/link:/usr/share:relative", root.path().display());
        let found = data_directories(&Environment::from_iter([("XDG_DATA_DIRS", list)]), &own);
        assert_eq!(found, [PathBuf::from("/usr/share")]);
        assert_eq!(data_directories(&Environment::empty(), &own).len(), 2);
    }
}
