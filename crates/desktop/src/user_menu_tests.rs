// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::icon::Icon;
use std::os::unix::fs::symlink;

/// A user's home. Two packages lie beside it.
struct World {
    root: tempfile::TempDir,
    facts: Facts,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        std::fs::create_dir(path.join("home")).unwrap();
        for name in ["a b.run", "other.run"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        let environment =
            Environment::from_iter([("HOME", path.join("home")), ("XDG_DATA_DIRS", path.join("share"))]);
        let facts = Facts::gather(environment, "/".into()).unwrap();
        Self { root, facts }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn install(&self, file: &str, menu: &Menu) -> Result<Outcome, MenuError> {
        UserMenu::with(&self.facts, Some(menu), self.path(file)).install("app", Path::new("/usr/bin/app"))
    }

    fn remove(&self, file: &str, menu: &Menu) -> Option<Outcome> {
        UserMenu::with(&self.facts, Some(menu), self.path(file)).remove().unwrap()
    }

    /// The names of all that is in the home.
    fn tree(&self) -> Vec<PathBuf> {
        let mut pending = vec![self.path("home")];
        let mut all = Vec::new();
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    pending.push(entry.path());
                }
                all.push(entry.path());
            }
        }
        all
    }
}

const ENTRY: &str = "\
[Desktop Entry]
Type=Application
Name=App
Icon=org.x.App
Exec=/usr/bin/app --new %U
MimeType=a/b;
Hidden=true
Actions=n;evil;

[Desktop Action n]
Name=N
Exec=/usr/bin/app -n

[Desktop Action evil]
Name=E
Exec=/bin/evil
";

fn menu() -> Menu {
    let icon = Icon { size: Some(48), bytes: b"image".to_vec() };
    Menu { id: "org.x.App".into(), entry: ENTRY.into(), icon: Some(icon) }
}

const DESKTOP: &str = "home/.local/share/applications/org.x.App.desktop";
const ICON: &str = "home/.local/share/icons/hicolor/48x48/apps/org.x.App.png";

#[test]
fn the_entry_starts_the_file_and_goes_without_a_trace() {
    let world = World::new();
    let made = world.install("a b.run", &menu()).unwrap().made;
    assert_eq!(made, [(Kind::DesktopEntry, world.path(DESKTOP)), (Kind::Icon, world.path(ICON))]);
    let file = world.path("a b.run").display().to_string();
    let expected = format!(
        "# Made by `'{file}' --palisade-menu`.\n# `'{file}' --palisade-remove-menu` removes it, unless you change it.\n\
         [Desktop Entry]\nType=Application\nName=App\nIcon=org.x.App\nMimeType=a/b;\n\
         Exec=\"{file}\" --palisade-end --new %U\nTryExec={file}\nX-Palisade-Profile=app\nActions=n;\n\n\
         [Desktop Action n]\nName=N\nExec=\"{file}\" --palisade-end -n\n"
    );
    assert_eq!(std::fs::read_to_string(world.path(DESKTOP)).unwrap(), expected);
    assert_eq!(std::fs::read(world.path(ICON)).unwrap(), b"image");
    let once = world.tree().len();
    world.install("a b.run", &menu()).unwrap();
    assert_eq!(world.tree().len(), once);
    // A new version of the package at the same place has no icon.
    world.install("a b.run", &Menu { icon: None, ..menu() }).unwrap();
    assert!(!world.path(ICON).exists());
    // And then it is another application's.
    let other = Menu { id: "other".into(), icon: None, ..menu() };
    assert_eq!(world.install("a b.run", &other).unwrap().removed, [world.path(DESKTOP)]);
    assert_eq!(world.remove("a b.run", &other).unwrap().removed.len(), 1);
    assert_eq!(world.tree(), Vec::<PathBuf>::new());
    assert_eq!(world.remove("a b.run", &other), None);
}

#[test]
fn a_name_leads_nowhere_else() {
    let world = World::new();
    for id in ["", "a/b", "../a", ".a", "/etc/a", "-a", "a\nb", "a b"] {
        let error = world.install("a b.run", &Menu { id: id.into(), ..menu() }).unwrap_err();
        assert!(matches!(error, MenuError::Unusable { .. }), "{id:?}: {error}");
    }
    for size in [0, 47, 1024] {
        let icon = Some(Icon { size: Some(size), bytes: Vec::new() });
        let error = world.install("a b.run", &Menu { icon, ..menu() }).unwrap_err();
        assert!(error.to_string().contains("size"), "{error}");
    }
    for entry in ["", "[Desktop Entry]\nType=Link\nExec=x", "[Desktop Entry]\nType=Application\nExec=\"x"] {
        let error = world.install("a b.run", &Menu { entry: entry.into(), ..menu() }).unwrap_err();
        assert!(error.hint().is_some() && error.to_string().contains("can't be used"), "{error}");
    }
    assert_eq!(world.tree(), Vec::<PathBuf>::new());
}

