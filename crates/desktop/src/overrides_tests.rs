// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the files that replace the system's files.

use super::*;
use palisade_host::environment::Environment;

struct World {
    application: Application,
    binary: Binary,
    programs: Programs,
}

impl World {
    fn new(name: &str, configurations: &[&str]) -> Self {
        Self {
            application: Application {
                name: name.into(),
                programs: vec!["app".into()],
                configurations: configurations.iter().map(|name| (*name).to_owned()).collect(),
                ..Application::default()
            },
            binary: Binary::new(Path::new("/opt/palisade")).unwrap(),
            programs: Programs::new(
                &Environment::from_iter([("PATH", "/none")]),
                Path::new("/opt/palisade"),
                vec!["app".into()],
            ),
        }
    }

    fn of(&self, separate: bool) -> Override<'_> {
        Override {
            application: &self.application,
            means: Means::Profile,
            binary: &self.binary,
            programs: &self.programs,
            separate,
        }
    }

    fn rewrite(&self, text: &str) -> Result<Rewritten, EntryError> {
        self.of(false).of(&found(text))
    }
}

fn found(text: &str) -> Found {
    Found {
        path: "/usr/share/applications/app.desktop".into(),
        relative: "app.desktop".into(),
        bytes: text.into(),
        entry: Entry::parse(text.as_bytes()).unwrap(),
    }
}

const APP: &str = "\
[Desktop Entry]
Type=Application
Version=1.0
Name=App
Name[de]=Anwendung
TryExec=app
Exec=app --started %U
Exec[de]=evil
Terminal=false
DBusActivatable=true
MimeType=application/pdf;
X-KDE-SubstituteUID=true
X-KDE-Wayland-Interfaces=zkde_screencast_unstable_v1
X-Exec-Later=evil
Actions=new;prefs;gone;new;

[Desktop Action new]
Name=New Window
Exec=/usr/bin/app --new-window
X-Other=1

[Desktop Action prefs]
Name=Preferences
Exec=other --prefs

[NewWindow Shortcut Group]
Name=Old
Exec=evil
";

#[test]
fn every_exec_is_palisades_and_the_rest_stays() {
    let written = World::new("my app", &["clean", "clean?", "clean!"]).rewrite(APP).unwrap();
    let expected = "\
# Made by `palisade desktop enable 'my app'` from /usr/share/applications/app.desktop.
# `palisade desktop disable` removes it, unless you change it.
[Desktop Entry]
Type=Application
Version=1.0
Name=App
Name[de]=Anwendung
Terminal=false
MimeType=application/pdf;
Exec=/opt/palisade open \"my app\" -- --started %U
TryExec=/opt/palisade
X-Palisade-Profile=my app
Actions=new;palisade-clean;palisade-clean-;palisade-clean--2;

[Desktop Action new]
Name=New Window
Exec=/opt/palisade open \"my app\" -- --new-window

[Desktop Action palisade-clean]
Name=clean
Exec=/opt/palisade open --config clean \"my app\" -- --started %U

[Desktop Action palisade-clean-]
Name=clean?
Exec=/opt/palisade open --config \"clean?\" \"my app\" -- --started %U

[Desktop Action palisade-clean--2]
Name=clean!
Exec=/opt/palisade open --config clean! \"my app\" -- --started %U
";
    assert_eq!(written.text, expected);
    assert_eq!(written.lost, [Lost::Action("prefs".into()), Lost::Action("gone".into())]);
}

#[test]
fn a_variant_is_another_entry() {
    let world = World::new("app", &["clean"]);
    let found = found(APP);
    let main = world.of(true).of(&found).unwrap();
    assert!(!main.text.contains("--config"), "{}", main.text);
    let text = world.of(true).variant(Some(&found), "clean", &main.arguments).unwrap();
    assert!(text.contains("\nName=App (clean)\nName[de]=Anwendung (clean)\n"), "{text}");
    assert!(text.contains("\nExec=/opt/palisade open --config clean app -- --started %U\n"), "{text}");
    assert!(!text.contains("MimeType") && !text.contains("Actions"), "{text}");
}

#[test]
fn one_is_made_from_nothing() {
    let world = World::new("my\\app", &["clean"]);
    let text = world.of(false).created().unwrap().text;
    assert!(
        text.contains("\nName=my\\\\app\nIcon=app\nExec=/opt/palisade open \"my\\\\\\\\app\" -- %U\n"),
        "{text}"
    );
    assert!(text.contains("\n[Desktop Action palisade-clean]\n"), "{text}");
    let text = world.of(true).variant(None, "clean", &[Word::code('U')]).unwrap();
    assert!(text.contains("\nName=my\\\\app (clean)\n"), "{text}");
}

