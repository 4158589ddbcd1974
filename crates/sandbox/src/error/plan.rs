// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reasons why a plan can't be made.

use super::{packages, quoted};
use palisade_host::walk::WalkError;
use palisade_policy::PathRule;
use palisade_syscall::store::StoreError;
use palisade_syscall::store::key::shown;
use palisade_text::Show as _;
use std::ffi::OsString;
use std::path::PathBuf;

/// No plan could be made; no process was started.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy can't be applied here.
    #[error("can't resolve the policy: {0}")]
    Resolve(#[from] palisade_policy::resolve::ResolveError),
    /// Facts about the user can't be read.
    #[error("can't find out who you are: {0}")]
    Account(#[from] palisade_host::account::AccountError),
    /// A rule names a path that doesn't exist.
    #[error("{path:?} doesn't exist; --ro and --rw take paths that exist")]
    Missing {
        /// The path.
        path: PathBuf,
        /// The rule.
        rule: Box<PathRule>,
    },
    /// The caller states the file tree, and a statement of the policy would add to it.
    #[error("can't do what {key} ({origin}) asks for: the caller's arguments state the file tree")]
    Arranged {
        /// The key.
        key: &'static str,
        /// Where it is stated.
        origin: palisade_policy::Origin,
    },
    /// A path that the caller wants to show doesn't exist.
    #[error("can't show {path:?}: it doesn't exist")]
    NoSource {
        /// The path.
        path: PathBuf,
    },
    /// A part of the tree that the caller states can't be made.
    #[error("can't make {path:?} in the tree that the arguments state: {reason}")]
    Unnamed {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A mount needs an existing mount point, and this tree of the host has none there. Palisade doesn't change that tree.
    #[error("can't mount anything at {path:?}: {host:?} doesn't exist on the host")]
    NoMountPoint {
        /// The place inside.
        path: PathBuf,
        /// The host's path that shows there.
        host: PathBuf,
    },
    /// A program inside left something in a home or cache where a mount point must be made.
    #[error("can't mount {} at {path:?}: {found:?}, which a program inside may have made, is in the way",
        if *file { "a file" } else { "a directory" })]
    InTheWay {
        /// The place inside.
        path: PathBuf,
        /// What is in the way: a path of the host.
        found: PathBuf,
        /// Whether the mount point is a file.
        file: bool,
    },
    /// The search for the matches of a glob failed.
    #[error("can't search for the files that match {rule}: {source}")]
    Walk {
        /// The rule.
        rule: Box<PathRule>,
        /// Why.
        source: WalkError,
    },
    /// The broker's part of the plan, or a plan inside the plan, can't be encoded.
    #[error("can't encode a part of the plan: {0}")]
    Encode(#[from] postcard::Error),
    /// A rule would let the command change files that Palisade itself obeys.
    #[error("{rule} would make {place:?} writable, and Palisade itself obeys the files there")]
    OwnPlace {
        /// The rule.
        rule: Box<PathRule>,
        /// The place.
        place: PathBuf,
    },
    /// A rule shows the host's root, or something in the place of the sandbox's root. The sandbox has a root of its own.
    #[error("can't grant {rule}: the sandbox has a root of its own")]
    Root {
        /// The rule.
        rule: Box<PathRule>,
    },
    /// The view `closure` shows what a program needs, and no program is named.
    #[error("the view closure shows what a program needs, and no program is named")]
    NoProgram,
    /// A profile's program isn't there.
    #[error("the program of profile {profile:?} isn't on this host: tried {}", tried.join(", "))]
    NotInstalled {
        /// The profile.
        profile: String,
        /// The paths that were tried.
        tried: Vec<String>,
        /// The package that brings it.
        package: Option<String>,
        /// The command that installs it, of an agent.
        install: Option<String>,
    },
    /// A path that a profile requires doesn't exist.
    #[error("{path} doesn't exist, and {origin} requires it")]
    Required {
        /// The path.
        path: String,
        /// Where it is required.
        origin: palisade_policy::Origin,
    },
    /// A home is to be kept, and no name for it is given.
    #[error("home.policy ({origin}) needs a name for the home")]
    NamelessHome {
        /// Where it is stated.
        origin: palisade_policy::Origin,
    },
    /// The home can't be made.
    #[error("can't make the home {path:?}: {source}")]
    Home {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A hook's argument can't be filled in.
    #[error("hook ({origin}): {source}")]
    Hook {
        /// Where it is stated.
        origin: palisade_policy::Origin,
        /// What is missing.
        source: palisade_policy::template::Unset,
    },
    /// A variable can't be set.
    #[error("can't set {name}: {source}")]
    Variable {
        /// Which.
        name: &'static str,
        /// Why.
        source: palisade_policy::value::ValueError,
    },
    /// A sandboxed command may have made a link on the way to the granted path.
    #[error(
        "can't grant {rule}: the link {} leads to {}, and a sandboxed command may have made it, because {} is writable",
        link.shown(), target.shown(), writable.shown()
    )]
    Link {
        /// The link.
        link: PathBuf,
        /// The target of the granted path through the link.
        target: PathBuf,
        /// The writable tree that the link lies in.
        writable: PathBuf,
        /// The path was to be writable.
        write: bool,
        /// The rule.
        rule: Box<PathRule>,
    },
    /// A rule allows less than another one, and its path passes a link that a sandboxed command may move.
    #[error(
        "can't enforce {rule}: the link {} leads to {}, and a sandboxed command may move the link, because {} is writable",
        link.shown(), target.shown(), writable.shown()
    )]
    MovableLink {
        /// The link.
        link: PathBuf,
        /// The target of the path through the link.
        target: PathBuf,
        /// The writable tree that the link lies in.
        writable: PathBuf,
        /// The option of the command line that states the rule.
        option: &'static str,
        /// The rule.
        rule: Box<PathRule>,
    },
    /// A link leads to a path that another rule refuses.
    #[error("can't grant {rule}: the link {} leads to {}, and {other} refuses that", link.shown(), target.shown())]
    LinkAround {
        /// The link.
        link: PathBuf,
        /// The target of the granted path through the link.
        target: PathBuf,
        /// The path was to be writable.
        write: bool,
        /// The rule.
        rule: Box<PathRule>,
        /// The rule that refuses.
        other: Box<PathRule>,
    },
    /// The files that the program needs can't be determined.
    #[error("can't determine which files {command:?} needs: {source}")]
    Needs {
        /// The command.
        command: OsString,
        /// Why.
        source: Box<palisade_host::needs::NeedsError>,
    },
    /// The command's working directory isn't there.
    #[error("can't use {path:?} as the working directory: {reason}")]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A limit can't be kept on this host.
    #[error("can't limit {limit}: {reason}")]
    Limit {
        /// Which.
        limit: palisade_policy::Limit,
        /// Why.
        reason: String,
    },
    /// A name of a system call is unknown.
    #[error("system calls: {0}")]
    Syscalls(#[from] palisade_syscall::Error),
    /// The policy states a syscall reply that can't be given.
    #[error("{0}")]
    Answer(#[source] crate::filter::replies::Impossible),
    /// The learned system calls can't be read.
    #[error(transparent)]
    Learned(#[from] StoreError),
    /// Only learned system calls are allowed, and none was learned.
    #[error(
        "no system calls were learned for {:?}, and this launch allows only learned system calls",
        shown(profile)
    )]
    NothingLearned {
        /// The profile, or the program's identity.
        profile: String,
        /// A profile with the program's name: an older Palisade stored calls of commands under that name.
        former: Option<String>,
    },
    /// Learned calls are stored by program, and the command's program doesn't exist.
    #[error("can't find program {name:?}, by which learned system calls are stored")]
    NoSuchProgram {
        /// The command's first word.
        name: OsString,
    },
    /// Learned calls are stored by program, and this program can't be identified.
    #[error("can't identify program {path:?}, by which learned system calls are stored: {source}")]
    Unidentified {
        /// The program.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Two choices of the policy exclude each other on every host.
    #[error("can't guarantee that {guarantee}: {reason}")]
    Exclusive {
        /// What was asked for.
        guarantee: &'static str,
        /// The other choice, and why it prevents that.
        reason: &'static str,
        /// What to do about it.
        hint: &'static str,
    },
    /// A guarantee can't be given on this host.
    #[error("can't guarantee that {guarantee}: {reason}")]
    Guarantee {
        /// What was asked for.
        guarantee: &'static str,
        /// What is missing.
        reason: String,
        /// The policy requires it by name, so that `best_effort` doesn't help.
        named: bool,
    },
    /// An argument names a link that leads out of the paths of this launch.
    #[error(
        "can't pass {target:?}: the link {link:?} leads out to it, and a sandboxed command may have made the link"
    )]
    PassedLink {
        /// The link.
        link: PathBuf,
        /// The target that is passed through the link.
        target: PathBuf,
        /// The option that shows the target anyway; otherwise the lock that forbids it.
        option: Result<String, Option<Box<PathRule>>>,
    },
    /// An argument names a path that the policy refuses.
    #[error("can't pass {path:?}: refused by {rule}")]
    PassedRefused {
        /// The path.
        path: PathBuf,
        /// The rule.
        rule: Box<PathRule>,
        /// The option that shows the path anyway; otherwise the lock that forbids it.
        option: Result<String, Option<Box<PathRule>>>,
    },
    /// A string holds a null byte.
    #[error(transparent)]
    NullByte(#[from] crate::plan::text::NullByte),
}

