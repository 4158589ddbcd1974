// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of bubblewrap for a launch.
//!
//! They are made from the launch's plan, so they build the same file tree. bubblewrap has no Landlock, no filter of
//! its own, no broker and no network filter: what depends on these is missing.

use super::{Exported, Missing};
use palisade_policy::{Guarantee, Protected, Resolved};
use palisade_sandbox::guarantee;
use palisade_sandbox::plan::{Bind, Origin, Step};
use palisade_sandbox::plan::{IdentityKind, Namespace, Plan};
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where the plan keeps what masks others.
const MASKS: &str = ".palisade";

/// The arguments, and what they don't say.
#[derive(Debug, Default)]
struct Arguments {
    words: Vec<String>,
    missing: Vec<Missing>,
    /// Directories that have become mounts of their own.
    own: HashSet<String>,
    /// Files that are made without content: a mount on them follows.
    empty: HashSet<String>,
}

/// The line of shell that starts bubblewrap. The command follows it.
///
/// `variables` are those of the caller.
#[must_use]
pub fn export(plan: &Plan<'_>, resolved: &Resolved, variables: &[(OsString, OsString)]) -> Exported {
    let mut to = Arguments::default();
    to.namespaces(plan);
    for step in &plan.steps {
        to.step(step);
    }
    to.protected(plan, resolved);
    to.add(&["--remount-ro", "/"]);
    to.environment(plan, variables);
    to.add(&["--chdir", &plan.directory.to_string()]);
    to.add(&["--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    to.lacks(plan);
    let words: Vec<String> = to.words.iter().map(|word| palisade_text::quoted(word)).collect();
    Exported { text: format!("bwrap {} --\n", words.join(" ")), missing: to.missing }
}

/// A path of the new tree.
fn inside(path: &impl ToString) -> String {
    format!("/{}", path.to_string().trim_start_matches("./"))
}

impl Arguments {
    fn add(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
    }

    fn lacks_one(&mut self, what: impl Into<String>, why: &'static str) {
        self.missing.push(Missing::new(what, why));
    }

    fn namespaces(&mut self, plan: &Plan<'_>) {
        for namespace in &plan.namespaces {
            match namespace {
                Namespace::User => {
                    let (uid, gid) = (plan.identity.uid.to_string(), plan.identity.gid.to_string());
                    self.add(&["--unshare-user", "--uid", &uid, "--gid", &gid]);
                }
                Namespace::Mount => {}
                Namespace::Pid => self.add(&["--unshare-pid"]),
                Namespace::Ipc => self.add(&["--unshare-ipc"]),
                Namespace::Uts => self.add(&["--unshare-uts"]),
                Namespace::Cgroup => self.add(&["--unshare-cgroup"]),
                Namespace::Network => self.add(&["--unshare-net"]),
            }
        }
        if let Some(name) = &plan.hostname {
            self.add(&["--hostname", &name.to_string()]);
        }
        if plan.identity.kind == IdentityKind::Mapped {
            self.lacks_one(
                "the command's user",
                "bubblewrap maps no owners: the command has the user id of the caller on the host",
            );
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Root { .. } | Step::Allow { .. } | Step::Enter | Step::Console { .. } => {}
            Step::Directory { path, mode } => {
                let path = inside(path);
                if path == "/dev" {
                    self.add(&["--dev", "/dev"]);
                } else if !is_special(&path) {
                    self.add(&["--perms", &format!("{mode:04o}"), "--dir", &path]);
                }
            }
            Step::File { path, content, .. } => {
                let path = inside(path);
                if content.as_bytes().is_empty() {
                    self.empty.insert(path);
                } else if !is_special(&path) {
                    self.lacks_one(path, "bubblewrap takes the content of a file from a descriptor only");
                }
            }
            Step::Symlink { path, target } => {
                let path = inside(path);
                // bubblewrap makes the usual links below /dev itself.
                if !is_special(&path) {
                    self.add(&["--symlink", &target.to_string(), &path]);
                }
            }
            Step::Bind(bind) => self.bind(bind),
            Step::Own { path, .. } => {
                let path = inside(path);
                if self.own.insert(path.clone()) {
                    self.add(&["--tmpfs", &path]);
                }
            }
            Step::Tmpfs { path, .. } => self.add(&["--tmpfs", &inside(path)]),
            Step::Overlay { target, .. } => {
                self.lacks_one(
                    inside(target),
                    "not every bubblewrap has overlays: the directory below isn't shown",
                );
            }
            Step::Terminals { .. } => {}
            Step::Queues { path, .. } => self.add(&["--mqueue", &inside(path)]),
            Step::Processes { path, .. } => self.add(&["--proc", &inside(path)]),
            Step::Socket { path, .. } => {
                self.lacks_one(inside(path), "bubblewrap has no filtered message bus")
            }
            Step::Information { path, .. } => {
                self.lacks_one(inside(path), "a portal can't recognise the application");
            }
            Step::Refusals { path } => {
                self.lacks_one(inside(path), "bubblewrap tells no program what was refused");
            }
        }
    }

    fn bind(&mut self, bind: &Bind<'_>) {
        let (source, target) = (bind.source.to_string(), inside(&bind.target));
        self.empty.remove(&target);
        if bind.origin == Origin::Inside {
            return self.mask(&source, &target);
        }
        if bind.devices {
            let usual = ["null", "zero", "full", "random", "urandom", "tty"];
            if !usual.iter().any(|name| target == format!("/dev/{name}")) {
                self.add(&["--dev-bind", &source, &target]);
            }
            return;
        }
        self.add(&[if bind.write { "--bind" } else { "--ro-bind" }, &source, &target]);
        if !bind.execute && Path::new(source.as_str()).is_dir() {
            self.lacks_one(
                target,
                "bubblewrap mounts nothing without execution: files there can be executed",
            );
        }
    }

    /// Covers a path with something that is empty, or that nobody may open.
    fn mask(&mut self, source: &str, target: &str) {
        match source.strip_prefix(MASKS).map(|name| name.trim_start_matches('/')) {
            Some("hidden") => self.add(&["--perms", "0555", "--tmpfs", target, "--remount-ro", target]),
            Some("denied") => self.add(&["--perms", "0000", "--tmpfs", target, "--remount-ro", target]),
            // A device file that can't be opened on this mount.
            Some("hidden-file" | "denied-file") => self.add(&["--ro-bind", "/dev/null", target]),
            _ => self.lacks_one(target, "bubblewrap can't show a part of the new tree at another path"),
        }
    }

    /// Paths that the policy protects, if they exist: they become read-only.
    fn protected(&mut self, plan: &Plan<'_>, resolved: &Resolved) {
        for protected in resolved.protected() {
            match protected {
                Protected::Path(path, rule) => {
                    let shown = plan.steps.iter().any(|step| match step {
                        Step::Bind(bind) => bind.write && path.starts_with(inside(&bind.target)),
                        _ => false,
                    });
                    let Some(text) = path.to_str() else { continue };
                    if shown && path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink()) {
                        self.add(&["--ro-bind", text, text]);
                    } else if shown {
                        self.lacks_one(
                            rule.to_string(),
                            "the path doesn't exist, and bubblewrap can't keep it absent",
                        );
                    }
                }
                Protected::Glob(glob) => {
                    self.lacks_one(glob.rule.to_string(), "bubblewrap has no patterns");
                }
            }
        }
    }

    fn environment(&mut self, plan: &Plan<'_>, variables: &[(OsString, OsString)]) {
        let inherited = variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let removed = plan.environment.changed(inherited);
        let mut names: Vec<String> =
            removed.iter().map(|(name, ..)| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort_unstable();
        for name in names {
            self.add(&["--unsetenv", &name]);
        }
        for (name, value, _origin) in plan.environment.values() {
            self.add(&["--setenv", name, value]);
        }
        for variable in plan.offline.iter().flat_map(|offline| &offline.variables) {
            if let Some((name, value)) = variable.to_string().split_once('=') {
                self.add(&["--setenv", name, value]);
            }
        }
    }

    /// What bubblewrap doesn't have.
    fn lacks(&mut self, plan: &Plan<'_>) {
        if plan.network.is_some() {
            self.lacks_one("network.mode = \"filtered\"", "bubblewrap filters no connections: none is made");
        }
        for held in guarantee::held(plan) {
            let why = match held.guarantee {
                Guarantee::NamesProtected => "bubblewrap protects no names: they can be created and changed",
                Guarantee::CallsRefused => "bubblewrap brings no filter of system calls",
                Guarantee::CallsAnswered => "bubblewrap answers no system calls",
                Guarantee::MemoryBounded | Guarantee::ProcessesBounded => "bubblewrap has no limits",
                Guarantee::BusesFiltered => "bubblewrap has no filtered message bus",
                Guarantee::NoAbstractSockets if !plan.namespaces.contains(&Namespace::Network) => {
                    "bubblewrap has no Landlock: abstract sockets of the host can be reached"
                }
                _ => continue,
            };
            if held.by.is_some() {
                self.lacks_one(held.guarantee.name(), why);
            }
        }
        for limit in &plan.limits {
            let what = format!("limits.{} = {}", limit_key(limit.resource), limit.value);
            self.lacks_one(what, "bubblewrap has no limits");
        }
        for hook in &plan.lifecycle.hooks {
            let command: Vec<String> = hook.command.iter().map(ToString::to_string).collect();
            self.lacks_one(format!("hook {}", command.join(" ")), "bubblewrap runs no other program");
        }
        if plan.lifecycle.lock.is_some() {
            self.lacks_one("home.lock", "bubblewrap locks no home");
        }
    }
}

/// The key of a limit by its number in the kernel's interface (`include/uapi/asm-generic/resource.h`).
const fn limit_key(resource: u32) -> &'static str {
    match resource {
        0 => "cpu_time",
        1 => "file_size",
        3 => "stack",
        4 => "core_size",
        6 => "processes",
        7 => "open_files",
        8 => "locked_memory",
        9 => "address_space",
        _ => "another",
    }
}

/// What bubblewrap makes itself.
fn is_special(path: &str) -> bool {
    path.starts_with("/dev/")
        || path == "/proc"
        || path.strip_prefix('/').is_some_and(|path| path == MASKS || path.starts_with(&format!("{MASKS}/")))
}
