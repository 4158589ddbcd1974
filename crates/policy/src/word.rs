// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of profiles and features that take words: choices, names and lists.
//!
//! Each type of key is one enum, so that the grammar, the parser, the printer and the schema each need only one arm
//! for all keys of that type.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::guarantee::Guarantee;
use crate::layer::Tighten;
use crate::pattern::PathPattern;
use crate::portal;
use crate::template;
use crate::value::ValueError;

/// Makes an enum whose values are words in a policy file, the narrowest first.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$what])* $value,)+ }

        impl $name {
            /// All values, narrowest first.
            pub const ALL: &'static [Self] = &[$(Self::$value,)+];

            /// The word in a policy file.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.key())
            }
        }
    };
}

words! {
    /// How files that arguments name may be used.
    PassFiles {
        /// They aren't visible.
        None = "none",
        /// They are readable.
        Read = "read",
        /// They are readable and executable.
        Execute = "execute",
        /// They are readable and writable.
        Write = "write",
    }
}

words! {
    /// The program's home.
    HomePolicy {
        /// An empty home that is removed at the end.
        None = "none",
        /// A private home that can't be changed.
        ReadOnly = "read-only",
        /// A private home; changes are discarded at the end.
        Overlay = "overlay",
        /// A private home that is kept.
        Private = "private",
    }
}

words! {
    /// What happens when another sandbox has the same home.
    HomeLock {
        /// The launch fails.
        Refuse = "refuse",
        /// The launch waits.
        Wait = "wait",
        /// The launch gets the home as an overlay: its changes are deleted at its end.
        Overlay = "overlay",
        /// Both sandboxes use the home.
        None = "none",
    }
}

words! {
    /// What happens to files in the working directory that hold secrets.
    Secrets {
        /// They are hidden; a file that git tracks is denied.
        Hide = "hide",
        /// They are shown as the rules say.
        Show = "show",
    }
}

words! {
    /// The access to a message bus.
    Bus {
        /// None.
        None = "none",
        /// What the lists allow.
        Filtered = "filtered",
        /// Full access.
        Host = "host",
    }
}

words! {
    /// When the sandbox ends.
    Wait {
        /// With its command.
        Command = "command",
        /// With its last process.
        All = "all",
    }
}

words! {
    /// What happens to system calls that weren't learned.
    SyscallMode {
        /// They are refused.
        Enforce = "enforce",
        /// The user is asked.
        Ask = "ask",
        /// They are made and recorded.
        Learn = "learn",
        /// They are made.
        Off = "off",
    }
}

words! {
    /// How a system call is refused.
    SyscallRefusal {
        /// The process is ended.
        Kill = "kill",
        /// The call fails.
        Errno = "errno",
    }
}

/// A key that takes one of several words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    /// `program.pass_files`.
    PassFiles,
    /// `home.policy`.
    HomePolicy,
    /// `home.lock`.
    HomeLock,
    /// `dbus.session`.
    Session,
    /// `dbus.system`.
    System,
    /// `process.wait`.
    Wait,
    /// `syscalls.mode`.
    SyscallMode,
    /// `syscalls.refusal`.
    SyscallRefusal,
    /// `filesystem.secrets`.
    Secrets,
}

/// A key with its chosen word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// `program.pass_files`.
    PassFiles(PassFiles),
    /// `home.policy`.
    HomePolicy(HomePolicy),
    /// `home.lock`.
    HomeLock(HomeLock),
    /// `dbus.session`.
    Session(Bus),
    /// `dbus.system`.
    System(Bus),
    /// `process.wait`.
    Wait(Wait),
    /// `syscalls.mode`.
    SyscallMode(SyscallMode),
    /// `syscalls.refusal`.
    SyscallRefusal(SyscallRefusal),
    /// `filesystem.secrets`.
    Secrets(Secrets),
}

