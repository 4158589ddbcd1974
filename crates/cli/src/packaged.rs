// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs this program when it carries a package: it acts as the application then. Its arguments are the application's,
//! except leading ones that begin with `--palisade-`.

use crate::open;
use crate::output;
use crate::package_info::{self, Info};
use crate::package_menu;
use crate::progress::Bar;
use crate::run::{self, FAILURE, RunError};
use crate::scan::{self, Opened, Presentation};
use crate::verb;
use palisade::{Request, Subject, Surroundings};
use palisade_package::error::{PackageError, mebibytes};
use palisade_package::manifest::Manifest;
use palisade_package::store::{Held, Store};
use palisade_package::trailer::Trailer;
use palisade_sandbox::error::StartError;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::package::Unpacked;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The beginning of arguments for the launcher.
const OWN: &[u8] = b"--palisade-";

const HELP: &str = "\
A program with all that it needs, confined by Palisade.

Usage: FILE [--palisade-OPTION]… [ARGUMENTS]

Arguments are the application's. In front of them there may be:
  --palisade-help         print this
  --palisade-info         say what is in this file
  --palisade-policy       print what the application may see and do
  --palisade-files        list the files in this file
  --palisade-unpack       unpack, also if that was done before, and run nothing
  --palisade-remove       remove what was unpacked
  --palisade-menu         make a menu entry for you that starts this file; again after it was moved
  --palisade-remove-menu  remove that entry
  --palisade-dry-run      print the plan and run nothing
  --palisade-quiet        print no notes
  --palisade-timings      say where the time of the launch went
  --palisade-end          what follows is the application's, whatever it looks like

What is in the file is unpacked once, into $XDG_CACHE_HOME/palisade/packages (else ~/.cache), and
goes when it hasn't been used for 60 days. Locks in /etc/palisade hold; no configuration of the
user's or of a project counts.
";

/// What the user asks the launcher for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Open,
    Help,
    Info,
    Policy,
    Files,
    Unpack,
    Remove,
    Menu,
    RemoveMenu,
    DryRun,
}

/// The arguments, parsed.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    verb: Verb,
    presentation: Presentation<'a>,
    arguments: &'a [OsString],
}

fn asked(arguments: &[OsString]) -> Result<Asked<'_>, PackageError> {
    let mut asked = Asked { verb: Verb::Open, presentation: Presentation::default(), arguments };
    while let Some((first, rest)) = asked.arguments.split_first()
        && let Some(option) = first.as_bytes().strip_prefix(OWN)
    {
        asked.arguments = rest;
        match option {
            b"help" => asked.verb = Verb::Help,
            b"info" => asked.verb = Verb::Info,
            b"policy" => asked.verb = Verb::Policy,
            b"files" => asked.verb = Verb::Files,
            b"unpack" => asked.verb = Verb::Unpack,
            b"remove" => asked.verb = Verb::Remove,
            b"menu" => asked.verb = Verb::Menu,
            b"remove-menu" => asked.verb = Verb::RemoveMenu,
            b"dry-run" => asked.verb = Verb::DryRun,
            b"quiet" => asked.presentation.quiet = true,
            b"timings" => asked.presentation.timings = true,
            b"end" => break,
            _ => return Err(PackageError::Option { option: first.clone() }),
        }
    }
    Ok(asked)
}

/// Does what the user asks of a package. Returns the exit code.
pub(crate) fn run(trailer: &Trailer, arguments: &[OsString], begun: Instant) -> u8 {
    let asked = match asked(arguments) {
        Ok(asked) => asked,
        Err(error) => return fail(&error.into()),
    };
    let name = trailer.name();
    let opened = Opened {
        verb: "package",
        profile: OsStr::new(&name),
        configuration: None,
        program: None,
        presentation: asked.presentation,
        arguments: asked.arguments,
    };
    if asked.verb == Verb::Open
        && let Some(_held) = used(&opened, &name)
        && let Some(code) = open::kept(&opened, begun)
    {
        return code;
    }
    match Package::read(trailer).and_then(|package| package.answer(&asked, &opened, begun)) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &RunError) -> u8 {
    error.say();
    FAILURE
}

/// Holds the unpacked files in their place, if they are where a kept plan expects them.
fn used(opened: &Opened<'_>, name: &str) -> Option<Held> {
    let (_key, plans) = scan::key_of_open(opened, Path::new(""));
    Store::new(plans?.parent()?, rustix::process::geteuid().as_raw()).hold(name)
}

/// This file, and its description.
struct Package<'s> {
    trailer: &'s Trailer,
    file: File,
    manifest: Manifest,
}

