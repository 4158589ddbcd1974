// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The facts about one open or exec that a rule can ask for.
//!
//! Names and meanings are fapolicyd's (fapolicyd.rules(5)), because its users bring their rules unchanged.

use std::fmt;

/// Which permission the process asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `perm=open`: the file is opened (libraries and what interpreters read, too).
    Open,
    /// `perm=execute`: the file is opened to be executed (`execve`, and the interpreter that it names).
    Execute,
}

/// How the program in question was started, as `pattern=` sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Start {
    /// Not known (yet), or not an ELF program: no pattern matches.
    #[default]
    Unknown,
    /// `pattern=normal`: a dynamically linked ELF program.
    Normal,
    /// `pattern=ld_so`: the run-time linker was executed itself, with the program as its argument.
    LinkerItself,
    /// `pattern=static`: an ELF program without a dynamic section.
    Static,
}

/// Everything that rules can ask about one open or exec.
///
/// An implementation looks each fact up when a rule first asks for it, and keeps it: a rule set that never names
/// `ftype` never has a file's content read. Each answer stays the same for as long as the event lasts. A fact that
/// can't be found out has fapolicyd's value for that: `?` for text, `u32::MAX` for a number, `false` for trust.
pub trait Facts {
    /// The access that the process asks for.
    fn access(&self) -> Access;

    /// The login user (`/proc/PID/loginuid`), `u32::MAX` without one.
    fn auid(&self) -> u32;
    /// The process's user ids: real, effective, saved and file system; any of them matches.
    fn uids(&self) -> &[u32];
    /// The process's group ids, supplementary ones too; any of them matches.
    fn gids(&self) -> &[u32];
    /// The session of the audit system (`/proc/PID/sessionid`), `u32::MAX` without one.
    fn session(&self) -> u32;
    /// The process (thread group).
    fn pid(&self) -> u32;
    /// The process's parent.
    fn ppid(&self) -> u32;
    /// Is the process's program in the trust database?
    fn subject_trusted(&self) -> bool;
    /// The process's short name (`/proc/PID/comm`), without the newline.
    fn comm(&self) -> &[u8];
    /// The path of the process's program (`/proc/PID/exe`, without ` (deleted)`).
    fn exe(&self) -> &[u8];
    /// The MIME type of the process's program.
    fn subject_kind(&self) -> &str;
    /// How the process's program was started.
    fn start(&self) -> Start;
    /// Is `LD_PRELOAD` or `LD_AUDIT` in the environment that the program was started with (`pattern=ld_preload`)?
    fn preloads(&self) -> bool;

    /// The path of the file, with symbolic links followed.
    fn path(&self) -> &[u8];
    /// The device and inode of the file, where they are known. Events don't have them, because no rule asks for them.
    fn file_id(&self) -> Option<(u64, u64)> {
        None
    }
    /// The device that the file is on, as a name below `/dev`.
    fn device(&self) -> &[u8];
    /// The MIME type of the file.
    fn kind(&self) -> &str;
    /// Is the file in the trust database, and what the database says of it?
    fn trusted(&self) -> bool;
    /// The file's SHA-256 in lowercase hexadecimal; `None` if the file can't be read or is too large to be hashed for a
    /// rule.
    fn hash(&self) -> Option<&str>;
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Execute => "execute",
        })
    }
}
