// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a plan from policy and facts.

use crate::bus;
use crate::error::PlanError;
use crate::facts::Facts;
use crate::filter::replies::{self, Answered};
use crate::filter::{self, calls};
use crate::guarantee::Demands;
use crate::layers::session;
use crate::network;
use crate::plan::limits;
use crate::plan::text::Text;
use crate::plan::{
    Filter, Identity, IdentityKind, Landlock, Listing, NameEnforcement, Namespace, PROGRAM, Pin, Plan,
    SCHEMA, Step,
};
use crate::refusals;
use crate::view::protection;
use crate::view::resources::Resources;
use crate::view::tree::Tree;
use crate::view::{self, closure, in_place, mounts};
use palisade_policy::decide::EffectivePath;
use palisade_policy::resolve::Resolved;
use palisade_policy::word::{Switch, SyscallMode};
use palisade_policy::{Context, Grant, Guarantee, Layer, NetworkMode, Policy, View};
use palisade_sys::landlock::{Handled, Rights};
use palisade_syscall::broker::own_filter_with_clock;
use palisade_syscall::{Arch, Passed};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

mod arranged;
mod granted;
mod grants;
mod identity;
mod pins;
mod statements;

use self::arranged::Arranged;
pub(crate) use self::granted::real;
use self::granted::{granted, hide_own_places};
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
    if steps.iter().any(|step| matches!(step, Step::Refusals { .. })) {
        let (name, value) = (refusals::VARIABLE, refusals::FILE);
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
    refusals::place(&mut tree, facts, policy, (paths, enforcement))?;
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
