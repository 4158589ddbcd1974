// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The views: what a sandbox shows of the host before any rule applies.

pub(crate) mod above;
pub(crate) mod caches;
pub mod closure;
pub(crate) mod home_settings;
pub(crate) mod in_place;
pub(crate) mod mount_point;
pub(crate) mod mount_table;
pub(crate) mod mounts;
pub(crate) mod protection;
pub(crate) mod resources;
pub(crate) mod tree;

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::package;
use crate::plan::text::Text;
use crate::plan::{Origin, Step};
use crate::view::caches::Caches;
use crate::view::tree::{Show, Tree, WRITABLE};
use palisade_host::layout::RootKind;
use palisade_host::needs::More;
use palisade_host::{gitconfig, registries, resolver, toolchain, virtualenv, worktree};
use palisade_policy::{NetworkMode, View};
use palisade_sys::landlock::Rights;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Device files that every program expects.
pub(crate) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A read-only tree that only root changes.
pub(crate) const SYSTEM: Show = Show {
    origin: Origin::System,
    write: false,
    execute: true,
    renewed: false,
    map_owners: false,
    shut: false,
};
/// A read-only tree that the user may change outside.
pub(crate) const USERS: Show = Show {
    origin: Origin::Canonical,
    write: false,
    execute: true,
    renewed: false,
    map_owners: false,
    shut: false,
};

/// What decides about a view.
pub(crate) struct Shown {
    pub(crate) view: View,
    pub(crate) network: NetworkMode,
    pub(crate) caches: Option<Caches>,
    /// Owners are mapped in the user's own directories.
    pub(crate) mapped: bool,
    /// Directories can be listed, and a list has only visible files: a user looks around in a shell.
    pub(crate) listed: bool,
}

/// Composes a view. Returns the user's files that a program needs. They are shown after everything else.
pub(crate) fn compose(
    tree: &mut Tree<'_>,
    facts: &Facts,
    &Shown { view, network, ref caches, mapped, listed }: &Shown,
    more: &More,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Vec<PathBuf>, PlanError> {
    let mut later = Vec::new();
    match (facts.package(), view) {
        (Some(package), _) => package::view::compose(tree, facts, package, network)?,
        (None, View::Closure) => later = closure::compose(tree, facts, (network, listed), more, notes)?,
        (None, View::System) => {
            system(tree, facts)?;
            later = closure::of_application(facts, more);
        }
        (None, View::Host) => host(tree)?,
    }
    private_places(tree, facts, view)?;
    devices(tree)?;
    // Before the user's toolchains: a download directory of the home isn't shown where a cache has its name.
    if let Some(caches) = caches {
        caches.show(tree, mapped)?;
    }
    match network {
        NetworkMode::Host if facts.package().is_none() => name_resolution(tree)?,
        NetworkMode::Filtered => own_name_server(tree)?,
        NetworkMode::Host | NetworkMode::None => {}
    }
    Ok(later)
}

/// Shows system directories read-only, and nothing else of the host.
fn system(tree: &mut Tree<'_>, facts: &Facts) -> Result<(), PlanError> {
    for directory in facts.layout.system.iter().filter(|directory| !directory.path.starts_with("/run")) {
        tree.show(&directory.canonical, &directory.path, SYSTEM)?;
    }
    for name in &facts.layout.merged {
        match &name.kind {
            RootKind::Symlink(target) => tree.symlink(&name.path, target)?,
            RootKind::Directory => tree.show(&name.path, &name.path, SYSTEM)?,
        }
    }
    for directory in ["/var", "/sys", "/mnt"] {
        tree.directory(Path::new(directory), 0o755)?;
    }
    tree.symlink(Path::new("/var/run"), Path::new("../run"))?;
    let temporary = Path::new("/var/tmp");
    if facts.cwd.starts_with(temporary) {
        // The working directory keeps its name. A link would change the name.
        tree.private(temporary, 0o1777, false)
    } else {
        tree.symlink(temporary, Path::new("../tmp"))
    }
}

/// Shows the whole host read-only, except for the directories that are private in every view.
fn host(tree: &mut Tree<'_>) -> Result<(), PlanError> {
    let Ok(entries) = std::fs::read_dir("/") else { return Ok(()) };
    let mut names: Vec<_> = entries.filter_map(Result::ok).collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let path = entry.path();
        if ["/dev", "/proc", "/run", "/tmp"].iter().any(|private| path == Path::new(private)) {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => {
                if let Ok(target) = std::fs::read_link(&path) {
                    tree.symlink(&path, &target)?;
                }
            }
            Ok(_) => tree.show(&path, &path, SYSTEM)?,
            Err(_vanished) => {}
        }
    }
    Ok(())
}

