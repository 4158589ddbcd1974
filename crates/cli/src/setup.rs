// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade setup`: makes launches work on a host whose AppArmor refuses user namespaces to programs without a profile.
//!
//! - [`asker`]: the user whose launches are to work
//! - [`change`], [`profile`]: what is written and installed
//! - [`parser`]: the program that loads profiles
//! - [`error`]: why a host wasn't set up

mod asker;
mod change;
mod error;
mod parser;
mod profile;

pub(crate) use self::error::SetupError;

use self::asker::{Asker, Need};
use self::change::{Change, is_as_installed, remove, written};
use self::parser::Parser;
use crate::output;
use crate::verb::{self, ERROR, Exit, Failure, NO, YES};
use palisade_host::executable::{self, Found};
use palisade_sandbox::error::quoted;
use palisade_sandbox::error::user_namespaces::{self, Cause};
use palisade_text::Show as _;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ubuntu 23.10 and later refuse user namespaces to programs without a profile for AppArmor. This
verb shows a profile for palisade, asks, and installs it. Where that needs root, it runs itself
again by sudo.

Examples:
  palisade setup --dry-run   what would it change?
  palisade setup --check     is anything needed? exit code 1 if so
  palisade setup --undo      take everything away that it has installed")]
pub(crate) struct Options {
    /// Take away what an earlier setup has installed
    #[arg(long)]
    undo: bool,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Only say whether this user needs it; exit code 1 if so
    #[arg(long, conflicts_with_all = ["undo", "dry_run", "yes"])]
    check: bool,
    /// Without asking
    #[arg(long, short)]
    yes: bool,
    /// The user has agreed to the changes in the process that has started this one
    #[arg(long, hide = true)]
    agreed: bool,
}

/// Returns the exit code: 0 if launches work, 1 if the answer is no, 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    let exit = match options {
        Options { check: true, .. } => check(),
        Options { undo: true, .. } => undo(options),
        _ => set_up(options),
    };
    verb::finish(false, exit)
}

fn check() -> Exit {
    match user_namespaces::examine() {
        None => verb::print("user namespaces work: nothing is needed\n").map(|()| YES),
        Some(cause @ Cause::AppArmor { .. }) => {
            verb::print(&format!("{}\n", user_namespaces::words(&cause))).map(|()| NO)
        }
        Some(cause) => Err(SetupError::NoHelp { cause }.into()),
    }
}

fn set_up(options: &Options) -> Exit {
    let asker = Asker::find();
    if !options.agreed {
        match asker.need()? {
            Need::Nothing => {
                verb::print("user namespaces work: nothing is needed, and nothing is changed\n")?;
                return Ok(YES);
            }
            Need::Else => return Ok(ERROR),
            Need::Profile(why) => verb::print(&format!("{why}\n\n"))?,
        }
    }
    let (change, parser) = (Change::new()?, Parser::find()?);
    change.check(&parser)?;
    if !options.agreed {
        verb::print(&format!("A profile changes this. As root:\n{}", change.words()))?;
    }
    if options.dry_run {
        return Ok(YES);
    }
    if !agreed(options)? {
        return Ok(NO);
    }
    if !rustix::process::geteuid().is_root() {
        let code = as_root(&["--agreed"], options)?;
        if code == YES {
            // Root's trial began outside of what may confine this terminal.
            asker.launch(&change.program).map_err(SetupError::here)?;
        }
        return Ok(code);
    }
    change.apply(&parser, &asker)?;
    let program = change.program.display();
    verb::print(&format!(
        "done: user namespaces work for {program}; a launch by user {} works\n",
        asker.uid
    ))?;
    if let (Some(_why), Ok(own)) = (&change.copied, std::env::current_exe()) {
        output::note(&format_args!(
            "the profile is for {program} alone: remove {}, or start {program} by its path",
            own.shown()
        ));
    }
    Ok(YES)
}

fn undo(options: &Options) -> Exit {
    let mut all = Vec::new();
    for file in profiles() {
        all.extend(written(&file)?);
    }
    if all.is_empty() {
        verb::print("there is nothing that palisade setup has installed\n")?;
        return Ok(NO);
    }
    if !options.agreed {
        let mut words = "As root:\n".to_owned();
        for (profile, installed) in &all {
            words.push_str(&format!("  unload and remove {}\n", profile.file.display()));
            if let Some(installed) = installed {
                let verb = if is_as_installed(installed) { "remove" } else { "keep the changed" };
                words.push_str(&format!("  {verb} {}\n", installed.path.display()));
            }
        }
        verb::print(&words)?;
    }
    if options.dry_run {
        return Ok(YES);
    }
    if !agreed(options)? {
        return Ok(NO);
    }
    if !rustix::process::geteuid().is_root() {
        return as_root(&["--undo", "--agreed"], options);
    }
    for (profile, installed) in all {
        match Parser::find() {
            Ok(parser) => parser.unload(&profile.file, &profile.name)?,
            // Without AppArmor's programs no profile is loaded at the next boot.
            Err(_none) => output::note(&"there is no apparmor_parser: the profile ends with the next boot"),
        }
        // The program goes first: the profile's file says that it is ours.
        if let Some(installed) = installed.filter(is_as_installed) {
            remove(&installed.path)?;
            verb::print(&format!("removed {}\n", installed.path.display()))?;
        }
        remove(&profile.file)?;
        verb::print(&format!("removed {}\n", profile.file.display()))?;
    }
    Ok(YES)
}

/// What this verb has installed: a profile, and the program that was installed with it.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) profile: PathBuf,
    /// The program, unless another was put in its place.
    pub(crate) copy: Option<PathBuf>,
}

/// What `--undo` would remove. A file that can't be read isn't this verb's: what it writes everybody can read.
pub(crate) fn traces() -> Vec<Trace> {
    let all = profiles().into_iter().filter_map(|file| written(&file).ok().flatten());
    let traces = all.map(|(profile, installed)| Trace {
        profile: profile.file,
        copy: installed.filter(is_as_installed).map(|installed| installed.path),
    });
    traces.collect()
}

/// The files that may be profiles of this verb's.
fn profiles() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(profile::DIRECTORY).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("palisade"));
    let mut files: Vec<PathBuf> = named.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn agreed(options: &Options) -> Result<bool, Failure> {
    if options.yes || options.agreed {
        return Ok(true);
    }
    let asked = verb::confirmed("Change this? [y/N] ").ok_or(Failure::NobodyToAsk)?;
    if !asked {
        output::note(&"nothing is changed");
    }
    Ok(asked)
}

/// Runs this verb again as root. A `sudo` that makes no root would be asked again and again.
fn as_root(options: &[&str], given: &Options) -> Exit {
    if given.agreed {
        return Err(Failure::RootOnly { what: "profiles of AppArmor" });
    }
    let own = std::env::current_exe().map_err(|source| SetupError::Program { source })?;
    let path = std::env::var_os("PATH");
    let Found::Program(sudo) = executable::find(OsStr::new("sudo"), path.as_deref(), Path::new("/")) else {
        let words: Vec<&str> =
            options.iter().map(|word| if *word == "--agreed" { "--yes" } else { word }).collect();
        let command = format!("{} setup {}", quoted(&own.to_string_lossy()), words.join(" "));
        return Err(SetupError::NoSudo { command }.into());
    };
    let failed = |source| SetupError::Child { program: sudo.clone(), uid: 0, source };
    let ended =
        Command::new(&sudo).arg("--").arg(&own).arg("setup").args(options).status().map_err(failed)?;
    Ok(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR))
}
