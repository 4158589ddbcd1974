// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares the programs to measure, and builds their command lines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::SyscallsError;
use super::tables::{By, Served, Whose};
use crate::bench::Bench;
use crate::entry::Missing;
use crate::launch::Invocation;
use crate::programs;

/// The bench's own policies, by file name.
const POLICIES: [(&str, &str); 4] = [
    ("argument", "answers = [{ call = \"getpriority\", when = \"arg0 in 77\", action = \"deny\" }]"),
    ("answer", "answers = [{ call = \"getpriority\", action = \"return\", value = 7 }]"),
    ("redirect", "answers = [{ open = \"/etc/os-release\", action = \"redirect\", to = \"/etc/hostname\" }]"),
    ("machine", "[process]\nrelease = \"5.4.0-bench\""),
];
/// The name of the policy with 400 rules.
pub(super) const MANY: &str = "many";
/// The script that puts a server under load.
const SERVER: &str = "server.sh";
/// The script that makes calls while calls are learned.
const LEARN: &str = "learn.sh";
/// These scripts, and the one that they share.
const SCRIPTS: [(&str, &str); 3] = [
    ("daemon.sh", include_str!("programs/daemon.sh")),
    (SERVER, include_str!("programs/server.sh")),
    (LEARN, include_str!("programs/learn.sh")),
];

/// The programs that show the cost of single mechanisms. They are compiled if there is a compiler.
struct Rulers {
    mechanisms: PathBuf,
    preload: PathBuf,
}

impl Rulers {
    fn compile(work: &Path) -> Result<Self, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("their code is for x86-64 only".to_owned());
        }
        let cc =
            programs::on_path("cc").ok_or("no C compiler: `cc` is not on PATH; apt install gcc libc6-dev")?;
        let compile = |name: &str, text: &str, output: &str, more: &[&str]| {
            let source = work.join(name);
            let output = work.join(output);
            std::fs::write(&source, text).map_err(|error| format!("write {}: {error}", source.display()))?;
            let mut command = Command::new(&cc);
            command.arg("-O2").args(more).arg(&source).arg("-o").arg(&output).arg("-ldl");
            let made = command.output().map_err(|error| format!("start {}: {error}", cc.display()))?;
            if made.status.success() {
                return Ok(output);
            }
            let said = String::from_utf8_lossy(&made.stderr);
            Err(format!("{} can't compile {name}: {}", cc.display(), said.lines().next().unwrap_or_default()))
        };
        Ok(Self {
            mechanisms: compile("mechanisms.c", include_str!("programs/mechanisms.c"), "mechanisms", &[])?,
            preload: compile(
                "preload.c",
                include_str!("programs/preload.c"),
                "preload.so",
                &["-shared", "-fPIC"],
            )?,
        })
    }
}

/// Which time of a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// The time per call that the program reports.
    Itself,
    /// The time from its start to its end.
    Run,
}

/// The paths of the programs and files.
pub(super) struct Stage {
    rulers: Option<Rulers>,
    own: PathBuf,
    work: PathBuf,
    palisade: Option<PathBuf>,
    /// Whether `palisade` has the verb `interpose`.
    interposes: bool,
}

impl Stage {
    pub(super) fn prepare(bench: &Bench, missing: &mut Vec<Missing>) -> Result<Self, SyscallsError> {
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
        for (name, text) in SCRIPTS {
            write(name, text)?;
        }
        for program in ["redis-server", "redis-benchmark", "redis-cli"] {
            if programs::on_path(program).is_none() {
                let how = format!("`{program}` is not on PATH; apt install redis-server redis-tools");
                missing.push(Missing { name: "a server under load".to_owned(), how });
            }
        }
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
        let rulers = match Rulers::compile(&work) {
            Ok(rulers) => Some(rulers),
            Err(how) => {
                missing.push(Missing { name: "mechanisms by themselves, libseccomp".to_owned(), how });
                None
            }
        };
        Ok(Self { rulers, own, work, palisade, interposes })
    }

