// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides what to make for an application. It reads the system's files and writes nothing.

use crate::application::Application;
use crate::command::{Binary, Means};
use crate::disk::Content;
use crate::error::{DesktopError, EntryFailure};
use crate::exec::Word;
use crate::install::{Order, Wanted, WantedDefaults, What};
use crate::manifest::{Choices, Kind, Origin};
use crate::note::Note;
use crate::overrides::{Override, file_part, unit_part};
use crate::programs::Programs;
use crate::search::{self, Found};
use palisade_host::file::{self, Links};
use palisade_sandbox::error::quoted;
use palisade_sandbox::facts::Facts;
use std::path::{Path, PathBuf};

/// The user's directories, by the XDG Base Directory Specification.
#[derive(Debug)]
pub(crate) struct Directories {
    /// Links to programs. The specification has no variable for this directory.
    pub(crate) programs: PathBuf,
    /// `$XDG_DATA_HOME`.
    pub(crate) data: PathBuf,
    /// `$XDG_CONFIG_HOME`.
    pub(crate) configuration: PathBuf,
}

impl Directories {
    /// The directories of the caller.
    pub(crate) fn of(facts: &Facts) -> Self {
        let above = |own: &Path| own.parent().unwrap_or(own).to_owned();
        Self {
            programs: facts.account.home.join(".local/bin"),
            data: above(&facts.places.data),
            configuration: above(&facts.places.config),
        }
    }

    fn entry(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.data.join("applications").join(relative)
    }
}

/// An order, and notes about it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) order: Order,
    pub(crate) notes: Vec<Note>,
    /// The unit, if there is one.
    pub(crate) unit: Option<String>,
}

/// The application's main entry: its file, by the path below `applications`.
struct MainEntry {
    found: Option<Found>,
    relative: PathBuf,
    arguments: Vec<Word>,
}

/// Decides what to make.
struct Preparation<'a> {
    facts: &'a Facts,
    application: &'a Application,
    binary: &'a Binary,
    programs: Programs,
    directories: Directories,
    choices: &'a Choices,
    files: Vec<Wanted>,
    notes: Vec<Note>,
}

/// Decides what to make for an application.
pub(crate) fn prepare(
    facts: &Facts,
    application: &Application,
    binary: &Binary,
    choices: &Choices,
    force: bool,
) -> Result<Prepared, DesktopError> {
    let path = Path::new(binary.path());
    let mut preparation = Preparation {
        facts,
        application,
        binary,
        programs: Programs::new(&facts.environment, path, application.programs().collect()),
        directories: Directories::of(facts),
        choices,
        files: Vec::new(),
        notes: Vec::new(),
    };
    let link = preparation.directories.programs.join(&application.name);
    preparation.want(Kind::Link, link, What::Link(path.to_owned()), None);
    preparation.look_at_path();
    let defaults = preparation.entries()?;
    preparation.services();
    let unit = choices.service.then(|| preparation.unit());
    let Preparation { files, notes, .. } = preparation;
    let order = Order {
        name: application.name.clone(),
        binary: path.to_owned(),
        choices: choices.clone(),
        files,
        defaults,
        force,
    };
    Ok(Prepared { order, notes, unit })
}

/// The `enable` command with these choices.
pub(crate) fn command(name: &str, choices: &Choices) -> String {
    let mut words = ["palisade", "desktop", "enable", &quoted(name)].map(str::to_owned).to_vec();
    for (chosen, option) in [
        (choices.create, "--create"),
        (choices.separate, "--separate"),
        (choices.others, "--others"),
        (choices.service, "--service"),
    ] {
        words.extend(chosen.then(|| option.to_owned()));
    }
    words.extend(choices.mime.iter().map(|mime| format!("--mime {}", quoted(mime))));
    words.join(" ")
}

