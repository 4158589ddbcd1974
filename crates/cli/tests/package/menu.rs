// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the menu entry of a packed application: one home has the application and its desktop entry, and the package is
//! put into the menu of another one, in which there is nothing else.

use super::parcel;
use super::places;
use crate::support::{Place, Run, job};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const ENTRY: &str = r#"[Desktop Entry]
Version=1.0
Type=Application
Name=App
Name[de]=Anwendung
Icon=app-icon
TryExec=sh
Exec=sh -c "echo 100%% of \\$1" started %f
Path=/srv
Terminal=false
DBusActivatable=true
MimeType=application/pdf;
Categories=Utility;
Actions=new;

[Desktop Action new]
Name=New
Exec=sh -c "echo a new one"
"#;
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>\n";
const MADE: &str = ".local/share/applications/app.desktop";
const MADE_ICON: &str = ".local/share/icons/hicolor/scalable/apps/app.svg";

/// The home of the user that gets the package.
struct Target<'p> {
    place: &'p Place,
    home: PathBuf,
    file: PathBuf,
}

/// Makes the package with this desktop entry in the directories of data.
#[track_caller]
fn pack(place: &Place, entry: Option<&str>) -> Run {
    parcel::profile(place, "app", "");
    if let Some(entry) = entry {
        place.write("share/applications/app.desktop", entry);
        place.write("share/icons/hicolor/scalable/apps/app-icon.svg", ICON);
    }
    let mut pack = place.command(place.binary());
    pack.args(["package", "app", "--force", "--output"]).arg(place.home.join("app.run"));
    let run = job::finish(pack.env("XDG_DATA_DIRS", place.home.join("share")));
    run.ok();
    run
}

impl<'p> Target<'p> {
    /// With the package in a directory that has a space in its name.
    fn new(place: &'p Place) -> Self {
        let home = place.home.join("target");
        place.outside("mkdir -p -m 700 \"$HOME/target/a b\" && cp ~/app.run \"$HOME/target/a b/app.run\"");
        Self { place, file: home.join("a b/app.run"), home }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command(program);
        command.env("HOME", &self.home).env("XDG_DATA_DIRS", self.home.join("none"));
        command
    }

    fn ask(&self, option: &str) -> Run {
        job::finish(self.command(&self.file).arg(option))
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.home.join(below)).unwrap_or_else(|error| panic!("{below}: {error}"))
    }

    /// All that is in the home except for what the package has unpacked.
    fn tree(&self) -> BTreeSet<PathBuf> {
        let mut pending = vec![self.home.clone()];
        let mut all = BTreeSet::new();
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                if entry.file_name() == ".cache" {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    pending.push(entry.path());
                }
                all.insert(entry.path());
            }
        }
        all
    }

    /// Starts what an `Exec` of the entry says, as a menu does that follows the specification: it undoes the escapes of
    /// strings, fills in the codes, and splits the line as a shell does.
    fn start(&self, exec: &str, file: &str) -> Run {
        let line = exec.replace("\\\\", "\\").replace("%f", &format!("'{file}'")).replace("%%", "%");
        job::finish(self.command("sh").args(["-c", &line]))
    }
}

/// The values of a key, in the entry's order.
fn values<'t>(entry: &'t str, key: &str) -> Vec<&'t str> {
    entry.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|directory| directory.join(program).exists());
    if !there {
        eprintln!("not tried: no {program} here");
    }
    there
}

