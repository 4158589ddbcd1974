// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade wrap`: named commands always run confined, by links in a directory that is first on `PATH`.
//!
//! - [`startup`]: the line in the shell's start-up file

mod startup;

use crate::hook::wrapped::{self, Place};
use crate::hook_error::HookError;
use crate::kept::{self, KeptOptions, Launch};
use crate::verb::{self, Exit, NO, YES};
use crate::{link, output, situation};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{Sort, own};
use palisade_text::{Show as _, quoted};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::PathBuf;

/// What to do with commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A command with a profile of its name is opened by that profile, and any other is run. `palisade wrap`
confines what is started by its name: a program that is started by its path isn't confined.

Examples:
  palisade wrap npm pip cargo                        from now on these are confined
  palisade wrap --allow registry.npmjs.org npm       and npm may reach this host
  palisade wrap --path                               write the line for PATH, too
  palisade wrap --remove npm                         npm is as it was
  palisade wrap --remove --all                       everything is")]
pub(crate) struct Options {
    /// The commands
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "all", "path"])]
    names: Vec<String>,
    /// List the wrapped commands and how each is launched
    #[arg(long, conflicts_with_all = ["names", "remove", "path"])]
    list: bool,
    /// Take commands away
    #[arg(long)]
    remove: bool,
    /// All that are wrapped
    #[arg(long, requires = "remove", conflicts_with = "names")]
    all: bool,
    /// Put the directory of the links first on PATH, in the start-up file of your shell; with --remove, take that away
    #[arg(long)]
    path: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: KeptOptions,
}

/// Returns the exit code: 0 done, 1 nothing to do, 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    verb::finish(options.json, options.run())
}

/// A wrapped command.
#[derive(Serialize)]
struct Wrapped {
    name: String,
    /// The launch, up to the command's arguments.
    launch: Vec<String>,
    /// The program, if it is on `PATH`.
    program: Option<PathBuf>,
    /// `wrapped`, `unchanged`, `removed`, `agent` for the hook of an agent, or `broken`: its link is gone.
    state: &'static str,
}

#[derive(Serialize)]
struct Answer {
    /// The directory of the links.
    directory: PathBuf,
    /// Whether it is first on `PATH`.
    first_on_path: bool,
    commands: Vec<Wrapped>,
}

fn words(answer: &Answer) -> String {
    let line = |wrapped: &Wrapped| {
        let launch: Vec<String> = wrapped.launch.iter().map(|word| quoted(word)).collect();
        let program = match &wrapped.program {
            Some(program) => program.shown().to_string(),
            None => "no such program".to_owned(),
        };
        let launch =
            if launch.is_empty() { String::new() } else { format!("  palisade {}", launch.join(" ")) };
        format!("{:<16} {:<10} {program}{launch}\n", palisade_text::harmless(&wrapped.name), wrapped.state)
    };
    answer.commands.iter().map(line).collect()
}

/// Why no command can have a name.
fn check_name(name: &str) -> Result<(), HookError> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains('/') {
        "it has a slash, and only names are looked for on PATH"
    } else if name.starts_with(['.', '-']) {
        "it begins with a dot or a dash"
    } else if name == "bwrap" || name.starts_with(env!("CARGO_BIN_NAME")) {
        "Palisade does something else under this name"
    } else if name.contains(palisade_text::is_hidden) {
        "it has invisible characters"
    } else {
        return Ok(());
    };
    Err(HookError::Name { name: name.to_owned(), why })
}

/// Whether somebody has put the links first on `PATH`.
fn is_first(facts: &Facts, place: &Place) -> bool {
    let path = facts.environment.get("PATH").unwrap_or_default();
    std::env::split_paths(path).next() == Some(place.links())
}

/// The program of a name, without the links.
fn program(facts: &Facts, place: &Place, name: &str) -> Option<PathBuf> {
    let path = facts.environment.get("PATH").unwrap_or_default();
    let without = std::env::join_paths(place.path_without(path)).ok()?;
    Place::program(name, &without)
}

