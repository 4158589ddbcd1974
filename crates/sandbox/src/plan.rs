// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan: everything that a launch will do to start a command, as plain data.
//!
//! This one type is printed by `--dry-run`, stored in the cache, and applied.

pub mod cache;
pub mod inside;
pub(crate) mod limits;
pub mod planner;
pub mod repository;
pub mod store;
pub mod text;

mod bus;
mod calls;
mod listing;
mod network;
mod replies;
mod rights;
mod step;

pub use bus::{Bus, BusName, Nested};
pub use calls::Calls;
pub use listing::Listing;
pub use network::{Approvals, Network, Offline};
pub use replies::{Instead, Open, SyscallReplies};
pub use step::{Bind, Origin, Step};

use crate::plan::text::Text;
use palisade_host::birth::Birth;
use palisade_host::fingerprint::Fingerprint;
use palisade_policy::Guarantee;
use palisade_policy::environment::Filter as Environment;
use palisade_policy::names::NameRules;
use palisade_policy::word::HomeLock;
use palisade_sys::landlock::Rights;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;

/// Version of the plan's format, in JSON and in the cache.
pub const SCHEMA: u32 = 2;

/// The plan's maker: the program's version and a hash of the sources that decide how plans look.
pub const PROGRAM: &str = env!("PALISADE_PLAN_VERSION");

/// Everything that a launch will do to start a command.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program version that made it.
    #[serde(borrow)]
    pub palisade: Cow<'a, str>,
    /// The plan's inputs. The plan is valid while they are unchanged.
    #[serde(borrow)]
    pub inputs: Vec<Input<'a>>,
    /// Paths that were looked up and don't exist. They stay absent as long as no `Was::Names` directory of the inputs
    /// changes, so a launch needn't check each one.
    #[serde(borrow)]
    pub absent: Vec<Text<'a>>,
    /// The caller's variables that it was made from, with their values.
    #[serde(borrow)]
    pub variables: Vec<(Text<'a>, Option<Text<'a>>)>,
    /// The command that precedes the caller's arguments, if a profile states it: the wrapper, the program and its arguments.
    #[serde(borrow)]
    pub command: Vec<Text<'a>>,
    /// The launch's other tasks.
    #[serde(borrow)]
    #[serde(rename = "conduct")]
    pub lifecycle: Lifecycle<'a>,
    /// The namespaces to make.
    pub namespaces: Vec<Namespace>,
    /// The command's user and group.
    pub identity: Identity,
    /// How the file tree is built, in order.
    #[serde(borrow)]
    pub steps: Vec<Step<'a>>,
    /// The host name inside; `None`: the host's.
    #[serde(borrow)]
    pub hostname: Option<Text<'a>>,
    /// The restrictions by Landlock; `None`: it isn't used.
    pub landlock: Option<Landlock>,
    /// The seccomp program.
    #[serde(borrow)]
    pub filter: Filter<'a>,
    /// The broker that answers calls that the filter passes on; `None`: it passes none on.
    #[serde(borrow)]
    pub broker: Option<Broker<'a>>,
    /// The filtered message buses.
    #[serde(borrow)]
    pub buses: Vec<Bus<'a>>,
    /// The filtered network; `None`: the host's network, or none.
    #[serde(borrow)]
    pub network: Option<Network<'a>>,
    /// There is no network: each look-up of a name is refused at once, and reported. `None`: there is one.
    #[serde(borrow)]
    pub offline: Option<Offline<'a>>,
    /// Which variables the command gets.
    pub environment: Environment,
    /// The directory in which the command starts.
    #[serde(borrow)]
    pub directory: Text<'a>,
    /// The program that it was made for: the tree shows only what that program needs. `None`: any program.
    #[serde(borrow)]
    pub program: Option<Text<'a>>,
    /// Limits by `setrlimit`.
    pub limits: Vec<Limit>,
    /// Limits by control group.
    pub group_limits: Vec<GroupLimit>,
    /// Keeps the terminal. Otherwise the command starts in a session without one.
    pub terminal: bool,
    /// How its launches are listed while they run; `None`: they are a part of another launch.
    #[serde(borrow)]
    pub listing: Option<Listing<'a>>,
    /// What protects names.
    #[serde(default)]
    pub names: NameEnforcement,
    /// The guarantees that the policy asks for, or that every launch has by default, and that this launch lacks.
    #[serde(default)]
    pub lacks: Vec<Guarantee>,
    /// Notes for the user, such as about a guarantee that is given up on request.
    #[serde(borrow)]
    pub notes: Vec<Cow<'a, str>>,
}

