// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the files that replace the system's files. They start Palisade, or a package, where the system's files start
//! the application. Pure: text in, text out.

use crate::application::Application;
use crate::command::{Binary, Command, Means};
use crate::entry::{Entry, EntryError, Group, Key, LARGEST, MAIN, escape};
use crate::exec::{self, Invocation, Word};
use crate::note::Lost;
use crate::programs::Programs;
use crate::search::{Found, MARK, Service};
use palisade_text::Show as _;
use palisade_text::harmless;
use std::fmt::Write as _;
use std::path::Path;

/// Keys that start something, give rights to what is started, or state about it what is no longer true.
const DROPPED: [&str; 11] = [
    "Actions",
    // The bus would be asked to hand files to a program that is in its sandbox already and can't see them. A program
    // that asks the bus by itself finds the service, which is overridden, too.
    "DBusActivatable",
    "Hidden",
    "X-Ayatana-Desktop-Shortcuts",
    // KWin gives these rights to any process that runs the program of `Exec`, which is Palisade now.
    "X-KDE-DBUS-Restricted-Interfaces",
    "X-KDE-Wayland-Interfaces",
    "X-KDE-Library",
    "X-KDE-SubstituteUID",
    "X-KDE-Username",
    "X-DBUS-ServiceName",
    "X-DBUS-StartupType",
];
/// Beginnings of similar keys.
const DROPPED_BEGINNINGS: [&str; 3] = ["X-Flatpak", "X-Snap", "X-Palisade"];
/// Keys of an action.
const OF_ACTIONS: [&str; 4] = ["Name", "Icon", "OnlyShowIn", "NotShowIn"];

/// How an application is overridden.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Override<'a> {
    /// The application.
    pub(crate) application: &'a Application,
    /// By which program it is started.
    pub(crate) means: Means<'a>,
    /// The path of that program.
    pub(crate) binary: &'a Binary,
    /// Its program.
    pub(crate) programs: &'a Programs,
    /// Whether each configuration is an entry of its own rather than an action.
    pub(crate) separate: bool,
}

/// An entry that starts Palisade.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The file's content.
    pub(crate) text: String,
    /// What the application is started with.
    pub(crate) arguments: Vec<Word>,
    /// What the system's entry has and this one lacks.
    pub(crate) lost: Vec<Lost>,
}

