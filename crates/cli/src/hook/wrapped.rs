// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command of a link in the directory of wrapped commands: the program of that name that is next on `PATH`.

use super::Started;
use crate::hook_error::HookError;
use crate::kept::Launch;
use palisade_host::account::{self, Databases};
use palisade_host::environment::Environment;
use palisade_host::executable::{self, Found};
use rustix::fs::Stat;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// It is set inside: what is started there is confined already.
const INSIDE: &str = "PALISADE_WRAPPED";

/// Where wrapped commands are: their links in `bin`, and a file for each beside that directory.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
}

impl Place {
    /// Below Palisade's own data directory.
    pub(crate) fn below(data: &Path) -> Self {
        Self { directory: data.join("wrapped") }
    }

    /// That of this process's user.
    fn of_process() -> Option<Self> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").or_else(home_of_account);
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(home()?.join(".local/share")))?;
        Some(Self::below(&data.join("palisade")))
    }

    /// The directory of the links, for `PATH`.
    pub(crate) fn links(&self) -> PathBuf {
        self.directory.join("bin")
    }

    /// A command's link.
    pub(crate) fn link(&self, name: &str) -> PathBuf {
        self.links().join(name)
    }

    /// The file with a command's options.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// `PATH` without the directory of the links, whatever it is called there.
    pub(crate) fn path_without(&self, path: &OsStr) -> Vec<PathBuf> {
        let identity = |path: &Path| rustix::fs::stat(path).ok().map(|stat: Stat| (stat.st_dev, stat.st_ino));
        let links = self.links();
        let own = identity(&links);
        let is_own = |directory: &Path| directory == links || own.is_some() && identity(directory) == own;
        std::env::split_paths(path).filter(|directory| !is_own(directory)).collect()
    }

    /// The program of a command: the first on `path` that isn't this one.
    pub(crate) fn program(name: &str, path: &OsStr) -> Option<PathBuf> {
        let myself = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
        let cwd = std::env::current_dir().unwrap_or_else(|_gone| PathBuf::from("/"));
        let is_other = |directory: &Path| {
            let file = directory.join(name).canonicalize().ok();
            file.is_none() || file != myself
        };
        match executable::find_where(OsStr::new(name), Some(path), &cwd, is_other) {
            Found::Program(program) => Some(program),
            _ => None,
        }
    }
}

/// The home that the database of users states, for a process without `HOME`.
fn home_of_account() -> Option<PathBuf> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let account = account::lookup(uid, gid, &Databases::default(), &Environment::empty());
    account.ok().map(|account| account.home)
}

/// Starts the command of a link. `None`: no such command is wrapped.
pub(super) fn started(name: &str, arguments: &[OsString]) -> Result<Option<Started>, HookError> {
    let Some(place) = Place::of_process() else { return Ok(None) };
    let Some(launch) = Launch::read(&place.file(name))? else { return Ok(None) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = place.path_without(&path);
    let joined = |directories: &[PathBuf]| {
        // A directory that was in `PATH` can be in it again.
        std::env::join_paths(directories).unwrap_or_else(|_separator| path.clone())
    };
    let program = Place::program(name, &joined(&directories));
    let program = program.ok_or_else(|| HookError::Gone { name: name.to_owned() })?;
    let mut command;
    if std::env::var_os(INSIDE).is_some() || launch.first_on_path.is_some() {
        directories.splice(0..0, launch.first_on_path);
        command = Command::new(&program);
        command.arg0(name).args(arguments);
    } else {
        let myself = std::env::current_exe().map_err(|source| HookError::Myself { source })?;
        command = Command::new(myself);
        // The program finds itself by its name, inside.
        command.arg0(env!("CARGO_BIN_NAME")).args(words(name, &launch)).args(arguments).env(INSIDE, name);
    }
    let source = command.env("PATH", joined(&directories)).exec();
    Err(HookError::Start { path: command.get_program().into(), source })
}

/// The launch of a wrapped command, up to its arguments.
pub(crate) fn words(name: &str, launch: &Launch) -> Vec<String> {
    let (verb, subject) = match &launch.open {
        Some(profile) => ("open", [profile.as_str(), "--"]),
        None => ("run", ["--", name]),
    };
    let options = launch.options.iter().map(String::as_str);
    std::iter::once(verb).chain(options).chain(subject).map(str::to_owned).collect()
}