    /// The command, and which of its times counts; `None` if something that it needs isn't installed.
    pub(super) fn invocation(&self, kind: &str, count: u32, by: By) -> Option<(Invocation, Timed)> {
        if let By::Server(how) = by {
            let (directory, variables) = (self.work.clone(), Vec::new());
            let argv = self.server(count, how)?;
            return Some((Invocation { argv, directory, variables }, Timed::Itself));
        }
        if let By::Learned(whose) = by {
            let (directory, variables) = (self.work.clone(), Vec::new());
            let argv = self.learned(kind, count, whose)?;
            return Some((Invocation { argv, directory, variables }, Timed::Itself));
        }
        let mut argv: Vec<OsString> = Vec::new();
        let mut variables = Vec::new();
        let taskset =
            || programs::of_the_system("taskset").map(|path| [path.into(), "-c".into(), "0".into()]);
        match by {
            By::Alone | By::Pinned(..) | By::RulerAlone(_) => argv.extend::<[OsString; 3]>(taskset()?),
            _ => {}
        }
        match by {
            By::Itself(_)
            | By::Alone
            | By::Kind(_)
            | By::Ruler(_)
            | By::RulerAlone(_)
            | By::Libseccomp
            | By::Learned(_)
            | By::Server(_) => {}
            By::Supervised(how) => {
                argv.push(self.rulers.as_ref()?.mechanisms.clone().into());
                argv.extend([how, "number", "0"].map(OsString::from));
            }
            By::Palisade(policy, more) | By::Pinned(policy, more) => {
                argv.extend(self.palisade(policy, more)?);
            }
            By::Interpose(arguments) | By::RulerInterposed(_, arguments) => {
                argv.extend(self.interpose(arguments)?);
            }
            By::Peer(program, arguments) => {
                argv.push(programs::on_path(program)?.into());
                argv.extend(arguments.iter().map(OsString::from));
            }
            By::Preload(pass) => {
                variables.push(("LD_PRELOAD".into(), self.rulers.as_ref()?.preload.clone().into()));
                variables.extend(pass.then(|| ("PRELOAD".into(), "pass".into())));
            }
        }
        let end = |argv, timed| {
            Some((Invocation { argv, directory: self.work.clone(), variables: variables.clone() }, timed))
        };
        if kind == "true" {
            argv.push(programs::of_the_system("true")?.into());
            return end(argv, Timed::Run);
        }
        let how = match by {
            By::Ruler(how) | By::RulerAlone(how) | By::RulerInterposed(how, _) => Some(how),
            By::Preload(_) => Some("library"),
            By::Libseccomp => Some("libseccomp"),
            _ => None,
        };
        if let Some(how) = how {
            // Where each call stops the process, fewer calls are enough.
            let slow = ["notify", "notify-sync", "add", "add-send", "sysemu", "ptrace"].contains(&how);
            let trapping = how.starts_with("trap") || matches!(how, "dispatch" | "unpatchable");
            let count = match how {
                "libseccomp" => u32::try_from(super::caller::refused(super::caller::MOST)).ok()?,
                _ if slow => count / 60,
                _ if trapping => count / 6,
                _ => count,
            };
            let kind = if how == "libseccomp" { "number" } else { kind };
            argv.push(self.rulers.as_ref()?.mechanisms.clone().into());
            argv.extend([how, kind, &count.to_string()].map(OsString::from));
            return end(argv, Timed::Itself);
        }
        let kind = if let By::Kind(kind) = by { kind } else { kind };
        argv.push(self.own.clone().into());
        argv.extend(["calls", "--kind", kind, "--count"].map(OsString::from));
        let fewer = if matches!(by, By::Peer(..)) { 10 } else { 1 };
        argv.push((count / fewer).to_string().into());
        if let By::Itself(Some(shape)) = by {
            argv.extend(["--filter".into(), OsString::from(shape)]);
        }
        end(argv, Timed::Itself)
    }

