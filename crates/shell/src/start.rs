// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out in which terminal this process is, and writes the script that a shell's start-up file evaluates.
//!
//! The line in the start-up file is evaluated twice. In the user's shell, the script makes the shell become the proxy.
//! In the shell that the proxy starts, the script installs the hooks. A variable that names the terminal tells the two
//! cases apart. In another terminal (for example a multiplexer's pane) the variable has no effect.
//!
//! The nonce comes through a pipe that is read once, so it is in no process's environment.

use crate::mark::{NONCE, Nonce, Shell};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// `TERMINAL:DESCRIPTOR`: the proxy serves this terminal, and the nonce can be read from this descriptor.
pub const INSIDE: &str = "PALISADE_SHELL";
/// `TERMINAL`: no proxy in this terminal, although the start-up file asks for one.
pub const OFF: &str = "PALISADE_SHELL_OFF";

/// The terminal of this process, and what the environment says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The number of the controlling terminal; 0 if there is none.
    pub terminal: u64,
    /// The proxy serves this terminal.
    pub inside: bool,
    /// There must be no proxy here.
    pub off: bool,
    /// The descriptor with the nonce, if the nonce hasn't been read.
    pub descriptor: Option<i32>,
}

impl Surroundings {
    /// Reads the surroundings of this process.
    #[must_use]
    pub fn now() -> Self {
        let read = |name| std::env::var(name).ok();
        Self::of(terminal(), read(INSIDE).as_deref(), read(OFF).as_deref())
    }

    fn of(terminal: u64, inside: Option<&str>, off: Option<&str>) -> Self {
        let (number, descriptor) = inside.map_or((None, None), |text| {
            let (number, descriptor) = text.split_once(':').unwrap_or((text, ""));
            (number.parse().ok(), descriptor.parse().ok())
        });
        let here = |number: Option<u64>| terminal != 0 && number == Some(terminal);
        let inside = here(number);
        let off = here(off.and_then(|text| text.parse().ok()));
        Self { terminal, inside, off, descriptor: descriptor.filter(|_| inside) }
    }
}

/// The path of the user's settings.
#[must_use]
pub fn settings() -> PathBuf {
    below("XDG_CONFIG_HOME", ".config").join("shell.toml")
}

/// The directory for the history and other state.
#[must_use]
pub fn state() -> PathBuf {
    below("XDG_STATE_HOME", ".local/state")
}

/// Palisade's directory in the directory that a variable names, or else in `usual` in the home.
fn below(variable: &str, usual: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(usual);
    named.unwrap_or_else(home).join("palisade")
}

/// The user's shell.
#[must_use]
pub fn usual() -> PathBuf {
    let named = std::env::var_os("SHELL").map(PathBuf::from).filter(|path| path.is_absolute());
    named.unwrap_or_else(|| "/bin/sh".into())
}

/// The number of this process's controlling terminal; 0 if there is none.
#[must_use]
pub fn terminal() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may contain anything.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ')
        .nth(4)
        .and_then(|number| number.parse::<i32>().ok())
        .map_or(0, |number| u64::from(number.unsigned_abs()))
}

/// The number of a pseudo-terminal, in the form of the process's status.
///
/// # Errors
/// The kernel's error.
pub fn number(terminal: BorrowedFd<'_>) -> std::io::Result<u64> {
    let device = rustix::fs::fstat(terminal)?.st_rdev;
    let (major, minor) = (u64::from(rustix::fs::major(device)), u64::from(rustix::fs::minor(device)));
    Ok((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

/// Reads the nonce from a descriptor; `None` if it was read already.
#[must_use]
pub fn nonce(descriptor: i32) -> Option<String> {
    let mut file = File::open(format!("/proc/self/fd/{descriptor}")).ok()?;
    rustix::io::ioctl_fionbio(&file, true).ok()?;
    let mut digits = [0; NONCE];
    file.read_exact(&mut digits).ok()?;
    let digits = String::from_utf8(digits.to_vec()).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)
}

/// The script that a shell's start-up file evaluates. `program` is this program; `shell` is the shell's program.
#[must_use]
pub fn script(kind: Shell, here: &Surroundings, program: &Path, shell: Option<&Path>) -> String {
    if here.terminal == 0 || here.off {
        return String::new();
    }
    if !here.inside {
        return becoming(kind, program, shell);
    }
    let Some(descriptor) = here.descriptor else { return String::new() };
    let Some(nonce) = nonce(descriptor) else { return String::new() };
    hooks(kind, &nonce, descriptor, program)
}

/// What makes a shell without arguments install its hooks, whatever its start-up files contain.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Arguments to put before all others.
    pub(crate) arguments: Vec<OsString>,
    /// The descriptor that an argument names. It can be read once.
    pub(crate) file: Option<OwnedFd>,
    /// Variables for the shell's environment.
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

/// zsh can be given only a directory of start-up files. This directory has a single file.
const ZSH: &str = "zsh";

impl Asked {
    /// For a shell, recognised by its program's name; empty for an unknown shell.
    ///
    /// # Errors
    /// The kernel's error: a pipe can't be made, or zsh's file can't be written below `state`.
    pub(crate) fn of(shell: &Path, program: &Path, state: &Path) -> io::Result<Self> {
        let name = shell.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some(kind) = Shell::ALL.into_iter().find(|kind| kind.name() == name) else {
            return Ok(Self::default());
        };
        let ask = format!("{} shell init {name}", quoted(program));
        match kind {
            // The system's start-up file is read before.
            Shell::Bash => {
                let (reader, mut writer) = io::pipe()?;
                let file = OwnedFd::from(reader);
                let number = file.as_raw_fd();
                write!(writer, "exec {number}<&-\n[ ! -r ~/.bashrc ] || . ~/.bashrc\neval \"$({ask})\"\n")?;
                let arguments = vec!["--rcfile".into(), format!("/dev/fd/{number}").into()];
                Ok(Self { arguments, file: Some(file), variables: Vec::new() })
            }
            Shell::Fish => {
                let arguments = vec!["-C".into(), format!("{ask} | source").into()];
                Ok(Self { arguments, ..Self::default() })
            }
            Shell::Zsh => {
                let directory = state.join(ZSH);
                fs::create_dir_all(&directory)?;
                let text = include_str!("start/zshenv.zsh").replace("@ASK@", &ask);
                let path = directory.join(".zshenv");
                if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                    let new = directory.join(format!(".zshenv.{}", std::process::id()));
                    fs::write(&new, text)?;
                    fs::rename(new, path)?;
                }
                let mut variables = vec![("ZDOTDIR", directory.into_os_string())];
                variables.extend(std::env::var_os("ZDOTDIR").map(|before| ("PALISADE_ZDOTDIR", before)));
                Ok(Self { variables, ..Self::default() })
            }
        }
    }
}

/// The script that installs the hooks.
fn hooks(kind: Shell, nonce: &str, descriptor: i32, program: &Path) -> String {
    let text = match kind {
        Shell::Bash => include_str!("start/bash.sh"),
        Shell::Zsh => include_str!("start/zsh.zsh"),
        Shell::Fish => include_str!("start/fish.fish"),
    };
    let (descriptor, program) = (descriptor.to_string(), quoted(program));
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| line.replace("@NONCE@", nonce).replace("@DESCRIPTOR@", &descriptor))
        .map(|line| line.replace("@PROGRAM@", &program) + "\n")
        .collect()
}

