// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans the message buses of a launch: which buses it has, and how their filters are started.
//!
//! A filtered bus is a socket in the new tree, and nothing else until a process connects to it. Then `xdg-dbus-proxy`
//! is started in a sandbox of its own, by a plan of its own that is made here. It sees its libraries, the bus's socket,
//! and the file by which portals know the application on whose behalf it connects (ADR 0020).

pub mod launcher;
pub(crate) mod metadata;
pub mod proxy;

pub(crate) mod address;
pub(crate) mod filter;

use crate::bus::metadata::RUNTIME;
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::guarantee::Demands;
use crate::layers::session;
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use crate::plan::{
    Bus, BusName, Filter, Identity, IdentityKind, Landlock, Lifecycle, Namespace, Nested, PROGRAM, Plan,
    SCHEMA, Step,
};
use crate::view::USERS;
use crate::view::closure;
use crate::view::tree::{Show, Tree, relative};
use address::Address;
use palisade_policy::environment::Filter as Environment;
use palisade_policy::portal;
use palisade_policy::word::{Bus as Wanted, List};
use palisade_policy::{Context, Guarantee, NetworkMode, Policy};
use palisade_sys::landlock::{Handled, Rights, SCOPE_ABSTRACT_SOCKETS};
use palisade_syscall::{Arch, Rules};
use rustix::fs::FileType;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The filter's program.
const PROXY: &str = "xdg-dbus-proxy";
/// Where systems have their programs.
const SYSTEM_PROGRAMS: [&str; 2] = ["/usr/bin", "/run/current-system/sw/bin"];
/// The path at which the filter sees the bus's socket.
const BEHIND: &str = "/bus";
/// The path for a socket of the filter's own. It makes none.
const UNUSED: &str = "/socket";
/// The file by which portals know an application.
const INFORMATION: &str = "/.flatpak-info";
/// A directory for the sockets. It can be made because no path of the host shows there. `/run` won't do: a policy may show it.
const PLACE: &str = "/.palisade";
/// The tree's size: it has only links and empty files.
const SIZE: &std::ffi::CStr = c"256k";

impl BusName {
    pub(crate) const ALL: [Self; 2] = [Self::Session, Self::System];

    const fn variable(self) -> &'static str {
        match self {
            Self::Session => "DBUS_SESSION_BUS_ADDRESS",
            Self::System => "DBUS_SYSTEM_BUS_ADDRESS",
        }
    }

    /// The bus's socket inside.
    fn socket(self) -> PathBuf {
        Path::new(PLACE).join(match self {
            Self::Session => "session-bus",
            Self::System => "system-bus",
        })
    }

    pub(crate) fn wanted(self, policy: &Policy) -> Wanted {
        match self {
            Self::Session => policy.session_bus().value,
            Self::System => policy.system_bus().value,
        }
    }

    /// Where programs look for the bus when no variable gives its address.
    fn usual(self, context: &Context) -> Vec<PathBuf> {
        match self {
            Self::Session => context.runtime_dir.iter().map(|runtime| runtime.join("bus")).collect(),
            Self::System => {
                ["/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"].map(PathBuf::from).into()
            }
        }
    }
}