impl Choice {
    /// All choices for this key, with their words.
    #[must_use]
    pub fn possible(self) -> Vec<(&'static str, Chosen)> {
        fn each<T: Copy>(
            all: &[T],
            key: fn(T) -> &'static str,
            chosen: fn(T) -> Chosen,
        ) -> Vec<(&'static str, Chosen)> {
            all.iter().map(|value| (key(*value), chosen(*value))).collect()
        }
        match self {
            Self::PassFiles => each(PassFiles::ALL, PassFiles::key, Chosen::PassFiles),
            Self::HomePolicy => each(HomePolicy::ALL, HomePolicy::key, Chosen::HomePolicy),
            Self::HomeLock => each(HomeLock::ALL, HomeLock::key, Chosen::HomeLock),
            Self::Session => each(Bus::ALL, Bus::key, Chosen::Session),
            Self::System => each(Bus::ALL, Bus::key, Chosen::System),
            Self::Wait => each(Wait::ALL, Wait::key, Chosen::Wait),
            Self::SyscallMode => each(SyscallMode::ALL, SyscallMode::key, Chosen::SyscallMode),
            Self::SyscallRefusal => each(SyscallRefusal::ALL, SyscallRefusal::key, Chosen::SyscallRefusal),
            Self::Secrets => each(Secrets::ALL, Secrets::key, Chosen::Secrets),
        }
    }

    /// The choice for a word.
    #[must_use]
    pub fn parse(self, word: &str) -> Option<Chosen> {
        self.possible().into_iter().find(|(known, _)| *known == word).map(|(_, chosen)| chosen)
    }
}

impl Chosen {
    /// The key.
    #[must_use]
    pub const fn choice(self) -> Choice {
        match self {
            Self::PassFiles(_) => Choice::PassFiles,
            Self::HomePolicy(_) => Choice::HomePolicy,
            Self::HomeLock(_) => Choice::HomeLock,
            Self::Session(_) => Choice::Session,
            Self::System(_) => Choice::System,
            Self::Wait(_) => Choice::Wait,
            Self::SyscallMode(_) => Choice::SyscallMode,
            Self::SyscallRefusal(_) => Choice::SyscallRefusal,
            Self::Secrets(_) => Choice::Secrets,
        }
    }

    /// The word in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::PassFiles(value) => value.key(),
            Self::HomePolicy(value) => value.key(),
            Self::HomeLock(value) => value.key(),
            Self::Session(value) | Self::System(value) => value.key(),
            Self::Wait(value) => value.key(),
            Self::SyscallMode(value) => value.key(),
            Self::SyscallRefusal(value) => value.key(),
            Self::Secrets(value) => value.key(),
        }
    }
}

impl Tighten for Chosen {
    fn loosens(&self, lock: &Self) -> bool {
        match (self, lock) {
            (Self::PassFiles(own), Self::PassFiles(lock)) => match lock {
                PassFiles::Read => !matches!(own, PassFiles::None | PassFiles::Read),
                _ => own != lock && *own != PassFiles::None,
            },
            (Self::HomePolicy(own), Self::HomePolicy(lock)) => own > lock,
            (Self::HomeLock(own), Self::HomeLock(lock)) => own > lock,
            (Self::Session(own), Self::Session(lock)) | (Self::System(own), Self::System(lock)) => own > lock,
            (Self::Wait(own), Self::Wait(lock)) => own > lock,
            (Self::SyscallMode(own), Self::SyscallMode(lock)) => own > lock,
            (Self::SyscallRefusal(own), Self::SyscallRefusal(lock)) => own > lock,
            (Self::Secrets(own), Self::Secrets(lock)) => own > lock,
            _ => false,
        }
    }
}

/// A key that takes any word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// `program.path`.
    Program,
    /// `program.id`.
    Id,
    /// `home.name`.
    HomeName,
    /// `process.release`.
    Release,
}

impl Word {
    /// Checks whether the text is valid for this key.
    ///
    /// # Errors
    /// When it isn't.
    pub fn check(self, text: &str) -> Result<(), ValueError> {
        let fine = match self {
            Self::Program => return program(text),
            // As D-Bus requires, and short enough for a file name.
            Self::Id => is_bus_name(text, 1),
            Self::HomeName => {
                text.len() <= 128
                    && !text.contains(char::is_control)
                    && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
            }
            // The space in `uname`'s field, without the null.
            Self::Release => {
                (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
            }
        };
        if fine { Ok(()) } else { Err(ValueError::Word { text: text.to_owned(), what: self.what() }) }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Program => "a program: a name or an absolute path",
            Self::Id => "an application's id: parts of letters, digits, `_` and `-` with dots between them",
            Self::HomeName => {
                "a name of a home: \"work\" or \"games/chess\", no part of it empty or with a dot in front"
            }
            Self::Release => "a kernel's release: 1 to 64 letters, digits and signs without spaces",
        }
    }
}

