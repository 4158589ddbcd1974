// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds what a package contains for menus: the desktop entry and the icon that the application has on this host.

use crate::application::{Application, is_id};
use crate::command::{Binary, BinaryError, Means};
use crate::entry::EntryError;
use crate::exec::{self, Invocation, Piece};
use crate::icon::{self, Icon};
use crate::note::Lost;
use crate::overrides::{Override, file_part};
use crate::programs::Programs;
use crate::search::{self, Found, SearchError};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::Loaded;
use std::path::{Path, PathBuf};

/// What a package contains for menus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    /// The desktop entry's id, which its file and its icon are named by.
    pub id: String,
    /// The desktop entry. It starts the program that is in the package.
    pub entry: String,
    /// The icon.
    pub icon: Option<Icon>,
}

/// Why the application's desktop entry isn't taken along.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// It can't be used.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// It can't start the program.
    #[error(transparent)]
    Program(#[from] BinaryError),
}

/// What was found for menus, and what of the entry is left out.
#[derive(Debug)]
pub struct Taken {
    /// What the package gets.
    pub menu: Menu,
    /// What the system's entry has and this one lacks.
    pub lost: Vec<Lost>,
}

/// What a package of a profile gets for menus. `program` is the program that is packed. `is_other`: it isn't the
/// profile's, whose id therefore doesn't name its entry. `None` if the host has no entry of the program.
///
/// # Errors
/// When the host's entry can't be used.
pub fn take(
    facts: &Facts,
    name: &str,
    loaded: &Loaded,
    program: &Path,
    is_other: bool,
) -> Result<Option<Taken>, TakeError> {
    take_for(facts, Application::of(facts, name, loaded), program, is_other)
}