impl Preparation<'_> {
    fn want(&mut self, kind: Kind, path: PathBuf, what: What, origin: Option<Origin>) {
        if self.files.iter().all(|wanted| wanted.path != path) {
            self.files.push(Wanted { kind, path, what, origin });
        }
    }

    fn want_entry(&mut self, relative: &Path, text: String, found: Option<&Found>) {
        let origin =
            found.map(|found| Origin { path: found.path.clone(), content: Content::of(&found.bytes) });
        self.want(Kind::DesktopEntry, self.directories.entry(relative), What::File(text.into()), origin);
    }

    /// Checks whether a shell will find the link.
    fn look_at_path(&mut self) {
        let own = &self.directories.programs;
        let name = &self.application.name;
        let is_it =
            |directory: &Path| directory == own || directory.canonicalize().ok() == own.canonicalize().ok();
        let earlier = self.programs.directories().iter().take_while(|directory| !is_it(directory));
        let note = if !self.programs.directories().iter().any(|directory| is_it(directory)) {
            Note::NotOnPath { directory: own.clone(), name: name.clone() }
        } else if let Some(by) = earlier.map(|directory| directory.join(name)).find(|path| path.exists()) {
            Note::Shadowed { by, name: name.clone() }
        } else {
            return;
        };
        self.notes.push(note);
    }

    fn with(&self, separate: bool) -> Override<'_> {
        Override {
            application: self.application,
            means: Means::Profile,
            binary: self.binary,
            programs: &self.programs,
            separate,
        }
    }

    fn entries(&mut self) -> Result<Option<WantedDefaults>, DesktopError> {
        let directories = search::data_directories(&self.facts.environment, &self.directories.data);
        let found = match search::entries(&directories, self.application, &self.programs) {
            Err(error) if self.choices.create => {
                self.notes.push(Note::FromNothing(error));
                search::Entries::default()
            }
            found => found.map_err(|source| self.failed(source.into()))?,
        };
        let Some(main) = self.main_entry(found.main)? else {
            let name = &self.application.name;
            let again = command(name, &Choices { create: true, ..self.choices.clone() });
            if !self.choices.mime.is_empty() {
                return Err(DesktopError::NoEntry { name: name.clone(), again });
            }
            self.notes.push(Note::NoEntry { name: name.clone(), again });
            return Ok(None);
        };
        if self.choices.separate {
            self.variants(&main)?;
        }
        self.others(found.others);
        let id = main.relative.to_string_lossy().replace('/', "-");
        let file = self.directories.configuration.join("mimeapps.list");
        Ok((!self.choices.mime.is_empty()).then_some(WantedDefaults { file, entry: id }))
    }

    fn failed(&self, source: EntryFailure) -> DesktopError {
        let again = command(&self.application.name, &Choices { create: true, ..self.choices.clone() });
        DesktopError::Entry { source, again }
    }

    fn main_entry(&mut self, found: Option<Found>) -> Result<Option<MainEntry>, DesktopError> {
        if let Some(found) = found {
            let rewritten = self.with(self.choices.separate).of(&found);
            match rewritten {
                Ok(rewritten) => {
                    self.notes.extend(rewritten.lost.into_iter().map(Note::Lost));
                    let (relative, arguments) = (found.relative.clone(), rewritten.arguments);
                    self.want_entry(&relative, rewritten.text, Some(&found));
                    return Ok(Some(MainEntry { found: Some(found), relative, arguments }));
                }
                Err(source) if self.choices.create => {
                    self.notes.push(Note::Unusable { path: found.path, source });
                }
                Err(source) => {
                    let path = found.path;
                    return Err(self.failed(search::SearchError::Entry { path, source }.into()));
                }
            }
        }
        if !self.choices.create {
            return Ok(None);
        }
        let id = self.application.id.clone().unwrap_or_else(|| file_part(&self.application.name));
        let relative = PathBuf::from(format!("{id}.desktop"));
        let created = self.with(self.choices.separate).created();
        let created = created.map_err(|source| self.failed(EntryFailure::Created(source)))?;
        self.want_entry(&relative, created.text, None);
        Ok(Some(MainEntry { found: None, relative, arguments: created.arguments }))
    }

    /// Makes an entry of its own for each configuration.
    fn variants(&mut self, main: &MainEntry) -> Result<(), DesktopError> {
        for configuration in &self.application.configurations {
            let name = format!("palisade-{}-{}", file_part(&self.application.name), file_part(configuration));
            let text = self.with(true).variant(main.found.as_ref(), configuration, &main.arguments);
            let text = text.map_err(|source| self.failed(EntryFailure::Created(source)))?;
            self.want_entry(Path::new(&format!("{name}.desktop")), text, main.found.as_ref());
        }
        Ok(())
    }

    /// The other entries that start the same program: mostly entries for single types of files.
    fn others(&mut self, others: Vec<Found>) {
        if others.is_empty() {
            return;
        }
        if self.choices.others {
            for found in others {
                match self.with(true).of(&found) {
                    Ok(rewritten) => self.want_entry(&found.relative, rewritten.text, Some(&found)),
                    Err(source) => self.notes.push(Note::Stays { path: found.path, source }),
                }
            }
            return;
        }
        let again = command(&self.application.name, &Choices { others: true, ..self.choices.clone() });
        let entries = others.into_iter().map(|found| found.relative).collect();
        self.notes.push(Note::Others { entries, again });
    }

    fn services(&mut self) {
        let directories = search::data_directories(&self.facts.environment, &self.directories.data);
        for service in search::services(&directories, self.application, &self.programs) {
            let text = self.with(false).service(&service);
            let path =
                self.directories.data.join("dbus-1/services").join(format!("{}.service", service.bus_name));
            let origin = Origin { path: service.path, content: Content::of(&service.bytes) };
            self.want(Kind::BusService, path, What::File(text.into()), Some(origin));
        }
    }

    fn unit(&mut self) -> String {
        let unit = unit_name(&self.application.name);
        let path = self.directories.configuration.join("systemd/user").join(&unit);
        let text = self.with(false).unit();
        self.want(Kind::Unit, path, What::File(text.into()), None);
        unit
    }
}