#[test]
fn the_application_starts_from_the_menu_and_leaves_it_without_a_trace() {
    for place in places() {
        let packed = pack(&place, Some(ENTRY));
        assert!(packed.out.contains("with a menu entry"), "{packed:?}");
        let target = Target::new(&place);
        let before = target.tree();
        assert!(target.ask("--palisade-info").ok().contains("menu      app, with an icon"));
        // The desktop entry of the home where it was made is gone.
        std::fs::remove_dir_all(place.home.join("share")).unwrap();
        let made = target.ask("--palisade-menu");
        assert_eq!((made.code, made.out.as_str()), (0, ""), "{made:?}");
        assert!(made.err.contains("app: in the menu") && made.err.contains(MADE_ICON), "{made:?}");

        let entry = target.read(MADE);
        let file = target.file.display().to_string();
        for exec in values(&entry, "Exec") {
            assert!(exec.starts_with(&format!("\"{file}\" --palisade-end -c ")), "{entry}");
        }
        assert_eq!((values(&entry, "Exec").len(), values(&entry, "TryExec")), (2, vec![file.as_str()]));
        assert_eq!(values(&entry, "MimeType"), ["application/pdf;"]);
        assert_eq!((values(&entry, "Icon"), values(&entry, "Name[de]")), (vec!["app"], vec!["Anwendung"]));
        assert!(!entry.contains("DBusActivatable") && !entry.contains("Path="), "{entry}");
        assert_eq!(target.read(MADE_ICON), ICON);
        for below in [MADE, MADE_ICON] {
            let found = target.home.join(below).symlink_metadata().unwrap();
            assert_eq!((found.uid(), found.mode() & 0o7777), (place.uid, 0o644), "{below}");
        }
        if is_there("desktop-file-validate") {
            let valid = job::finish(Command::new("desktop-file-validate").arg(target.home.join(MADE)));
            assert_eq!((valid.ok(), valid.err.as_str()), ("", ""));
        }

        let execs = values(&entry, "Exec");
        assert_eq!(target.start(execs[0], "/a file").ok(), "100% of /a file");
        assert_eq!(target.start(execs[1], "").ok(), "a new one");
        if is_there("gio") {
            let mut gio = target.command("gio");
            let run = job::finish(gio.arg("launch").arg(target.home.join(MADE)).arg("/a file"));
            assert_eq!(run.ok(), "100% of /a file");
        }

        let made = target.tree();
        target.ask("--palisade-menu").ok();
        assert_eq!(target.tree(), made, "once more changes nothing");
        assert!(target.ask("--palisade-remove-menu").err.contains("app: no longer in the menu"));
        assert_eq!(target.tree(), before);
        let again = target.ask("--palisade-remove-menu");
        assert!(again.ok().is_empty() && again.err.contains("nothing of this package"), "{again:?}");
    }
}

#[test]
fn the_users_directory_of_data_counts_and_a_moved_package_is_found_again() {
    for place in places() {
        pack(&place, Some(ENTRY));
        let mut target = Target::new(&place);
        let before = target.tree();
        let data = target.home.join("my data");
        let mut menu = target.command(&target.file);
        job::finish(menu.arg("--palisade-menu").env("XDG_DATA_HOME", &data)).ok();
        assert!(data.join("applications/app.desktop").exists() && !target.home.join(".local/share").exists());
        assert!(data.join("icons/hicolor/scalable/apps/app.svg").exists());

        let moved = target.home.join("app.run");
        place.outside("mv \"$HOME/target/a b/app.run\" ~/target/app.run");
        target.file = moved.clone();
        target.ask("--palisade-menu").ok();
        assert_eq!(values(&target.read(MADE), "TryExec"), [moved.to_str().unwrap()]);
        assert!(!data.exists(), "what was made elsewhere is gone");
        place.outside("mv ~/target/app.run \"$HOME/target/a b/app.run\"");
        target.file = target.home.join("a b/app.run");
        target.ask("--palisade-remove-menu").ok();
        assert_eq!(target.tree(), before);
    }
}