/// A switch. On allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Switch {
    /// `filesystem.working_directory`.
    WorkingDirectory,
    /// `program.pass_directories`.
    PassDirectories,
    /// `process.namespaces`.
    Namespaces,
    /// `process.datagrams`.
    Datagrams,
    /// `home.caches`.
    Caches,
    /// `behaviour.shell`.
    Shell,
    /// `behaviour.trace`.
    Trace,
    /// `behaviour.stats`.
    Stats,
    /// `behaviour.log`.
    Log,
    /// `behaviour.refusals`.
    Refusals,
}

/// A key that takes a list of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `program.alternatives`.
    Alternatives,
    /// `program.arguments`.
    Arguments,
    /// `program.wrapper`.
    Wrapper,
    /// `program.ignore_exit`, as decimal numbers.
    IgnoreExit,
    /// `closure.programs`.
    Programs,
    /// `closure.libraries`.
    Libraries,
    /// `filesystem.require`.
    Require,
    /// `process.require`.
    Guarantees,
    /// `devices.allow`.
    Devices,
    /// `dbus.see`.
    See,
    /// `dbus.talk`.
    Talk,
    /// `dbus.own`.
    Own,
    /// `dbus.call`.
    Call,
    /// `dbus.broadcast`.
    Broadcast,
    /// `dbus.system_see`.
    SystemSee,
    /// `dbus.system_talk`.
    SystemTalk,
    /// `dbus.system_own`.
    SystemOwn,
    /// `dbus.system_call`.
    SystemCall,
    /// `dbus.portals`.
    Portals,
}

impl List {
    /// Checks whether the text is valid in this list.
    ///
    /// # Errors
    /// When it isn't.
    pub fn check(self, text: &str) -> Result<(), ValueError> {
        let (fine, what) = match self {
            Self::Alternatives | Self::Programs => return program(text),
            Self::Arguments | Self::Wrapper => {
                return template::check(text)
                    .map_err(|_| ValueError::Word { text: text.to_owned(), what: "an argument" });
            }
            Self::IgnoreExit => (text.parse::<u8>().is_ok_and(|code| code != 0), "an exit code: 1 to 255"),
            Self::Libraries => (is_library(text), "a pattern of a library's name or path"),
            Self::Require | Self::Devices => {
                PathPattern::new(text).map_err(|error| ValueError::Path { text: text.to_owned(), error })?;
                let device = self == Self::Require || text.starts_with("/dev/");
                (device, "a path below /dev")
            }
            Self::See | Self::Talk | Self::Own | Self::SystemSee | Self::SystemTalk | Self::SystemOwn => {
                (is_bus_pattern(text), "a name on a bus, `.*` at its end for those below it")
            }
            Self::Call | Self::Broadcast | Self::SystemCall => {
                (is_bus_rule(text), "a rule `NAME=METHOD@PATH`")
            }
            Self::Portals => return portal::check(text),
            Self::Guarantees => return Guarantee::check(text),
        };
        if fine { Ok(()) } else { Err(ValueError::Word { text: text.to_owned(), what }) }
    }
}

/// A program's name, which is searched for, or an absolute path. May contain `${…}`.
fn program(text: &str) -> Result<(), ValueError> {
    let wrong = || ValueError::Word { text: text.to_owned(), what: Word::Program.what() };
    let anchored = text.starts_with(['/', '~', '$']);
    if text.is_empty() || text.contains(char::is_control) || (text.contains('/') && !anchored) {
        return Err(wrong());
    }
    if anchored {
        PathPattern::new(text).map_err(|error| ValueError::Path { text: text.to_owned(), error })?;
    }
    Ok(())
}

