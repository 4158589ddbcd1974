// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which calls are made, by whom, and what is to be reached.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::SyscallsError;
use super::race::{Contender, race};
use crate::bench::Bench;
use crate::entry::Missing;
use crate::goal::{Bound, Goal, Unit};
use crate::launch::Invocation;
use crate::programs;
use crate::suite::rounds;
use crate::summary::Table;

/// A policy of the bench's own, by its file's name.
const POLICIES: [(&str, &str); 4] = [
    ("argument", "answers = [{ call = \"getpriority\", when = \"arg0 in 77\", action = \"deny\" }]"),
    ("answer", "answers = [{ call = \"getpriority\", action = \"return\", value = 7 }]"),
    ("redirect", "answers = [{ open = \"/etc/os-release\", action = \"redirect\", to = \"/etc/hostname\" }]"),
    ("machine", "[process]\nrelease = \"5.4.0-bench\""),
];
/// The policy of 400 rules.
const MANY: &str = "many";

/// Who makes the calls: how it is called, and what goes in front of the caller.
struct Who {
    name: &'static str,
    /// What each call returns, if it isn't what it returns natively.
    seen: Option<&'static str>,
    by: By,
}

enum By {
    /// Nobody; with a filter that the caller loads itself.
    Itself(Option<&'static str>),
    /// Palisade, with a policy and more options.
    Palisade(Option<&'static str>, &'static [&'static str]),
    /// The same on one processor.
    Pinned(Option<&'static str>, &'static [&'static str]),
    /// Itself on one processor.
    Alone,
    /// `palisade interpose`, which answers in the caller's own process.
    Interpose(&'static [&'static str]),
    /// A peer: the program, and its arguments.
    Peer(&'static str, &'static [&'static str]),
}

/// What is called, and what a row may cost.
struct Scenario {
    title: &'static str,
    kind: &'static str,
    count: u32,
    seen: &'static str,
    who: &'static [Who],
    /// A row, its baseline, and the most that it may be: times the baseline, or seconds if it is that small.
    goals: &'static [(&'static str, &'static str, f64)],
}

const fn who(name: &'static str, by: By) -> Who {
    Who { name, seen: None, by }
}

const PEERS: [Who; 4] = [
    who("firejail", By::Peer("firejail", &["--quiet", "--noprofile", "--seccomp"])),
    who("strace", By::Peer("strace", &["-f", "-qq", "-o", "/dev/null"])),
    who("proot", By::Peer("proot", &[])),
    who("sandlock", By::Peer("sandlock", &["run", "-r", "/", "-w", ".", "--"])),
];

const NATIVE: &str = "native";

const SCENARIOS: [Scenario; 8] = [
    Scenario {
        title: "a call decided by its number (getppid)",
        kind: "number",
        count: 300_000,
        seen: "1",
        who: &[
            who("filter, 5 numbers", By::Itself(Some("five"))),
            who("filter, 300 numbers", By::Itself(Some("many"))),
            who("filter, 5 numbers, four times", By::Itself(Some("stacked"))),
            who("palisade", By::Palisade(None, &[])),
            who("palisade, 400 rules", By::Palisade(Some(MANY), &[])),
            who(
                "palisade interpose, counted and passed on",
                By::Interpose(&["--count", "--output", "/dev/null"]),
            ),
        ],
        goals: &[
            ("palisade", NATIVE, 1.13),
            ("palisade, 400 rules", NATIVE, 1.13),
            ("palisade interpose, counted and passed on", NATIVE, 1.10),
        ],
    },
    Scenario {
        title: "a call of which an argument is checked (getpriority)",
        kind: "argument",
        count: 300_000,
        seen: "20",
        who: &[
            who("filter, 300 numbers, an argument", By::Itself(Some("argument"))),
            who("palisade, an argument", By::Palisade(Some("argument"), &[])),
        ],
        goals: &[("palisade, an argument", NATIVE, 1.40)],
    },
    Scenario {
        title: "write(2) of one byte to /dev/null",
        kind: "write",
        count: 300_000,
        seen: "1",
        who: &[who("filter, 5 numbers", By::Itself(Some("five"))), who("palisade", By::Palisade(None, &[]))],
        goals: &[("palisade", NATIVE, 1.13), ("palisade", "filter, 5 numbers", 1.05)],
    },
    Scenario {
        title: "open for reading and close",
        kind: "read",
        count: 100_000,
        seen: "text",
        who: &[
            who("palisade", By::Palisade(None, &[])),
            who("palisade, another path redirected", By::Palisade(Some("redirect"), &[])),
        ],
        goals: &[("palisade", NATIVE, 1.25)],
    },
    Scenario {
        title: "open for writing and close",
        kind: "change",
        count: 30_000,
        seen: "text",
        who: &[
            who("palisade, brokered", By::Palisade(None, &[])),
            who("palisade, not brokered", By::Palisade(None, &["--protect", "off"])),
            who("native, one processor", By::Alone),
            who("palisade, brokered, one processor", By::Pinned(None, &[])),
        ],
        goals: &[("palisade, brokered", NATIVE, 8.0), ("palisade, brokered", "", 5.5e-6)],
    },
    Scenario {
        title: "a call answered from outside (getpriority)",
        kind: "argument",
        count: 30_000,
        seen: "20",
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
        goals: &[("palisade, answered", "", 2.6e-6), ("palisade, learning", NATIVE, 25.0)],
    },
    Scenario {
        title: "uname, made up",
        kind: "machine",
        count: 30_000,
        seen: "",
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
        goals: &[("palisade interpose, another release", NATIVE, 0.05)],
    },
    Scenario {
        title: "compile and load 400 rules",
        kind: "load",
        count: 1,
        seen: "loaded",
        who: &[],
        goals: &[],
    },
];

/// Where things are.
struct Stage {
    own: PathBuf,
    work: PathBuf,
    palisade: Option<PathBuf>,
    /// That `palisade` has the verb.
    interposes: bool,
}

impl Stage {
    fn prepare(bench: &Bench, missing: &mut Vec<Missing>) -> Result<Self, SyscallsError> {
        let own = std::env::current_exe().map_err(|source| SyscallsError::Own { source })?;
        let work = bench.session.work();
        let write = |name: &str, text: &str| {
            let path = work.join(name);
            std::fs::write(&path, text).map_err(|source| SyscallsError::Write { path, source })
        };
        write("file", "text\n")?;
        for (name, body) in POLICIES {
            let section = if body.starts_with('[') { "" } else { "[syscalls]\n" };
            write(&format!("{name}.toml"), &format!("schema = 1\nname = \"{name}\"\n{section}{body}\n"))?;
        }
        write(&format!("{MANY}.toml"), &many())?;
        let palisade = programs::palisade(bench.options.binary.as_deref());
        if palisade.is_none() {
            let how =
                "no palisade beside this program or on PATH, and none named by --binary PATH".to_owned();
            missing.push(Missing { name: "palisade".to_owned(), how });
        }
        let interposes = palisade.as_ref().is_some_and(|palisade| {
            let mut command = Command::new(palisade);
            command.args(["interpose", "--help"]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        });
        if palisade.is_some() && !interposes {
            let how = "this palisade has no verb `interpose`".to_owned();
            missing.push(Missing { name: "palisade interpose".to_owned(), how });
        }
        Ok(Self { own, work, palisade, interposes })
    }

    /// The arguments of whom it is run by, and then of the caller; none if that isn't here.
    fn invocation(&self, scenario: &Scenario, by: &By) -> Option<Invocation> {
        let mut argv: Vec<OsString> = Vec::new();
        let mut filter = None;
        let taskset =
            || programs::of_the_system("taskset").map(|path| [path.into(), "-c".into(), "0".into()]);
        match by {
            By::Itself(shape) => filter = *shape,
            By::Alone => argv.extend(taskset()?),
            By::Palisade(policy, more) => argv.extend(self.palisade(*policy, more)?),
            By::Pinned(policy, more) => {
                argv.extend(taskset()?);
                argv.extend(self.palisade(*policy, more)?);
            }
            By::Interpose(arguments) => {
                argv.extend([
                    self.palisade.clone().filter(|_palisade| self.interposes)?.into(),
                    "interpose".into(),
                ]);
                argv.extend(arguments.iter().map(OsString::from));
                argv.push("--".into());
            }
            By::Peer(program, arguments) => {
                argv.push(programs::on_path(program)?.into());
                argv.extend(arguments.iter().map(OsString::from));
            }
        }
        argv.push(self.own.clone().into());
        argv.extend(["calls", "--kind", scenario.kind, "--count"].map(OsString::from));
        // Where each call is stopped for, fewer say as much.
        let fewer = if matches!(by, By::Peer(..)) { 10 } else { 1 };
        argv.push((scenario.count / fewer).to_string().into());
        argv.extend(filter.iter().flat_map(|shape| ["--filter".into(), OsString::from(shape)]));
        Some(Invocation { argv, directory: self.work.clone(), variables: Vec::new() })
    }

    fn palisade(&self, policy: Option<&str>, more: &[&str]) -> Option<Vec<OsString>> {
        let mut argv: Vec<OsString> = vec![self.palisade.clone()?.into(), "run".into(), "--ro".into()];
        argv.push(self.own.parent().unwrap_or(Path::new("/")).into());
        if let Some(policy) = policy {
            argv.extend(["--profile".into(), self.work.join(format!("{policy}.toml")).into()]);
        }
        argv.extend(more.iter().map(OsString::from));
        argv.push("--".into());
        Some(argv)
    }
}

/// A policy that denies every call that it can.
fn many() -> String {
    use palisade_syscall::{Rules, Syscall};
    let can = |name: &str| Rules::deny_list().with(&[], &[name]).is_ok();
    let kept = |call: &Syscall| {
        palisade_syscall::group::base().contains(call) || KEPT.contains(&call.name()) || !can(call.name())
    };
    let names: Vec<String> =
        Syscall::all().filter(|call| !kept(call)).map(|call| format!("{:?}", call.name())).collect();
    format!("schema = 1\nname = \"{MANY}\"\n[syscalls]\ndeny = [{}]\n", names.join(", "))
}

/// What a program of Rust's needs to start, and to ask for its parent's number.
const KEPT: [&str; 14] = [
    "access",
    "fcntl",
    "futex",
    "getppid",
    "ioctl",
    "openat",
    "poll",
    "prctl",
    "prlimit64",
    "readlink",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sigaltstack",
];

/// Measures all of them.
pub(crate) fn all(bench: &mut Bench, missing: &mut Vec<Missing>) -> Result<Vec<Table>, SyscallsError> {
    let stage = Stage::prepare(bench, missing)?;
    for peer in &PEERS {
        if let By::Peer(program, _) = peer.by
            && programs::on_path(program).is_none()
        {
            let how = format!("`{program}` is not on PATH");
            missing.push(Missing { name: peer.name.to_owned(), how });
        }
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut tables = Vec::new();
    for scenario in &SCENARIOS {
        let native = [who(NATIVE, By::Itself(None)), who("native again (A/A)", By::Itself(None))];
        let wanted = |who: &&Who| bench.filter.accepts(scenario.title, who.name);
        let peers = PEERS.iter().filter(|_peer| matches!(scenario.kind, "number" | "read"));
        let others: Vec<&Who> = scenario.who.iter().chain(peers).filter(wanted).collect();
        if others.is_empty() && !native.iter().any(|who| wanted(&who)) {
            continue;
        }
        let contenders: Vec<Contender> = native
            .iter()
            .chain(others)
            .filter_map(|who| {
                let seen =
                    who.seen.unwrap_or(if scenario.seen.is_empty() { &release } else { scenario.seen });
                let invocation = stage.invocation(scenario, &who.by)?;
                Some(Contender { name: who.name.to_owned(), invocation, seen: seen.to_owned() })
            })
            .collect();
        let count = rounds(bench.options.rounds(), 2);
        let mut table = race(bench, scenario.title, &contenders, count)?;
        table.goals = goals(&table, scenario, bench);
        tables.push(table);
    }
    Ok(tables)
}

fn goals(table: &Table, scenario: &Scenario, bench: &mut Bench) -> Vec<Goal> {
    let row = |name: &str| table.rows.iter().find(|row| row.series.name == name);
    let mut goals = Vec::new();
    for (name, base, wanted) in scenario.goals {
        let Some(own) = row(name) else { continue };
        let (seen, unit) = match row(base) {
            None => (own.figures.as_ref().map(|figures| figures.wall), Unit::Microseconds),
            Some(base) => {
                let valid = own.figures.is_some() && base.figures.is_some();
                let pairs = own.series.paired(&base.series, |own, base| own / base);
                let seen = valid.then(|| crate::statistics::estimate(&pairs, &mut bench.random)).flatten();
                (seen, Unit::Ratio)
            }
        };
        let what = if base.is_empty() { format!("{name}: a call") } else { format!("{name} / {base}") };
        goals.push(Goal { what, unit, bound: Bound::AtMost, wanted: Some(*wanted), seen, published: None });
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_of_rows_that_there_are() {
        for scenario in &SCENARIOS {
            let there = |name: &str| {
                name == NATIVE || name.is_empty() || scenario.who.iter().any(|who| who.name == name)
            };
            for (name, base, _) in scenario.goals {
                assert!(there(name) && there(base), "{name} / {base}");
            }
        }
    }

    #[test]
    fn the_policies_are_policies() {
        assert!(many().matches(',').count() > 200);
    }
}
