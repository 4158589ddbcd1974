// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a policy can require, and which mechanisms of a host satisfy it: guarantees before mechanisms.
//!
//! Each guarantee lists the mechanisms that satisfy it, best first, and fails only if the host has none of them.
//! [`Evidence::gather`] tries mechanisms out. The table in [`evaluate`] is pure, so that a test can evaluate any host.

use crate::error::PlanError;
use crate::error::user_namespaces::{self, Cause};
use crate::facts::Facts;
use crate::plan::BusName;
use palisade_host::cgroup::Cgroups;
use palisade_host::kernel::{Kernel, Release};
use palisade_policy::word::{Bus as Wanted, Word};
use palisade_policy::{Limit, NetworkMode, Policy, Protect, Required};

mod held;

pub use held::{Held, held};
pub use palisade_policy::Guarantee;
use palisade_sys::probe::{self, Kind, Presence, ProbeError};
use palisade_text::Show as _;
use serde::Serialize;
use std::borrow::Cow;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The oldest kernel that is tested: that of Debian 12.
pub const OLDEST_KERNEL: (u32, u32) = (6, 1);

/// The guarantees that a policy demands of a plan, and those that the plan goes without.
#[derive(Debug)]
pub(crate) struct Demands {
    required: Required,
    given_up: RefCell<Vec<Guarantee>>,
}

impl Demands {
    /// What a policy requires.
    pub(crate) fn of(policy: &Policy) -> Self {
        Self { required: policy.required(), given_up: RefCell::default() }
    }

    /// Nothing.
    pub(crate) fn none() -> Self {
        Self { required: Required::none(), given_up: RefCell::default() }
    }

    /// What is required.
    pub(crate) const fn required(&self) -> &Required {
        &self.required
    }

    /// Goes on without a guarantee. `note` tells the user what isn't guaranteed.
    ///
    /// # Errors
    /// When the policy requires it.
    pub(crate) fn give_up(
        &self,
        guarantee: Guarantee,
        reason: &str,
        notes: &mut Vec<Cow<'static, str>>,
        note: impl FnOnce() -> String,
    ) -> Result<(), PlanError> {
        self.give_up_part(guarantee, guarantee.words(), reason, notes, note)
    }

    /// As [`give_up`](Self::give_up), for the part of a guarantee that these words describe.
    ///
    /// # Errors
    /// When the policy requires it.
    pub(crate) fn give_up_part(
        &self,
        guarantee: Guarantee,
        words: &'static str,
        reason: &str,
        notes: &mut Vec<Cow<'static, str>>,
        note: impl FnOnce() -> String,
    ) -> Result<(), PlanError> {
        if self.required.has(guarantee) {
            let named = self.required.names(guarantee);
            return Err(PlanError::Guarantee { guarantee: words, reason: reason.to_owned(), named });
        }
        self.lose(guarantee);
        notes.push(Cow::Owned(note()));
        Ok(())
    }

    /// Goes on without a guarantee that the user has declined.
    pub(crate) fn lose(&self, guarantee: Guarantee) {
        let mut given_up = self.given_up.borrow_mut();
        if !given_up.contains(&guarantee) {
            given_up.push(guarantee);
        }
    }

    /// The error of a launch that lacks a guarantee.
    pub(crate) fn lacking(&self, guarantee: Guarantee, reason: &str) -> PlanError {
        PlanError::Guarantee {
            guarantee: guarantee.words(),
            reason: reason.to_owned(),
            named: self.required.names(guarantee),
        }
    }

    /// Goes on without namespaces.
    ///
    /// # Errors
    /// When the policy names a guarantee that only namespaces give.
    pub(crate) fn stay_in_place(&self, root: bool) -> Result<(), PlanError> {
        for lost in lost_in_place(root) {
            if self.required.names(lost) {
                return Err(self.lacking(lost, "that needs user namespaces"));
            }
            self.lose(lost);
        }
        Ok(())
    }

    /// The guarantees that the plan goes without, in the order of the table.
    pub(crate) fn given_up(&self) -> Vec<Guarantee> {
        let mut given_up = self.given_up.borrow().clone();
        given_up.sort_unstable();
        given_up
    }
}

/// Whether a policy accepts a launch without namespaces, on a host that can't make any.
#[must_use]
pub fn accepts_in_place(required: &Required, root: bool) -> bool {
    !lost_in_place(root).into_iter().any(|lost| required.has(lost))
}