/// An absolute path, or a path below the library directories.
fn is_library(text: &str) -> bool {
    PathPattern::new(text).is_ok()
        && !text.starts_with(['~', '$', '*'])
        && !text.split('/').any(|part| part == ".." || part == "**")
}

/// As the D-Bus specification requires: at least `parts` parts of letters, digits, `_` and `-`, none empty.
fn is_bus_name(text: &str, parts: usize) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    text.len() <= 200 && text.split('.').count() >= parts && text.split('.').all(part)
}

/// A bus name, which may contain `${…}` and may end with `.*`.
fn is_bus_pattern(text: &str) -> bool {
    let name = text.strip_suffix(".*").unwrap_or(text);
    // Filled-in values are checked later, when they are filled in.
    let plain = template::skeleton(name);
    plain.is_some_and(|plain| is_bus_name(&plain, 2))
}

fn is_bus_rule(text: &str) -> bool {
    let Some((name, rule)) = text.split_once('=') else { return false };
    is_bus_pattern(name)
        && !rule.is_empty()
        && rule.len() <= 500
        && rule.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'*' | b'@' | b'/' | b'-')
        })
}

/// Whether a bus name with all variables filled in can be passed to the bus filter.
#[must_use]
pub fn is_filled_bus_name(text: &str) -> bool {
    is_bus_name(text.strip_suffix(".*").unwrap_or(text), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_cant_be_meant_are_refused() {
        for (list, good, bad) in [
            (List::Talk, "org.kde.StatusNotifierWatcher", "org"),
            (List::Own, "org.mpris.MediaPlayer2.${name}.*", "org.*.x"),
            (List::See, "${id}.x", "--talk=org.x.y"),
            (List::Call, "org.a.B=org.a.B.Call@/org/*", "org.a.B"),
            (List::Portals, "FileChooser", "File Chooser"),
            (List::Guarantees, "names-protected", "protected"),
            (List::IgnoreExit, "3", "0"),
            (List::IgnoreExit, "255", "256"),
            (List::Programs, "sh", "a/b"),
            (List::Programs, "/usr/lib/x y/z", ""),
            (List::Libraries, "qt6/plugins/platforms", "../x"),
            (List::Libraries, "libwayland-*.so*", "~/lib"),
            (List::Devices, "/dev/dri", "/etc/passwd"),
            (List::Devices, "/dev/video*", "/dev/../etc"),
            (List::Arguments, "--a=${id}", "${"),
        ] {
            assert_eq!(list.check(good), Ok(()), "{good}");
            assert!(list.check(bad).is_err(), "{bad}");
        }
        assert_eq!(Word::Id.check("org.kde.okular"), Ok(()));
        assert!(Word::Id.check("../x").is_err());
        assert_eq!(Word::HomeName.check("games/chess"), Ok(()));
        for bad in ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.b", "a\n"] {
            assert!(Word::HomeName.check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_choice_has_its_words_once() {
        for choice in [
            Choice::PassFiles,
            Choice::HomePolicy,
            Choice::HomeLock,
            Choice::Session,
            Choice::System,
            Choice::Wait,
            Choice::SyscallMode,
            Choice::SyscallRefusal,
        ] {
            for (word, chosen) in choice.possible() {
                assert_eq!((chosen.choice(), chosen.key()), (choice, word));
                assert_eq!(choice.parse(word), Some(chosen));
                assert!(!chosen.loosens(&chosen));
            }
        }
        let write = Chosen::PassFiles(PassFiles::Write);
        assert!(write.loosens(&Chosen::PassFiles(PassFiles::Execute)));
        let enforce = Chosen::SyscallMode(SyscallMode::Enforce);
        for looser in [SyscallMode::Ask, SyscallMode::Learn, SyscallMode::Off] {
            assert!(Chosen::SyscallMode(looser).loosens(&enforce));
            assert!(!enforce.loosens(&Chosen::SyscallMode(looser)));
        }
        let kill = Chosen::SyscallRefusal(SyscallRefusal::Kill);
        assert!(Chosen::SyscallRefusal(SyscallRefusal::Errno).loosens(&kill));
        assert!(Chosen::Session(Bus::Host).loosens(&Chosen::Session(Bus::Filtered)));
    }
}