/// Makes the command's private directories: temporary files, run-time files, its home.
fn private_places(tree: &mut Tree<'_>, facts: &Facts, view: View) -> Result<(), PlanError> {
    tree.private(Path::new("/tmp"), 0o1777, true)?;
    tree.private(Path::new("/run"), 0o755, false)?;
    tree.directory(Path::new("/run/lock"), 0o1777)?;
    tree.directory(Path::new("/run/shm"), 0o1777)?;
    if matches!(view, View::System | View::Host) && facts.package().is_none() {
        // NixOS has a link there through which PATH leads. Before, the private directory would cover it.
        for directory in facts.layout.system.iter().filter(|directory| directory.path.starts_with("/run")) {
            tree.show(&directory.canonical, &directory.path, SYSTEM)?;
        }
    }
    let runtime = format!("/run/user/{}", facts.account.uid);
    tree.directory(Path::new(&runtime), 0o700)?;
    if view != View::Host && facts.account.home.parent().is_some() {
        tree.private(&facts.account.home, 0o700, true)?;
    }
    Ok(())
}

fn devices(tree: &mut Tree<'_>) -> Result<(), PlanError> {
    tree.directory(Path::new("/dev"), 0o755)?;
    // One private memory file system is enough, and saves a mount.
    tree.symlink(Path::new("/dev/shm"), Path::new("/run/shm"))?;
    device_files(tree)
}

/// Fills `/dev`, which exists: harmless devices, and the sandbox's own terminals and message queues.
pub(crate) fn device_files(tree: &mut Tree<'_>) -> Result<(), PlanError> {
    for name in DEVICES {
        tree.device(&Path::new("/dev").join(name))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        tree.symlink(&Path::new("/dev").join(name), Path::new(target))?;
    }
    tree.directory(Path::new("/dev/pts"), 0o755)?;
    tree.push(Step::Terminals { path: Text::literal(c"dev/pts") });
    tree.push(Step::Console { path: Text::literal(c"dev/console") });
    // Some kernels are built without message queues.
    if Path::new("/proc/sys/fs/mqueue").exists() {
        tree.directory(Path::new("/dev/mqueue"), 0o755)?;
        tree.push(Step::Queues { path: Text::literal(c"dev/mqueue"), rights: WRITABLE });
    }
    tree.push(Step::Allow {
        path: Text::literal(c"dev"),
        rights: Rights::READ.union(Rights::WRITE_FILE).union(Rights::IOCTL_DEV),
    });
    Ok(())
}

/// Shows what the user's programs need from the home, which is private: toolchains, the user's name for git, and the
/// registries of package managers. `kept` is the host's directory for a home that outlives the launch; its own files go
/// before the user's.
pub(crate) fn user_toolchains(
    tree: &mut Tree<'_>,
    facts: &Facts,
    kept: Option<&Path>,
) -> Result<(), PlanError> {
    let home = &facts.account.home;
    for path in toolchain::candidates(home) {
        facts.depends_on(&path, false);
    }
    let show = |tree: &mut Tree<'_>, canonical: &Path, path: &Path| {
        if is_bare(tree, facts, kept, path) { tree.show(canonical, path, USERS) } else { Ok(()) }
    };
    let toolchains = toolchain::find(home, &facts.environment, &facts.layout);
    let programs = toolchain::path_directories(home, &facts.environment, &facts.layout);
    let shown = toolchains.found.iter().map(|found| (&found.canonical, &found.path));
    for (canonical, path) in shown.chain(programs.found.iter().map(|found| (&found.canonical, &found.path))) {
        show(tree, canonical, path)?;
    }
    for environment in virtualenv::find(&facts.cwd, home, &facts.environment, &facts.layout) {
        facts.depends_on(&environment.root.join("pyvenv.cfg"), true);
        if let virtualenv::Base::Known { prefix, canonical } = &environment.base {
            facts.depends_on(prefix, false);
            show(tree, canonical, prefix)?;
        }
        if !environment.root.starts_with(&facts.cwd) && toolchain::acceptable(&environment.root, home).is_ok()
        {
            show(tree, &environment.root, &environment.root)?;
        }
    }
    let sanitised = gitconfig::sanitised(home, &facts.environment);
    for source in gitconfig::sources(home, &facts.environment) {
        facts.depends_on(&source, true);
    }
    // An unreadable configuration stops git on the host, too, and git reports the reason there.
    if let Ok(sanitised) = sanitised
        && !sanitised.text.is_empty()
        && let Ok(content) = Text::new(sanitised.text)
    {
        file(tree, facts, kept, &home.join(".gitconfig"), content)?;
    }
    for source in registries::sources(home) {
        facts.depends_on(&source, true);
    }
    for configuration in registries::find(home) {
        if let Ok(content) = Text::new(configuration.text) {
            file(tree, facts, kept, &configuration.path, content)?;
        }
    }
    Ok(())
}

/// Makes a settings file, unless the home has its own.
fn file(
    tree: &mut Tree<'_>,
    facts: &Facts,
    kept: Option<&Path>,
    path: &Path,
    content: Text<'static>,
) -> Result<(), PlanError> {
    if !is_bare(tree, facts, kept, path) {
        return Ok(());
    }
    match kept {
        Some(_) => tree.made_file(path, 0o644, content, false, Rights::READ.intersection(Rights::OF_FILES)),
        None => tree.file(path, 0o644, content),
    }
}