/// What only namespaces guarantee.
fn lost_in_place(root: bool) -> Vec<Guarantee> {
    let mut lost = vec![Guarantee::Hidden, Guarantee::ProcessesUnseen, Guarantee::EndsTogether];
    lost.extend(root.then_some(Guarantee::RootIsNobody));
    lost
}

/// Whether a launch with this policy needs the guarantee.
fn is_wanted(guarantee: Guarantee, policy: &Policy, root: bool) -> bool {
    let limits = policy.limits();
    match guarantee {
        Guarantee::NamesProtected => policy.protect().value != Protect::Off,
        Guarantee::NoNetwork => policy.network().value == NetworkMode::None,
        Guarantee::HostsFiltered => policy.network().value == NetworkMode::Filtered,
        Guarantee::BusesFiltered => {
            BusName::ALL.iter().any(|bus| matches!(bus.wanted(policy), Wanted::Filtered))
        }
        Guarantee::CallsAnswered => {
            let of_process = policy.word(Word::Release).is_some()
                || policy.processors().is_some()
                || policy.time().is_some();
            of_process || !policy.answers().is_empty()
        }
        Guarantee::RootIsNobody => root,
        Guarantee::MemoryBounded => limits.contains_key(&Limit::Memory),
        Guarantee::ProcessesBounded => limits.contains_key(&Limit::Processes),
        _ => true,
    }
}

/// Whether the host has a mechanism.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Have {
    /// The mechanism works.
    Yes,
    /// It doesn't work, for this reason.
    No(String),
    /// The test failed, for this reason.
    Unknown(String),
}

impl Have {
    /// Whether the mechanism works.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }

    /// Both mechanisms together. The first one that doesn't work gives the reason.
    fn and(&self, other: &Self) -> Self {
        if self.is_yes() { other.clone() } else { self.clone() }
    }
}

