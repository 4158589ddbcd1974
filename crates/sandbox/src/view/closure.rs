// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The view `closure`: a program's own files, and nothing else of the host.
//!
//! A few files are shown by a mount each, by their real paths, and the links that lead there are made again: what
//! isn't shown isn't there. A mount costs four times what a rule of Landlock's does, though. So where there are many
//! files the directory `/usr` is shown, with no right in it, and Landlock allows file by file: what isn't allowed can
//! be neither read nor executed nor listed, but whoever knows its name sees that it is there (ADR 0018).

use crate::error::PlanError;
use crate::facts::{Facts, Kind, PACKAGES};
use crate::package::PlanMode;
use crate::plan::Step;
use crate::view::tree::{Show, Tree, relative};
use crate::view::{SYSTEM, USERS};
use palisade_host::layout::RootKind;
use palisade_host::needs::{self, More, Needs};
use palisade_host::script;
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, NetworkMode};
use palisade_sys::landlock::Rights;
use palisade_text::Show as _;
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// What the C library reads, whatever the program is: names of users and services, the time zone, character sets and
/// locales, terminals, how many processors there are. Directories where there are many.
const BASE: [&str; 22] = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/services",
    "/etc/protocols",
    "/etc/os-release",
    "/etc/locale.alias",
    "/usr/lib/locale",
    "/usr/share/zoneinfo",
    "/usr/share/terminfo",
    "/usr/lib/terminfo",
    "/etc/terminfo",
    "/etc/inputrc",
    "/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
];

/// What programs that reach the network read beyond that.
const NETWORK: [&str; 4] =
    ["/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl/certs", "/usr/share/ca-certificates"];

/// What tells that packages have come, gone or changed.
const STAMPS: [&str; 2] = ["/etc/ld.so.cache", PACKAGES];

pub(crate) const USR: &str = "/usr";
/// Up to so many files are mounted one by one: 12 µs each, rules 3 µs each and one mount.
const MOUNTS: usize = 48;

/// As many links as the kernel follows in one path.
const LINKS: usize = 40;