impl<'a> Override<'a> {
    fn command(&self, configuration: Option<&'a str>) -> Command<'a> {
        Command { means: self.means, binary: self.binary, name: &self.application.name, configuration }
    }

    /// The system's entry, with Palisade in every `Exec`.
    pub(crate) fn of(&self, found: &Found) -> Result<Rewritten, EntryError> {
        let main = found.entry.application()?;
        let invocation = self.invocation(main)?;
        let arguments = invocation.words();
        let mut lost = Vec::new();
        if invocation.unwrapped {
            lost.push(Lost::Exec(main.text("Exec").unwrap_or_default()));
        }
        let mut text = self.header(Some(&found.path));
        self.write_main(&mut text, main, &self.command(None), &arguments, None);
        let mut actions = Vec::new();
        let mut groups = String::new();
        for id in main.list("Actions") {
            if actions.contains(&id) {
                continue;
            }
            match self.action(&found.entry, &id, &invocation) {
                Some(action) => {
                    groups.push_str(&action);
                    actions.push(id);
                }
                None => lost.push(Lost::Action(id)),
            }
        }
        if !self.separate {
            for configuration in &self.application.configurations {
                let id = free_action_id(configuration, &actions);
                groups.push_str(&self.configuration_action(&id, configuration, &arguments));
                actions.push(id);
            }
        }
        finish(text, &actions, &groups).map(|text| Rewritten { text, arguments, lost })
    }

    /// A new entry, if the system has none.
    pub(crate) fn created(&self) -> Result<Rewritten, EntryError> {
        let application = self.application;
        let arguments = vec![Word::code('U')];
        let mut text = self.header(None);
        let icon = application.id.clone().unwrap_or_else(|| {
            let program = application.program();
            program
                .file_name()
                .map_or_else(|| application.name.clone(), |name| name.to_string_lossy().into_owned())
        });
        text.push_str("[Desktop Entry]\nType=Application\n");
        line(&mut text, "Name", &escape(&application.name));
        if let Some(description) = &application.description {
            line(&mut text, "Comment", &escape(description));
        }
        line(&mut text, "Icon", &escape(&icon));
        self.write_commands(&mut text, &self.command(None), &arguments);
        let mut actions = Vec::new();
        let mut groups = String::new();
        let configurations = application.configurations.iter().filter(|_one| !self.separate);
        for configuration in configurations {
            let id = free_action_id(configuration, &actions);
            groups.push_str(&self.configuration_action(&id, configuration, &arguments));
            actions.push(id);
        }
        finish(text, &actions, &groups).map(|text| Rewritten { text, arguments, lost: Vec::new() })
    }

    /// The entry of one configuration, beside the one that was made from `found`. It lists no types of files: otherwise
    /// it could become the default for them.
    pub(crate) fn variant(
        &self,
        found: Option<&Found>,
        configuration: &str,
        arguments: &[Word],
    ) -> Result<String, EntryError> {
        let command = Command { configuration: Some(configuration), ..self.command(None) };
        let mut text = self.header(found.map(|found| found.path.as_path()));
        match found {
            Some(found) => {
                self.write_main(
                    &mut text,
                    found.entry.application()?,
                    &command,
                    arguments,
                    Some(configuration),
                );
            }
            None => {
                text.push_str("[Desktop Entry]\nType=Application\n");
                line(&mut text, "Name", &escape(&format!("{} ({configuration})", self.application.name)));
                self.write_commands(&mut text, &command, arguments);
            }
        }
        finish(text, &[], "")
    }

    /// A service of the bus, without `SystemdService`: because of that key, the bus would let systemd start the
    /// application itself.
    pub(crate) fn service(&self, service: &Service) -> String {
        let exec = self.command(None).bus(&service.arguments);
        let mut text = self.header(Some(&service.path));
        text.push_str("[D-BUS Service]\n");
        line(&mut text, "Name", &service.bus_name);
        line(&mut text, "Exec", &exec);
        text
    }

    /// A unit of the user's systemd. It doesn't repeat a start that Palisade refused: Palisade would refuse it again.
    pub(crate) fn unit(&self) -> String {
        let about = self.application.name.replace('%', "%%").replace('\\', "/");
        format!(
            "{}[Unit]\nDescription={about}, started by Palisade\n\n\
             [Service]\nExecStart={}\nRestart=on-failure\nRestartPreventExitStatus=125 126 127\n\n\
             [Install]\nWantedBy=default.target\n",
            self.header(None),
            self.command(None).unit(),
        )
    }

    fn header(&self, from: Option<&Path>) -> String {
        match self.means {
            Means::Profile => {}
            Means::Package => {
                let file = harmless(&palisade_sandbox::error::quoted(self.binary.path()));
                return format!(
                    "# Made by `{file} --palisade-menu`.\n\
                     # `{file} --palisade-remove-menu` removes it, unless you change it.\n"
                );
            }
            Means::Program { .. } => return String::new(),
        }
        let name = palisade_sandbox::error::quoted(&self.application.name);
        let from = from.map(|from| format!(" from {}", from.shown())).unwrap_or_default();
        let text = format!("Made by `palisade desktop enable {name}`{from}.");
        format!("# {}\n# `palisade desktop disable` removes it, unless you change it.\n", harmless(&text))
    }

    fn invocation(&self, group: &Group) -> Result<Invocation, EntryError> {
        match group.raw("Exec") {
            Some(exec) => {
                let words = exec::split(exec)?;
                Invocation::of(&words, |word| self.programs.is_program(word)).ok_or(EntryError::NoExec)
            }
            // Only the bus starts this application.
            None if group.flag("DBusActivatable") => Ok(Invocation {
                program: self.application.program().to_string_lossy().into_owned(),
                arguments: vec!["%U".to_owned()],
                unwrapped: false,
                opaque: false,
            }),
            None => Err(EntryError::NoExec),
        }
    }

    fn write_main(
        &self,
        text: &mut String,
        main: &Group,
        command: &Command<'_>,
        arguments: &[Word],
        variant: Option<&str>,
    ) {
        let _infallible = writeln!(text, "[{MAIN}]");
        let named = main.raw("Name").is_some();
        for key in main.keys().iter().filter(|key| is_kept(&key.name)) {
            match variant {
                Some(variant) if key.name == "Name" => {
                    write_key(text, key, &format!("{} ({})", key.value, escape(variant)));
                }
                Some(_variant) if ["MimeType", "StartupWMClass"].contains(&key.name.as_str()) => {}
                // The icon has another name in a package, and the directory may be absent where the package runs.
                None if ["Icon", "Path"].contains(&key.name.as_str()) && self.is_for_package() => {}
                _ => write_key(text, key, &key.value),
            }
        }
        if !named {
            line(text, "Name", &escape(&self.application.name));
        }
        self.write_commands(text, command, arguments);
    }

    fn write_commands(&self, text: &mut String, command: &Command<'_>, arguments: &[Word]) {
        line(text, "Exec", &command.desktop(arguments));
        match self.means {
            Means::Program { icon: Some(icon) } => line(text, "Icon", &escape(icon)),
            Means::Program { icon: None } => {}
            Means::Profile | Means::Package => {
                line(text, "TryExec", &escape(self.binary.path()));
                line(text, MARK, &escape(&self.application.name));
            }
        }
    }

    /// Whether the entry isn't for this host: a package contains it.
    const fn is_for_package(&self) -> bool {
        matches!(self.means, Means::Program { .. })
    }

    /// The action of the system's entry, if it starts the same program as the entry.
    fn action(&self, entry: &Entry, id: &str, main: &Invocation) -> Option<String> {
        let group = entry.group(&format!("Desktop Action {id}"))?;
        group.raw("Name")?;
        let action = self.invocation(group).ok()?;
        if action.opaque || !(action.same_program(main) || self.programs.is_program(&action.program)) {
            return None;
        }
        let mut text = format!("\n[Desktop Action {id}]\n");
        for key in group.keys().iter().filter(|key| OF_ACTIONS.contains(&key.name.as_str())) {
            if key.name == "Icon" && key.value.starts_with('/') && self.is_for_package() {
                continue;
            }
            write_key(&mut text, key, &key.value);
        }
        line(&mut text, "Exec", &self.command(None).desktop(&action.words()));
        Some(text)
    }

    fn configuration_action(&self, id: &str, configuration: &str, arguments: &[Word]) -> String {
        let command = Command { configuration: Some(configuration), ..self.command(None) };
        let mut text = format!("\n[Desktop Action {id}]\n");
        line(&mut text, "Name", &escape(configuration));
        line(&mut text, "Exec", &command.desktop(arguments));
        text
    }
}

/// Ends the first group with the list of actions, and puts the actions' groups after it.
fn finish(mut text: String, actions: &[String], groups: &str) -> Result<String, EntryError> {
    if !actions.is_empty() {
        line(&mut text, "Actions", &format!("{};", actions.join(";")));
    }
    text.push_str(groups);
    if text.len() > LARGEST { Err(EntryError::Large) } else { Ok(text) }
}

fn line(text: &mut String, key: &str, value: &str) {
    let _infallible = writeln!(text, "{key}={value}");
}

fn write_key(text: &mut String, key: &Key, value: &str) {
    match &key.locale {
        Some(locale) => line(text, &format!("{}[{locale}]", key.name), value),
        None => line(text, &key.name, value),
    }
}

fn is_kept(name: &str) -> bool {
    !DROPPED.contains(&name)
        && !DROPPED_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        && !name.to_ascii_lowercase().contains("exec")
}

/// The id of a configuration's action: only letters, digits and `-`, and different from all ids in use.
fn free_action_id(configuration: &str, taken: &[String]) -> String {
    let plain = configuration.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let id = format!("palisade-{}", plain.collect::<String>());
    let mut free = id.clone();
    let mut number = 1;
    while taken.contains(&free) {
        number += 1;
        free = format!("{id}-{number}");
    }
    free
}

/// A name as a part of a file name. Characters other than letters, digits, `.` and `-` are written as numbers, so that
/// different names stay different.
pub(crate) fn file_part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b".-".contains(&byte) {
            part.push(char::from(byte));
        } else {
            let _infallible = write!(part, "_{byte:02x}");
        }
    }
    part
}

/// A name as a part of a unit's name, escaped as by systemd-escape(1), except that `-` stands for itself here.
pub(crate) fn unit_part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b":_.-".contains(&byte) {
            part.push(char::from(byte));
        } else {
            let _infallible = write!(part, "\\x{byte:02x}");
        }
    }
    part
}

#[cfg(test)]
#[path = "overrides_tests.rs"]
mod tests;
