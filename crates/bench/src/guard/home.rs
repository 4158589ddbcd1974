// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The home of an ordinary user on a bed, and the user's daily work: building a project of several crates, and installing
//! packages. That user may change every file that is opened, so the kernel may never answer by itself.
//!
//! Nothing is downloaded: crates depend on each other by path, and packages are archives beside the project. The compiler and
//! Node are those of the host, which isn't watched. Built programs aren't executed, and no package has a script, because the
//! default policies of both daemons refuse files that a user has just made.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::mount_bind;

use super::GuardError;
use super::bed::{Bed, USER, tool};
use crate::programs;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Job {
    /// `cargo build`, with nothing built before.
    Build,
    /// `npm ci`.
    Install,
}

/// The size of the project and of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) crates: usize,
    pub(crate) packages: usize,
}

/// The number of files in each crate and package, without the main one.
const MODULES: usize = 8;
/// The directories of the host's programs.
const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin";
/// One package in this many contains a program.
const PROGRAMS: usize = 10;

/// A home that can be copied to beds.
#[derive(Debug)]
pub(crate) struct Home {
    model: PathBuf,
    /// The compiler's directory, if it isn't one of the system's.
    toolchain: Option<PathBuf>,
    /// The jobs that can't be done, and why.
    pub(crate) missing: Vec<(Job, String)>,
}