#[test]
fn services_and_units_start_palisade() {
    let world = World::new("app", &[]);
    let service = Service {
        bus_name: "org.app".into(),
        path: "/usr/share/dbus-1/services/o\nExec=evil.service".into(),
        bytes: Vec::new(),
        arguments: vec!["--gapplication-service".into()],
    };
    let text = world.of(false).service(&service);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        ["[D-BUS Service]", "Name=org.app", "Exec=/opt/palisade open app -- --gapplication-service"]
    );
    let text = World::new("50%\\", &[]).of(false).unit();
    assert!(text.contains("\nDescription=50%%/, started by Palisade\n"), "{text}");
    assert!(text.contains("\nExecStart=\"/opt/palisade\" \"open\" \"50%%\\\\\"\n"), "{text}");
    assert_eq!(unit_part("my app@x-1"), "my\\x20app\\x40x-1");
    assert_eq!(file_part("a_b c"), "a_5fb_20c");
}

#[test]
fn what_starts_nothing_is_refused() {
    let world = World::new("app", &[]);
    let error = |more: &str| {
        world.rewrite(&format!("[Desktop Entry]\nType=Application\nName=x\n{more}\n")).unwrap_err()
    };
    assert_eq!(error(""), EntryError::NoExec);
    assert_eq!(error("Exec="), EntryError::NoExec);
    assert_eq!(error("Exec=app \"x"), EntryError::Exec(exec::ExecError::OpenQuote));
    let by_the_bus = world.rewrite("[Desktop Entry]\nType=Application\nName=x\nDBusActivatable=true\n");
    assert!(by_the_bus.unwrap().text.contains("open app -- %U"));
    let long = format!("Exec=app {}", "\"'\" ".repeat(4000));
    let many = World::new("app", &["x"; 100]);
    let text = format!("[Desktop Entry]\nType=Application\nName=x\n{long}\n");
    assert_eq!(many.rewrite(&text).unwrap_err(), EntryError::Large);
}

/// All values that any reader could take for an `Exec`, in any group.
fn every_exec(text: &str) -> Vec<&str> {
    let lines = text.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']);
    lines
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#') && !line.starts_with("TryExec="))
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _value)| key.to_lowercase().contains("exec") || key.contains('\\'))
        .map(|(_key, value)| value)
        .collect()
}

#[test]
fn whatever_entry_there_was_the_new_one_starts_palisade_only() {
    const PARTS: &[&str] = &[
        "[Desktop Entry]\n",
        "[Desktop Action a]\n",
        "[x]\n",
        "Exec=",
        "Exec[de]=",
        "Exec[$e]=",
        "E\\x78ec=",
        "Name=",
        "Name[de]=",
        "Actions=a;b;",
        "\n",
        "\r",
        "\u{2028}",
        "\"",
        "'",
        "\\",
        "%U",
        "%",
        "app",
        " ",
        "sh -c ",
        "a",
        "Type=Application\n",
        "\u{85}",
        "TryExec=",
        "DBusActivatable=true\n",
        ";",
        "é",
        "#",
        "=",
        "[Desktop Action b]\nName=b\nExec=app b\n",
    ];
    let rewritten = std::sync::atomic::AtomicUsize::new(0);
    let worlds = ["app", "a\"$b\\", "50% f"].map(|name| World::new(name, &["c d", "%f"]));
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let noise: String = bytes.iter().map(|byte| PARTS[usize::from(*byte) % PARTS.len()]).collect();
        let text = format!("[Desktop Entry]\nType=Application\nExec=app %U\nActions=a\n{noise}");
        let world = &worlds[bytes.len() % worlds.len()];
        let Ok(written) = world.of(false).of(&found(&text)) else { return };
        rewritten.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let percent = |text: &str| text.replace('%', "%%");
        for value in every_exec(&written.text) {
            let words = exec::split(value).unwrap();
            let configured = words.get(2).is_some_and(|word| word == "--config");
            let name = words.get(if configured { 4 } else { 2 });
            assert_eq!(words[..2], ["/opt/palisade", "open"], "{text:?}\n{}", written.text);
            assert_eq!(name, Some(&percent(&world.application.name)), "{text:?}\n{}", written.text);
            assert_eq!(words[if configured { 5 } else { 3 }], "--", "{text:?}\n{}", written.text);
        }
        // A reader gets the intended value.
        let again = Entry::parse(written.text.as_bytes()).unwrap();
        assert_eq!(again.application().unwrap().raw("TryExec"), Some("/opt/palisade"));
        assert_eq!(again.application().unwrap().text(MARK).as_deref(), Some(&*world.application.name));
    });
    assert!(rewritten.into_inner() > 1000);
}