/// The tasks of a launch in addition to starting the command.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Lifecycle<'a> {
    /// Files that arguments name are shown: the plan is for arguments that name no files, or for exactly these arguments.
    pub pass_files: bool,
    /// The command is complete: it includes the caller's arguments.
    pub complete: bool,
    /// The plan is the same in every working directory.
    pub anywhere: bool,
    /// Uses are reported.
    pub trace: bool,
    /// Exit codes that count as success.
    pub ignore_exit: Vec<u8>,
    /// The home's lock.
    #[serde(borrow)]
    pub lock: Option<Lock<'a>>,
    /// Programs that are run outside.
    #[serde(borrow)]
    pub hooks: Vec<Hook<'a>>,
    /// The sandbox ends with its last process, not with its command.
    pub wait_for_all: bool,
    /// Report the resources that were used.
    pub stats: bool,
    /// Programs inside are told of refusals.
    pub refusals: bool,
    /// The file to which the output is appended.
    #[serde(borrow)]
    pub log: Option<Text<'a>>,
}

/// The mechanism that protects names in a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameEnforcement {
    /// The broker.
    Broker,
    /// Mounts over existing files with protected names.
    Mounts,
    /// None: no name is protected, or no tree is writable.
    #[default]
    Nobody,
}

/// A lock that is held while the sandbox lives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lock<'a> {
    /// The file.
    #[serde(borrow)]
    pub path: Text<'a>,
    /// What happens if another sandbox holds it.
    pub held: HomeLock,
}

/// A program that is run outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hook<'a> {
    /// When it runs.
    pub when: palisade_policy::launch::When,
    /// The program and its arguments.
    #[serde(borrow)]
    pub command: Vec<Text<'a>>,
    /// The launch doesn't wait for it, and it ends with the sandbox.
    pub attach: bool,
    /// The launch goes on if it fails.
    pub may_fail: bool,
    /// The variables that it gets; `None`: the caller's.
    #[serde(borrow)]
    pub environment: Option<Vec<(Text<'a>, Text<'a>)>>,
    /// Which output of the command is its standard input.
    pub capture: Option<palisade_policy::launch::Capture>,
}

/// A file that the plan depends on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Input<'a> {
    /// The file.
    #[serde(borrow)]
    pub path: Text<'a>,
    /// Its state.
    pub was: Was,
}

/// The state of an input when the plan was made.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Was {
    /// Its content matters: policy files.
    Content(Fingerprint),
    /// The target of its links matters, but not the target's content.
    Leads {
        /// Device of its file system.
        device: u64,
        /// Inode number.
        inode: u64,
    },
    /// Whether it is the same file matters, and not another one that was made at the same path.
    Born(Birth),
    /// Whether names were added or removed matters: a directory above paths that are absent.
    Names(Fingerprint),
    /// Its list of names matters: a directory in which a pattern was looked up.
    Listing(Fingerprint),
}

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Namespace {
    /// Users and capabilities.
    User,
    /// The file tree.
    Mount,
    /// Processes.
    Pid,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Host name.
    Uts,
    /// Control groups.
    Cgroup,
    /// Network, with a loopback interface.
    Network,
}

impl Namespace {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::User, Self::Mount, Self::Pid, Self::Ipc, Self::Uts, Self::Cgroup, Self::Network];
}

/// The command's user and group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// How the maps are made.
    pub kind: IdentityKind,
    /// User id inside.
    pub uid: u32,
    /// Group id inside.
    pub gid: u32,
    /// The host's user id that `uid` stands for.
    pub host_uid: u32,
    /// The host's group id that `gid` stands for.
    pub host_gid: u32,
}