/// The script that makes a shell the proxy. If the shell is a login shell, the proxy's shell is one, too.
fn becoming(kind: Shell, program: &Path, shell: Option<&Path>) -> String {
    let program = quoted(program);
    let default = PathBuf::from(kind.name());
    let shell = quoted(shell.unwrap_or(&default));
    match kind {
        Shell::Bash => format!(
            "if [[ $- == *i* && -t 0 && -t 1 && -x {program} ]]; then\n\
             if shopt -q login_shell; then exec {program} shell --shell {shell} -- -l; else exec {program} shell --shell {shell}; fi\nfi\n"
        ),
        Shell::Zsh => format!(
            "if [[ -o interactive && -t 0 && -t 1 && -x {program} ]]; then\n\
             if [[ -o login ]]; then exec {program} shell --shell {shell} -- -l; else exec {program} shell --shell {shell}; fi\nfi\n"
        ),
        Shell::Fish => format!(
            "if status is-interactive; and isatty stdout; and test -x {program}\n\
             if status is-login; exec {program} shell --shell {shell} -- -l <&1; else; exec {program} shell --shell {shell} <&1; end\nend\n"
        ),
    }
}

/// A path as a quoted word for all three shells.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut quoted = String::from("'");
    for character in text.chars() {
        match character {
            // The quote is escaped outside of quotes, because only fish knows \' inside them.
            '\'' => quoted.push_str("'\\''"),
            '\\' => quoted.push_str("'\\\\'"),
            other => quoted.push(other),
        }
    }
    quoted.push('\'');
    quoted
}

/// A random nonce from the kernel.
///
/// # Errors
/// The kernel's error.
pub fn new_nonce() -> std::io::Result<Nonce> {
    let mut random = [0; NONCE / 2];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(Nonce::of(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_on_its_own_terminal_only() {
        for (terminal, inside, off, wanted) in [
            (34817, Some("34817:9"), None, (true, false, Some(9))),
            (34818, Some("34817:9"), None, (false, false, None)),
            (0, Some("0:9"), Some("0"), (false, false, None)),
            (34817, Some("34817"), None, (true, false, None)),
            (34817, Some("nonsense:9"), Some("34817"), (false, true, None)),
            (34817, None, None, (false, false, None)),
        ] {
            let here = Surroundings::of(terminal, inside, off);
            assert_eq!((here.inside, here.off, here.descriptor), wanted, "{terminal} {inside:?} {off:?}");
        }
    }

    #[test]
    fn without_a_terminal_nothing_is_evaluated() {
        let here = Surroundings::of(0, None, None);
        assert_eq!(script(Shell::Bash, &here, Path::new("/usr/bin/palisade"), None), "");
    }

    #[test]
    fn a_nonce_is_read_once() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = std::io::pipe().unwrap();
        let wanted = new_nonce().unwrap();
        writer.write_all(wanted.digits()).unwrap();
        let first = nonce(reader.as_raw_fd());
        assert_eq!(first.as_deref().map(str::as_bytes), Some(wanted.digits()));
        assert_eq!(nonce(reader.as_raw_fd()), None);
    }

    #[test]
    fn words_are_quoted_for_every_shell() {
        assert_eq!(quoted(Path::new("/a b/it's\\x")), "'/a b/it'\\''s'\\\\'x'");
        for shell in ["bash", "zsh", "fish"] {
            let said = std::process::Command::new(shell)
                .args(["-c", &format!("printf %s {}", quoted(Path::new("/a b/it's\\x $y")))])
                .output();
            if let Ok(said) = said {
                assert_eq!(String::from_utf8_lossy(&said.stdout), "/a b/it's\\x $y", "{shell}");
            }
        }
    }
}
