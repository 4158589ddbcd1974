// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of all keys of a policy file. The parser, the printer and the JSON schema all use this table, so they
//! always know the same keys.

use crate::launch::{Made, When};
use crate::limits::Limit;
use crate::network::{NetworkKey, NetworkList};
use crate::rule::Access;
use crate::word::{Choice, List, Switch, Word};

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    View,
    Network(NetworkKey),
    /// A list of patterns.
    Paths(Access),
    Protect,
    /// A list of names: added to the protected ones or removed from them.
    Names {
        protect: bool,
    },
    Hostname,
    Uid,
    Gid,
    /// One path.
    Cwd,
    BestEffort,
    InheritTerminal,
    /// A list of calls: removed from the refused ones or added to them.
    Syscalls {
        allow: bool,
    },
    /// A list of tables: replies to calls and to opening paths.
    Answers,
    Processors,
    /// A time of day.
    Time,
    /// A list of patterns for variable names.
    KeepVariables,
    RemoveVariables,
    /// A table of names and values.
    SetVariables,
    Amount(Limit),
    Choice(Choice),
    Word(Word),
    Switch(Switch),
    List(List),
    /// A table of paths and contents.
    Made(Made),
    /// A list of tables; for the last kind, a single table.
    Hooks(When),
}

/// A key of a section.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

/// A section.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) keys: &'static [Key],
}

const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, about }
}

const fn list(access: Access, about: &'static str) -> Key {
    key(access.key(), Kind::Paths(access), about)
}

const fn limit(limit: Limit, about: &'static str) -> Key {
    key(limit.key(), Kind::Amount(limit), about)
}

/// The keys before all sections.
pub(crate) const TOP: [&str; 10] = [
    "schema",
    "name",
    "description",
    "caveat",
    "inherits",
    "features",
    "without",
    "configurations",
    "launch",
    "agent",
];

/// The same for a feature's file.
pub(crate) const TOP_OF_FEATURE: [&str; 7] =
    ["schema", "name", "description", "features", "conflicts", "when", "caveat"];

/// The tables that contain sections of another strength.
pub(crate) const STRENGTHS: [&str; 2] = ["default", "locked"];

