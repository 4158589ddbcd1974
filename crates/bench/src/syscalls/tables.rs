// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the measured calls, the ways in which they are made, and the targets.

use super::stage::MANY;

/// A row: its name, and what the caller runs under.
pub(super) struct Who {
    pub(super) name: &'static str,
    /// The call's result, if it differs from the native one.
    pub(super) seen: Option<&'static str>,
    pub(super) by: By,
}

/// What the caller runs under.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// Nothing; optionally with a filter that the caller loads itself.
    Itself(Option<&'static str>),
    /// Palisade, with a policy and further options.
    Palisade(Option<&'static str>, &'static [&'static str]),
    /// The same on one processor.
    Pinned(Option<&'static str>, &'static [&'static str]),
    /// Nothing, on one processor.
    Alone,
    /// `palisade interpose`, which answers in the caller's own process.
    Interpose(&'static [&'static str]),
    /// A peer: the program, and its arguments.
    Peer(&'static str, &'static [&'static str]),
    /// A single mechanism, in the ruler program.
    Ruler(&'static str),
    /// The same on one processor.
    RulerAlone(&'static str),
    /// The ruler program with this kind of call, under `palisade interpose` with these options.
    RulerInterposed(&'static str, &'static [&'static str]),
    /// The ruler program with a library before the C library. The flag says whether that library makes the calls.
    Preload(bool),
    /// Nothing, with another kind of call.
    Kind(&'static str),
    /// A supervisor in the ruler program, which is notified of opens for writing and of names, and which answers in this way.
    Supervised(&'static str),
    /// libseccomp, with the same number of rules.
    Libseccomp,
    /// A server under load from outside.
    Server(Served),
    /// palisaded, for which the kernel records the caller's calls in `palisade run`, or the calls of another program.
    Learned(Whose),
}

/// Whose calls the kernel records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Own,
    Anothers,
}

/// How a server is started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// Without anything.
    Bare,
    /// With a filter that refuses a call that the server doesn't make.
    BareFilter,
    /// In `palisade run`.
    Filtered,
    /// In `palisade run`, while the broker learns its calls.
    Learned,
    /// In `palisade run`, while palisaded runs and learns its calls.
    LearnedByKernel,
}

/// What a row is compared with.
#[derive(Clone, Copy)]
pub(super) enum Against {
    /// The ratio to another row.
    Times(&'static str),
    /// The difference to another row, in seconds.
    More(&'static str),
    /// Nothing: the time in seconds.
    Nothing,
}

/// A target.
#[derive(Clone, Copy)]
pub(super) struct Aim {
    pub(super) row: &'static str,
    pub(super) against: Against,
    pub(super) most: Option<f64>,
    pub(super) published: Option<f64>,
}

const fn times(row: &'static str, base: &'static str, most: f64) -> Aim {
    Aim { row, against: Against::Times(base), most: Some(most), published: None }
}

const fn seconds(row: &'static str, most: f64) -> Aim {
    Aim { row, against: Against::Nothing, most: Some(most), published: None }
}

/// The measured call, and the targets of its rows.
pub(super) struct Scenario {
    pub(super) title: &'static str,
    pub(super) kind: &'static str,
    pub(super) count: u32,
    /// The call's result. `files` stands for the number of files.
    pub(super) seen: &'static str,
    /// The baseline of the others.
    pub(super) base: By,
    pub(super) peers: bool,
    pub(super) who: &'static [Who],
    pub(super) goals: &'static [Aim],
}

const fn who(name: &'static str, by: By) -> Who {
    Who { name, seen: None, by }
}

const fn answered(name: &'static str, by: By) -> Who {
    Who { name, seen: Some("answered"), by }
}

pub(super) const PEERS: [Who; 4] = [
    who("firejail", By::Peer("firejail", &["--quiet", "--noprofile", "--seccomp"])),
    who("strace", By::Peer("strace", &["-f", "-qq", "-o", "/dev/null"])),
    who("proot", By::Peer("proot", &[])),
    who("sandlock", By::Peer("sandlock", &["run", "-r", "/", "-w", ".", "--"])),
];

pub(super) const NATIVE: &str = "native";

/// Options of `palisade interpose`.
const COUNTED: &[&str] = &["--count", "--output", "/dev/null"];

/// Rows with many threads that create files: every call goes to another process, or none does.
const STORM: &[Who] = &[
    who("palisade", By::Palisade(None, &[])),
    who("palisade, not brokered", By::Palisade(None, &["--protect", "off"])),
    who("a supervisor that lets the kernel go on", By::Supervised("supervise")),
    who("a supervisor that makes the call", By::Supervised("supervise-make")),
];

/// All scenarios.
pub(super) const SCENARIOS: [Scenario; 18] = [
    Scenario {
        title: "a call decided by its number (getppid)",
        kind: "number",
        count: 300_000,
        seen: "1",
        base: By::Itself(None),
        peers: true,
        who: &[
            who("filter, allows everything", By::Itself(Some("nothing"))),
            who("filter, 5 numbers", By::Itself(Some("five"))),
            who("filter, 300 numbers", By::Itself(Some("many"))),
            who("filter, 5 numbers, four times", By::Itself(Some("stacked"))),
            who("palisade", By::Palisade(None, &[])),
            who("palisade, 400 rules", By::Palisade(Some(MANY), &[])),
        ],
        goals: &[times("palisade", NATIVE, 1.13), times("palisade, 400 rules", NATIVE, 1.13)],
    },
    Scenario {
        title: "a call of which an argument is checked (getpriority)",
        kind: "argument",
        count: 300_000,
        seen: "its own",
        base: By::Itself(None),
        peers: false,
        who: &[
            who("filter, 300 numbers, an argument", By::Itself(Some("argument"))),
            who("palisade, an argument", By::Palisade(Some("argument"), &[])),
        ],
        goals: &[times("palisade, an argument", NATIVE, 1.40)],
    },
    Scenario {
        title: "write(2) of one byte to /dev/null",
        kind: "write",
        count: 300_000,
        seen: "1",
        base: By::Itself(None),
        peers: false,
        who: &[who("filter, 5 numbers", By::Itself(Some("five"))), who("palisade", By::Palisade(None, &[]))],
        goals: &[times("palisade", NATIVE, 1.13), times("palisade", "filter, 5 numbers", 1.05)],
    },
    Scenario {
        title: "open for reading and close",
        kind: "read",
        count: 100_000,
        seen: "text",
        base: By::Itself(None),
        peers: true,
        who: &[
            who("palisade", By::Palisade(None, &[])),
            who("palisade, another path redirected", By::Palisade(Some("redirect"), &[])),
        ],
        goals: &[times("palisade", NATIVE, 1.25)],
    },
    Scenario {
        title: "open for writing and close",
        kind: "change",
        count: 30_000,
        seen: "text",
        base: By::Itself(None),
        peers: false,
        who: &[
            who("palisade, brokered", By::Palisade(None, &[])),
            who("palisade, not brokered", By::Palisade(None, &["--protect", "off"])),
            who("native, one processor", By::Alone),
            who("palisade, brokered, one processor", By::Pinned(None, &[])),
        ],
        goals: &[times("palisade, brokered", NATIVE, 8.0), seconds("palisade, brokered", 5.5e-6)],
    },
    Scenario {
        title: "open for writing and close, by the path from the root",
        kind: "change-from-root",
        count: 30_000,
        seen: "text",
        base: By::Itself(None),
        peers: false,
        who: &[
            who("palisade, brokered", By::Palisade(None, &[])),
            who("native, one processor", By::Alone),
            who("palisade, brokered, one processor", By::Pinned(None, &[])),
        ],
        goals: &[times("palisade, brokered", NATIVE, 8.0), seconds("palisade, brokered", 5.5e-6)],
    },
    Scenario {
        title: "16 threads make, write to and remove files, a file",
        kind: "storm",
        count: 8_000,
        seen: "files",
        base: By::Itself(None),
        peers: false,
        who: STORM,
        goals: &[times("palisade", NATIVE, 2.5)],
    },
    Scenario {
        title: "16 threads make, write to and remove files, the 99th percentile of a call",
        kind: "storm-percentile",
        count: 8_000,
        seen: "files",
        base: By::Itself(None),
        peers: false,
        who: STORM,
        goals: &[seconds("palisade", 5e-3)],
    },
    Scenario {
        title: "a call answered from outside (getpriority)",
        kind: "argument",
        count: 30_000,
        seen: "its own",
        base: By::Itself(None),
        peers: false,
        who: &[
            Who { name: "palisade, answered", seen: Some("13"), by: By::Palisade(Some("answer"), &[]) },
            who("native, one processor", By::Alone),
            Who {
                name: "palisade, answered, one processor",
                seen: Some("13"),
                by: By::Pinned(Some("answer"), &[]),
            },
            who("palisade, learning", By::Palisade(None, &["--syscalls", "learn"])),
        ],
        goals: &[seconds("palisade, answered", 2.6e-6), times("palisade, learning", NATIVE, 25.0)],
    },
    Scenario {
        title: "a call that is learned by the kernel (getpriority)",
        kind: "argument",
        count: 300_000,
        seen: "its own",
        base: By::Itself(None),
        peers: false,
        who: &[
            who("palisade", By::Palisade(None, &[])),
            who("palisade, learning by the kernel", By::Learned(Whose::Own)),
            who("native, while another's are learned", By::Learned(Whose::Anothers)),
        ],
        goals: &[
            times("palisade, learning by the kernel", NATIVE, 1.5),
            times("palisade, learning by the kernel", "palisade", 1.5),
        ],
    },
    Scenario {
        title: "uname, made up",
        kind: "machine",
        count: 30_000,
        seen: "",
        base: By::Itself(None),
        peers: false,
        who: &[
            Who {
                name: "palisade, another release",
                seen: Some("5.4.0-bench"),
                by: By::Palisade(Some("machine"), &[]),
            },
            Who {
                name: "palisade interpose, another release",
                seen: Some("5.4.0-bench"),
                by: By::Interpose(&["--fake", "uname=5.4.0-bench"]),
            },
        ],
        goals: &[times("palisade interpose, another release", NATIVE, 0.05)],
    },
    Scenario {
        title: "compile and load a filter of as many rules as there are calls",
        kind: "load",
        count: 1,
        seen: "loaded",
        base: By::Itself(None),
        peers: false,
        who: &[
            who("compiled before (as in a plan)", By::Kind("install")),
            who("compiled before, two answers among them", By::Kind("install-alike")),
            who("libseccomp", By::Libseccomp),
        ],
        goals: &[
            seconds("compiled before (as in a plan)", 1e-4),
            seconds("compiled before, two answers among them", 1e-4),
            Aim { row: "libseccomp", against: Against::Times(NATIVE), most: None, published: None },
        ],
    },
    Scenario {
        title: "the seed's test: write(2) in a loop",
        kind: "write",
        count: 300_000,
        seen: "made",
        base: By::Ruler("native"),
        peers: false,
        who: &[
            who("filtered", By::Ruler("filter")),
            who("through a trap", By::Ruler("trap-write")),
            who("palisade interpose, counted", By::RulerInterposed("library", COUNTED)),
            who("filtered, one processor", By::RulerAlone("filter")),
            who("through a trap, one processor", By::RulerAlone("trap-write")),
        ],
        goals: &[
            Aim { row: "filtered", against: Against::Times(NATIVE), most: Some(1.13), published: Some(2.0) },
            Aim {
                row: "through a trap",
                against: Against::Times("filtered"),
                most: None,
                published: Some(5.0),
            },
            Aim { row: "through a trap", against: Against::Times(NATIVE), most: None, published: Some(10.0) },
        ],
    },
    Scenario {
        title: "mechanisms by themselves (getppid)",
        kind: "number",
        count: 300_000,
        seen: "made",
        base: By::Ruler("native"),
        peers: false,
        who: &[
            who("filter, a number", By::Ruler("filter")),
            who("filter, 300 numbers in a row", By::Ruler("linear")),
            who("filter, 300 numbers in a row, an argument", By::Ruler("linear-argument")),
            answered("trap, answered", By::Ruler("trap")),
            answered("dispatch, answered", By::Ruler("dispatch")),
            who("dispatch, from the range that it allows", By::Ruler("dispatch-allowed")),
            answered("LD_PRELOAD, answered", By::Preload(false)),
            who("LD_PRELOAD, passed on", By::Preload(true)),
            who("palisade interpose, patched", By::RulerInterposed("library", COUNTED)),
            who("palisade interpose, can't be patched", By::RulerInterposed("unpatchable", COUNTED)),
            answered("notification", By::Ruler("notify")),
            answered("notification, synchronous", By::Ruler("notify-sync")),
            answered("ptrace, PTRACE_SYSEMU", By::Ruler("sysemu")),
            who("ptrace, PTRACE_SYSCALL", By::Ruler("ptrace")),
            answered("notification, one processor", By::RulerAlone("notify")),
            answered("notification, synchronous, one processor", By::RulerAlone("notify-sync")),
            answered("ptrace, PTRACE_SYSEMU, one processor", By::RulerAlone("sysemu")),
        ],
        goals: &[
            times("palisade interpose, patched", NATIVE, 1.10),
            times("palisade interpose, can't be patched", NATIVE, 9.0),
            times("palisade interpose, patched", "dispatch, from the range that it allows", 1.10),
        ],
    },
    Scenario {
        title: "mechanisms by themselves (open and close)",
        kind: "read",
        count: 100_000,
        seen: "made",
        base: By::Ruler("native"),
        peers: false,
        who: &[
            who("Landlock", By::Ruler("landlock")),
            who("notification, ADDFD that sends", By::Ruler("add-send")),
            who("notification, ADDFD and then sent", By::Ruler("add")),
            who("notification, ADDFD that sends, one processor", By::RulerAlone("add-send")),
            who("notification, ADDFD and then sent, one processor", By::RulerAlone("add")),
        ],
        goals: &[times("Landlock", NATIVE, 1.25)],
    },
    Scenario {
        title: "a call answered in the caller's own process (getpid)",
        kind: "own",
        count: 300_000,
        seen: "made",
        base: By::Ruler("library"),
        peers: false,
        who: &[
            answered("palisade interpose, answered", By::RulerInterposed("library", &["--fake", "pid=4242"])),
            who("palisade interpose, counted and passed on", By::RulerInterposed("library", COUNTED)),
        ],
        goals: &[
            times("palisade interpose, answered", NATIVE, 0.05),
            times("palisade interpose, counted and passed on", NATIVE, 1.10),
        ],
    },
    Scenario {
        title: "a server under load (redis-server, 50 clients), a request",
        kind: "server",
        count: 40_000,
        seen: "served",
        base: By::Server(Served::Bare),
        peers: false,
        who: &[
            who("filter, a number", By::Server(Served::BareFilter)),
            who("palisade", By::Server(Served::Filtered)),
            who("palisade, learning by the kernel", By::Server(Served::LearnedByKernel)),
            who("palisade, learning by the broker", By::Server(Served::Learned)),
        ],
        // The target is 0.97 of the throughput.
        goals: &[times("palisade", NATIVE, 1.031), times("palisade, learning by the kernel", NATIVE, 1.031)],
    },
    Scenario {
        title: "set-up: true, from start to end",
        kind: "true",
        count: 0,
        seen: "",
        base: By::Itself(None),
        peers: true,
        who: &[
            who("LD_PRELOAD", By::Preload(true)),
            who("palisade interpose", By::Interpose(COUNTED)),
            who("palisade", By::Palisade(None, &[])),
        ],
        goals: &[Aim {
            row: "palisade interpose",
            against: Against::More(NATIVE),
            most: Some(2e-3),
            published: Some(1.7),
        }],
    },
];
