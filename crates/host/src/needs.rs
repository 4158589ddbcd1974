// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out what a program needs of the host, as far as that is visible without running it: the program itself and
//! the paths by which it is reached, its interpreter, their libraries, and the directories that belong to them.
//!
//! No file says which directories belong to a program. By custom they have the program's name: `/usr/lib/NAME`,
//! `/usr/share/NAME`, `/etc/NAME`. Files in them may be loaded, so the libraries of those files are needed, too.
//! Directories with other names are in a table (`RELATED`), or must be granted.

mod own;

use palisade_text::Show as _;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::closure::{ClosureError, Libraries, Missing};
use crate::elf::ElfError;
use crate::executable::{self, ExecutableError, Found, Kind};
use crate::names::Names;
use crate::script::{self, Script, ScriptError};
use own::{Inside, Places};

/// What a program needs.
#[derive(Debug, Default)]
pub struct Needs {
    /// The program and its interpreters, by the paths by which they are reached: links aren't followed.
    pub programs: Vec<PathBuf>,
    /// Files that scripts read.
    pub files: BTreeSet<PathBuf>,
    /// Libraries and loaders, by the paths by which they are opened.
    pub libraries: BTreeSet<PathBuf>,
    /// Directories that belong to the programs.
    pub directories: BTreeSet<PathBuf>,
    /// Missing libraries.
    pub missing: Vec<Missing>,
    /// Scripts whose needs couldn't be determined.
    pub unread: Vec<ScriptError>,
}

/// Why the needs of a program can't be determined.
#[derive(Debug, thiserror::Error)]
pub enum NeedsError {
    /// The program or its interpreter doesn't exist or can't be executed.
    #[error("can't find the program {name:?}{}", needed_by(.by))]
    NotFound {
        /// Its name or path.
        name: OsString,
        /// The script whose interpreter it is.
        by: Option<PathBuf>,
    },
    /// It can't be read.
    #[error(transparent)]
    Unreadable(#[from] ExecutableError),
    /// It can't be loaded.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// Each of these scripts is the interpreter of another one.
    #[error("{path} is a script whose interpreter is a script, and so on: more than {LEVELS} levels")]
    TooDeep {
        /// The last one.
        path: PathBuf,
    },
}

fn needed_by(by: &Option<PathBuf>) -> String {
    by.as_ref().map_or_else(String::new, |script| format!(", the interpreter of {}", script.shown()))
}

/// The depth of interpreters of interpreters that the kernel follows (`BINPRM_MAX_RECURSION`); `env` adds one to
/// each.
const LEVELS: usize = 8;
/// The most programs of one command, including those that scripts name.
const PROGRAMS: usize = 256;
/// Where scripts may name files by their paths. A script is untrusted: it can't make other files visible by naming
/// them; the user must grant them.
const DATA: [&str; 3] = ["/usr", "/etc", "/opt"];
/// The directory whose files may be named one by one. A directory in it must be named itself.
const SETTINGS: &str = "/etc";

/// From this number of programs on, listing the directories in which they are looked for pays off.
const MANY: usize = 16;

/// The most files in a program's directories whose libraries are looked for.
const LOADABLE: usize = 20_000;
/// A program's further needs, which can't be seen in its files.
#[derive(Debug, Default, Clone)]
pub struct More {
    /// Programs that it starts, by name or path; missing ones are ignored.
    pub programs: Vec<OsString>,
    /// Libraries that it opens, and directories of them.
    pub libraries: Vec<PathBuf>,
}

/// Finds out what `command`, found as `execvp` finds it, needs; and what the shell line `line` names, if `command` is
/// a shell that gets one.
///
/// # Errors
/// [`NeedsError`].
pub fn of(
    command: &OsStr,
    line: Option<&str>,
    path: Option<&OsStr>,
    cwd: &Path,
    more: &More,
    libraries: &Libraries,
    names: &Names,
) -> Result<Needs, NeedsError> {
    let mut needs = Needs::default();
    let many = more.programs.len() >= MANY;
    let mut search = Search { needs: &mut needs, path, cwd, libraries, names, many, later: Vec::new() };
    search.program(command, None, 0, true)?;
    for program in &more.programs {
        // A profile names programs that may be needed; missing ones are no error.
        let _absent = search.program(program, None, 0, false);
    }
    if let Some(line) = line {
        search.named(script::read_line(line), Path::new(command), 0)?;
    }
    let later = search.later;
    for closure in libraries.closures(&later).into_iter().flatten() {
        needs.libraries.extend(closure.objects.into_iter().skip(1));
        needs.missing.extend(closure.missing);
    }
    let places = Places::find(names, many);
    let mut loadable = Vec::new();
    let (directories, files): (Vec<_>, Vec<_>) =
        more.libraries.iter().cloned().partition(|path| path.is_dir());
    needs.libraries.extend(files.iter().cloned());
    loadable.extend(files);
    let mut pending: Vec<(PathBuf, bool)> =
        needs.programs.iter().flat_map(|program| places.of_program(program)).collect();
    pending.extend(needs.libraries.iter().flat_map(|library| places.of_library(library)));
    pending.extend(directories.into_iter().map(|directory| (directory, true)));
    let mut looked_into = BTreeSet::new();
    while let Some((directory, loads)) = pending.pop() {
        // A script may have named the directory already, and it may still contain files to load.
        needs.directories.insert(directory.clone());
        if !loads || !looked_into.insert(directory.clone()) {
            continue;
        }
        let mut inside = Inside::of(&directory, names);
        loadable.append(&mut inside.loadable);
        for path in inside.lead_out {
            if path.is_dir() {
                pending.push((path, false));
            } else {
                loadable.push(path.clone());
                needs.libraries.insert(path);
            }
        }
    }
    loadable.truncate(LOADABLE);
    for closure in libraries.closures(&loadable).into_iter().flatten() {
        // The file itself lies in a directory that is shown as a whole.
        needs.libraries.extend(closure.objects.into_iter().skip(1));
    }
    Ok(needs)
}

/// The places to search for programs, and the results so far.
struct Search<'s> {
    needs: &'s mut Needs,
    path: Option<&'s OsStr>,
    cwd: &'s Path,
    libraries: &'s Libraries,
    names: &'s Names,
    many: bool,
    /// Programs whose libraries are still to be found. Their libraries may be missing.
    later: Vec<PathBuf>,
}