/// The name of an application's unit.
pub(crate) fn unit_name(name: &str) -> String {
    format!("palisade-{}.service", unit_part(name))
}

/// Whether a system file is still the one that Palisade's file was made from.
pub(crate) fn is_current(origin: &Origin) -> bool {
    let read = file::read(&origin.path, crate::entry::LARGEST, Links::Follow);
    read.is_ok_and(|bytes| Content::of(&bytes) == origin.content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_host::environment::Environment;

    /// What is ordered in a home, by path below it. The system has two entries and a service.
    fn ordered(application: &Application, choices: &Choices) -> Vec<(String, String)> {
        let root = tempfile::tempdir().unwrap();
        let write = |below: &str, text: &str| {
            let path = root.path().join(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let entry = |exec: &str| format!("[Desktop Entry]\nType=Application\nName=X\nExec={exec}\n");
        write("share/applications/org.x.App.desktop", &entry("/none/prog %U"));
        write("share/applications/sub/else.desktop", &entry("/none/prog --else %f"));
        write("share/dbus-1/services/x.service", "[D-BUS Service]\nName=org.x.App\nExec=/none/prog --bus\n");
        let environment = Environment::from_iter([
            ("HOME", root.path().join("home")),
            ("PATH", "/none".into()),
            ("XDG_DATA_DIRS", root.path().join("share")),
        ]);
        std::fs::create_dir(root.path().join("home")).unwrap();
        let facts = Facts::gather(environment, "/".into()).unwrap();
        let binary = Binary::new(Path::new("/opt/palisade")).unwrap();
        let prepared = prepare(&facts, application, &binary, choices, false).unwrap();
        let home = facts.account.home.clone();
        let what = |what: What| match what {
            What::Link(target) => target.display().to_string(),
            What::File(bytes) => {
                let text = String::from_utf8(bytes).unwrap();
                let lines = text.lines().filter(|line| line.starts_with("Exec"));
                lines.collect::<Vec<&str>>().join("|").replace("/opt/palisade open", "PO")
            }
        };
        let below = |path: PathBuf| path.strip_prefix(&home).unwrap().display().to_string();
        prepared.order.files.into_iter().map(|wanted| (below(wanted.path), what(wanted.what))).collect()
    }

    fn application() -> Application {
        Application {
            name: "app".into(),
            id: Some("org.x.App".into()),
            programs: vec!["/none/prog".into()],
            configurations: vec!["clean".into(), "of fline".into()],
            ..Application::default()
        }
    }

    #[test]
    fn configurations_are_actions_or_entries() {
        let applications = ".local/share/applications";
        let bus = ".local/share/dbus-1/services/org.x.App.service";
        let found = ordered(&application(), &Choices { service: true, ..Choices::default() });
        let expected = [
            (".local/bin/app".to_owned(), "/opt/palisade".to_owned()),
            (
                format!("{applications}/org.x.App.desktop"),
                "Exec=PO app -- %U|Exec=PO --config clean app -- %U|Exec=PO --config \"of fline\" app -- %U"
                    .into(),
            ),
            (bus.into(), "Exec=PO app -- --bus".into()),
            (
                ".config/systemd/user/palisade-app.service".into(),
                "ExecStart=\"/opt/palisade\" \"open\" \"app\"".into(),
            ),
        ];
        assert_eq!(found, expected);
        let found = ordered(&application(), &Choices { separate: true, others: true, ..Choices::default() });
        let expected = [
            (".local/bin/app".to_owned(), "/opt/palisade".to_owned()),
            (format!("{applications}/org.x.App.desktop"), "Exec=PO app -- %U".into()),
            (format!("{applications}/palisade-app-clean.desktop"), "Exec=PO --config clean app -- %U".into()),
            (
                format!("{applications}/palisade-app-of_20fline.desktop"),
                "Exec=PO --config \"of fline\" app -- %U".into(),
            ),
            (format!("{applications}/sub/else.desktop"), "Exec=PO app -- --else %f".into()),
            (bus.into(), "Exec=PO app -- --bus".into()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_command_asks_for_the_same_again() {
        let choices = Choices {
            create: true,
            separate: true,
            others: true,
            service: true,
            mime: vec!["a/b".into(), "c/d".into()],
        };
        assert_eq!(
            command("my app", &choices),
            "palisade desktop enable 'my app' --create --separate --others --service --mime a/b --mime c/d"
        );
    }
}
