// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a plan from policy and facts.

use crate::bus;
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::filter::replies::{self, Answered};
use crate::filter::{self, calls};
use crate::guarantee::Demands;
use crate::layers::session;
use crate::network;
use crate::plan::limits;
use crate::plan::text::Text;
use crate::plan::{
    Filter, Identity, IdentityKind, Landlock, Listing, NameEnforcement, Namespace, Origin, PROGRAM, Pin,
    Plan, SCHEMA, Step,
};
use crate::view::USERS;
use crate::view::caches::Caches;
use crate::view::protection;
use crate::view::resources::Resources;
use crate::view::tree::{Show, Tree, relative};
use crate::view::{self, closure, in_place, mounts};
use palisade_host::needs::More;
use palisade_policy::decide::EffectivePath;
use palisade_policy::resolve::Resolved;
use palisade_policy::word::{Switch, SyscallMode};
use palisade_policy::{Context, Grant, Guarantee, Layer, NetworkMode, Policy, View};
use palisade_sys::landlock::{Handled, Rights};
use palisade_syscall::broker::own_filter_with_clock;
use palisade_syscall::{Arch, Passed};
use palisade_text::Show as _;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

mod arranged;
mod grants;
mod identity;
mod pins;
mod statements;

use self::arranged::Arranged;
use self::grants::{Grants, grants};
use self::identity::identity;

/// Which walls are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Namespaces and a new file tree, with Landlock and seccomp in addition.
    #[default]
    Full,
    /// Landlock and seccomp only: nothing is hidden, and what isn't allowed is denied.
    InPlace,
}

/// Memory that files in private places may take.
const TMPFS_SIZE: &std::ffi::CStr = c"50%";

/// Makes the plan.
///
/// # Errors
/// When the policy requires something that this host can't give.
pub fn make(
    facts: &Facts,
    policy: &Policy,
    project: Option<&Path>,
    isolation: Isolation,
) -> Result<Plan<'static>, PlanError> {
    let trace = policy.switch(Switch::Trace).value;
    if trace && isolation == Isolation::InPlace {
        return Err(without_namespaces(
            "missing files are reported",
            "without namespaces no process can watch the command",
        ));
    }
    plan(facts, policy, project, isolation, trace)
}

/// A guarantee that no launch without namespaces can give, and for which there is no fewer.
pub(crate) fn without_namespaces(guarantee: &'static str, reason: &'static str) -> PlanError {
    // Without the option, a best-effort launch has no namespaces because the host has none.
    if palisade_sys::probe::user_namespaces_work() {
        let hint = "palisade run --namespaces all …   # in place of --namespaces none";
        PlanError::Exclusive { guarantee, reason, hint }
    } else {
        let hint = "palisade doctor   # shows why this host has no user namespaces and how to enable them";
        PlanError::Exclusive { guarantee, reason, hint }
    }
}

/// Makes the plan for a command that is to be learned: the same walls, and a broker that reports uses.
///
/// # Errors
/// When the policy requires something that this host can't give.
pub fn learn(facts: &Facts, policy: &Policy, project: Option<&Path>) -> Result<Plan<'static>, PlanError> {
    plan(facts, policy, project, Isolation::Full, true)
}