impl Options {
    fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let place = Place::below(&facts.places.data);
        match (self.list, self.remove) {
            (true, _) => self.list(&facts, &place),
            (_, true) => self.remove(&facts, &place),
            _ => self.wrap(&facts, &place),
        }
    }

    fn answer(&self, facts: &Facts, place: &Place, commands: Vec<Wrapped>) -> Answer {
        Answer { directory: place.links(), first_on_path: is_first(facts, place), commands }
    }

    /// How a command is launched: by the profile of its name, unless another is stated.
    fn launch(&self, facts: &Facts, name: &str) -> Launch {
        let has_profile = !own::of_name(facts, Sort::Profile, name).is_empty();
        match has_profile && self.kept.profile.is_none() {
            true => Launch::opening(name, self.kept.words()),
            false => Launch::new(self.kept.words_with_profile()),
        }
    }

    fn wrap(&self, facts: &Facts, place: &Place) -> Exit {
        kept::check(&self.kept.words_with_profile())?;
        let mut programs = Vec::new();
        // All names are checked before anything is made.
        for name in &self.names {
            check_name(name)?;
            let program = program(facts, place, name);
            programs.push(program.ok_or_else(|| HookError::NoProgram { name: name.clone() })?);
            link::check(&place.link(name))?;
            if Launch::read(&place.file(name))?.is_some_and(|launch| launch.first_on_path.is_some()) {
                return Err(HookError::InTheWay { path: place.file(name) }.into());
            }
        }
        link::make_directory(&place.links())?;
        let mut commands = Vec::new();
        for (name, program) in self.names.iter().zip(programs) {
            let launch = self.launch(facts, name);
            let launch_words = wrapped::words(name, &launch);
            // The file goes first: a link without it would open a profile of that name.
            let changed = launch.write(&place.file(name))? | link::make(&place.link(name))?;
            let state = if changed { "wrapped" } else { "unchanged" };
            commands.push(Wrapped {
                name: name.clone(),
                launch: launch_words,
                program: Some(program),
                state,
            });
        }
        let line = startup::line(facts, place)?;
        let file = if self.path { Some(startup::write(facts, place)?) } else { None };
        let answer = self.answer(facts, place, commands);
        verb::tell(self.json, &answer, words)?;
        match file {
            Some(file) => output::note(&format_args!(
                "the links are first on PATH in shells that read {}",
                file.shown()
            )),
            None if !answer.first_on_path => {
                output::note(&format_args!("the links aren't first on PATH yet"));
                output::say(&format!(
                    "hint: palisade wrap --path   # or add this line to your shell's start-up file: {line}\n"
                ));
            }
            None => {}
        }
        Ok(YES)
    }

    /// The names for which there are files.
    fn names(&self, place: &Place) -> Vec<String> {
        let entries = std::fs::read_dir(&place.directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let named = paths.filter(|path| path.extension() == Some(OsStr::new("json")));
        let mut names: Vec<String> =
            named.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        names
    }

    fn list(&self, facts: &Facts, place: &Place) -> Exit {
        let mut commands = Vec::new();
        for name in self.names(place) {
            let Some(launch) = Launch::read(&place.file(&name))? else { continue };
            let is_linked = place.link(&name).exists();
            let of_agent = launch.first_on_path.is_some();
            let state = match (is_linked, of_agent) {
                (false, _) => "broken",
                (true, true) => "agent",
                (true, false) => "wrapped",
            };
            let launch = if of_agent { Vec::new() } else { wrapped::words(&name, &launch) };
            commands.push(Wrapped { program: program(facts, place, &name), name, launch, state });
        }
        let answer = self.answer(facts, place, commands);
        verb::tell(self.json, &answer, |answer| match answer.commands.is_empty() {
            true => "nothing is wrapped\n".to_owned(),
            false => words(answer),
        })?;
        if !answer.first_on_path && !answer.commands.is_empty() && !self.json {
            output::note(&format_args!("the links aren't first on PATH: {}", startup::line(facts, place)?));
        }
        Ok(YES)
    }

    fn remove(&self, facts: &Facts, place: &Place) -> Exit {
        let names = if self.all { self.names(place) } else { self.names.clone() };
        let mut commands = Vec::new();
        let mut launches = Vec::new();
        for name in names {
            check_name(&name)?;
            match Launch::read(&place.file(&name))? {
                // That of an agent goes with the agent's hook.
                Some(launch) if launch.first_on_path.is_some() && self.all => {}
                Some(launch) if launch.first_on_path.is_some() => {
                    return Err(HookError::Name { name, why: "it is the hook of an agent" }.into());
                }
                Some(launch) => launches.push((name, launch)),
                None => return Err(HookError::NotWrapped { name }.into()),
            }
        }
        for (name, launch) in launches {
            link::remove(&place.link(&name))?;
            link::remove_file(&place.file(&name))?;
            let launch = wrapped::words(&name, &launch);
            commands.push(Wrapped { program: program(facts, place, &name), name, launch, state: "removed" });
        }
        let mut any = !commands.is_empty();
        if self.path || self.all {
            for file in startup::remove(facts)? {
                any = true;
                output::note(&format_args!("{} is as it was", file.shown()));
            }
        }
        link::remove_empty(&[&place.links(), &place.directory]);
        let answer = self.answer(facts, place, commands);
        verb::tell(
            self.json,
            &answer,
            |answer| if any { words(answer) } else { "nothing is wrapped\n".to_owned() },
        )?;
        Ok(if any { YES } else { NO })
    }
}