/// Shows what the command's program needs of the system; returns what it needs of the user's, for [`user_toolchains`].
pub(crate) fn compose(
    tree: &mut Tree<'_>,
    facts: &Facts,
    network: NetworkMode,
    more: &More,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Vec<PathBuf>, PlanError> {
    let Some(command) = facts.command.first() else { return Err(PlanError::NoProgram) };
    for name in &facts.layout.merged {
        if let RootKind::Symlink(target) = &name.kind {
            tree.symlink(&name.path, target)?;
        }
    }
    for directory in ["/usr", "/etc", "/var", "/sys", "/mnt"] {
        tree.directory(Path::new(directory), 0o755)?;
    }
    tree.symlink(Path::new("/var/run"), Path::new("../run"))?;
    if !facts.cwd.starts_with("/var/tmp") {
        tree.symlink(Path::new("/var/tmp"), Path::new("../tmp"))?;
    }

    let needs = find(facts, command, more)?;
    let base = BASE.iter().chain(NETWORK.iter().filter(|_| network != NetworkMode::None));
    // Directories first: what lies in them needs nothing more.
    let directories = needs.directories.iter().map(PathBuf::as_path).chain(base.map(Path::new));
    let files = needs.programs.iter().chain(&needs.libraries).chain(&needs.files).map(PathBuf::as_path);
    // A package needs each file by all of its names, which only mounts spell out.
    let by_rules = needs.programs.len() + needs.libraries.len() > MOUNTS
        && facts.landlock.is_some()
        && facts.purpose != PlanMode::Pack;
    if by_rules {
        tree.show(Path::new(USR), Path::new(USR), Show { shut: true, ..SYSTEM })?;
    }
    let mut allowed = BTreeSet::new();
    let (ours, theirs): (Vec<_>, Vec<_>) =
        directories.chain(files).partition(|path| is_of_system(facts, path));
    for path in ours {
        let Some(real) = show(tree, facts, path)? else { continue };
        let within = || real.ancestors().skip(1).any(|above| allowed.contains(above));
        if by_rules && real.starts_with(USR) && !allowed.contains(&real) && !within() {
            let rights = match facts.kind(&real) {
                Kind::Directory => Rights::READ.union(Rights::EXECUTE),
                _ => Rights::READ.union(Rights::EXECUTE).intersection(Rights::OF_FILES),
            };
            tree.push(Step::Allow { path: relative(&real)?, rights });
            allowed.insert(real);
        }
    }
    for path in &needs.libraries {
        // What no package manager keeps is looked at by itself.
        if !path.starts_with(USR) && !path.starts_with("/lib") && !path.starts_with("/lib64") {
            facts.depends_on(path, true);
        }
    }
    // What a package manager keeps changes with its database; a shell's profile has a hundred programs, and each would be
    // looked at by each launch.
    let packaged = facts.is_of_packages(Path::new(USR));
    let kept = |path: &Path| packaged && path.starts_with(USR) && !path.starts_with("/usr/local");
    for (nth, path) in needs.programs.iter().enumerate() {
        if nth == 0 || !kept(path) {
            facts.depends_on(path, true);
        }
    }
    for stamp in STAMPS {
        facts.depends_on(Path::new(stamp), true);
    }
    for error in &needs.unread {
        notes.push(Cow::Owned(format!("{error}: what it runs is there only if it is allowed")));
    }
    for missing in &needs.missing {
        notes.push(Cow::Owned(format!(
            "{} needs {}, which isn't on this host",
            missing.by.shown(),
            missing.name.shown()
        )));
    }
    Ok(theirs.into_iter().map(Path::to_owned).collect())
}

/// Shows a program of the system's with its loader and libraries, and nothing that it may read besides.
pub(crate) fn alone(tree: &mut Tree<'_>, facts: &Facts, program: &Path) -> Result<(), PlanError> {
    let root = Path::new("/");
    let needs =
        needs::of(program.as_os_str(), None, None, root, &More::default(), &facts.libraries, &facts.names)
            .map_err(|source| PlanError::Needs { command: program.into(), source: Box::new(source) })?;
    for path in needs.programs.iter().chain(&needs.libraries) {
        show(tree, facts, path)?;
        if !path.starts_with(USR) && !path.starts_with("/lib") && !path.starts_with("/lib64") {
            facts.depends_on(path, true);
        }
    }
    for stamp in STAMPS {
        facts.depends_on(Path::new(stamp), true);
    }
    show(tree, facts, Path::new("/etc/ld.so.cache")).map(drop)
}

/// Shows what a program needs that lies in places which the view makes private, as far as it isn't in sight by now and
/// the policy doesn't hide it.
pub(crate) fn user_toolchains(
    tree: &mut Tree<'_>,
    facts: &Facts,
    resolved: &Resolved,
    paths: &[PathBuf],
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    for path in paths {
        if tree.host_path(&tree.resolve(path)).is_some() {
            continue;
        }
        let real = facts.names.canonical(path).unwrap_or_else(|| path.clone());
        let hidden = |path: &Path| matches!(resolved.decide(path).grant, Grant::Hidden | Grant::Denied);
        if hidden(path) || hidden(&real) {
            notes.push(Cow::Owned(format!("the program needs {}, which the policy hides", path.shown())));
            continue;
        }
        show(tree, facts, path)?;
    }
    Ok(())
}

/// Whether a path lies where every view shows the host's files and nothing private.
fn is_of_system(facts: &Facts, path: &Path) -> bool {
    facts.layout.shows(path) || ["/etc", "/usr", "/var/lib"].iter().any(|top| path.starts_with(top))
}

/// What tells one command's plan from another's: its program, and for a shell the line that it is given.
#[must_use]
pub fn program_of(command: &[OsString]) -> OsString {
    let mut program = command.first().cloned().unwrap_or_default();
    if let Some(line) = line_of(command) {
        program.push(" -c ");
        program.push(line);
    }
    program
}

/// The line of `sh -c LINE`.
fn line_of(command: &[OsString]) -> Option<&OsString> {
    let [shell, option, line, ..] = command else { return None };
    let name = Path::new(shell).file_name()?.to_str()?;
    let takes_line = option.to_str()?.strip_prefix('-')?.contains('c') && !option.to_str()?.starts_with("--");
    (script::is_shell(name) && takes_line).then_some(line)
}

fn find(facts: &Facts, command: &OsStr, more: &More) -> Result<Needs, PlanError> {
    let path: Option<OsString> = facts.environment.get("PATH").map(OsStr::to_owned);
    // The plan of an application is for any arguments: only what its profile says counts.
    let own = if facts.prefix.is_empty() { &facts.command } else { &facts.prefix };
    let line = line_of(own).map(|line| line.to_string_lossy());
    let needs = needs::of(
        command,
        line.as_deref(),
        path.as_deref(),
        &facts.cwd,
        more,
        &facts.libraries,
        &facts.names,
    );
    needs.map_err(|source| PlanError::Needs { command: command.to_owned(), source: Box::new(source) })
}

/// Shows what a path leads to by its real path, and makes the links on the way, as far as they aren't in sight already;
/// `None` if nothing is there.
fn show(tree: &mut Tree<'_>, facts: &Facts, path: &Path) -> Result<Option<PathBuf>, PlanError> {
    let Some(at) = links(tree, facts, path)? else { return Ok(None) };
    if tree.host_path(&at).is_none() {
        // What isn't the system's is opened by who may, before the walls are up.
        tree.show(&at, &at, if is_of_system(facts, &at) { SYSTEM } else { USERS })?;
    }
    Ok(Some(at))
}

/// Makes the links on the way of a path, as far as they aren't in sight already; what it leads to, if it is there.
pub(crate) fn links(tree: &mut Tree<'_>, facts: &Facts, path: &Path) -> Result<Option<PathBuf>, PlanError> {
    let mut left: VecDeque<OsString> = names(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(&name);
        let Ok(target) = facts.names.link(&at) else { continue };
        links += 1;
        if links > LINKS {
            return Ok(None);
        }
        if !tree.stands(&at) && tree.host_path(&at).is_none() {
            tree.symlink(&at, &target)?;
        }
        at.pop();
        if target.has_root() {
            at = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            left.push_front(name);
        }
    }
    Ok((facts.kind(&at) != Kind::Missing).then_some(at))
}

/// The names in a path; `.` isn't one.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}