fn take_for(
    facts: &Facts,
    mut application: Application,
    program: &Path,
    is_other: bool,
) -> Result<Option<Taken>, TakeError> {
    let name = application.name.clone();
    // A package has one configuration at most, which the menu needn't name.
    application.configurations.clear();
    if is_other {
        application.id = None;
        application.name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    let own = facts.places.data.parent().unwrap_or(&facts.places.data);
    let system = search::data_directories(&facts.environment, own);
    let programs = Programs::new(&facts.environment, Path::new(""), vec![program.to_owned()]);
    let Some(found) = found(&system, own, &application, &programs)? else { return Ok(None) };
    let Some(id) = id(&found, &name) else { return Ok(None) };

    let directories: Vec<PathBuf> = std::iter::once(own.to_owned()).chain(system).collect();
    let main = found.entry.application().map_err(|source| unusable(&found, source))?;
    let named = main.text("Icon").filter(|icon| !icon.is_empty());
    let icon = named.as_deref().and_then(|named| icon::find(named, &directories));
    // Without a file of its own, the name of a theme's icon is left: the other host may have the theme.
    let shown = if icon.is_some() { Some(id.as_str()) } else { named.as_deref() };
    let means = Means::Program { icon: shown.filter(|shown| !shown.contains('/')) };
    let binary = Binary::new(program)?;
    let rewritten =
        Override { application: &application, means, binary: &binary, programs: &programs, separate: true };
    let rewritten = rewritten.of(&found).map_err(|source| unusable(&found, source))?;
    Ok(Some(Taken { menu: Menu { id, entry: rewritten.text, icon }, lost: rewritten.lost }))
}

fn unusable(found: &Found, source: EntryError) -> TakeError {
    SearchError::Entry { path: found.path.clone(), source }.into()
}

/// The entry that represents the application. The system's come first: the user's own may be about this user's files only,
/// and other users get the package.
fn found(
    system: &[PathBuf],
    own: &Path,
    application: &Application,
    programs: &Programs,
) -> Result<Option<Found>, SearchError> {
    for directories in [system, &[own.to_owned()]] {
        let main = search::entries(directories, application, programs)?.main;
        let fits = |found: &Found| is_named(found, application) || starts_only(found, programs);
        let given = |found: &Found| icon::for_everybody(&found.path, crate::entry::LARGEST).is_some();
        if let Some(found) = main.filter(|found| fits(found) && given(found)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The id by which the desktop knows an entry's file.
fn stem(found: &Found) -> Option<String> {
    let file = found.relative.to_str()?.replace('/', "-");
    Some(file.strip_suffix(".desktop")?.to_owned())
}

fn is_named(found: &Found, application: &Application) -> bool {
    let stem = stem(found);
    stem.as_ref() == Some(&application.name) || (stem.is_some() && stem == application.id)
}

/// Whether an entry starts the program without arguments of its own, but for files. With some, it may be an entry of a
/// script, in a package of the script's interpreter.
fn starts_only(found: &Found, programs: &Programs) -> bool {
    let words = found.entry.application().ok().and_then(|main| exec::split(main.raw("Exec")?).ok());
    let invocation = words.and_then(|words| Invocation::of(&words, |word| programs.is_program(word)));
    let text = |piece: &Piece| matches!(piece, Piece::Text(_));
    invocation.is_some_and(|found| !found.words().iter().any(|word| word.0.iter().any(text)))
}

/// The id that a package's entry gets: the entry's own, if a file can have that name everywhere.
fn id(found: &Found, name: &str) -> Option<String> {
    let own = stem(found)?;
    let part = file_part(&own);
    [own, part, format!("palisade-{}", file_part(name))].into_iter().find(|id| is_id(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_host::environment::Environment;

    /// What is taken from a host with these files below its directories of data.
    fn taken(files: &[(&str, &str)], is_other: bool) -> Result<Option<Taken>, TakeError> {
        let root = tempfile::tempdir().unwrap();
        let path = |below: &str| root.path().canonicalize().unwrap().join(below);
        for (below, text) in files {
            std::fs::create_dir_all(path(below).parent().unwrap()).unwrap();
            std::fs::write(path(below), text).unwrap();
        }
        let environment = Environment::from_iter([
            ("HOME", path("home")),
            ("PATH", "/none".into()),
            ("XDG_DATA_HOME", path("own")),
            ("XDG_DATA_DIRS", path("share")),
        ]);
        let facts = Facts::gather(environment, "/".into()).unwrap();
        let application = Application { name: "app".into(), ..Application::default() };
        take_for(&facts, application, Path::new("/usr/bin/prog"), is_other)
    }

    fn entry(more: &str) -> String {
        format!("[Desktop Entry]\nType=Application\nName=X\n{more}\n")
    }

    #[test]
    fn the_entry_starts_the_packed_program_and_says_nothing_of_this_host() {
        let text = entry(
            "Icon=x\nIcon[de]=y\nPath=/srv\nTryExec=prog\nDBusActivatable=true\nMimeType=a/b;\nExec=env A=b prog --new %U\nActions=n;o;\n[Desktop Action n]\nName=N\nIcon=/srv/n.png\nExec=prog -n\n[Desktop Action o]\nName=O\nIcon=o\nExec=other",
        );
        let icon = ("own/icons/hicolor/scalable/apps/x.svg", "<svg/>");
        let found = taken(&[("share/applications/kde/app.desktop", ""), icon], false);
        assert!(found.unwrap().is_none(), "it is named kde-app");
        let found = taken(&[("share/applications/app.desktop", &text), icon], false).unwrap().unwrap();
        let expected = "[Desktop Entry]\nType=Application\nName=X\nMimeType=a/b;\nExec=/usr/bin/prog --new %U\nIcon=app\nActions=n;\n\n[Desktop Action n]\nName=N\nExec=/usr/bin/prog -n\n";
        assert_eq!((found.menu.id.as_str(), found.menu.entry.as_str()), ("app", expected));
        assert_eq!(found.menu.icon, Some(Icon { size: None, bytes: b"<svg/>".to_vec() }));
        assert_eq!(found.lost, [Lost::Exec("env A=b prog --new %U".into()), Lost::Action("o".into())]);
        // Without its file, the icon of a theme is left, and one at a path isn't.
        let found = taken(&[("share/applications/app.desktop", &text)], false).unwrap().unwrap();
        assert!(found.menu.entry.contains("\nIcon=x\n") && found.menu.icon.is_none(), "{found:?}");
        let text = entry("Icon=/srv/x.png\nExec=prog");
        let found = taken(&[("share/applications/app.desktop", &text)], false).unwrap().unwrap();
        assert!(!found.menu.entry.contains("Icon"), "{found:?}");
    }

    #[test]
    fn an_entry_of_something_else_is_not_taken() {
        let id =
            |files: &[(&str, &str)], is_other| taken(files, is_other).unwrap().map(|taken| taken.menu.id);
        let script = entry("Exec=/usr/bin/prog /usr/share/script.py %U");
        assert_eq!(id(&[("share/applications/a.desktop", &script)], false), None);
        let alone = entry("Exec=prog %U");
        assert_eq!(id(&[("share/applications/sub/a b.desktop", &alone)], false), Some("sub-a_20b".into()));
        // The profile's own entry isn't that of another program.
        let named = entry("Exec=other");
        let files = [("share/applications/app.desktop", named.as_str())];
        assert_eq!(id(&files, false), Some("app".into()));
        assert_eq!(id(&files, true), None);
        let files = [("share/applications/prog.desktop", script.as_str())];
        assert_eq!(id(&files, true), Some("prog".into()));
        // The user's own entry counts after the system's, and what Palisade has made doesn't.
        let marked = entry("Exec=prog\nX-Palisade-Profile=app");
        let files =
            [("own/applications/app.desktop", marked.as_str()), ("share/applications/z.desktop", &alone)];
        assert_eq!(id(&files, false), Some("z".into()));
        assert_eq!(id(&files[..1], false), None);
        assert_eq!(id(&[("own/applications/app.desktop", &alone)], false), Some("app".into()));
    }

    #[test]
    fn an_entry_that_cannot_be_used_is_named() {
        let error = taken(&[("share/applications/app.desktop", &entry(""))], false).unwrap_err().to_string();
        assert!(error.contains("app.desktop") && error.contains("no Exec"), "{error}");
    }
}
