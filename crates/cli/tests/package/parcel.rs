// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes packages for tests, and root directories that contain nothing else.

use crate::support::{Place, Run, job};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package, below a place's home.
pub(crate) struct Parcel {
    pub(crate) file: PathBuf,
    /// The messages when it was made.
    pub(crate) said: String,
}

/// Writes a profile of a shell and three programs.
pub(crate) fn profile(place: &Place, name: &str, more: &str) {
    let shell = "[closure]\nprograms = [\"cat\", \"ls\", \"head\"]\n";
    let program = if more.contains("[program]") { "" } else { "[program]\npath = \"sh\"\n" };
    let (top, sections) = match more.find('[').filter(|at| more[*at..].starts_with("[\"")) {
        Some(_list) => (more, ""),
        None => ("", more),
    };
    place.write(
        &format!(".config/palisade/profiles/{name}.toml"),
        format!("schema = 1\nname = \"{name}\"\n{top}{program}{shell}{sections}"),
    );
}

impl Parcel {
    /// A shell's.
    pub(crate) fn shell(place: &Place) -> Self {
        Self::with(place, "")
    }

    /// A shell's, with more in its profile.
    pub(crate) fn with(place: &Place, more: &str) -> Self {
        profile(place, "app", more);
        Self::of(place, "app")
    }

    /// A profile's.
    #[track_caller]
    pub(crate) fn of(place: &Place, profile: &str) -> Self {
        Self::stating(place, profile, &[])
    }

    /// A profile's, with more options than those that say what is made of what.
    #[track_caller]
    pub(crate) fn stating(place: &Place, profile: &str, options: &[&str]) -> Self {
        let file = place.home.join(format!("{profile}.run"));
        let mut pack = place.command(place.binary());
        let run = job::finish(pack.args(["package", profile]).args(options).arg("--output").arg(&file));
        assert!(run.ok().contains("files"), "{run:?}");
        Self { file, said: run.err }
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, place: &Place, arguments: &[&str]) -> Run {
        job::finish(place.command(&self.file).args(arguments))
    }
}

/// Whether a program needs nothing of its host.
pub(crate) fn is_static(program: &Path) -> bool {
    let elf = palisade_host::elf::read(&program.canonicalize().unwrap());
    elf.unwrap().interpreter.is_none()
}

/// A program in a root that has the kernel's file systems, a home, and itself.
pub(crate) fn bare(place: &Place, program: &Path) -> Command {
    let mut bwrap = place.command("bwrap");
    // If bwrap made a new /proc it would cover parts of it, and then no process inside could mount another.
    bwrap.args(["--tmpfs", "/", "--dev-bind", "/proc", "/proc", "--dev", "/dev", "--bind"]);
    bwrap.args([&place.home, &place.home]).arg("--chdir").arg(&place.work).arg(program);
    bwrap
}

/// A command for which a directory has room for a megabyte.
pub(crate) fn no_room(place: &Place, directory: &Path) -> Command {
    std::fs::create_dir_all(directory).unwrap();
    std::os::unix::fs::chown(directory, Some(place.uid), Some(place.gid)).unwrap();
    let mut bwrap = place.command("bwrap");
    bwrap.args(["--dev-bind", "/", "/", "--size", "1048576", "--tmpfs"]).arg(directory);
    bwrap
}

/// Names below the place's cache of packages.
fn names(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.home.join(".cache/palisade/packages"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Those that are unpacked.
pub(crate) fn packages(place: &Place) -> Vec<String> {
    names(place).into_iter().filter(|name| !name.starts_with('.')).collect()
}

/// Those that are being unpacked, or were.
pub(crate) fn unfinished(place: &Place) -> Vec<String> {
    names(place).into_iter().filter(|name| name.starts_with(".unfinished")).collect()
}