impl Job {
    pub(crate) const ALL: [Self; 2] = [Self::Build, Self::Install];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Install => "install",
        }
    }

    fn directory(self, bed: &Path) -> PathBuf {
        home(bed).join(match self {
            Self::Build => "project",
            Self::Install => "site",
        })
    }

    fn made(self, bed: &Path) -> PathBuf {
        self.directory(bed).join(match self {
            Self::Build => "target",
            Self::Install => "node_modules",
        })
    }

    /// Removes the job's result.
    pub(crate) fn clear(self, bed: &Path) -> io::Result<()> {
        match fs::remove_dir_all(self.made(bed)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The command as the user types it.
    pub(crate) fn command(self, bed: &Path) -> Command {
        let (program, words): (_, &[&str]) = match self {
            Self::Build => ("cargo", &["build", "--offline", "--quiet"]),
            Self::Install => ("npm", &["ci", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]),
        };
        let path = format!("{}:{SYSTEM}", toolchain(bed).join("bin").display());
        let found = path.split(':').map(|directory| Path::new(directory).join(program));
        let program = found.into_iter().find(|path| path.exists()).unwrap_or_else(|| program.into());
        let mut command = Command::new(program);
        // The host's settings, caches and wrappers must have no effect. Setting the user's number also drops supplementary
        // groups.
        command.env_clear().env("PATH", path).env("HOME", home(bed)).env("LC_ALL", "C").env("USER", "user");
        command.args(words).current_dir(self.directory(bed)).stdin(Stdio::null()).stdout(Stdio::null());
        command.uid(USER).gid(USER);
        command
    }

    /// Whether the job's result exists.
    pub(crate) fn is_done(self, bed: &Path) -> bool {
        let made = self.made(bed);
        let there = |path: PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
        match self {
            // This program contains all crates.
            Self::Build => there(made.join("debug/app")),
            Self::Install => {
                let archives = fs::read_dir(self.directory(bed).join("packages")).into_iter().flatten();
                let mut names = archives.flatten().map(|archive| archive.path()).peekable();
                names.peek().is_some()
                    && names.all(|archive| {
                        archive.file_stem().is_some_and(|name| there(made.join(name).join("package.json")))
                    })
            }
        }
    }
}

/// The user's directory.
fn home(bed: &Path) -> PathBuf {
    bed.join("home")
}

fn toolchain(bed: &Path) -> PathBuf {
    bed.join("toolchain")
}

impl Home {
    /// Makes a home below `scratch`.
    pub(crate) fn prepare(scratch: &Path, size: Size) -> Result<Self, GuardError> {
        let model = scratch.join("home");
        let mut missing = Vec::new();
        let toolchain = match compiler() {
            Ok(toolchain) => toolchain,
            Err(why) => {
                missing.push((Job::Build, why));
                None
            }
        };
        if SYSTEM.split(':').all(|directory| programs::on_path(&format!("{directory}/npm")).is_none()) {
            missing.push((Job::Install, format!("`npm` is not in {SYSTEM}; apt install npm")));
        }
        if let Some(closed) = scratch.ancestors().skip(1).find(|path| !passes(path)) {
            let why = format!("no ordinary user gets past {}; --directory DIRECTORY", closed.display());
            missing.extend(Job::ALL.map(|job| (job, why.clone())));
        }
        fs::set_permissions(scratch, fs::Permissions::from_mode(0o711))
            .map_err(GuardError::prepare("open to users", scratch))?;
        project(&model.join("project"), size.crates).map_err(GuardError::prepare("write below", &model))?;
        site(&model.join("site"), size.packages)?;
        Ok(Self { model, toolchain, missing })
    }

    /// Copies the home to a bed.
    pub(crate) fn equip(&self, bed: &Bed) -> Result<(), GuardError> {
        let home = home(&bed.path);
        tool(Command::new("cp").arg("-a").arg(&self.model).arg(&home))?;
        tool(Command::new("chown").arg("-R").arg(format!("{USER}:{USER}")).arg(&home))?;
        if let Some(from) = &self.toolchain {
            let to = toolchain(&bed.path);
            // Visible through the bed, but on another file system.
            fs::create_dir_all(&to)
                .and_then(|()| mount_bind(from, &to).map_err(io::Error::from))
                .map_err(GuardError::prepare("show the compiler as", to))?;
        }
        Ok(())
    }
}

/// Whether every user can pass through the directory.
fn passes(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
}

/// The directory of the compiler that belongs to `cargo`, if it isn't one of the system's.
fn compiler() -> Result<Option<PathBuf>, String> {
    if programs::on_path("cc").is_none() {
        return Err("`cc`, which links, is not on PATH; apt install gcc".to_owned());
    }
    if programs::on_path("cargo").is_none() {
        return Err("`cargo` is not on PATH; https://rustup.rs".to_owned());
    }
    // The program on PATH may be a proxy that looks into its own user's home.
    let output = Command::new("rustc").args(["--print", "sysroot"]).stdin(Stdio::null()).output();
    let root = output.ok().filter(|output| output.status.success());
    let root = root.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    match root {
        Some(root) if programs::on_path(&root.join("bin/cargo").to_string_lossy()).is_some() => {
            Ok((root != Path::new("/usr")).then_some(root))
        }
        _ => Err("`rustc --print sysroot` names no directory with a cargo".to_owned()),
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

/// A program of this many crates. Each one needs two of those before it.
fn project(directory: &Path, crates: usize) -> io::Result<()> {
    write(
        &directory.join("Cargo.toml"),
        "[workspace]\nmembers = [\"app\", \"crates/*\"]\nresolver = \"2\"\n",
    )?;
    for number in 0..crates {
        let own = directory.join(format!("crates/part-{number}"));
        let mut manifest = manifest(&format!("part-{number}"));
        let needed: &[usize] = match number {
            0 => &[],
            1 => &[0],
            _ => &[number - 1, number / 2 - 1],
        };
        let mut lib = String::new();
        for other in needed {
            let _ = writeln!(manifest, "part-{other} = {{ path = \"../part-{other}\" }}");
        }
        for module in 0..MODULES {
            let _ = writeln!(lib, "pub mod module_{module};");
            write(&own.join(format!("src/module_{module}.rs")), &self::module(module, needed))?;
        }
        write(&own.join("Cargo.toml"), &manifest)?;
        write(&own.join("src/lib.rs"), &lib)?;
    }
    let (mut manifest, mut main) = (manifest("app"), "fn main() {\n    let mut sum = 0;\n".to_owned());
    for number in 0..crates {
        let _ = writeln!(manifest, "part-{number} = {{ path = \"../crates/part-{number}\" }}");
        let _ = writeln!(main, "    sum += part_{number}::module_0::Item::new(3).sum();");
    }
    main += "    println!(\"{sum}\");\n}\n";
    write(&directory.join("app/Cargo.toml"), &manifest)?;
    write(&directory.join("app/src/main.rs"), &main)
}

fn manifest(name: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n")
}

/// Typical source code: a type with derived traits, and functions that call each other.
fn module(number: usize, needed: &[usize]) -> String {
    let mut others = String::new();
    for other in needed {
        let _ =
            writeln!(others, "        sum += part_{other}::module_{number}::Item::new(self.count).sum();");
    }
    format!(
        "use std::collections::BTreeMap;\n\n\
         #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]\n\
         pub struct Item {{\n    pub name: String,\n    pub count: u64,\n    pub more: Vec<Option<String>>,\n}}\n\n\
         impl Item {{\n    pub fn new(count: u64) -> Self {{\n        \
         Self {{ name: format!(\"item {{count}}\"), count, more: vec![None; 3] }}\n    }}\n\n    \
         pub fn sum(&self) -> u64 {{\n        let mut sum = self.count + self.name.len() as u64;\n{others}        sum\n    }}\n\n    \
         pub fn by_length<'i>(items: &'i [Self]) -> BTreeMap<usize, Vec<&'i Self>> {{\n        \
         let mut all: BTreeMap<usize, Vec<&'i Self>> = BTreeMap::new();\n        \
         for item in items {{\n            all.entry(item.name.len()).or_default().push(item);\n        }}\n        all\n    }}\n}}\n"
    )
}

/// A page that needs this many packages, with the archives of all of them.
fn site(directory: &Path, packages: usize) -> Result<(), GuardError> {
    let written = |result: io::Result<()>| result.map_err(GuardError::prepare("write below", directory));
    let (mut needed, mut locked) = (Vec::new(), Vec::new());
    for number in 0..packages {
        let name = format!("part-{number}");
        let whole = directory.join("whole").join(&name);
        let own = whole.join("package");
        let program = number % PROGRAMS == 0;
        let bin = if program { format!(", \"bin\": {{ \"{name}\": \"bin.js\" }}") } else { String::new() };
        let manifest =
            format!("{{ \"name\": \"{name}\", \"version\": \"1.0.0\", \"main\": \"index.js\"{bin} }}\n");
        written(write(&own.join("package.json"), &manifest))?;
        written(write(&own.join("README.md"), &format!("# {name}\n\nWhat it is for.\n")))?;
        if program {
            written(write(&own.join("bin.js"), "#!/usr/bin/env node\nrequire('./index.js')\n"))?;
        }
        let mut index = String::new();
        for module in 0..MODULES {
            let _ = writeln!(index, "exports.module{module} = require('./lib/module{module}.js')");
            let text = format!(
                "'use strict'\nconst parts = []\nmodule.exports = function add (part) {{\n  \
                 parts.push(part + {module})\n  return parts.length\n}}\n"
            );
            written(write(&own.join(format!("lib/module{module}.js")), &text))?;
        }
        written(write(&own.join("index.js"), &index))?;
        let archive = directory.join(format!("packages/{name}.tgz"));
        written(fs::create_dir_all(directory.join("packages")))?;
        tool(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&whole).arg("package"))?;
        needed.push(format!("\"{name}\": \"file:packages/{name}.tgz\""));
        locked.push(format!(
            "\"node_modules/{name}\": {{ \"version\": \"1.0.0\", \"resolved\": \"file:packages/{name}.tgz\"{bin} }}"
        ));
    }
    written(fs::remove_dir_all(directory.join("whole")))?;
    let head =
        format!("\"name\": \"site\", \"version\": \"1.0.0\", \"dependencies\": {{ {} }}", needed.join(", "));
    written(write(&directory.join("package.json"), &format!("{{ {head} }}\n")))?;
    let lock = format!(
        "{{ \"name\": \"site\", \"version\": \"1.0.0\", \"lockfileVersion\": 3, \"requires\": true, \
         \"packages\": {{ \"\": {{ {head} }}, {} }} }}\n",
        locked.join(", ")
    );
    written(write(&directory.join("package-lock.json"), &lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_needs_two_before_it() {
        let directory = tempfile::tempdir().unwrap();
        project(directory.path(), 5).unwrap();
        let manifest = fs::read_to_string(directory.path().join("crates/part-4/Cargo.toml")).unwrap();
        assert!(manifest.contains("part-3 = { path") && manifest.contains("part-1 = { path"), "{manifest}");
        let main = fs::read_to_string(directory.path().join("app/src/main.rs")).unwrap();
        assert_eq!(main.matches("::sum(").count() + main.matches(".sum(").count(), 5);
    }

    #[test]
    fn a_job_is_done_when_all_of_it_is_there() {
        let bed = tempfile::tempdir().unwrap();
        let install = Job::Install;
        assert!(!install.is_done(bed.path()), "without archives nothing was installed");
        for name in ["a", "b"] {
            write(&install.directory(bed.path()).join(format!("packages/{name}.tgz")), "x").unwrap();
        }
        write(&install.made(bed.path()).join("a/package.json"), "{}").unwrap();
        assert!(!install.is_done(bed.path()));
        write(&install.made(bed.path()).join("b/package.json"), "{}").unwrap();
        assert!(install.is_done(bed.path()));
        install.clear(bed.path()).unwrap();
        install.clear(bed.path()).unwrap();
        assert!(!install.is_done(bed.path()) && !Job::Build.is_done(bed.path()));
    }
}
