// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the program that a command on the command line would run, as `execvp` finds it.
//!
//! It is used to explain, to choose the exit code (127 not found, 126 not executable) before anything is launched,
//! and to find out which other files a script needs.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Where `execvp` looks when `PATH` isn't set (glibc's `_CS_PATH`; musl has `/usr/local/bin` first, but the command
/// inside finds its own children with its own library).
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The kernel reads this much of a file to recognise it (`BINPRM_BUF_SIZE`, since 5.1).
const HEAD: usize = 256;

/// The result of looking for a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// The file that would run. Not canonical: programs such as busybox use their own name.
    Program(PathBuf),
    /// There is no file of that name.
    NotFound,
    /// There is such a file, but its mode, or its mount, doesn't permit executing it.
    NotExecutable(PathBuf),
    /// It is a directory.
    Directory(PathBuf),
}

impl Found {
    /// The exit code that `run` ends with when this can't be run; `None` when it can.
    #[must_use]
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            Self::Program(_) => None,
            Self::NotFound => Some(127),
            Self::NotExecutable(_) | Self::Directory(_) => Some(126),
        }
    }
}

/// Finds `command` as `execvp` does: with a `/` in it, relative to `cwd`; otherwise in the
/// directories of `path`, an empty one meaning `cwd`. A candidate that may not be run is
/// remembered but doesn't end the search.
#[must_use]
pub fn find(command: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Found {
    find_where(command, path, cwd, |_directory| true)
}

/// The same, but it searches only directories that may contain the command.
#[must_use]
pub fn find_where(
    command: &OsStr,
    path: Option<&OsStr>,
    cwd: &Path,
    may_have: impl Fn(&Path) -> bool,
) -> Found {
    if command.is_empty() {
        return Found::NotFound;
    }
    if command.as_bytes().contains(&b'/') {
        return judge(cwd.join(command));
    }
    let mut refused = Found::NotFound;
    for directory in std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        let directory = cwd.join(directory);
        if !may_have(&directory) {
            continue;
        }
        match judge(directory.join(command)) {
            found @ Found::Program(_) => return found,
            Found::NotFound => {}
            other => {
                if refused == Found::NotFound {
                    refused = other;
                }
            }
        }
    }
    // For a shell's user a directory on PATH that has the command's name is no candidate.
    if matches!(refused, Found::Directory(_)) {
        return Found::NotFound;
    }
    refused
}

fn judge(path: PathBuf) -> Found {
    match rustix::fs::stat(&path) {
        Err(Errno::ACCESS) => Found::NotExecutable(path),
        Err(_) => Found::NotFound,
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Found::Directory(path),
            FileType::RegularFile if rustix::fs::access(&path, Access::EXEC_OK).is_ok() => {
                Found::Program(path)
            }
            _ => Found::NotExecutable(path),
        },
    }
}

/// What kind of program a file is, by its first bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// An ELF file.
    Elf,
    /// A script with its interpreter line.
    Script(Interpreter),
    /// Neither. The kernel answers ENOEXEC; shells then try it as a shell script.
    Unknown,
}

/// A script's first line, `#!PROGRAM [ARGUMENT]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The interpreter, as written.
    pub program: PathBuf,
    /// All that follows is one argument on Linux.
    pub argument: Option<OsString>,
}

impl Interpreter {
    /// The command that `#!/usr/bin/env NAME` (also `env -S NAME …`) runs.
    #[must_use]
    pub fn env_command(&self) -> Option<&OsStr> {
        if self.program.file_name() != Some(OsStr::new("env")) {
            return None;
        }
        self.argument
            .as_ref()?
            .as_bytes()
            .split(|byte| byte.is_ascii_whitespace())
            .map(|word| word.strip_prefix(b"-S").unwrap_or(word))
            .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))
            .map(OsStr::from_bytes)
    }
}

