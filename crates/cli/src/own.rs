// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade self`: says which program this is, how it was installed, and which commands update and remove it.

mod cargo;
mod checkout;
mod homebrew;
mod installation;
mod nix;
mod npm;
mod setup;
mod system;
mod wheel;

use crate::situation;
use crate::verb::{self, Failure, YES};
use installation::{Installation, Program};
use palisade_desktop::Desktop;
use palisade_host::environment::Environment;
use palisade_host::places::Places;
use palisade_text::Show as _;
use serde::Serialize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How to answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It reads the records of dpkg, rpm, pip, pipx, uv, npm, cargo, Nix, Homebrew and palisade setup. It runs no other program,
and changes nothing.")]
pub(crate) struct Options {
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// The answer.
#[derive(Serialize)]
struct Answer {
    #[serde(serialize_with = "verb::lossy")]
    path: PathBuf,
    version: &'static str,
    architecture: &'static str,
    /// Whether the program needs no library of the host.
    #[serde(rename = "static")]
    is_static: bool,
    #[serde(flatten)]
    installation: Installation,
    /// What the user's launches have made. No command of `remove` removes these.
    stays: Vec<String>,
    /// Other programs of this name on `PATH`.
    others: Vec<String>,
}

/// A record of an installation can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnError {
    /// dpkg's.
    #[error("can't tell whether dpkg installed {path:?}: {source}")]
    Dpkg {
        /// The program.
        path: PathBuf,
        /// Why.
        source: palisade_guard::trust::dpkg::Error,
    },
    /// rpm's.
    #[error("can't tell whether rpm installed {path:?}: {source}")]
    Rpm {
        /// The program.
        path: PathBuf,
        /// Why.
        source: palisade_guard::trust::rpm::Error,
    },
}

impl OwnError {
    /// The command that asks the package manager itself.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Dpkg { path, .. } => format!("dpkg --search {}", installation::word(path)),
            Self::Rpm { path, .. } => format!("rpm --query --file {}", installation::word(path)),
        }
    }
}

/// Prints the answer. Returns 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    let told = answer().and_then(|answer| verb::tell(options.json, &answer, words));
    verb::finish(options.json, told.map(|()| YES))
}

fn answer() -> Result<Answer, Failure> {
    let myself = Path::new("/proc/self/exe");
    let path = myself.read_link().map_err(|source| Failure::Read { path: myself.to_owned(), source })?;
    // A file that was removed has ` (deleted)` behind its name.
    let file = path.metadata().map_err(|source| Failure::Read { path: path.clone(), source })?;
    let environment = Environment::from_iter(std::env::vars_os());
    let home = environment.absolute("HOME");
    let program = Program { path: &path, environment: &environment };
    let installation = setup::extended(find(&program)?, &program);
    let places = home.map(|home| Places::new(home, rustix::process::getuid().as_raw(), &environment));
    let stays = places.iter().flat_map(|places| [&places.config, &places.data, &places.state, &places.cache]);
    let stays = stays
        .filter(|directory| directory.is_dir())
        .map(|directory| directory.to_string_lossy().into_owned());
    let on_path =
        environment.absolute_list("PATH").into_iter().map(|directory| directory.join(env!("CARGO_BIN_NAME")));
    let is_other = |other: &PathBuf| {
        other
            .metadata()
            .is_ok_and(|other| other.is_file() && (other.dev(), other.ino()) != (file.dev(), file.ino()))
    };
    let mut others: Vec<String> =
        on_path.filter(is_other).map(|other| other.to_string_lossy().into_owned()).collect();
    others.sort_unstable();
    others.dedup();
    Ok(Answer {
        version: env!("CARGO_PKG_VERSION"),
        architecture: std::env::consts::ARCH,
        is_static: cfg!(target_feature = "crt-static"),
        installation: without_entries(installation),
        stays: stays.collect(),
        others,
        path,
    })
}

/// The first record that names the program. The package databases come last, because they are large.
fn find(program: &Program<'_>) -> Result<Installation, OwnError> {
    let places =
        [setup::find, nix::find, npm::find, homebrew::find, wheel::find, cargo::find, checkout::find];
    if let Some(found) = places.iter().find_map(|find| find(program)) {
        return Ok(found);
    }
    Ok(system::find(program)?.unwrap_or_else(|| installation::copied(program)))
}

/// Links and desktop entries that start this program would start nothing once it is gone.
fn without_entries(mut installation: Installation) -> Installation {
    let enabled = situation::facts()
        .is_ok_and(|mut facts| Desktop::of(&mut facts).names().is_ok_and(|names| !names.is_empty()));
    if enabled {
        installation.remove.insert(0, "palisade desktop disable --all".to_owned());
    }
    installation
}

fn words(answer: &Answer) -> String {
    let Answer { path, version, architecture, is_static, installation, stays, others } = answer;
    let linked = if *is_static { "static" } else { "not static" };
    let mut lines = vec![
        ("program", path.shown().to_string()),
        ("version", format!("{version}, {architecture}, {linked}")),
        ("installed", palisade_text::harmless(&installation.words)),
    ];
    let commands = [("to update", &installation.update), ("to remove", &installation.remove)];
    for (label, commands) in commands.into_iter().chain([("stays", stays), ("also on PATH", others)]) {
        lines.extend(commands.iter().map(|text| (label, palisade_text::harmless(text))));
    }
    let mut text = String::new();
    let mut last = "";
    for (label, line) in lines {
        let shown = if label == last { "" } else { label };
        text.push_str(&format!("{shown:<12}  {line}\n"));
        last = label;
    }
    text
}