fn plan(
    facts: &Facts,
    policy: &Policy,
    project: Option<&Path>,
    isolation: Isolation,
    learn: bool,
) -> Result<Plan<'static>, PlanError> {
    let context = context(facts, project);
    let resolved = policy.resolve(&context)?;
    let demands = Demands::of(policy);
    if isolation == Isolation::InPlace {
        demands.stay_in_place(facts.account.uid == 0)?;
    }
    let mut notes = Vec::new();
    // Shipped rules are for any host. If some of them don't apply here, the user needs no note.
    let own = resolved.skipped().iter().filter(|(rule, _)| rule.origin.layer > Layer::Distribution);
    for (rule, reason) in own {
        notes.push(Cow::Owned(format!("skipped {rule}: {reason}")));
    }

    let misleading = session::misleading(facts, &stated(facts, project));
    let referred = policy.variables();
    let misleading = misleading.iter().filter(|one| {
        // Rules refer to the display by another name.
        referred.contains(one.variable) || one.variable == "DISPLAY"
    });
    notes.extend(misleading.map(|one| Cow::Owned(one.note())));

    let network = network::reached(facts, policy, isolation, &demands, &mut notes)?;
    policy.variables().iter().for_each(|variable| facts.depends_on_variable(variable));
    let buses = bus::resolve(facts, policy, &context, isolation, &demands, &mut notes)?;
    let resources = Resources { policy, context: &context, isolation, buses: &buses };
    resources.check_required(facts)?;
    let shows_cwd = policy.switch(Switch::WorkingDirectory).value;
    let stated = grants(facts, &resolved, shows_cwd && facts.arrangement().is_none(), &mut notes)?;
    let names = || policy.names();
    let arranged = facts.arrangement().map(|arrangement| {
        arranged::check(policy)?;
        arranged::arrange(facts, arrangement, &stated, &names())
    });
    let arranged = arranged.transpose()?;
    let grants = arranged.as_ref().map_or(&stated, |arranged| &arranged.grants);
    let identity = match &arranged {
        Some(arranged) => identity(facts, policy, isolation, &arranged.mapped(), &mut notes),
        None => identity(facts, policy, isolation, &grants.paths, &mut notes),
    };
    let enforcement = protection::enforcement(facts, policy, isolation, &demands, &mut notes)?;
    let (steps, directory) = match isolation {
        Isolation::Full => {
            let paths = Paths { grants, arranged: arranged.as_ref() };
            tree(facts, &resources, &resolved, paths, identity, enforcement, &mut notes)?
        }
        Isolation::InPlace => {
            if policy.view().value == View::Closure {
                in_place::no_closure(&demands, &mut notes)?;
            }
            in_place::answered_elsewhere(facts, &demands, &mut notes)?;
            in_place::steps(facts, &resolved, &grants.paths, &demands, &mut notes)?
        }
    };

    let mut broker =
        protection::broker(policy, isolation, &resolved, &steps, &facts.kept_trees(), enforcement, learn)?;
    if let Some(broker) = broker.as_mut().filter(|_broker| enforcement == NameEnforcement::Broker) {
        let pins = grants.paths.iter().flat_map(|path| pins::below(facts, path, grants));
        let pin = |(path, about): (PathBuf, PathBuf)| {
            Ok::<_, PlanError>(Pin { path: Text::path(&path)?, about: Text::path(&about)? })
        };
        broker.pinned = pins.map(pin).collect::<Result<_, _>>()?;
    }
    if let Some(broker) = &mut broker {
        let is_writable = |path: &PathBuf| {
            let writable = |grant: &EffectivePath| {
                grant.source == *path && matches!(grant.grant, Grant::Allowed { write: true, .. })
            };
            grants.paths.iter().any(writable)
        };
        let outside = view::repository_outside(facts).into_iter().filter(|path| !is_writable(path));
        broker.repository = outside.map(|path| Text::path(&path)).collect::<Result<_, _>>()?;
    }
    if isolation == Isolation::InPlace && network == NetworkMode::Filtered {
        broker.get_or_insert(protection::listener()?);
    }
    let answered = Answered::of(policy, isolation, &demands, &mut notes)?;
    let passed = if broker.is_some() {
        filter::passed(policy, isolation, network, enforcement, learn)
    } else {
        Passed::Nothing
    };
    let launch = filter::Launch { isolation, passed, ids: (identity.uid, identity.gid) };
    let (rules, stated) = filter::rules(policy, &answered, launch)?;
    let stated: Vec<&str> = stated.iter().map(String::as_str).collect();
    let (rules, answers) = answered.last(rules, passed)?;
    let landlock = landlock(facts, isolation, network, &demands, &mut notes)?;
    let inside = calls::Inside {
        steps: &steps,
        isolation,
        landlock: landlock.is_some(),
        directory: directory.as_path(),
    };
    let (rules, calls) =
        calls::plan(facts, (policy, &context), rules, &stated, (&inside, passed), &mut notes)?;
    // Without a profile, calls are learned for one program, so the plan is for that program only.
    let by_program = policy.syscall_mode().value != SyscallMode::Off
        && facts.profile.is_none()
        && facts.application.is_none();
    if calls.is_some() {
        broker.get_or_insert(protection::listener()?).calls = calls;
    }
    if let Some(answers) = answers {
        let broker = broker.get_or_insert(protection::listener()?);
        if answers.start.is_some() {
            broker.filter = Filter::from(&own_filter_with_clock(Arch::NATIVE)?);
        }
        broker.answers = Some(answers);
    }
    if isolation == Isolation::Full
        && broker.is_some()
        && let Some(reason) = facts.lacks_broker()
    {
        return Err(demands.lacking(Guarantee::CallsAnswered, reason));
    }
    let arch = Arch::NATIVE;
    // A broker that runs anyway reports refused calls, too.
    let rules = if broker.is_some() { rules.telling() } else { rules };
    let program = palisade_syscall::compile(&rules, arch)?;
    let (limits, group_limits) = limits::plan(policy, isolation, &demands, &mut notes)?;
    let hostname = match policy.hostname() {
        Some(name) if isolation == Isolation::Full => Some(Text::new(name.value.as_str())?),
        _ => None,
    };
    let mut environment = policy.environment_in(&context);
    for (name, value) in &buses.variables {
        environment.give(name, value).map_err(|source| PlanError::Variable { name, source })?;
    }
    let filtered = network::plan(policy, network)?;
    if filtered.is_some() {
        let in_place = network::IN_PLACE.iter().filter(|_| isolation == Isolation::InPlace);
        for (name, value) in network::VARIABLES.iter().chain(in_place) {
            environment.give(name, value).map_err(|source| PlanError::Variable { name, source })?;
        }
    }
    if isolation == Isolation::InPlace && !in_place::shows(&steps, &facts.account.home.join(".gitconfig")) {
        // Landlock makes the file unreadable, not absent, and git stops if it can't read what is there.
        let (name, value) = ("GIT_CONFIG_GLOBAL", "/dev/null");
        environment.give(name, value).map_err(|source| PlanError::Variable { name, source })?;
    }
    let is_offline = network == NetworkMode::None && isolation == Isolation::Full;
    let offline = is_offline.then(|| network::offline(facts, &environment)).transpose()?;
    let lifecycle = resources.lifecycle(facts, &resolved)?;
    let own_program =
        || Text::new(closure::program_of(&facts.command).as_bytes()).map(Some).map_err(PlanError::from);
    let (inputs, absent) = facts.inputs();
    Ok(Plan {
        schema: SCHEMA,
        palisade: Cow::Borrowed(PROGRAM),
        inputs,
        absent,
        namespaces: namespaces(isolation, network),
        identity,
        steps,
        hostname,
        landlock,
        filter: Filter::from(&program),
        broker,
        buses: buses.filtered,
        network: filtered,
        offline,
        environment,
        variables: facts.variables(),
        command: facts.prefix.iter().map(|part| Text::new(part.as_bytes())).collect::<Result<_, _>>()?,
        lifecycle,
        directory,
        limits,
        group_limits,
        terminal: policy.inherit_terminal().value,
        listing: Some(Listing::of(facts, network, isolation)?),
        program: match policy.view().value {
            // With a profile's command, the program is the same in each launch.
            View::Closure if isolation == Isolation::Full && facts.prefix.is_empty() => own_program()?,
            _ if by_program => own_program()?,
            _ => None,
        },
        names: enforcement,
        lacks: demands.given_up(),
        notes,
    })
}