/// Why a program's kind couldn't be read.
#[derive(Debug, thiserror::Error)]
pub enum ExecutableError {
    /// The file can't be opened or read. A program may be executable but unreadable.
    #[error("can't read the start of {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Reads what kind of program `path` is.
///
/// # Errors
/// When the file can't be read.
pub fn kind(path: &Path) -> Result<Kind, ExecutableError> {
    let error = |source| ExecutableError::Read { path: path.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| error(errno.into()))?;
    let mut head = Vec::with_capacity(HEAD);
    std::fs::File::from(fd).take(HEAD as u64).read_to_end(&mut head).map_err(error)?;
    Ok(classify(&head))
}

/// Determines the kind from a file's first bytes, by the rules of the kernel's `binfmt_script.c`.
#[must_use]
pub fn classify(head: &[u8]) -> Kind {
    if head.starts_with(b"\x7fELF") {
        return Kind::Elf;
    }
    let Some(line) = head.strip_prefix(b"#!") else {
        return Kind::Unknown;
    };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let whole = line.contains(&b'\n') || head.len() < HEAD;
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let start = line.iter().position(|byte| !blank(byte));
    let Some(line) = start.and_then(|start| line.get(start..)) else {
        return Kind::Unknown;
    };
    let end = line.iter().position(blank);
    // The kernel doesn't run a path that is cut off by the end of the buffer.
    if end.is_none() && !whole {
        return Kind::Unknown;
    }
    let (program, rest) = line.split_at(end.unwrap_or(line.len()));
    if program.is_empty() {
        return Kind::Unknown;
    }
    let rest = trim_blanks(rest);
    Kind::Script(Interpreter {
        program: PathBuf::from(OsStr::from_bytes(program)),
        argument: (!rest.is_empty()).then(|| OsStr::from_bytes(rest).to_owned()),
    })
}

/// Removes blanks at both ends. Blanks are spaces and tabs to the kernel. A carriage return is part of the name: this
/// is why scripts with CRLF fail with "not found".
fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(path: &Path, content: &str, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn searches_path_in_order_past_what_may_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        file(&a.join("tool"), "", 0o644);
        file(&b.join("tool"), "", 0o755);
        file(&a.join("plain"), "", 0o644);
        fs::create_dir(a.join("folder")).unwrap();
        let path = std::env::join_paths([&a, &b]).unwrap();
        let find = |name: &str| find(OsStr::new(name), Some(&path), dir.path());
        assert_eq!(find("tool"), Found::Program(b.join("tool")));
        assert_eq!(find("plain"), Found::NotExecutable(a.join("plain")));
        assert_eq!(find("plain").exit_code(), Some(126));
        assert_eq!(find("folder"), Found::NotFound);
        assert_eq!(find("nothing").exit_code(), Some(127));
        assert_eq!(find(""), Found::NotFound);
    }

    #[test]
    fn a_slash_means_the_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        file(&dir.path().join("sub/run"), "", 0o755);
        let found = |name: &str| find(OsStr::new(name), Some(OsStr::new("/none")), dir.path());
        assert_eq!(found("./sub/run"), Found::Program(dir.path().join("./sub/run")));
        assert_eq!(found("./sub"), Found::Directory(dir.path().join("./sub")));
        assert_eq!(found("./gone"), Found::NotFound);
        assert_eq!(
            find(OsStr::new("run"), Some(OsStr::new("")), &dir.path().join("sub")),
            Found::Program(dir.path().join("sub/run")),
            "an empty entry is the working directory"
        );
    }

    #[test]
    fn without_path_the_default_is_searched() {
        assert!(matches!(find(OsStr::new("sh"), None, Path::new("/")), Found::Program(_)));
    }

    #[test]
    fn interpreter_lines() {
        let script = |program: &str, argument: Option<&str>| {
            Kind::Script(Interpreter { program: program.into(), argument: argument.map(OsString::from) })
        };
        assert_eq!(classify(b"#!/bin/sh\necho"), script("/bin/sh", None));
        assert_eq!(
            classify(b"#! /usr/bin/env  -S python3 -u \n"),
            script("/usr/bin/env", Some("-S python3 -u"))
        );
        assert_eq!(classify(b"#!/bin/sh\r\n"), script("/bin/sh\r", None));
        assert_eq!(classify(b"#!/bin/sh"), script("/bin/sh", None));
        assert_eq!(classify(b"#!\n"), Kind::Unknown);
        assert_eq!(classify(b"#!   "), Kind::Unknown);
        assert_eq!(classify(b""), Kind::Unknown);
        assert_eq!(classify(b"\x7fELF\x02"), Kind::Elf);
        let long = [b"#!/".as_slice(), &[b'x'; 300]].concat();
        assert_eq!(classify(&long[..HEAD]), Kind::Unknown);
    }

    #[test]
    fn env_names_the_real_interpreter() {
        let env = |line: &[u8]| match classify(line) {
            Kind::Script(interpreter) => interpreter.env_command().map(OsStr::to_owned),
            _ => None,
        };
        assert_eq!(env(b"#!/usr/bin/env python3\n").unwrap(), "python3");
        assert_eq!(env(b"#!/usr/bin/env -S A=b uv run\n").unwrap(), "uv");
        assert_eq!(env(b"#!/usr/bin/env -Snode\n").unwrap(), "node");
        assert_eq!(env(b"#!/bin/sh -e\n"), None);
    }

    #[test]
    fn reads_the_kind_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        file(&path, "#!/bin/sh\n", 0o755);
        assert!(matches!(kind(&path), Ok(Kind::Script(_))));
        assert!(kind(&dir.path().join("none")).is_err());
        assert_eq!(kind(&std::env::current_exe().unwrap()).unwrap(), Kind::Elf);
    }
}
