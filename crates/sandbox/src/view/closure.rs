// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The view `closure`: shows a program's own files, and nothing else of the host.
//!
//! If there are few files, each one is mounted at its real path, and the links that lead to it are made again. Other
//! files don't exist inside. But a mount costs four times as much as a Landlock rule. So if there are many files, the
//! directory `/usr` is mounted without any right, and Landlock allows single files. Other files can't be read, executed
//! or listed, but a process that knows a file's name can see that the file exists (ADR 0018).

use crate::error::PlanError;
use crate::facts::{Facts, Kind, PACKAGES};
use crate::package::PlanMode;
use crate::plan::Step;
use crate::view::tree::{Show, Tree, relative};
use crate::view::{SYSTEM, USERS};
use palisade_host::installation;
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

/// Files that the C library reads in every program: names of users and services, the time zone, character sets and
/// locales, terminals, the number of processors. Directories where there are many such files.
pub const BASE: [&str; 22] = [
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

/// Further files for programs that use the network.
pub const NETWORK: [&str; 4] =
    ["/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl/certs", "/usr/share/ca-certificates"];

/// Files that change when a package is installed, removed or changed.
const STAMPS: [&str; 2] = ["/etc/ld.so.cache", PACKAGES];

pub(crate) const USR: &str = "/usr";
/// The most files that are mounted one by one, at 12 µs each. Rules cost 3 µs each, and one mount.
const MOUNTS: usize = 48;

/// The kernel follows this many links in one path.
const LINKS: usize = 40;

/// Shows the system's files that the command's program needs. Returns the user's files that it needs, for [`user_toolchains`].
pub(crate) fn compose(
    tree: &mut Tree<'_>,
    facts: &Facts,
    (network, listed): (NetworkMode, bool),
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
    // Directories come first, because files in them need no further rule.
    let directories = needs.directories.iter().map(PathBuf::as_path).chain(base.map(Path::new));
    let files = needs.programs.iter().chain(&needs.libraries).chain(&needs.files).map(PathBuf::as_path);
    // A package needs each file under all of its names, and only mounts state these.
    let by_rules = needs.programs.len() + needs.libraries.len() > MOUNTS
        && facts.landlock.is_some()
        && !listed
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
        // No package manager maintains these, so each one is an input of the plan.
        if !path.starts_with(USR) && !path.starts_with("/lib") && !path.starts_with("/lib64") {
            facts.depends_on(path, true);
        }
    }
    // A package manager's files change together with its database. A shell's profile has a hundred programs, and each
    // launch would check each one.
    let packaged = facts.is_of_packages(Path::new(USR));
    let kept = |path: &Path| packaged && path.starts_with(USR) && !path.starts_with("/usr/local");
    for (nth, path) in needs.programs.iter().enumerate() {
        if nth == 0 || !kept(path) {
            facts.depends_on(path, true);
        }
    }
    // Whether a script's file is shown depends on its mode.
    for path in needs.files.iter().filter(|path| !kept(path)) {
        facts.depends_on(path, true);
    }
    for stamp in STAMPS {
        facts.depends_on(Path::new(stamp), true);
    }
    for error in &needs.unread {
        notes.push(Cow::Owned(format!(
            "{error}: the programs that it starts are visible only if the policy allows them"
        )));
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

/// Shows a program of the system with its loader and libraries, without data files.
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

/// The user's files that an application's program needs. An application's home is private, and its program may be
/// installed in the user's home. A program that isn't found is reported when it is started.
pub(crate) fn of_application(facts: &Facts, more: &More) -> Vec<PathBuf> {
    let Some(program) = facts.command.first().filter(|_| !facts.prefix.is_empty()) else { return Vec::new() };
    let Ok(needs) = find(facts, program, more) else { return Vec::new() };
    let files = needs.programs.iter().chain(&needs.libraries).chain(&needs.files);
    let mut own: Vec<PathBuf> = installed(facts, &needs.programs);
    own.extend(files.filter(|path| !is_of_system(facts, path)).cloned());
    for path in &own {
        facts.depends_on(path, true);
    }
    own
}

/// The directories of the user's that belong to the first of these programs: its package or its virtual environment.
fn installed(facts: &Facts, programs: &[PathBuf]) -> Vec<PathBuf> {
    let home = &facts.account.home;
    let Some(program) = programs.first() else { return Vec::new() };
    let real = facts.names.canonical(program).unwrap_or_else(|| program.clone());
    // A virtual environment's program isn't a link to it.
    let mut found = installation::directories(&real, home);
    found.extend(installation::virtual_environment(&real, home));
    found.retain(|path| !is_of_system(facts, path));
    found
}

/// Shows needed files in places that the view makes private, unless they are visible already or the policy hides them.
pub(crate) fn user_toolchains(
    tree: &mut Tree<'_>,
    facts: &Facts,
    resolved: &Resolved,
    paths: &[PathBuf],
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    for path in paths {
        let real = facts.names.canonical(path).unwrap_or_else(|| path.clone());
        // A link in a directory that is shown may lead to one that isn't.
        if [path, &real].into_iter().all(|path| is_visible(tree, facts, &tree.resolve(path))) {
            continue;
        }
        let hidden = |path: &Path| matches!(resolved.decide(path).grant, Grant::Hidden | Grant::Denied);
        if hidden(path) || hidden(&real) {
            notes.push(Cow::Owned(format!("the program needs {}, which the policy hides", path.shown())));
            continue;
        }
        show(tree, facts, path)?;
    }
    Ok(())
}

/// Whether a path lies in a directory in which every view shows the host's files and nothing private.
fn is_of_system(facts: &Facts, path: &Path) -> bool {
    facts.layout.shows(path) || ["/etc", "/usr", "/var/lib"].iter().any(|top| path.starts_with(top))
}

/// The part of a command that its plan depends on: the program, and for a shell also the line after `-c`.
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
    // An application's plan is for any arguments, so only the profile's part of the command counts.
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

/// Shows the target of a path at its real path, and makes the links on the path, unless they are visible already;
/// `None` if the target doesn't exist.
fn show(tree: &mut Tree<'_>, facts: &Facts, path: &Path) -> Result<Option<PathBuf>, PlanError> {
    let Some(at) = links(tree, facts, path)? else { return Ok(None) };
    // The builder opens files that aren't the system's before the walls are up, while it may.
    let kind = if is_of_system(facts, &at) { SYSTEM } else { USERS };
    if !is_visible(tree, facts, &at) {
        tree.show(&at, &at, kind)?;
    }
    // A private home outlives the launch, so no link is made in it. The target is mounted at the link's path, too.
    let name = tree.resolve(path);
    if tree.host_path(&name).is_some() && !is_visible(tree, facts, &name) {
        tree.show(&at, &name, kind)?;
    }
    Ok(Some(at))
}

/// Whether a path inside shows a file of the host. A private home or a cache holds the sandbox's own files.
pub(crate) fn is_visible(tree: &Tree<'_>, facts: &Facts, path: &Path) -> bool {
    let own = |host: PathBuf| facts.kept_trees().iter().any(|kept| host.starts_with(kept));
    tree.host_path(path).is_some_and(|host| !own(host))
}

/// Makes the links on a path, unless they are visible already. Returns the target, if it exists.
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

/// The names in a path, without `.`.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}