#[test]
fn files_in_the_way_stay_and_links_are_not_followed() {
    let world = World::new();
    for below in [DESKTOP, ICON] {
        let path = world.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let elsewhere = world.path("elsewhere");
        for is_link in [false, true] {
            match is_link {
                false => std::fs::write(&path, "mine").unwrap(),
                true => symlink(&elsewhere, &path).unwrap(),
            }
            let before = world.tree();
            let error = world.install("a b.run", &menu()).unwrap_err();
            assert!(error.to_string().contains("Palisade didn't make it"), "{error}");
            assert!(error.hint().unwrap().starts_with("look at it, then: mv "), "{error}");
            assert_eq!((world.tree(), elsewhere.exists()), (before, false));
            std::fs::remove_file(&path).unwrap();
        }
    }
    world.install("a b.run", &menu()).unwrap();
    // What the user has changed stays.
    std::fs::write(world.path(DESKTOP), "mine").unwrap();
    let error = world.install("a b.run", &menu()).unwrap_err();
    assert!(error.to_string().contains("it was changed"), "{error}");
    let removed = world.remove("a b.run", &menu()).unwrap();
    assert_eq!((removed.left, removed.removed), (vec![world.path(DESKTOP)], vec![world.path(ICON)]));
    assert_eq!(std::fs::read_to_string(world.path(DESKTOP)).unwrap(), "mine");
}

#[test]
fn an_entry_belongs_to_one_package_while_that_is_there() {
    let world = World::new();
    world.install("a b.run", &menu()).unwrap();
    let error = world.install("other.run", &menu()).unwrap_err();
    let file = world.path("a b.run").display().to_string();
    assert!(error.to_string().contains(&format!("starts {file:?}")), "{error}");
    assert!(error.hint().unwrap().starts_with(&format!("'{file}' --palisade-remove-menu")), "{error}");
    assert_eq!(world.remove("other.run", &menu()), None);
    assert!(world.path(DESKTOP).exists());
    // The package was moved.
    std::fs::rename(world.path("a b.run"), world.path("other.run")).unwrap();
    world.install("other.run", &menu()).unwrap();
    let entry = std::fs::read_to_string(world.path(DESKTOP)).unwrap();
    assert!(entry.contains("/other.run --palisade-end") && !entry.contains(&file), "{entry}");
    std::fs::rename(world.path("other.run"), world.path("a b.run")).unwrap();
    assert_eq!(world.remove("a b.run", &menu()).unwrap().removed.len(), 2);
}

#[test]
fn what_was_made_for_a_profile_stays() {
    let world = World::new();
    let package = UserMenu::with(&world.facts, None, world.path("a b.run"));
    let mut order = UserMenu::with(&world.facts, Some(&menu()), world.path("a b.run"))
        .order(&menu(), "app", Path::new("/usr/bin/app"))
        .unwrap();
    order.name = "of a profile".into();
    install::enable(&Disk::default(), &package.store.of_profiles(), &order).unwrap();
    let error = world.install("a b.run", &menu()).unwrap_err();
    assert_eq!(error.hint().unwrap(), "palisade desktop disable 'of a profile'");
}

#[test]
fn the_systems_entry_of_that_name_is_named() {
    let world = World::new();
    let menu = menu();
    let covered = || UserMenu::with(&world.facts, Some(&menu), world.path("a b.run")).covered();
    world.install("a b.run", &menu).unwrap();
    assert_eq!(covered(), None, "its own isn't the system's");
    let systems = world.path("share/applications/org.x.App.desktop");
    std::fs::create_dir_all(systems.parent().unwrap()).unwrap();
    std::fs::write(&systems, "").unwrap();
    assert_eq!(covered(), Some(systems));
}

#[test]
fn a_file_that_no_entry_can_name_is_refused() {
    let world = World::new();
    let error = world.install("50%.run", &menu()).unwrap_err();
    assert!(error.to_string().contains("50%.run") && error.hint().unwrap().starts_with("mv -n "), "{error}");
    let without = UserMenu::with(&world.facts, None, world.path("a b.run"));
    let error = without.install("app", Path::new("/usr/bin/app")).unwrap_err();
    assert_eq!(error.to_string(), "can't make a menu entry of app: the package contains none");
    assert_eq!(without.remove().unwrap(), None);
    std::fs::remove_dir(world.path("home")).unwrap();
    let error = world.install("a b.run", &menu()).unwrap_err();
    assert_eq!(error.hint(), Some(format!("mkdir -p {}", world.path("home").display())));
    assert!(!world.path("home").exists());
}