impl<'s> Package<'s> {
    fn read(trailer: &'s Trailer) -> Result<Self, RunError> {
        let file = File::open("/proc/self/exe").map_err(|source| PackageError::Read { source })?;
        let manifest = Manifest::read(&file, trailer)?;
        if manifest.machine != std::env::consts::ARCH {
            let this = std::env::consts::ARCH.to_owned();
            return Err(PackageError::Machine { package: manifest.machine, this }.into());
        }
        Ok(Self { trailer, file, manifest })
    }

    fn answer(&self, asked: &Asked<'_>, opened: &Opened<'_>, begun: Instant) -> Result<u8, RunError> {
        let text = match asked.verb {
            Verb::Help => HELP.to_owned(),
            Verb::Policy => package_info::policy(&self.manifest),
            Verb::Files => package_info::files(&self.manifest),
            Verb::Info => {
                let mut words = Info::of(&self.manifest, self.trailer, &self.file)?.words();
                let place = self.store(&facts()?).place(&self.trailer.name());
                let there = if place.exists() { "" } else { "not yet; it will be in " };
                words.push_str(&format!(
                    "  unpacked  {there}{}\n",
                    palisade_text::harmless(&place.to_string_lossy())
                ));
                words
            }
            Verb::Unpack => {
                let facts = facts()?;
                self.store(&facts).remove(&self.trailer.name())?;
                self.unpack(&facts)?;
                return Ok(0);
            }
            Verb::Remove => {
                if !self.store(&facts()?).remove(&self.trailer.name())? {
                    output::note(&"nothing was unpacked");
                }
                return Ok(0);
            }
            Verb::Menu => {
                package_menu::install(&facts()?, &self.manifest)?;
                return Ok(0);
            }
            Verb::RemoveMenu => {
                package_menu::remove(&facts()?, &self.manifest)?;
                return Ok(0);
            }
            Verb::Open | Verb::DryRun => return self.open(asked, opened, begun),
        };
        Ok(verb::finish(false, verb::print(&text).map(|()| verb::YES)))
    }

    fn store(&self, facts: &Facts) -> Store {
        Store::new(&facts.places.cache, facts.account.uid)
    }

    /// Makes sure that everything is unpacked, and stays so.
    fn unpack(&self, facts: &Facts) -> Result<(Held, PathBuf), RunError> {
        let (store, name) = (self.store(facts), self.trailer.name());
        let held = match store.hold(&name) {
            Some(held) => held,
            None => {
                let mut bar = Bar::new();
                store.unpack(&name, &self.file, &self.manifest, &mut |done, all| {
                    bar.show(done, all, &format!("unpacking: {} of {}", mebibytes(done), mebibytes(all)));
                })?
            }
        };
        let place = store.place(&name);
        let root = place.canonicalize().map_err(|source| PackageError::Unpack { path: place, source })?;
        Ok((held, root))
    }

    fn open(&self, asked: &Asked<'_>, opened: &Opened<'_>, begun: Instant) -> Result<u8, RunError> {
        let (_held, root) = self.unpack(&facts()?)?;
        let situation = self.request(root, asked.arguments)?.settle()?;
        let plan = situation.plan()?;
        let command = open::command(&plan, asked.arguments);
        if asked.verb == Verb::DryRun {
            crate::dry_run::print(&plan, &command, false);
            return Ok(0);
        }
        open::keep(opened, &situation.facts, &plan);
        Ok(run::apply(&plan, &command, asked.presentation, begun, false, &mut |_happening| {})
            .unwrap_or_else(|error: StartError| run::fail(&error)))
    }

    fn request(&self, root: PathBuf, arguments: &[OsString]) -> Result<Request, RunError> {
        let program = PathBuf::from(OsStr::from_bytes(&self.manifest.program));
        Ok(Request::here(Subject::Packed {
            definitions: self.manifest.definitions.clone(),
            name: self.manifest.name.clone(),
            unpacked: Unpacked { root, program },
            arguments: arguments.to_vec(),
        })?)
    }
}

fn facts() -> Result<Facts, RunError> {
    Ok(Surroundings::of_process()?.facts()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_in_front_is_the_launchers() {
        let line = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        let arguments = line("--palisade-quiet x --palisade-info");
        let found = asked(&arguments).unwrap();
        assert_eq!((found.verb, found.presentation.quiet), (Verb::Open, true));
        assert_eq!(found.arguments, &arguments[1..]);
        let arguments = line("--palisade-end --palisade-info");
        assert_eq!(asked(&arguments).unwrap().arguments, ["--palisade-info"]);
        assert_eq!(asked(&line("--palisade-info")).unwrap().verb, Verb::Info);
        assert!(asked(&line("--palisade-inf")).is_err());
        assert_eq!(asked(&[]).unwrap().verb, Verb::Open);
        for option in HELP.split("--palisade-").skip(2).filter_map(|rest| rest.split(' ').next()) {
            assert!(asked(&[OsString::from(format!("--palisade-{option}"))]).is_ok(), "{option}");
        }
    }
}