/// How the command gets its user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityKind {
    /// As outside: no user namespace.
    Unchanged,
    /// The caller, under a number of the user namespace.
    Own,
    /// A user that the host doesn't use otherwise. Owners of files are mapped on the mounts that say so.
    Mapped,
}

/// What Landlock restricts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Landlock {
    /// The ABI version planned for.
    pub abi: u32,
    /// File-system rights that need a rule.
    #[serde(with = "rights")]
    pub files: Rights,
    /// `LANDLOCK_SCOPE_*`.
    pub scoped: u64,
}

/// The seccomp program: 8 bytes an instruction, in the machine's byte order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter<'a>(pub Cow<'a, [u8]>);

impl From<&palisade_syscall::Filter> for Filter<'static> {
    fn from(filter: &palisade_syscall::Filter) -> Self {
        let mut bytes = Vec::with_capacity(filter.program.len() * 8);
        for instruction in &filter.program {
            bytes.extend_from_slice(&instruction.code.to_ne_bytes());
            bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
            bytes.extend_from_slice(&instruction.k.to_ne_bytes());
        }
        Self(Cow::Owned(bytes))
    }
}

impl Filter<'_> {
    /// In the kernel's form. Bytes after the last whole instruction are left out. A plan of Palisade's has none.
    #[must_use]
    pub fn instructions(&self) -> Vec<palisade_syscall::Instruction> {
        let (instructions, _rest) = self.0.as_chunks::<8>();
        instructions
            .iter()
            .map(|&[c0, c1, jt, jf, k0, k1, k2, k3]| palisade_syscall::Instruction {
                code: u16::from_ne_bytes([c0, c1]),
                jt,
                jf,
                k: u32::from_ne_bytes([k0, k1, k2, k3]),
            })
            .collect()
    }
}

/// The broker's part of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Broker<'a> {
    /// It reports uses, too.
    pub learn: bool,
    /// What happens to calls that weren't learned.
    #[serde(borrow)]
    pub calls: Option<Calls<'a>>,
    /// Replies to certain calls.
    #[serde(borrow)]
    pub answers: Option<SyscallReplies<'a>>,
    /// Trees of the host, and private ones within them.
    #[serde(borrow)]
    pub roots: Vec<Root<'a>>,
    /// The protected names.
    #[serde(borrow)]
    pub names: Stored<'a, NameRules>,
    /// Protected paths, as paths inside.
    #[serde(borrow)]
    pub paths: Stored<'a, NameRules>,
    /// Directories that keep their names.
    #[serde(borrow)]
    pub pinned: Vec<Pin<'a>>,
    /// Trees of the working directory's repository that are shown and can't be written to.
    #[serde(borrow)]
    pub repository: Vec<Text<'a>>,
    /// The filter for the broker itself.
    #[serde(borrow)]
    pub filter: Filter<'a>,
}

impl Broker<'_> {
    /// A copy without borrows.
    #[must_use]
    pub fn into_owned(self) -> Broker<'static> {
        let own = |text: Text<'_>| text.into_owned();
        Broker {
            learn: self.learn,
            calls: self.calls.map(Calls::into_owned),
            answers: self.answers.map(SyscallReplies::into_owned),
            roots: self
                .roots
                .into_iter()
                .map(|root| Root { inside: own(root.inside), host: root.host.map(own), ..root })
                .collect(),
            names: self.names.to_owned(),
            paths: self.paths.to_owned(),
            repository: self.repository.into_iter().map(own).collect(),
            pinned: self
                .pinned
                .into_iter()
                .map(|pin| Pin { path: own(pin.path), about: own(pin.about) })
                .collect(),
            filter: Filter(Cow::Owned(self.filter.0.into_owned())),
        }
    }
}

/// A directory that keeps its name. Paths are paths inside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pin<'a> {
    /// The directory.
    #[serde(borrow)]
    pub path: Text<'a>,
    /// The path for which the directory keeps its name: a rule applies to that path.
    #[serde(borrow)]
    pub about: Text<'a>,
}