/// The buses of a launch.
#[derive(Debug, Default)]
pub(crate) struct Buses {
    /// The filtered buses. `behind` has the path of each real socket, if it has a path.
    pub(crate) filtered: Vec<Bus<'static>>,
    behind: Vec<Option<PathBuf>>,
    /// The buses that are shown unfiltered: which, and the socket's path.
    shown: Vec<(BusName, PathBuf)>,
    /// The application's directory of documents, and the path at which the application sees it.
    documents: Option<(PathBuf, PathBuf)>,
    /// Variables that tell programs the addresses.
    pub(crate) variables: Vec<(&'static str, String)>,
    links: Vec<(PathBuf, PathBuf)>,
    information: Option<Text<'static>>,
}

/// Where a bus of the host is, if there is one.
fn find(
    bus: BusName,
    facts: &Facts,
    context: &Context,
    notes: &mut Vec<Cow<'static, str>>,
) -> Option<Address> {
    facts.depends_on_variable(bus.variable());
    facts.depends_on_variable("XDG_RUNTIME_DIR");
    let stated = facts.environment.get(bus.variable()).filter(|value| !value.is_empty());
    let address = match stated {
        Some(stated) => {
            let found = stated.to_str().and_then(|text| address::parse(text, context.runtime_dir.as_deref()));
            if found.is_none() {
                notes.push(Cow::Owned(format!(
                    "the {bus} isn't there: {} names no socket of this machine",
                    bus.variable()
                )));
            }
            found?
        }
        None => {
            let there = |path: &PathBuf| facts.kind(path) != Kind::Missing;
            Address::Path(bus.usual(context).into_iter().find(there)?)
        }
    };
    match &address {
        // No socket: the application starts without a bus. No note, because most applications report this themselves.
        Address::Path(path) if facts.kind(path) == Kind::Missing => None,
        // A directory would be shown with all its entries.
        Address::Path(path) if session::is_a(path, FileType::Socket) != Some(true) => {
            facts.is_there(path);
            notes.push(Cow::Owned(format!("the {bus} isn't there: {} is no socket", path.display())));
            None
        }
        Address::Path(path) => {
            // A bus that was restarted has another socket, so the plan must be made again.
            facts.depends_on(path, true);
            Some(address)
        }
        Address::Abstract(_) => Some(address),
    }
}

/// The filter's program. The system's program comes first: a path of the user's may hold what the user's programs put
/// there, and each launch would have to check each directory of that path.
fn installed(facts: &Facts) -> Option<PathBuf> {
    let of_system = SYSTEM_PROGRAMS.map(|directory| Path::new(directory).join(PROXY));
    let there = |path: &PathBuf| facts.kind(path) != Kind::Missing;
    let found = of_system.iter().filter(|path| there(path)).find_map(|path| facts.program(path.as_os_str()));
    found.or_else(|| facts.program(OsStr::new(PROXY)))
}

/// Decides which buses a launch has.
///
/// # Errors
/// When a bus must be filtered and can't be.
pub(crate) fn resolve(
    facts: &Facts,
    policy: &Policy,
    context: &Context,
    isolation: Isolation,
    demands: &Demands,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Buses, PlanError> {
    let mut buses = Buses::default();
    for bus in BusName::ALL {
        match (bus.wanted(policy), isolation) {
            (Wanted::None, _) => {}
            (Wanted::Host, _) => buses.show(bus, facts, context, isolation, notes),
            (Wanted::Filtered, Isolation::Full) => buses.filter(bus, facts, policy, context, notes)?,
            (Wanted::Filtered, Isolation::InPlace) => {
                let reason = "without a mount namespace the command can reach the bus itself";
                demands.give_up(Guarantee::BusesFiltered, reason, notes, || {
                    format!("the {bus} isn't filtered, and the command doesn't get its address: {reason}")
                })?;
            }
        }
    }
    Ok(buses)
}

impl Buses {
    fn show(
        &mut self,
        bus: BusName,
        facts: &Facts,
        context: &Context,
        isolation: Isolation,
        notes: &mut Vec<Cow<'static, str>>,
    ) {
        match find(bus, facts, context, notes) {
            Some(Address::Path(path)) => {
                if isolation == Isolation::Full && facts.unused_id.is_some() {
                    notes.push(Cow::Owned(format!(
                        "the {bus} may refuse the command, which runs as another user outside"
                    )));
                }
                self.variables.push((bus.variable(), address::unix("path", path.as_os_str().as_encoded_bytes())));
                self.shown.push((bus, path));
            }
            Some(Address::Abstract(_)) => notes.push(Cow::Owned(format!(
                "the {bus} isn't there: its socket has an abstract name, which can't be shown; a filtered bus can use it"
            ))),
            None => {}
        }
    }

    fn filter(
        &mut self,
        bus: BusName,
        facts: &Facts,
        policy: &Policy,
        context: &Context,
        notes: &mut Vec<Cow<'static, str>>,
    ) -> Result<(), PlanError> {
        let Some(address) = find(bus, facts, context, notes) else { return Ok(()) };
        let Some(program) = installed(facts) else {
            notes.push(Cow::Owned(format!(
                "the {bus} isn't there: it is filtered by {PROXY}, which isn't on this host (the package {PROXY} has it)"
            )));
            return Ok(());
        };
        if let Some(uid) = policy.uid().filter(|uid| uid.value != facts.account.uid) {
            notes.push(Cow::Owned(format!(
                "the {bus} doesn't know user {} ({}): most programs can't use it then",
                uid.value, uid.origin
            )));
        }
        let portals = bus == BusName::Session && !policy.list(List::Portals).is_empty();
        let information = Text::new(information(policy, context))?;
        let arguments = filter::arguments(bus, policy, context, notes);
        let plan = proxy(facts, &program, &address, &arguments, information.clone())?;
        let id = Text::new(application(context))?;
        self.filtered.push(Bus { which: bus, portals: portals.then_some(id), proxy: Nested::new(&plan)? });
        self.behind.push(match address {
            Address::Path(path) => Some(path),
            Address::Abstract(_) => None,
        });
        let socket = bus.socket();
        self.variables.push((bus.variable(), address::unix("path", socket.as_os_str().as_encoded_bytes())));
        let usual = match bus {
            BusName::Session => {
                let own = || PathBuf::from(format!("/run/user/{}", context.uid));
                context.runtime_dir.clone().unwrap_or_else(own).join("bus")
            }
            BusName::System => "/run/dbus/system_bus_socket".into(),
        };
        self.links.push((usual, socket));
        if portals {
            self.information = Some(information);
            self.documents = documents(facts, policy, context);
        }
        Ok(())
    }

    /// Adds the buses to the tree.
    pub(crate) fn place(&self, tree: &mut Tree<'_>, mapped: bool) -> Result<(), PlanError> {
        for (_bus, path) in &self.shown {
            if tree.host_path(&tree.resolve(path)).is_none() || !tree.stands(path) {
                tree.show(path, path, Show { write: true, execute: false, map_owners: mapped, ..USERS })?;
            }
        }
        for path in self.behind.iter().flatten() {
            // Another granted path shows the bus's real socket. That grant isn't meant for the socket, so it is masked.
            tree.mask(path, false)?;
        }
        for (number, bus) in (0..).zip(&self.filtered) {
            tree.directory(Path::new(PLACE), 0o755)?;
            let path = relative(&bus.which.socket())?;
            tree.push(Step::Socket { path, bus: number });
        }
        for (link, target) in &self.links {
            let place = tree.resolve(link);
            if !tree.stands(&place) && tree.host_path(&place).is_none() {
                tree.symlink(&place, target)?;
            }
        }
        if let Some((source, target)) = &self.documents
            && tree.host_path(&tree.resolve(target)).is_none()
        {
            tree.show(source, target, Show { write: true, execute: false, ..USERS })?;
        }
        if let Some(content) = &self.information {
            let path = relative(Path::new(INFORMATION))?;
            tree.push(Step::Information { path: path.clone(), content: content.clone() });
            tree.push(Step::Allow { path, rights: Rights::READ.intersection(Rights::OF_FILES) });
        }
        Ok(())
    }
}

/// The application's id, or a default where there is no application.
fn application(context: &Context) -> String {
    context.application.as_ref().map_or_else(|| "palisade.run".to_owned(), |application| application.id())
}

/// The directory of documents that the user gave the application, and the path at which the application looks for it.
fn documents(facts: &Facts, policy: &Policy, context: &Context) -> Option<(PathBuf, PathBuf)> {
    let gives = |portal: &str| portal::GIVE_FILES.contains(&portal);
    if !policy.list(List::Portals).iter().any(|entry| gives(&entry.value)) {
        return None;
    }
    let all = context.runtime_dir.as_ref()?.join("doc");
    let own = all.join("by-app").join(application(context));
    (facts.kind(&own) == Kind::Directory).then_some((own, all))
}

/// The file `.flatpak-info` of an application, without the launch's number at the end. It has the form that
/// `flatpak-run` writes, with the entries that apply here. Paths of the application are paths of the host.
fn information(policy: &Policy, context: &Context) -> String {
    let network = if policy.network().value == NetworkMode::Host { "shared=network;\n" } else { "" };
    let proxied = |bus: BusName| bus.wanted(policy) == Wanted::Filtered;
    let id = application(context);
    let machine = std::env::consts::ARCH;
    format!(
        "[Application]\nname={id}\nruntime=runtime/{RUNTIME}/{machine}/stable\n\n\
         [Context]\n{network}\n\
         [Instance]\nbranch=stable\narch={machine}\napp-path=/app\nruntime-path=/usr\n\
         session-bus-proxy={}\nsystem-bus-proxy={}\ninstance-id=",
        proxied(BusName::Session),
        proxied(BusName::System)
    )
}

/// The plan of the filter: it sees its libraries and the bus, and nothing else.
fn proxy(
    facts: &Facts,
    program: &Path,
    address: &Address,
    arguments: &[String],
    information: Text<'static>,
) -> Result<Plan<'static>, PlanError> {
    let mut tree = Tree::new(facts, SIZE);
    closure::alone(&mut tree, facts, program)?;
    let mut namespaces = Namespace::ALL.to_vec();
    let mut landlock = facts.landlock.filter(|abi| *abi > 0).map(|abi| {
        let handled = Handled::by_abi(abi);
        Landlock { abi, files: Rights(handled.files), scoped: handled.scoped }
    });
    let to = match address {
        Address::Path(path) => {
            let real = facts.canonical(path).unwrap_or_else(|| path.clone());
            tree.show(&real, Path::new(BEHIND), Show { execute: false, ..USERS })?;
            address::unix("path", BEHIND.as_bytes())
        }
        Address::Abstract(name) => {
            // Abstract names belong to a network namespace, and Landlock's scope would refuse them.
            namespaces.retain(|namespace| *namespace != Namespace::Network);
            if let Some(landlock) = &mut landlock {
                landlock.scoped &= !SCOPE_ABSTRACT_SOCKETS;
            }
            address::unix("abstract", name)
        }
    };
    // For the filter's standard streams, which its launcher opens from here.
    let nothing = Path::new("/dev/null");
    tree.device(nothing)?;
    tree.push(Step::Allow { path: relative(nothing)?, rights: Rights::READ_FILE.union(Rights::WRITE_FILE) });
    tree.push(Step::Information { path: relative(Path::new(INFORMATION))?, content: information });
    let mut command = vec![Text::path(program)?, Text::new(to)?, Text::new(UNUSED)?];
    for argument in arguments {
        command.push(Text::new(argument.as_str())?);
    }
    let filter = palisade_syscall::compile(&Rules::deny_list().serving()?, Arch::NATIVE)?;
    let account = &facts.account;
    Ok(Plan {
        network: None,
        offline: None,
        schema: SCHEMA,
        palisade: Cow::Borrowed(PROGRAM),
        // Empty: the inputs are those of the plan that holds this one.
        inputs: Vec::new(),
        absent: Vec::new(),
        variables: Vec::new(),
        command,
        lifecycle: Lifecycle { complete: true, ..Lifecycle::default() },
        namespaces,
        // The bus asks for the identity of a process that connects, and accepts only its own user.
        identity: Identity {
            kind: IdentityKind::Own,
            uid: account.uid,
            gid: account.gid,
            host_uid: account.uid,
            host_gid: account.gid,
        },
        steps: tree.finish(),
        hostname: None,
        landlock,
        filter: Filter::from(&filter),
        broker: None,
        buses: Vec::new(),
        environment: Environment::default(),
        directory: Text::literal(c"/"),
        program: None,
        limits: Vec::new(),
        group_limits: Vec::new(),
        terminal: false,
        listing: None,
        names: crate::plan::NameEnforcement::Nobody,
        lacks: Vec::new(),
        notes: Vec::new(),
    })
}
