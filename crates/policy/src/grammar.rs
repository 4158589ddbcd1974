// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a policy file, once. The parser, the printer and the JSON schema all walk this
//! table, so none of them can know a key that another doesn't.

use crate::limits::Limit;
use crate::rule::Access;

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    View,
    Network,
    /// A list of patterns.
    Paths(Access),
    Protect,
    /// A list of names: added to the protected ones or taken off them.
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
    /// A list of calls: taken from the refused ones or added to them.
    Syscalls {
        allow: bool,
    },
    /// A list of name patterns of variables.
    KeepVariables,
    RemoveVariables,
    /// A table of names and values.
    SetVariables,
    Amount(Limit),
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

/// The keys in front of all sections.
pub(crate) const TOP: [&str; 4] = ["schema", "name", "description", "inherits"];

/// The tables that hold sections of another strength.
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
                "Names protected at any depth, besides the built-in ones.",
            ),
            key(
                "allow_names",
                Kind::Names { protect: false },
                "Names taken off the protected ones, written as they are there.",
            ),
            list(Access::Protect, "Paths that can't be made or changed."),
        ],
    },
    Section {
        name: "network",
        about: "What of the network is there.",
        keys: &[key("mode", Kind::Network, "The host's network, or none.")],
    },
    Section {
        name: "syscalls",
        about: "Changes to the list of refused system calls.",
        keys: &[
            key("allow", Kind::Syscalls { allow: true }, "Taken from the list."),
            key("deny", Kind::Syscalls { allow: false }, "Added to the list."),
        ],
    },
    Section {
        name: "process",
        about: "What the process is told about itself and its machine.",
        keys: &[
            key("hostname", Kind::Hostname, "The machine's name inside."),
            key("uid", Kind::Uid, "The user's number inside."),
            key("gid", Kind::Gid, "The group's number inside."),
            key("cwd", Kind::Cwd, "The working directory inside."),
            key("best_effort", Kind::BestEffort, "Launch even if a guarantee can't be had."),
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

/// The key under which a kind is found.
pub(crate) fn name_of(section: &str, key: &str, prefix: &str) -> String {
    if prefix.is_empty() { format!("{section}.{key}") } else { format!("{prefix}.{section}.{key}") }
}