    /// The command for a server, if one is installed. Learning by the kernel also needs palisaded, and so root.
    fn server(&self, count: u32, how: Served) -> Option<Vec<OsString>> {
        for program in ["redis-server", "redis-benchmark", "redis-cli"] {
            programs::on_path(program)?;
        }
        let (mut argv, palisaded) = match how {
            Served::LearnedByKernel => self.daemon()?,
            Served::Bare | Served::BareFilter | Served::Filtered | Served::Learned => {
                (Vec::new(), OsString::new())
            }
        };
        argv.push(programs::of_the_system("sh")?.into());
        argv.push(self.work.join(SERVER).into());
        argv.extend([count.to_string().into(), palisaded]);
        match how {
            Served::Bare => {}
            Served::BareFilter => {
                argv.push(self.rulers.as_ref()?.mechanisms.clone().into());
                argv.extend(["filter-exec", "number", "0"].map(OsString::from));
            }
            Served::Filtered => argv.extend(self.palisade(None, &["--quiet"])?),
            Served::Learned | Served::LearnedByKernel => {
                argv.extend(self.palisade(None, &["--quiet", "--syscalls", "learn"])?);
            }
        }
        Some(argv)
    }

    /// The command that makes a private mount namespace, and the path of palisaded. Only for root.
    fn daemon(&self) -> Option<(Vec<OsString>, OsString)> {
        let beside = self.palisade.as_ref()?.with_file_name("palisaded");
        let palisaded = programs::on_path(beside.to_str()?)?.into();
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut argv: Vec<OsString> = vec![programs::on_path("unshare")?.into()];
        argv.extend(["--mount", "--propagation", "private"].map(OsString::from));
        Some((argv, palisaded))
    }

    /// The command for the caller while the kernel learns its own calls, or another program's.
    fn learned(&self, kind: &str, count: u32, whose: Whose) -> Option<Vec<OsString>> {
        let (mut argv, palisaded) = self.daemon()?;
        argv.push(programs::of_the_system("sh")?.into());
        argv.extend([self.work.join(LEARN).into(), palisaded]);
        match whose {
            Whose::Own => {
                // Calls that any program needs aren't recorded. Of the measured calls, this one is.
                argv.push("getpriority".into());
                argv.extend(self.palisade(None, &["--quiet", "--syscalls", "learn"])?);
            }
            Whose::Anothers => argv.extend(["".into(), self.palisade.clone()?.into()]),
        }
        argv.push(self.own.clone().into());
        argv.extend(["calls", "--kind", kind, "--count", &count.to_string()].map(OsString::from));
        Some(argv)
    }

    fn interpose(&self, arguments: &[&str]) -> Option<Vec<OsString>> {
        let palisade = self.palisade.clone().filter(|_palisade| self.interposes)?;
        let mut argv: Vec<OsString> = vec![palisade.into(), "interpose".into()];
        argv.extend(arguments.iter().map(OsString::from));
        argv.push("--".into());
        Some(argv)
    }

    fn palisade(&self, policy: Option<&str>, more: &[&str]) -> Option<Vec<OsString>> {
        let mut argv: Vec<OsString> = vec![self.palisade.clone()?.into(), "run".into(), "--ro".into()];
        // Only the program itself: its directory may contain the working directory, which would then be read-only, too.
        argv.push(self.own.clone().into());
        if let Some(policy) = policy {
            argv.extend(["--profile".into(), self.work.join(format!("{policy}.toml")).into()]);
        }
        argv.extend(more.iter().map(OsString::from));
        argv.push("--".into());
        Some(argv)
    }
}

/// A policy that denies every call that may be denied.
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

/// The calls that a Rust program needs to start, and to ask for its parent's number.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_are_policies() {
        assert!(many().matches(',').count() > 200);
    }
}