#[test]
fn what_is_in_the_way_stays() {
    for place in places() {
        pack(&place, Some(ENTRY));
        let target = Target::new(&place);
        for below in [MADE, MADE_ICON] {
            let path = place.write(&format!("target/{below}"), "mine");
            let before = target.tree();
            let refused = target.ask("--palisade-menu");
            let said = format!("can't make the menu entry app: {path:?} is there already");
            refused.refused(125, &[&said, "Palisade didn't make it", "hint: look at it, then: mv "]);
            assert_eq!((target.read(below).as_str(), target.tree()), ("mine", before));
            // A link isn't followed.
            let elsewhere = target.home.join("elsewhere");
            std::fs::remove_file(&path).unwrap();
            symlink(&elsewhere, &path).unwrap();
            target.ask("--palisade-menu").refused(125, &[&said]).with_hint();
            assert!(!elsewhere.exists() && path.is_symlink());
            target.ask("--palisade-remove-menu").ok();
            assert!(path.is_symlink());
            std::fs::remove_file(&path).unwrap();
        }
        target.ask("--palisade-menu").ok();
        // A second package of the application, and then a palisade of this host.
        place.outside("cp ~/app.run ~/target/second.run");
        let second = target.home.join("second.run");
        let ask = |option| job::finish(target.command(&second).arg(option));
        ask("--palisade-menu").refused(125, &["a b/app.run", "app: there is one that starts"]).with_hint();
        assert!(ask("--palisade-remove-menu").err.contains("nothing of this package"));
        assert!(target.home.join(MADE).exists());
        target.ask("--palisade-remove-menu").ok();
        parcel::profile(&place, "target-app", "");
        place.outside("mkdir -p ~/target/.config && cp -r ~/.config/palisade ~/target/.config/");
        let mut enable = target.command(place.binary());
        let enable = enable.args(["desktop", "enable", "app", "--create"]);
        job::finish(enable).ok();
        let made = target.read(MADE);
        let refused = target.ask("--palisade-menu");
        refused.refused(125, &["made for app", "hint: palisade desktop disable app"]);
        assert_eq!(target.read(MADE), made);
    }
}

#[test]
fn a_package_without_an_entry_says_so() {
    for place in places() {
        let packed = pack(&place, None);
        assert!(!packed.out.contains("menu") && !packed.err.contains("menu"), "{packed:?}");
        let target = Target::new(&place);
        let before = target.tree();
        assert!(target.ask("--palisade-info").ok().contains("menu      none"));
        let refused = target.ask("--palisade-menu");
        refused.refused(125, &["can't make a menu entry of app: the package contains none"]).with_hint();
        assert!(target.ask("--palisade-remove-menu").err.contains("nothing of this package"));
        assert_eq!(target.tree(), before);

        // One that can't be used is named, and the package is made without it.
        let packed = pack(&place, Some("[Desktop Entry]\nType=Application\nName=App\nExec=\"sh\n"));
        assert!(packed.err.contains("the package has no menu entry: can't use"), "{packed:?}");
        assert!(
            packed.err.contains("app.desktop") && packed.err.contains("a quote isn't closed"),
            "{packed:?}"
        );
        let run = job::finish(place.command(place.home.join("app.run")).args(["-c", "echo works"]));
        assert_eq!(run.ok(), "works");
    }
}

/// The user's own file is read like the system's, and private files aren't given away.
#[test]
fn what_only_some_may_read_is_not_taken() {
    for place in places() {
        let pack_with = |mode: &str| {
            place.outside(&format!(
                "mkdir -p ~/.local/share/applications ~/share/pixmaps; cd; \
                 printf '[Desktop Entry]\\nType=Application\\nName=A\\nIcon=i\\nExec=sh\\n' >.local/share/applications/app.desktop; \
                 printf '<svg/>' >share/pixmaps/i.svg; chmod {mode} .local/share/applications/app.desktop share/pixmaps/i.svg"
            ));
            pack(&place, None);
            let info = job::finish(place.command(place.home.join("app.run")).arg("--palisade-info"));
            info.ok().lines().find(|line| line.contains("  menu ")).unwrap().trim().to_owned()
        };
        assert_eq!(pack_with("644"), "menu      app, with an icon");
        assert_eq!(pack_with("640"), "menu      none");
        let only_icon = Path::new("share/pixmaps/i.svg");
        place.outside(&format!(
            "cd; chmod 644 .local/share/applications/app.desktop; chmod 640 {}",
            only_icon.display()
        ));
        pack(&place, None);
        let info = job::finish(place.command(place.home.join("app.run")).arg("--palisade-info"));
        assert!(info.ok().contains("menu      app\n"), "{info:?}");
    }
}