/// A tree in which names are judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Root<'a> {
    /// The path inside.
    #[serde(borrow)]
    pub inside: Text<'a>,
    /// The path on the host; `None`: no process outside sees what is written there.
    #[serde(borrow)]
    pub host: Option<Text<'a>>,
    /// It can be written to.
    pub write: bool,
    /// It is a directory that exists only inside, above the working directory.
    pub above: bool,
}

/// A value that a launch only passes on. In the cache it stays encoded until it is needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored<'a, T> {
    bytes: Cow<'a, [u8]>,
    kind: PhantomData<T>,
}

impl<T: Serialize + for<'de> Deserialize<'de>> Stored<'static, T> {
    /// Encodes it.
    ///
    /// # Errors
    /// None is known.
    pub fn new(value: &T) -> Result<Self, postcard::Error> {
        Ok(Self { bytes: Cow::Owned(postcard::to_allocvec(value)?), kind: PhantomData })
    }
}

impl<T: for<'de> Deserialize<'de>> Stored<'_, T> {
    /// Decodes it.
    ///
    /// # Errors
    /// When the bytes are invalid, because the cache file was damaged.
    pub fn get(&self) -> Result<T, postcard::Error> {
        postcard::from_bytes(&self.bytes)
    }

    /// A copy without borrows.
    #[must_use]
    pub fn to_owned(&self) -> Stored<'static, T> {
        Stored { bytes: Cow::Owned(self.bytes.to_vec()), kind: PhantomData }
    }
}

impl<T: Serialize + for<'de> Deserialize<'de>> Serialize for Stored<'_, T> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            self.get().map_err(serde::ser::Error::custom)?.serialize(to)
        } else {
            to.serialize_bytes(&self.bytes)
        }
    }
}

impl<'de: 'a, 'a, T: Serialize + for<'any> Deserialize<'any>> Deserialize<'de> for Stored<'a, T> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            let value = T::deserialize(from)?;
            let bytes = postcard::to_allocvec(&value).map_err(serde::de::Error::custom)?;
            return Ok(Self { bytes: Cow::Owned(bytes), kind: PhantomData });
        }
        <&'de [u8]>::deserialize(from).map(|bytes| Self { bytes: Cow::Borrowed(bytes), kind: PhantomData })
    }
}

/// One `setrlimit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// Soft and hard limit.
    pub value: u64,
}

/// A limit of the whole sandbox, set by a control group. Each launch looks up where it can make groups, because that
/// depends on the group that the launcher is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GroupLimit {
    /// Bytes of memory.
    Memory(u64),
    /// Processes and threads.
    Processes(u64),
}

impl GroupLimit {
    /// The kernel's name of the controller.
    #[must_use]
    pub const fn controller(self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Processes(_) => "pids",
        }
    }
}

impl Plan<'_> {
    /// Whether the plan may be applied to a command of this name.
    #[must_use]
    pub fn is_for(&self, program: &OsStr) -> bool {
        self.program.as_ref().is_none_or(|own| own.as_bytes() == program.as_bytes())
    }

    /// The plan as a cache file's content.
    ///
    /// # Errors
    /// None is known for a plan that was made or read by this program.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }
}

impl<'a> Plan<'a> {
    /// A plan from a cache file's content.
    ///
    /// # Errors
    /// When the bytes aren't a plan.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(bytes)
    }
}

/// Filters: bytes in the cache, one string of 16 hexadecimal digits an instruction in JSON.
impl Serialize for Filter<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return to.serialize_bytes(&self.0);
        }
        let (instructions, _rest) = self.0.as_chunks::<8>();
        to.collect_seq(instructions.iter().map(|bytes| format!("{:016x}", u64::from_be_bytes(*bytes))))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Filter<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if !from.is_human_readable() {
            return <&'de [u8]>::deserialize(from).map(|bytes| Self(Cow::Borrowed(bytes)));
        }
        let mut bytes = Vec::new();
        for instruction in Vec::<String>::deserialize(from)? {
            let number = u64::from_str_radix(&instruction, 16).map_err(serde::de::Error::custom)?;
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        Ok(Self(Cow::Owned(bytes)))
    }
}