/// What to do about a store of learned calls that can't be read.
#[must_use]
pub fn store_hint(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Damaged { path, .. } => Some(format!(
            "mv {0} {0}.damaged   # then learn again, or import an export",
            quoted(&path.to_string_lossy())
        )),
        StoreError::Busy { .. } => Some("try again".to_owned()),
        error => error.hint(),
    }
}

impl PlanError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::PassedLink { option: Ok(option), .. } | Self::PassedRefused { option: Ok(option), .. } => {
                format!("palisade open {option} …   # if that is what you want to show")
            }
            Self::PassedLink { option: Err(Some(lock)), .. }
            | Self::PassedRefused { option: Err(Some(lock)), .. } => {
                format!("palisade config show   # {lock} forbids it")
            }
            Self::Missing { path, .. } => format!("mkdir -p {}", quoted(&path.to_string_lossy())),
            Self::Arranged { .. } => {
                "palisade run --profile NAME -- COMMAND…   # the policy states the file tree".to_owned()
            }
            Self::NoSource { path } => format!("mkdir -p {}", quoted(&path.to_string_lossy())),
            Self::NoMountPoint { host, .. } => format!("mkdir -p {}", quoted(&host.to_string_lossy())),
            Self::InTheWay { found, .. } => {
                format!("look at it, then: mv {0} {0}.old", quoted(&found.to_string_lossy()))
            }
            Self::Walk { source: WalkError::Moving { .. }, .. } => {
                "wait until the directories no longer change, or name a directory: only patterns with `*` are searched for"
                    .to_owned()
            }
            Self::Walk { .. } => "name a directory nearer to the files, such as ./src/**/*.key".to_owned(),
            Self::OwnPlace { .. } => "name the directories below it that the command needs".to_owned(),
            Self::Root { .. } => {
                "palisade run --view host …   # shows the whole host, read-only; --rw DIRECTORY makes a part of it writable"
                    .to_owned()
            }
            Self::Exclusive { hint, .. } => (*hint).to_owned(),
            Self::Learned(error) => return store_hint(error),
            Self::WorkingDirectory { .. } => "palisade run --cwd DIRECTORY -- COMMAND…".to_owned(),
            Self::NotInstalled { profile, install: Some(install), .. } => {
                let profile = quoted(profile);
                format!("{install}   # or say where it is: palisade agent --program PATH {profile}")
            }
            Self::NotInstalled { profile, package, .. } => {
                let profile = quoted(profile);
                match package.as_deref().and_then(packages::install) {
                    Some(install) => {
                        format!("{install}   # or say where it is: palisade open --program PATH {profile}")
                    }
                    None => format!(
                        "palisade open --program PATH {profile}   # where it is on this host, once it is installed"
                    ),
                }
            }
            Self::Required { .. } => {
                "make the path exist, or remove it from `require`: palisade profile edit PROFILE".to_owned()
            }
            Self::NamelessHome { .. } => {
                "palisade run --home-name NAME …   # in a policy file: [home] name = \"NAME\"".to_owned()
            }
            Self::Home { .. } => "XDG_DATA_HOME=DIRECTORY palisade open …".to_owned(),
            Self::Hook { .. } => "set the variable, or take the hook out of the profile".to_owned(),
            Self::NoProgram => "palisade run --view closure -- COMMAND…".to_owned(),
            Self::Link { target, write, .. } => {
                let option = if *write { "--rw" } else { "--ro" };
                let target = quoted(&target.to_string_lossy());
                format!("palisade run {option} {target} …   # if the link may lead there")
            }
            Self::MovableLink { target, option, .. } => {
                let target = quoted(&target.to_string_lossy());
                format!("palisade run {option} {target} …   # states the rule for the target itself")
            }
            Self::LinkAround { target, write, other, .. } => {
                let option = if *write { "--rw" } else { "--ro" };
                let target = quoted(&target.to_string_lossy());
                match (other.strength, other.origin.layer) {
                    // A lock: no option of the user changes it.
                    (palisade_policy::Strength::Locked, _) => format!("palisade explain {target}"),
                    (_, palisade_policy::Layer::CommandLine) => "leave out one of the two options".to_owned(),
                    _ => format!("palisade run {option} {target} …   # states the rule for the target itself"),
                }
            }
            Self::Needs { .. } => {
                "palisade run --view system -- COMMAND…   # all of /usr and /etc".to_owned()
            }
            Self::NothingLearned { profile, former: Some(former) } => format!(
                "palisade syscalls merge {} --into {}   # if `palisade syscalls show {}` shows this program's calls; else learn again",
                quoted(former),
                quoted(profile),
                quoted(former)
            ),
            Self::NoSuchProgram { name } => {
                format!("palisade explain {}   # is it visible inside?", quoted(&name.to_string_lossy()))
            }
            Self::Unidentified { .. } => {
                "palisade run --profile NAME --syscalls learn -- COMMAND…   # records calls under the profile"
                    .to_owned()
            }
            Self::NothingLearned { former: None, .. } => {
                "palisade run --syscalls learn …   # records the system calls, for later launches".to_owned()
            }
            Self::Answer(crate::filter::replies::Impossible { origin, .. }) => {
                let file = origin.file.as_ref()?;
                format!("palisade check {}", quoted(&file.to_string_lossy()))
            }
            Self::Limit { .. } => "palisade run --best-effort …   # without that limit".to_owned(),
            Self::Guarantee { named: true, .. } => {
                "palisade doctor   # shows what this host lacks".to_owned()
            }
            Self::Guarantee { .. } => {
                "palisade doctor   # shows what this host lacks; --best-effort goes on without".to_owned()
            }
            _ => return None,
        })
    }
}