/// The path whose rule decides about `path`, which has no links, in a launch: rules apply to the targets of their
/// paths. `None` if no rule matches, or another view shows it.
///
/// # Errors
/// The path errors of [`make`].
pub fn decisive(
    facts: &Facts,
    policy: &Policy,
    project: Option<&Path>,
    path: &Path,
) -> Result<Option<EffectivePath>, PlanError> {
    let resolved = policy.resolve(&context(facts, project))?;
    let shows_cwd = policy.switch(Switch::WorkingDirectory).value;
    let grants = grants(facts, &resolved, shows_cwd, &mut Vec::new())?;
    Ok(grants.decisive(path).cloned())
}

/// The values of the policy's variables. A variable that is meant for a socket or a file, and leads to another kind of
/// file, is left out.
#[must_use]
pub fn context(facts: &Facts, project: Option<&Path>) -> Context {
    let mut context = stated(facts, project);
    for one in session::misleading(facts, &context) {
        context.environment.remove(OsStr::new(one.variable));
    }
    context
}

/// Like `context`, with all variables unchanged.
fn stated(facts: &Facts, project: Option<&Path>) -> Context {
    Context {
        home: facts.account.home.clone(),
        cwd: facts.cwd.clone(),
        project: project.map(Path::to_owned),
        user: facts.account.name.clone(),
        uid: facts.account.uid,
        runtime_dir: facts.environment.absolute("XDG_RUNTIME_DIR").map(Path::to_path_buf),
        directories: facts.directories(),
        application: facts.application.clone(),
        environment: facts
            .environment
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// Whether a rule shows the host's root, or something in the place of the root inside.
fn grants_root(path: &EffectivePath) -> bool {
    let root = Path::new("/");
    match path.grant {
        Grant::Allowed { .. } => path.source == root || path.destination == root,
        Grant::Tmpfs => path.destination == root,
        Grant::Hidden | Grant::Denied | Grant::Absent => false,
    }
}

/// The paths of a launch.
#[derive(Clone, Copy)]
struct Paths<'p> {
    grants: &'p Grants,
    /// The caller states the tree; `grants` are of its making.
    arranged: Option<&'p Arranged>,
}

/// Builds the file tree.
fn tree(
    facts: &Facts,
    resources: &Resources<'_>,
    resolved: &Resolved,
    Paths { grants, arranged }: Paths<'_>,
    identity: Identity,
    enforcement: NameEnforcement,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(Vec<Step<'static>>, Text<'static>), PlanError> {
    let policy = resources.policy;
    let paths = grants.paths.as_slice();
    let mapped = identity.kind == IdentityKind::Mapped;
    let mut tree = Tree::new(facts, TMPFS_SIZE);
    match arranged {
        Some(arranged) => {
            arranged::compose(&mut tree, facts, resources, arranged, (mapped, enforcement))?;
        }
        None => granted(&mut tree, facts, resources, resolved, grants, (mapped, enforcement), notes)?,
    }
    tree.mask_behind_links()?;
    if enforcement == NameEnforcement::Mounts {
        mounts::protect(&mut tree, facts, policy, resolved, paths, mapped, notes)?;
    }
    if arranged.is_none() {
        hide_own_places(&mut tree, facts, paths)?;
    }
    resources.files(&mut tree, facts, notes)?;
    resources.devices(&mut tree, facts)?;
    resources.buses.place(&mut tree, mapped)?;
    if arranged.is_none() {
        view::processes(&mut tree)?;
    }
    replies::processors(&mut tree, policy, resources.isolation)?;
    replies::hostname(&mut tree, policy, resources.isolation)?;
    if facts.account.uid == 0 && identity.kind == IdentityKind::Own {
        view::restrain_root(&mut tree, facts)?;
    }
    // This also applies below the root: names in visible trees may be listed, except where paths are allowed one by one.
    if !tree.is_partly_shut() {
        tree.push(Step::Allow { path: Text::literal(c"."), rights: Rights::READ_DIR });
    }

    let wanted = resolved.cwd().map_or(&facts.cwd, |cwd| &cwd.value);
    let directory = if tree.shows_directory(wanted) {
        wanted.clone()
    } else if resolved.cwd().is_some() {
        let reason = "it isn't visible inside".to_owned();
        return Err(PlanError::WorkingDirectory { path: wanted.clone(), reason });
    } else if tree.shows_directory(&facts.account.home) {
        facts.account.home.clone()
    } else {
        PathBuf::from("/")
    };
    Ok((tree.finish(), Text::path(&directory)?))
}

/// Shows a view, and what the rules grant and refuse in it.
fn granted(
    tree: &mut Tree<'_>,
    facts: &Facts,
    resources: &Resources<'_>,
    resolved: &Resolved,
    grants: &Grants,
    (mapped, enforcement): (bool, NameEnforcement),
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    let policy = resources.policy;
    let paths = grants.paths.as_slice();
    if let Some(path) = paths.iter().find(|path| grants_root(path)) {
        return Err(PlanError::Root { rule: Box::new(path.rule.clone()) });
    }
    // The files of a package were determined when it was made.
    let more = if facts.package().is_some() { More::default() } else { resources.more(facts) };
    let caches = Caches::find(facts, policy, paths, resources.isolation, notes);
    let listed = policy.switch(Switch::Shell).value;
    let (view, network) = (policy.view().value, policy.network().value);
    let shown = view::Shown { view, network, caches, mapped, listed };
    let later = view::compose(tree, facts, &shown, &more, notes)?;
    resources.home(tree, facts, mapped)?;
    let mut repository_shown = policy.view().value == View::Host;
    let places: Vec<&Path> = grants.places().collect();
    for (path, place) in std::iter::zip(paths, &places) {
        if !repository_shown && path.destination.starts_with(&facts.cwd) {
            // The repository is mounted before the working directory, which may lie inside it.
            view::repository(tree, facts)?;
            repository_shown = true;
        }
        let covers = matches!(path.grant, Grant::Hidden | Grant::Denied);
        let exceptions = covers
            && std::iter::zip(paths, &places).any(|(other, below)| {
                below != place
                    && below.starts_with(place)
                    && matches!(other.grant, Grant::Allowed { .. } | Grant::Tmpfs)
            });
        // The target of a link may not be visible. Then there is no path to mount on.
        let shows =
            *place == path.destination || tree.host_path(&tree.resolve(place)).as_deref() == Some(*place);
        let private = (exceptions && shows).then_some(*place);
        apply(tree, facts, path, (mapped, private), notes)?;
        if enforcement != NameEnforcement::Broker {
            pins::mount(tree, facts, path, &pins::below(facts, path, grants), mapped)?;
        }
        pin_own_places(tree, facts, path, mapped)?;
    }
    for name in &grants.names {
        closure::links(tree, facts, name)?;
    }
    closure::user_toolchains(tree, facts, resolved, &later, notes)?;
    Ok(())
}

/// Applies the policy's decision about one path to the tree.
fn apply(
    tree: &mut Tree<'_>,
    facts: &Facts,
    path: &EffectivePath,
    (mapped, private): (bool, Option<&Path>),
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    match path.grant {
        Grant::Absent => Ok(()),
        Grant::Hidden | Grant::Denied => {
            // Allowed paths below need mount points. The private directory holds nothing else.
            if let Some(place) = private {
                return tree.private(place, 0o755, false);
            }
            let covered = tree.mask(&path.destination, path.grant == Grant::Denied)?;
            let user = path.rule.origin.layer >= Layer::User;
            if !covered && user && tree.host_path(&tree.resolve(&path.destination)).is_some() {
                notes.push(Cow::Owned(format!(
                    "{} doesn't exist: {} has no effect if the path is made later",
                    path.destination.shown(),
                    path.rule
                )));
            }
            Ok(())
        }
        Grant::Tmpfs => tree.private(&path.destination, 0o755, false),
        Grant::Allowed { write, execute } => {
            let working_directory = path.source == facts.cwd;
            let source = if working_directory {
                path.source.clone()
            } else {
                facts.canonical(&path.source).unwrap_or_else(|| path.source.clone())
            };
            let origin = if working_directory && !tree.took_working_directory() {
                Origin::WorkingDirectory
            } else {
                Origin::Canonical
            };
            let show = Show { origin, write, execute, map_owners: mapped, ..USERS };
            let own_name = path.source == path.destination && !working_directory;
            // A link into a tree that isn't shown whole is made again, so that its target has its own name inside, too.
            let link = own_name
                && source != path.source
                && (!tree.stands(&source) || tree.host_path(&source).as_ref() == Some(&source))
                && tree.host_path(&tree.resolve(&path.destination)).is_none()
                && closure::links(tree, facts, &path.source)?.as_deref() == Some(source.as_path());
            // The same for a link in a visible tree of the host: a mount on a link isn't possible.
            let linked = own_name
                && source != path.source
                && tree.host_path(&tree.resolve(&path.destination)).as_deref() == Some(path.source.as_path());
            let destination = if link || linked { &source } else { &path.destination };
            if own_name && !write && tree.is_shut_at(destination) {
                // The path is visible and lacks only the right. A rule costs a quarter of a mount.
                let rights = if execute { Rights::READ.union(Rights::EXECUTE) } else { Rights::READ };
                let rights = match facts.kind(&source) {
                    Kind::Directory => rights,
                    _ => rights.intersection(Rights::OF_FILES),
                };
                tree.push(Step::Allow { path: relative(destination)?, rights });
                return Ok(());
            }
            tree.show(&source, destination, show)
        }
    }
}

/// Keeps files that Palisade obeys and stores at their paths, below a writable path.
///
/// The directories between the two become mounts of their own, because a mount point can't be renamed: otherwise the
/// command would move them aside and make new ones. This comes right after the path's own mount, so that other rules
/// about these directories are applied on top.
fn pin_own_places(
    tree: &mut Tree<'_>,
    facts: &Facts,
    path: &EffectivePath,
    mapped: bool,
) -> Result<(), PlanError> {
    let Grant::Allowed { write: true, execute } = path.grant else { return Ok(()) };
    let source = real(&path.source);
    let mut between = BTreeSet::new();
    for place in facts.places.all() {
        let real_place = real(place);
        if source.starts_with(&real_place) {
            return Err(PlanError::OwnPlace { rule: Box::new(path.rule.clone()), place: place.to_owned() });
        }
        let Ok(rest) = real_place.strip_prefix(&source) else { continue };
        // The command could make a missing directory.
        make_own_place(facts, place);
        between
            .extend(rest.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).map(Path::to_owned));
    }
    let show = Show { write: true, execute, map_owners: mapped, ..USERS };
    // Where a directory is missing and couldn't be made, the command can't make it either.
    for part in between.into_iter().filter(|part| facts.kind(&source.join(part)) != Kind::Missing) {
        tree.show(&source.join(&part), &path.destination.join(&part), show)?;
    }
    Ok(())
}

/// Masks each of Palisade's own directories that a grant shows.
fn hide_own_places(tree: &mut Tree<'_>, facts: &Facts, paths: &[EffectivePath]) -> Result<(), PlanError> {
    let granted: Vec<(PathBuf, &Path)> = paths
        .iter()
        .filter(|path| matches!(path.grant, Grant::Allowed { .. }))
        .map(|path| (real(&path.source), path.destination.as_path()))
        .collect();
    for place in facts.places.all() {
        let real_place = real(place);
        for (source, destination) in &granted {
            let Ok(rest) = real_place.strip_prefix(source) else { continue };
            // Another launch may make one of these while this command runs.
            if facts.places.runtimes().any(|runtime| runtime == place) {
                make_own_place(facts, place);
            }
            tree.mask(&destination.join(rest), false)?;
        }
    }
    // A view may show one, too: the whole host, or a session's directory outside `/run`.
    for runtime in facts.places.runtimes() {
        if tree.host_path(&tree.resolve(runtime)).is_some() {
            make_own_place(facts, runtime);
            tree.mask(runtime, false)?;
        }
    }
    Ok(())
}

/// Makes one of Palisade's own directories, if it is missing and may be made.
fn make_own_place(facts: &Facts, place: &Path) {
    let private = facts.places.own().any(|own| own == place);
    let mode = if private { 0o700 } else { 0o755 };
    let _exists_or_not_ours = std::fs::DirBuilder::new().recursive(true).mode(mode).create(place);
}

/// `path` with links followed as far as it exists, so that two names of one directory compare equal.
pub(crate) fn real(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match existing {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => path.to_owned(),
    }
}

fn namespaces(isolation: Isolation, network: NetworkMode) -> Vec<Namespace> {
    match isolation {
        Isolation::InPlace => Vec::new(),
        Isolation::Full => Namespace::ALL
            .into_iter()
            .filter(|namespace| *namespace != Namespace::Network || network != NetworkMode::Host)
            .collect(),
    }
}

/// The restrictions by Landlock: all that the kernel supports. Where no other wall gives a guarantee, Landlock is required.
fn landlock(
    facts: &Facts,
    isolation: Isolation,
    network: NetworkMode,
    demands: &Demands,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Option<Landlock>, PlanError> {
    let abi = facts.landlock.unwrap_or(0);
    let mut needs = |needed: u32, guarantee: Guarantee| {
        if abi >= needed {
            return Ok(());
        }
        let reason = format!("Landlock ABI {needed} is needed, this kernel has {abi}");
        demands.give_up(guarantee, &reason, notes, || {
            format!("not guaranteed that {}: {reason}", guarantee.words())
        })
    };
    if isolation == Isolation::InPlace {
        needs(1, Guarantee::NotExecuted)?;
        needs(3, Guarantee::Unchanged)?;
        needs(6, Guarantee::SignalsInside)?;
    }
    if network == NetworkMode::Host {
        needs(6, Guarantee::NoAbstractSockets)?;
    }
    if abi == 0 {
        return Ok(None);
    }
    let handled = Handled::by_abi(abi);
    Ok(Some(Landlock { abi, files: Rights(handled.files), scoped: handled.scoped }))
}