impl From<Result<Presence, ProbeError>> for Have {
    fn from(probed: Result<Presence, ProbeError>) -> Self {
        match probed {
            Ok(Presence::Present) => Self::Yes,
            Ok(Presence::Absent { action, errno }) => Self::No(format!("can't {action}: {errno}")),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

/// The facts of a host that decide about guarantees.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The caller is root.
    pub root: bool,
    /// The kernel.
    pub release: Option<Release>,
    /// User namespaces, with the capabilities in them.
    pub users: Have,
    /// Mount namespaces, with file trees of their own.
    pub mounts: Have,
    /// PID namespaces, with `/proc`.
    pub processes: Have,
    /// Network namespaces.
    pub network: Have,
    /// Network namespaces whose connections are led to the gateway.
    pub led: Have,
    /// Landlock's ABI; 0: none.
    pub landlock: u32,
    /// Why there is no Landlock.
    pub landlock_lacks: Option<String>,
    /// Filters of system calls.
    pub seccomp: Have,
    /// A broker can judge names.
    pub judge: Have,
    /// Another user than the caller can be mapped.
    pub other_user: Have,
    /// Owners of files in the working directory can be mapped.
    pub owners: Have,
    /// A control group for memory can be made.
    pub memory: Have,
    /// A control group for the number of processes can be made.
    pub pids: Have,
    /// `dev.tty.legacy_tiocsti` (since 6.2); 0 forbids typing into terminals.
    pub typing: Option<u32>,
    /// Why user namespaces, or mounts in them, are refused. `None`: they aren't.
    pub refusal: Option<Cause>,
}

impl Evidence {
    /// Tries every mechanism, in separate processes.
    #[must_use]
    pub fn gather(facts: &Facts) -> Self {
        let kernel = Kernel::read(Path::new("/proc"), Path::new("/sys"));
        let (landlock, landlock_lacks) = match probe::landlock() {
            Ok(Ok(abi)) => (abi, None),
            Ok(Err(errno)) => (0, Some(errno.to_string())),
            Err(error) => (0, Some(error.to_string())),
        };
        let seccomp = match palisade_sys::seccomp::available() {
            Ok(true) => Have::Yes,
            Ok(false) => Have::No("the kernel lacks seccomp filters, or some of their actions".to_owned()),
            Err(errno) => Have::Unknown(format!("can't query the actions of seccomp filters: {errno}")),
        };
        let root = facts.account.uid == 0;
        let other_user = match facts.unused_id {
            Some(_id) => Have::Yes,
            None if root => Have::No("the caller may not map a user that the host doesn't use".to_owned()),
            None => Have::No("the caller isn't root".to_owned()),
        };
        let owners = match std::ffi::CString::new(facts.cwd.as_os_str().as_bytes()) {
            Ok(cwd) if root => probe::mapped_owners(&cwd).into(),
            _ => Have::No("the caller isn't root".to_owned()),
        };
        let cgroups = Cgroups::read(Path::new("/proc/self"));
        let group = |name: &str| match &cgroups {
            Err(error) => Have::Unknown(error.to_string()),
            Ok(cgroups) => match cgroups.controller(name) {
                None => Have::No(format!("the controller {name} isn't there")),
                Some(controller) if controller.usable => Have::Yes,
                Some(controller) => Have::No(format!(
                    "this user can't make a control group below or beside {}",
                    controller.own.shown()
                )),
            },
        };
        let refusal = user_namespaces::examine();
        let namespace = |kind| match (Have::from(probe::namespace(kind)), &refusal) {
            (Have::No(why), Some(cause)) if *cause != Cause::Unknown => {
                Have::No(format!("{why}: {}", user_namespaces::words(cause)))
            }
            (have, _) => have,
        };
        Self {
            root,
            release: kernel.release,
            users: namespace(Kind::User),
            mounts: namespace(Kind::Mount),
            processes: namespace(Kind::Pid),
            network: namespace(Kind::Network),
            led: probe::namespace(Kind::Led).into(),
            landlock,
            landlock_lacks,
            judge: facts.lacks_broker().map_or_else(|| seccomp.clone(), |reason| Have::No(reason.to_owned())),
            seccomp,
            other_user,
            owners,
            memory: group("memory"),
            pids: group("pids"),
            typing: palisade_host::file::read_attribute(Path::new("/proc/sys/dev/tty/legacy_tiocsti"))
                .and_then(|text| text.parse().ok()),
            refusal,
        }
    }

    fn landlock(&self, needed: u32) -> Have {
        if self.landlock >= needed {
            Have::Yes
        } else if let Some(why) = &self.landlock_lacks {
            Have::No(format!("Landlock isn't available: {why}"))
        } else {
            Have::No(format!("Landlock ABI {needed} is needed, this kernel has {}", self.landlock))
        }
    }
}

/// One way to give a guarantee.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Mechanism {
    /// Its name.
    pub name: &'static str,
    /// Its requirement.
    pub need: &'static str,
    /// Whether the host has it.
    pub have: Have,
    /// What the user can do if the host lacks it.
    pub remedy: Option<String>,
    /// It gives the guarantee only with a restriction that a launch reports.
    pub weaker: Option<&'static str>,
}

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// The guarantee in words.
    pub words: &'static str,
    /// Whether the policy asks for it.
    pub wanted: bool,
    /// The mechanisms that satisfy it, best first.
    pub mechanisms: Vec<Mechanism>,
}

impl Row {
    /// The best mechanism that the host has.
    #[must_use]
    pub fn by(&self) -> Option<&Mechanism> {
        self.mechanisms.iter().find(|mechanism| mechanism.have.is_yes())
    }

    /// Whether the policy requires the guarantee and this host can't give it.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.wanted && self.by().is_none()
    }
}

/// The table for a policy on a host.
#[must_use]
pub fn evaluate(policy: &Policy, host: &Evidence) -> Vec<Row> {
    Guarantee::ALL
        .into_iter()
        .map(|guarantee| Row {
            guarantee,
            words: guarantee.words(),
            wanted: is_wanted(guarantee, policy, host.root),
            mechanisms: mechanisms(guarantee, policy, host),
        })
        .collect()
}