/// Whether nothing is shown at `path` yet. In a kept home a mount point counts as nothing: an earlier launch has made
/// it, an empty file or directory.
fn is_bare(tree: &Tree<'_>, facts: &Facts, kept: Option<&Path>, path: &Path) -> bool {
    let Some(host) = tree.host_path(&tree.resolve(path)) else { return true };
    if !kept.is_some_and(|kept| host.starts_with(kept)) {
        return false;
    }
    facts.depends_on(&host, true);
    match host.symlink_metadata() {
        Ok(found) if found.is_dir() => host.read_dir().is_ok_and(|mut entries| entries.next().is_none()),
        Ok(found) => found.is_file() && found.len() == 0,
        Err(_missing) => true,
    }
}

/// Shows the parts of the working directory's repository that lie outside the working directory.
pub(crate) fn repository(tree: &mut Tree<'_>, facts: &Facts) -> Result<(), PlanError> {
    for above in facts.cwd.ancestors().take_while(|above| *above != facts.account.home) {
        // A `.git` file names another directory, so its content matters. A `.git` directory changes all the time.
        let git = above.join(".git");
        let by_content = facts.kind(&git) == Kind::Other;
        facts.depends_on(&git, by_content);
    }
    for path in repository_outside(facts) {
        // Owners are mapped, because git refuses repositories of other users.
        if !closure::is_visible(tree, facts, &tree.resolve(&path)) {
            tree.show(&path, &path, Show { map_owners: true, ..USERS })?;
        }
    }
    Ok(())
}

/// The parts of the working directory's repository that lie outside the working directory.
pub(crate) fn repository_outside(facts: &Facts) -> Vec<PathBuf> {
    let (home, uid) = (&facts.account.home, facts.account.uid);
    let worktree::Found::Repository(repository) = worktree::find(&facts.cwd, home, uid) else {
        return Vec::new();
    };
    let outside = repository.git.outside().map(Path::to_owned);
    outside.into_iter().chain((repository.root != facts.cwd).then_some(repository.root)).collect()
}

/// With the host's network, names are resolved as on the host, often by a file under `/run`.
fn name_resolution(tree: &mut Tree<'_>) -> Result<(), PlanError> {
    if let Ok(Some(resolver)) = resolver::read(Path::new("/etc/resolv.conf"))
        && let Some(place) = resolver.appears_at
    {
        tree.show(&resolver.file, &place, SYSTEM)?;
    }
    Ok(())
}

/// In a separate network, names are resolved by the only name server that exists. It answers at any address.
pub(crate) fn own_name_server(tree: &mut Tree<'_>) -> Result<(), PlanError> {
    /// Without `options edns0` or `search`: names must be queried unchanged.
    const CONFIGURATION: &std::ffi::CStr = c"nameserver 127.0.0.1\n";
    let usual = Path::new("/etc/resolv.conf");
    let place = match resolver::read(usual) {
        Ok(Some(resolver)) => resolver.appears_at.unwrap_or_else(|| usual.to_owned()),
        // Without this file the C library queries 127.0.0.1 by itself.
        Ok(None) if tree.host_path(usual).is_some() => return Ok(()),
        Ok(None) => usual.to_owned(),
        // The link leads nowhere on the host, so it leads nowhere inside.
        Err(_unreadable) => return Ok(()),
    };
    tree.made_file(&place, 0o644, Text::literal(CONFIGURATION), false, Rights::READ_FILE)
}

/// Shows the processes inside. This comes last, because init makes the file system meanwhile.
pub(crate) fn processes(tree: &mut Tree<'_>) -> Result<(), PlanError> {
    tree.directory(Path::new("/proc"), 0o755)?;
    tree.push(Step::Processes {
        path: Text::literal(c"proc"),
        // A shell's `>` truncates the file.
        rights: Rights::READ.union(Rights::WRITE_FILE).union(Rights::TRUNCATE),
    });
    Ok(())
}

/// For a command that is also root on the host: makes kernel files read-only that root may change, and hides files that
/// only root may read.
pub(crate) fn restrain_root(tree: &mut Tree<'_>, facts: &Facts) -> Result<(), PlanError> {
    for path in ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"] {
        if tree.stands(Path::new("/proc")) && facts.kind(Path::new(path)) != Kind::Missing {
            tree.freeze(Path::new(path))?;
        }
    }
    let secret = |path: &Path, _kind: palisade_host::walk::FileKind| {
        use std::os::unix::fs::MetadataExt;
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() && found.mode() & 0o005 == 0 => palisade_host::walk::Visit::Match,
            Ok(found) if found.is_dir() => palisade_host::walk::Visit::Descend,
            Ok(found) if found.is_file() && found.mode() & 0o004 == 0 => palisade_host::walk::Visit::Match,
            _ => palisade_host::walk::Visit::Skip,
        }
    };
    let walked = palisade_host::walk::walk(Path::new("/etc"), palisade_host::walk::DEFAULT_LIMIT, secret);
    if let Ok(walk) = walked {
        for path in walk.matches {
            tree.mask(&path, true)?;
        }
    }
    Ok(())
}