/// The sections, in the order in which they are printed.
pub(crate) const SECTIONS: &[Section] = &[
    Section {
        name: "filesystem",
        about: "What of the file system is there, and what may be done with it.",
        keys: &[
            key("view", Kind::View, "What is there before any path is named."),
            list(Access::Read, "Read files and list directories; HOST or HOST=DEST."),
            list(Access::Write, "Read, change and create; HOST or HOST=DEST."),
            list(Access::Execute, "Read and execute; HOST or HOST=DEST."),
            list(Access::Hide, "Absent, or an empty placeholder."),
            list(Access::Deny, "Present, but every access is refused."),
            list(Access::Tmpfs, "A private, empty, writable directory."),
            key("protect", Kind::Protect, "What keeps protected names from being made and changed."),
            key(
                "protect_names",
                Kind::Names { protect: true },
                "Names protected at any depth, besides the built-in ones; group:NAME is all of a group.",
            ),
            key(
                "allow_names",
                Kind::Names { protect: false },
                "Names taken off the protected ones, written as they are there; group:NAME is all of a group.",
            ),
            list(Access::Protect, "Paths that can't be made or changed."),
            key(
                "secrets",
                Kind::Choice(Choice::Secrets),
                "Whether files that hold secrets by their name or content are hidden in the working directory.",
            ),
            key("require", Kind::List(List::Require), "What must be there for the launch to go on."),
            key(
                "working_directory",
                Kind::Switch(Switch::WorkingDirectory),
                "Show the working directory, and let it be written to.",
            ),
        ],
    },
    Section {
        name: "program",
        about: "What is started.",
        keys: &[
            key("path", Kind::Word(Word::Program), "The program, by path or name."),
            key("alternatives", Kind::List(List::Alternatives), "Others, if it isn't there."),
            key("id", Kind::Word(Word::Id), "The application's id."),
            key("arguments", Kind::List(List::Arguments), "Arguments in front of the caller's."),
            key("wrapper", Kind::List(List::Wrapper), "A program, and arguments, in front of the program."),
            key(
                "pass_files",
                Kind::Choice(Choice::PassFiles),
                "What may be done with files that arguments name.",
            ),
            key(
                "pass_directories",
                Kind::Switch(Switch::PassDirectories),
                "Directories that arguments name are passed, too, as files are.",
            ),
            key("ignore_exit", Kind::List(List::IgnoreExit), "Exit codes that count as success."),
        ],
    },
    Section {
        name: "closure",
        about: "What the program needs besides what is found by itself.",
        keys: &[
            key("programs", Kind::List(List::Programs), "Programs that it starts."),
            key("libraries", Kind::List(List::Libraries), "Libraries and directories of them that it opens."),
        ],
    },
    Section {
        name: "devices",
        about: "Device files.",
        keys: &[key("allow", Kind::List(List::Devices), "Devices that are there.")],
    },
    Section {
        name: "home",
        about: "The home directory inside.",
        keys: &[
            key("policy", Kind::Choice(Choice::HomePolicy), "Whether it is kept."),
            key("name", Kind::Word(Word::HomeName), "What it is called outside."),
            key("lock", Kind::Choice(Choice::HomeLock), "What happens when another sandbox has it."),
            key("caches", Kind::Switch(Switch::Caches), "Without a home: caches are kept for each project."),
        ],
    },
    Section {
        name: "files",
        about: "Files that are made for each launch.",
        keys: &[
            key("read", Kind::Made(Made::Read), "Files that can be read, with their content."),
            key("write", Kind::Made(Made::Write), "Files that can be changed."),
            key("execute", Kind::Made(Made::Execute), "Files that can be executed."),
            key("links", Kind::Made(Made::Link), "Symbolic links, and where they lead."),
        ],
    },
    Section {
        name: "dbus",
        about: "What of the message buses is there.",
        keys: &[
            key("session", Kind::Choice(Choice::Session), "The session's bus."),
            key("system", Kind::Choice(Choice::System), "The system's bus."),
            key("see", Kind::List(List::See), "Names that can be seen."),
            key("talk", Kind::List(List::Talk), "Names that can be talked to."),
            key("own", Kind::List(List::Own), "Names that can be owned."),
            key("call", Kind::List(List::Call), "Single methods that can be called."),
            key("broadcast", Kind::List(List::Broadcast), "Single signals that are heard."),
            key("system_see", Kind::List(List::SystemSee), "Names of the system's bus that can be seen."),
            key(
                "system_talk",
                Kind::List(List::SystemTalk),
                "Names of the system's bus that can be talked to.",
            ),
            key("system_own", Kind::List(List::SystemOwn), "Names of the system's bus that can be owned."),
            key("system_call", Kind::List(List::SystemCall), "Single methods of the system's bus."),
            key("portals", Kind::List(List::Portals), "Interfaces of the desktop portal."),
        ],
    },
    Section {
        name: "hooks",
        about: "Programs that are run on the host, around the sandbox.",
        keys: &[
            key("before", Kind::Hooks(When::Before), "Before it is made."),
            key("after", Kind::Hooks(When::After), "After it has ended."),
            key("parent", Kind::Hooks(When::Parent), "Beside it; the sandbox ends with it."),
        ],
    },
    Section {
        name: "behaviour",
        about: "What a launch does besides.",
        keys: &[
            key("shell", Kind::Switch(Switch::Shell), "A shell instead of the program."),
            key("trace", Kind::Switch(Switch::Trace), "Say what was looked for and isn't there."),
            key("stats", Kind::Switch(Switch::Stats), "Say what was used."),
            key("log", Kind::Switch(Switch::Log), "Keep what is printed."),
            key(
                "refusals",
                Kind::Switch(Switch::Refusals),
                "Tell programs inside what was refused, and that only the user can permit it.",
            ),
        ],
    },
    Section {
        name: "network",
        about: "What of the network is there.",
        keys: &[
            key("mode", Kind::Network(NetworkKey::Mode), "None, what the rules allow, or the host's."),
            key("default", Kind::Network(NetworkKey::Default), "The verdict for hosts that match no rule."),
            key(
                "allow",
                Kind::Network(NetworkKey::Hosts { allow: true }),
                "Who may be talked to: names, addresses, ports.",
            ),
            key("deny", Kind::Network(NetworkKey::Hosts { allow: false }), "Who may not be talked to."),
            key(
                "publish",
                Kind::Network(NetworkKey::List(NetworkList::Publish)),
                "Ports inside that the host listens at; [ADDRESS:][HOSTPORT:]PORT.",
            ),
            key(
                "reach",
                Kind::Network(NetworkKey::List(NetworkList::Reach)),
                "Ports of the host's loopback that are there inside.",
            ),
            key(
                "proxy",
                Kind::Network(NetworkKey::Proxy),
                "A proxy that connections go out through, or direct.",
            ),
            key(
                "dns",
                Kind::Network(NetworkKey::List(NetworkList::Dns)),
                "Name servers that are asked, instead of the host's.",
            ),
        ],
    },
    Section {
        name: "syscalls",
        about: "Which system calls may be made.",
        keys: &[
            key(
                "mode",
                Kind::Choice(Choice::SyscallMode),
                "What becomes of calls that weren't learned of the profile's programs.",
            ),
            key("refusal", Kind::Choice(Choice::SyscallRefusal), "How they are refused."),
            key("allow", Kind::Syscalls { allow: true }, "Taken from the list."),
            key("deny", Kind::Syscalls { allow: false }, "Added to the list."),
            key(
                "answers",
                Kind::Answers,
                "What certain calls, and opening certain paths, are answered with.",
            ),
        ],
    },
    Section {
        name: "process",
        about: "What the process is told about itself and its machine.",
        keys: &[
            key("hostname", Kind::Hostname, "The machine's name inside."),
            key("release", Kind::Word(Word::Release), "The kernel's release inside."),
            key("processors", Kind::Processors, "How many processors there are inside."),
            key("time", Kind::Time, "The time of day (UTC) at which the clock inside starts."),
            key("uid", Kind::Uid, "The user's number inside."),
            key("gid", Kind::Gid, "The group's number inside."),
            key("cwd", Kind::Cwd, "The working directory inside."),
            key("best_effort", Kind::BestEffort, "Launch even if a guarantee can't be had."),
            key("require", Kind::List(List::Guarantees), "Guarantees that must hold in any case."),
            key("namespaces", Kind::Switch(Switch::Namespaces), "May make user namespaces of its own."),
            key("datagrams", Kind::Switch(Switch::Datagrams), "May make unix datagram sockets."),
            key("wait", Kind::Choice(Choice::Wait), "When the sandbox ends."),
        ],
    },
    Section {
        name: "terminal",
        about: "What of the terminal is kept.",
        keys: &[key(
            "inherit",
            Kind::InheritTerminal,
            "Keep standard input, output and error where they are terminals.",
        )],
    },
    Section {
        name: "environment",
        about: "Which environment variables go in.",
        keys: &[
            key("keep", Kind::KeepVariables, "Inherit these; `*` stands for any characters."),
            key("remove", Kind::RemoveVariables, "Don't inherit these; `*` as in `keep`."),
            key("set", Kind::SetVariables, "Give these a value."),
        ],
    },
    Section {
        name: "limits",
        about: "How much may be used.",
        keys: &[
            limit(Limit::Memory, "Memory of the whole sandbox."),
            limit(Limit::Processes, "Processes and threads of the whole sandbox."),
            limit(Limit::CpuTime, "Processor time of one process."),
            limit(Limit::OpenFiles, "Open descriptors of one process."),
            limit(Limit::FileSize, "Size of a file that a process writes."),
            limit(Limit::CoreSize, "Size of a core dump."),
            limit(Limit::Stack, "Size of a stack."),
            limit(Limit::AddressSpace, "Address space of one process."),
            limit(Limit::LockedMemory, "Memory that a process may lock."),
        ],
    },
];

/// The key of a kind.
pub(crate) fn name_of(section: &str, key: &str, prefix: &str) -> String {
    if prefix.is_empty() { format!("{section}.{key}") } else { format!("{prefix}.{section}.{key}") }
}