fn mechanisms(guarantee: Guarantee, policy: &Policy, host: &Evidence) -> Vec<Mechanism> {
    let mechanism = |name, need, have: Have, remedy: Option<String>| Mechanism {
        name,
        need,
        remedy: remedy.filter(|_| !have.is_yes()),
        have,
        weaker: None,
    };
    let namespaces = Some(user_namespaces::hint(host.refusal.as_ref().unwrap_or(&Cause::Unknown)));
    let newer = |version: &str| Some(format!("a kernel from {version} on, with landlock in lsm="));
    let tree =
        || mechanism("own file tree", "user and mount namespaces", host.mounts.clone(), namespaces.clone());
    let pids = || {
        let have = host.users.and(&host.processes);
        mechanism("PID namespace", "user and PID namespaces, /proc mountable", have, namespaces.clone())
    };
    let landlock = |name, need, abi, version| mechanism(name, need, host.landlock(abi), newer(version));
    let filter = || {
        let remedy = Some("a kernel with CONFIG_SECCOMP_FILTER".to_owned());
        mechanism("system call filter", "seccomp", host.seccomp.clone(), remedy)
    };
    let network = || {
        mechanism(
            "network namespace",
            "user and network namespaces",
            host.network.clone(),
            namespaces.clone(),
        )
    };
    let group = |name, need, have: &Have| {
        let remedy = Some("systemd-run --user --scope palisade run …   # gives a delegated group".to_owned());
        mechanism(name, need, have.clone(), remedy)
    };
    match guarantee {
        Guarantee::Hidden => vec![tree()],
        Guarantee::Unchanged => {
            vec![tree(), landlock("Landlock", "Landlock ABI 3 (6.2)", 3, "6.2")]
        }
        Guarantee::NamesProtected => {
            let need = "seccomp's notifications, and the right to read the memory of descendants";
            let weaker = Some("names that don't exist can be made");
            vec![
                mechanism("broker behind the filter", need, host.judge.clone(), None),
                Mechanism { name: "mounts over names that exist", weaker, ..tree() },
            ]
        }
        Guarantee::RulesHold | Guarantee::BusesFiltered => vec![tree()],
        Guarantee::CallsAnswered => {
            let have = host.users.and(&host.seccomp);
            let broker = "user namespaces, seccomp's notifications";
            vec![mechanism("broker behind the filter", broker, have, namespaces.clone())]
        }
        Guarantee::NotExecuted => {
            let weaker = Some("a file that is named to a loader (ld.so FILE) runs");
            vec![tree(), Mechanism { weaker, ..landlock("Landlock", "Landlock ABI 1 (5.13)", 1, "5.13") }]
        }
        Guarantee::ProcessesUnseen | Guarantee::EndsTogether => vec![pids()],
        Guarantee::SignalsInside => {
            vec![pids(), landlock("Landlock's signal scope", "Landlock ABI 6 (6.12)", 6, "6.12")]
        }
        Guarantee::NoNetwork => vec![network(), Mechanism { name: "no sockets", ..filter() }],
        Guarantee::HostsFiltered => {
            let remedy = Some("a kernel from 5.2 on with nf_tables and its NAT for inet".to_owned());
            let have = host.network.and(&host.led);
            let led = mechanism("transparent proxy", "nftables", have, remedy);
            let weaker = Some("only programs that use a proxy reach the network");
            let asked = Some("only TCP, and no servers inside");
            vec![
                led,
                Mechanism { name: "network namespace and a proxy", weaker, ..network() },
                Mechanism { name: "connections made by the gateway", weaker: asked, ..filter() },
            ]
        }
        Guarantee::NoAbstractSockets => {
            let scope = landlock("Landlock's socket scope", "Landlock ABI 6 (6.12)", 6, "6.12");
            match policy.network().value {
                NetworkMode::None | NetworkMode::Filtered => vec![network(), scope],
                // Abstract sockets belong to the network namespace, which is the host's here.
                NetworkMode::Host => vec![scope],
            }
        }
        Guarantee::CallsRefused => vec![filter()],
        Guarantee::TerminalSafe => {
            let have = match host.typing {
                Some(0) => Have::Yes,
                Some(_) => Have::No("dev.tty.legacy_tiocsti is 1".to_owned()),
                None => Have::No("this kernel has no such setting".to_owned()),
            };
            let remedy = host.typing.map(|_set| "sysctl -w dev.tty.legacy_tiocsti=0".to_owned());
            vec![filter(), mechanism("kernel setting", "dev.tty.legacy_tiocsti = 0 (6.2)", have, remedy)]
        }
        Guarantee::RootIsNobody => {
            let elsewhere = "work on ext4, xfs, btrfs or tmpfs instead of an overlay, or run palisade as an ordinary user";
            let remedy = if host.users.is_yes() { Some(elsewhere.to_owned()) } else { namespaces.clone() };
            let have = host.users.and(&host.other_user).and(&host.owners);
            let need = "idmapped mounts of the working directory";
            let masks = "root inside is the host's root without capabilities";
            vec![
                mechanism("mapping to an unused user", need, have, remedy),
                Mechanism { name: "masked kernel settings and secrets", weaker: Some(masks), ..tree() },
            ]
        }
        Guarantee::MemoryBounded => vec![group("control group", "memory controller, writable", &host.memory)],
        Guarantee::ProcessesBounded => {
            // Processes are counted per user namespace since 5.14. The limit never applies to the host's root.
            let have =
                if host.root { Have::No("it doesn't limit root".to_owned()) } else { host.users.clone() };
            vec![
                group("control group", "pids controller, writable", &host.pids),
                mechanism("RLIMIT_NPROC", "a user namespace, and not root", have, None),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::{LayerPolicy, built_in, merge};

    fn no(why: &str) -> Have {
        Have::No(why.to_owned())
    }

    fn debian_12() -> Evidence {
        Evidence {
            root: false,
            release: Release::parse("6.1.0-18-amd64"),
            users: Have::Yes,
            mounts: Have::Yes,
            processes: Have::Yes,
            network: Have::Yes,
            led: Have::Yes,
            landlock: 2,
            landlock_lacks: None,
            seccomp: Have::Yes,
            judge: Have::Yes,
            other_user: no("the caller isn't root"),
            owners: no("the caller isn't root"),
            memory: no("not delegated"),
            pids: no("not delegated"),
            typing: None,
            refusal: None,
        }
    }

    fn failing(host: &Evidence, policy: &Policy) -> Vec<Guarantee> {
        evaluate(policy, host).into_iter().filter(Row::fails).map(|row| row.guarantee).collect()
    }

    #[test]
    fn debian_12_gives_everything_the_default_asks_for() {
        assert_eq!(failing(&debian_12(), &merge(vec![built_in()])), []);
    }

    #[test]
    fn without_user_namespaces_some_guarantees_remain() {
        let mut host = debian_12();
        host.landlock = 7;
        for have in [&mut host.users, &mut host.mounts, &mut host.processes, &mut host.network] {
            *have = no("can't make a user namespace");
        }
        host.refusal = Some(Cause::Privileged);
        let policy = merge(vec![built_in()]);
        assert_eq!(
            failing(&host, &policy),
            [Guarantee::Hidden, Guarantee::RulesHold, Guarantee::ProcessesUnseen, Guarantee::EndsTogether]
        );
        let rows = evaluate(&policy, &host);
        let remedy = rows[0].mechanisms[0].remedy.as_deref();
        assert!(
            remedy.is_some_and(
                |remedy| remedy.starts_with("sudo sysctl -w kernel.unprivileged_userns_clone=1 ")
            )
        );
        assert_eq!(rows[1].by().unwrap().name, "Landlock");
    }

    #[test]
    fn the_hosts_network_needs_a_scope() {
        let mut layer = LayerPolicy::command_line();
        layer.set_network(NetworkMode::Host, 1);
        let policy = merge(vec![built_in(), layer]);
        assert_eq!(failing(&debian_12(), &policy), [Guarantee::NoAbstractSockets]);
    }

    #[test]
    fn limits_count_only_where_they_are_asked_for() {
        let mut layer = LayerPolicy::command_line();
        layer.set_limit_text(Limit::Memory, "1G", 1).unwrap();
        layer.set_limit_text(Limit::Processes, "100", 2).unwrap();
        let policy = merge(vec![built_in(), layer]);
        let mut host = debian_12();
        assert_eq!(failing(&host, &policy), [Guarantee::MemoryBounded]);
        host.root = true;
        assert_eq!(failing(&host, &policy), [Guarantee::MemoryBounded, Guarantee::ProcessesBounded]);
    }

    #[test]
    fn root_in_a_container_is_told_of_the_weaker_way() {
        let host = Evidence { root: true, ..debian_12() };
        let rows = evaluate(&merge(vec![built_in()]), &host);
        let row = rows.iter().find(|row| row.guarantee == Guarantee::RootIsNobody).unwrap();
        assert!(row.wanted && row.by().unwrap().weaker.is_some());
    }

    #[test]
    fn this_host_is_examined_without_a_doubt() {
        let environment = palisade_host::environment::Environment::from_iter([("HOME", "/")]);
        let facts = Facts::gather(environment, "/".into()).unwrap();
        let host = Evidence::gather(&facts);
        for have in [&host.users, &host.mounts, &host.processes, &host.network, &host.seccomp, &host.owners] {
            assert!(!matches!(have, Have::Unknown(_)), "{have:?}");
        }
        assert!(host.release.unwrap().at_least(OLDEST_KERNEL.0, OLDEST_KERNEL.1));
    }
}