impl Search<'_> {
    /// Adds a program and the files that are loaded for it or interpret it. If it is `wanted`, a failure is an error.
    fn program(
        &mut self,
        command: &OsStr,
        by: Option<&Path>,
        level: usize,
        wanted: bool,
    ) -> Result<(), NeedsError> {
        let may_have = |directory: &Path| !self.many || self.names.may_have(directory, command);
        let Found::Program(program) = executable::find_where(command, self.path, self.cwd, may_have) else {
            return Err(NeedsError::NotFound { name: command.to_owned(), by: by.map(Path::to_owned) });
        };
        if self.needs.programs.contains(&program) {
            return Ok(());
        }
        if level == LEVELS {
            return Err(NeedsError::TooDeep { path: program });
        }
        self.needs.programs.push(program.clone());
        let vanished = || {
            ClosureError::Elf(ElfError::Open {
                path: program.clone(),
                source: std::io::ErrorKind::NotFound.into(),
            })
        };
        let real = self.names.canonical(&program).ok_or_else(vanished)?;
        if !wanted && self.libraries.has(&real) {
            self.later.push(real);
            return Ok(());
        }
        match executable::kind(&real)? {
            Kind::Elf => {
                let closure = self.libraries.closure(&real)?;
                self.needs.libraries.extend(closure.objects.into_iter().skip(1));
                self.needs.missing.extend(closure.missing);
            }
            Kind::Script(interpreter) => {
                // A user's script may contain secrets. If it counted as an interpreter, a script that names it would
                // make it visible inside.
                let is_program = |path: &Path| self.is_data(path) || self.libraries.has(path);
                if !is_program(&interpreter.program) {
                    let name = interpreter.program.into_os_string();
                    return Err(NeedsError::NotFound { name, by: Some(real) });
                }
                self.program(interpreter.program.as_os_str(), Some(&real), level + 1, wanted)?;
                if let Some(command) = interpreter.env_command() {
                    self.program(command, Some(&real), level + 1, wanted)?;
                }
                let name = interpreter.env_command().or(interpreter.program.file_name()).unwrap_or_default();
                if script::is_shell(&name.to_string_lossy()) {
                    self.script(&real, level)?;
                }
            }
            // The kernel refuses the file, and the program that started it then runs it as a shell script.
            Kind::Unknown => {
                self.program(OsStr::new("/bin/sh"), Some(&real), level + 1, wanted)?;
                self.script(&real, level)?;
            }
        }
        Ok(())
    }

    /// Whether a script may name this path: its canonical path must be the system's, whatever path the script uses.
    fn is_data(&self, path: &Path) -> bool {
        self.names.canonical(path).is_some_and(|real| DATA.iter().any(|top| real.starts_with(top)))
    }

    /// Whether a script may make this path visible by naming it: every user of the host may read it. Root's scripts
    /// can't make secrets such as `/etc/shadow` visible.
    fn is_public(&self, path: &Path) -> bool {
        let mode = |path: &Path| path.metadata().map_or(0, |found| found.mode());
        self.is_data(path)
            && self.names.canonical(path).is_some_and(|real| {
                mode(&real) & 0o4 != 0 && real.ancestors().skip(1).all(|above| mode(above) & 0o1 != 0)
            })
    }

    /// Adds the existing files that a shell script names.
    fn script(&mut self, path: &Path, level: usize) -> Result<(), NeedsError> {
        self.named(script::read(path), path, level)
    }

    fn named(
        &mut self,
        named: Result<Script, ScriptError>,
        path: &Path,
        level: usize,
    ) -> Result<(), NeedsError> {
        let named = match named {
            Ok(named) => named,
            Err(error) => {
                self.needs.unread.push(error);
                return Ok(());
            }
        };
        for command in &named.commands {
            if command.contains('/') && !self.is_data(Path::new(command)) {
                continue;
            }
            if self.needs.programs.len() < PROGRAMS && level + 1 < LEVELS {
                // If the file is missing or isn't a program, the script can't run it either.
                let _absent = self.program(OsStr::new(command), Some(path), level + 1, false);
            }
        }
        for read in &named.sourced {
            if self.is_public(read)
                && read.is_file()
                && self.needs.files.insert(read.clone())
                && level + 1 < LEVELS
            {
                self.script(read, level + 1)?;
            }
        }
        for path in &named.paths {
            // The plan depends on a setting's absence, too: when the file is made, the next launch shows it.
            let absent = || path.parent() == Some(Path::new(SETTINGS)) && path.symlink_metadata().is_err();
            if !self.is_public(path) {
                if absent() {
                    self.needs.files.insert(path.clone());
                }
                continue;
            }
            let Some(real) = self.names.canonical(path) else { continue };
            // `/usr/share` alone would show everything in it.
            let deep = real.components().count() > 3;
            if deep && path.is_dir() {
                self.needs.directories.insert(path.clone());
            } else if (deep || real.parent() == Some(Path::new(SETTINGS))) && path.is_file() {
                self.needs.files.insert(path.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn needs(program: &Path) -> Result<Needs, NeedsError> {
        let path = OsStr::new("/usr/bin:/bin");
        let (libraries, names) = (Libraries::default(), Names::default());
        of(program.as_os_str(), None, Some(path), Path::new("/"), &More::default(), &libraries, &names)
    }

    #[test]
    fn a_script_needs_its_interpreter_and_its_libraries() {
        let directory = tempfile::tempdir().unwrap();
        let plain = needs(&script(directory.path(), "plain", "#!/bin/sh\n")).unwrap();
        assert_eq!(plain.programs.len(), 2);
        assert_eq!(plain.programs[1], Path::new("/bin/sh"));
        assert!(plain.libraries.iter().any(|path| path.ends_with("libc.so.6")), "{plain:?}");
        let by_env = needs(&script(directory.path(), "by-env", "#!/usr/bin/env -S sh -e\n")).unwrap();
        assert_eq!(by_env.programs[1..], ["/usr/bin/env", "/usr/bin/sh"].map(PathBuf::from));
        let without = needs(&script(directory.path(), "without", "echo\n")).unwrap();
        assert_eq!(without.programs[1], Path::new("/bin/sh"));
    }

    /// By naming files, a script can only make the system's files visible.
    #[test]
    fn a_script_names_nothing_of_the_users() {
        let directory = tempfile::tempdir().unwrap();
        let secret = script(directory.path(), "secret", "secret");
        let text = format!(
            "#!/bin/sh\n. {0}\n{0} x\ncat {0} <{0}\n. /usr/..{0}; /bin/..{0}; cat /usr/lib/../..{0} /usr/..{1}\n\
             /usr/bin/env x; ls /usr/share /etc /var/lib/x /usr/share/doc/.. /etc/ssl/../../root\n",
            secret.display(),
            directory.path().display()
        );
        let needs = needs(&script(directory.path(), "hostile", &text)).unwrap();
        let shown =
            needs.programs.iter().chain(&needs.files).chain(&needs.directories).chain(&needs.libraries);
        let shown: Vec<_> = shown.filter(|path| **path != directory.path().join("hostile")).collect();
        let real = |path: &PathBuf| path.canonicalize().unwrap();
        assert!(
            !shown.iter().any(|path| real(path).starts_with(real(&directory.path().into()))),
            "{shown:?}"
        );
        for broad in ["/usr/share", "/etc", "/usr", "/root"] {
            assert!(!needs.directories.iter().any(|path| real(path) == Path::new(broad)), "{broad}");
        }
        assert!(needs.programs.contains(&PathBuf::from("/usr/bin/env")));
    }

    /// A script and a profile may name the same directory: the libraries for its files are found in both cases.
    #[test]
    fn a_directory_that_is_named_twice_is_looked_into() {
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), "app", "#!/bin/sh\nls /usr/lib/git-core\n");
        let Some(loaded) = ["/usr/lib/git-core", "/usr/libexec/git-core"]
            .map(PathBuf::from)
            .into_iter()
            .find(|at| at.is_dir())
        else {
            return;
        };
        let more = More { programs: Vec::new(), libraries: vec![loaded] };
        let path = Some(OsStr::new("/usr/bin:/bin"));
        let needs = of(
            program.as_os_str(),
            None,
            path,
            Path::new("/"),
            &more,
            &Libraries::default(),
            &Names::default(),
        )
        .unwrap();
        assert!(needs.libraries.iter().any(|path| path.to_string_lossy().contains("libcurl")), "{needs:?}");
    }

    #[test]
    fn what_isnt_there_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let error =
            |name: &str, text: &str| needs(&script(directory.path(), name, text)).unwrap_err().to_string();
        let said = error("a", "#!/no/such\n");
        assert!(said.starts_with("can't find the program \"/no/such\", the interpreter of "), "{said}");
        let said = error("b", "#!/usr/bin/env no-such\n");
        assert!(said.contains("\"no-such\""), "{said}");
        let said = needs(Path::new("no-such")).unwrap_err().to_string();
        assert_eq!(said, "can't find the program \"no-such\"");
        // A user's scripts as interpreters, one of them the script itself.
        let other = script(directory.path(), "other", "#!/bin/sh\n");
        for interpreter in [&other, &directory.path().join("loop")] {
            let problem = needs(&script(directory.path(), "loop", &format!("#!{}\n", interpreter.display())));
            assert!(matches!(problem, Err(NeedsError::NotFound { by: Some(_), .. })), "{problem:?}");
        }
        // Each script names the next one on the path.
        let mut next = "sh".to_owned();
        for level in 0..=LEVELS {
            script(directory.path(), &format!("level-{level}"), &format!("#!/usr/bin/env {next}\n"));
            next = format!("level-{level}");
        }
        let path = std::env::join_paths([directory.path(), Path::new("/usr/bin")]).unwrap();
        let problem = of(
            OsStr::new(&next),
            None,
            Some(&path),
            Path::new("/"),
            &More::default(),
            &Libraries::default(),
            &Names::default(),
        );
        assert!(matches!(problem, Err(NeedsError::TooDeep { .. })), "{problem:?}");
    }
}
