// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the profile from the statements.

use super::path::{Base, Place};
use super::places::{Rule, Rules, State, Verb};
use super::{Bus, FileStatement, Home, Profile, ground, sets};
use crate::document::{Table, Value};
use crate::draft::Said;
use crate::{programs, text};
use palisade_sandbox::view::closure;

/// What the view `closure` shows whatever the program is. The index of libraries and what isn't below `/etc` and `/usr` stay.
fn always_shown() -> impl Iterator<Item = &'static str> {
    let stays = |path: &&str| !path.starts_with("/sys/") && !path.ends_with(".cache");
    closure::BASE.into_iter().chain(closure::NETWORK).filter(stays)
}

impl Profile<'_> {
    /// Writes the profile.
    pub(super) fn build(mut self) {
        let rules = Rules::new(self.rules());
        self.settle(&rules);
        let table = self.draft.table("filesystem");
        table.text("view", "closure");
        table.flag("working_directory", false);
        self.files(&rules);
        self.closure(&rules);
        self.without_more(&rules);
        self.draft.table("home").text("policy", "none");
        self.sockets(&rules);
        self.network_mode();
        self.buses(&rules);
        self.process();
        self.calls_changed();
        self.hooks();
    }

    /// All statements on files in the order in which they apply, firejail's own included.
    fn rules(&self) -> Vec<Rule> {
        let mut rules = self.shown();
        let ground = Rules::new(rules.clone());
        let mut tops: Vec<Place> = Vec::new();
        let mut lone = Vec::new();
        for statement in self.files.iter().filter(|statement| statement.alone) {
            for place in &statement.places {
                let Some(top) = Self::top(place) else { continue };
                if self.home == Home::Empty && place.base == Base::Home {
                    continue;
                }
                let state = ground.state(place);
                let verb = if state.shown {
                    Verb::Show { write: state.write, execute: state.execute }
                } else {
                    Self::lone(place)
                };
                if !tops.contains(&top) {
                    tops.push(top);
                }
                if !statement.except.contains(place) {
                    lone.push(Rule::new(verb, place.clone()));
                }
                let withdrawn = statement.except.iter().filter(|except| place.may_be(except));
                lone.extend(withdrawn.map(|except| Rule::new(Verb::Hide, except.clone())));
            }
        }
        if self.switches.contains("private-tmp") {
            lone.push(Rule::new(Verb::Show { write: false, execute: false }, ground::x11()));
        }
        if let Some(names) = self.lists.get("private-home") {
            tops.push(Place { base: Base::Home, names: Vec::new() });
            let shown = names.names.iter().map(|name| Place::new(Base::Home, name));
            lone.extend(shown.map(|place| Rule::new(Verb::Show { write: false, execute: true }, place)));
        }
        rules.extend(tops.into_iter().map(|top| Rule::new(Verb::Clear, top)));
        rules.extend(lone);
        rules.extend(self.named());
        for statement in self.files.iter().filter(|statement| !statement.alone) {
            // Only the user's files are made writable again.
            let fits = |place: &&Place| statement.verb != Verb::ReadWrite || place.base != Base::Root;
            rules.extend(statement.places.iter().filter(fits).map(|place| Rule {
                verb: statement.verb,
                place: place.clone(),
                except: statement.except.clone(),
            }));
        }
        rules.extend(self.taken_away());
        rules
    }

    /// Reports what becomes of each statement on files.
    fn settle(&mut self, rules: &Rules) {
        let own_home = !rules.state(&Place { base: Base::Home, names: Vec::new() }).shown;
        for statement in std::mem::take(&mut self.files) {
            let said = Said {
                at: &statement.at,
                statement: &statement.text,
                section: "filesystem",
                key: key_of(&statement),
            };
            let all = |test: fn(&Place) -> bool| statement.places.iter().all(test);
            match statement.verb {
                Verb::Hide if all(|place| place.is_below(&["proc"])) => {
                    self.draft.not_kept(
                        said,
                        "the sandbox's whole /proc is shown: it has no processes of other sandboxes",
                    );
                }
                Verb::NoExecute if statement.places.iter().any(|place| is_own(place, own_home)) => {
                    let why = "kept for the files shown there; programs can execute what they write into the sandbox's own directories";
                    self.draft.not_kept(said, why);
                }
                Verb::ReadWrite if all(|place| place.base == Base::Root) => {
                    self.draft.left_out(said, "files that aren't the user's stay read-only");
                }
                Verb::Show { .. } if statement.places.iter().all(|place| place.said(false).is_none()) => {
                    self.draft.left_out(said, "Palisade's patterns have no such character sets");
                }
                Verb::Show { .. } | Verb::ReadWrite | Verb::Clear => self.draft.taken(),
                _ if statement.places.iter().any(|place| place.said(true).is_none()) => {
                    self.draft.not_kept(said, "no pattern can express it");
                }
                _ if statement.places.iter().any(|place| place.said(false).is_none()) => {
                    self.draft.approximated(
                        said,
                        "Palisade's patterns lack this character set, so any character matches",
                    );
                }
                _ => self.draft.taken(),
            }
        }
    }

    fn files(&mut self, rules: &Rules) {
        let home = match &self.home {
            Home::Directory(place) => place.said(false).map(|path| format!("{path}=~")),
            _ => Some("~".to_owned()),
        };
        let mut table = Table::default();
        let (said, hidden) = rules.said();
        for place in hidden.iter().filter_map(|place| place.said(true)) {
            let remark = format!("A pattern still hides this path, though `noblacklist` names it: {place}");
            self.draft.table("filesystem").remark("hide", remark);
        }
        for (place, state) in said {
            let apart = [ground::session_bus(), ground::system_bus(), ground::x11()];
            if apart.contains(&place) || place.is_below(&["proc"]) {
                continue;
            }
            if place.is_below(&["dev"]) {
                self.device(&place, state);
                continue;
            }
            // Another file is in its place.
            let made = (place.is_below(&["etc", "resolv.conf"]) && !self.name_servers.is_empty())
                || (place.is_below(&["etc", "hosts"]) && self.hosts_file);
            if made {
                continue;
            }
            let is_home = place.base == Base::Home && place.names.is_empty();
            let path = if is_home && state.shown { home.clone() } else { place.said(!state.shown) };
            let Some(path) = path else { continue };
            match state {
                State { shown: false, .. } => table.push("hide", path),
                State { empty: true, .. } => table.push("tmpfs", if_there(&place, path)),
                State { write: false, execute: false, .. } => table.push("read", path),
                State { write, execute, .. } => {
                    if write {
                        table.push("write", path.as_str());
                    }
                    if execute {
                        table.push("execute", path);
                    }
                }
            }
        }
        for key in ["read", "write", "execute", "hide", "tmpfs"] {
            if let Some(Value::List(paths)) = table.value(key) {
                for path in paths.clone() {
                    self.draft.table("filesystem").push(key, path);
                }
            }
        }
    }

    fn device(&mut self, place: &Place, state: State) {
        const ALWAYS: [&str; 12] = [
            "null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "fd", "stdin", "stdout",
            "stderr",
        ];
        let own =
            place.last().is_some_and(|name| ALWAYS.contains(&name) || name == "shm" || name == "mqueue");
        if state.shown
            && !own
            && place.names.len() > 1
            && let Some(path) = place.said(false)
        {
            self.draft.table("devices").push("allow", path);
        }
    }

    /// What `private-bin` and similar statements show.
    fn named(&self) -> Vec<Rule> {
        const READ: Verb = Verb::Show { write: false, execute: false };
        const EXECUTE: Verb = Verb::Show { write: false, execute: true };
        let mut rules = Vec::new();
        for path in self.program_paths().into_iter().filter(|path| !self.comes_with_libraries(path)) {
            rules.push(Rule::new(EXECUTE, Place::new(Base::Root, &path)));
        }
        let mut etc: Vec<&str> = Vec::new();
        for name in self.names("private-etc") {
            // If there are sets, the first of them is always included.
            if name.starts_with('@') && etc.is_empty() {
                etc.extend(sets::etc("@default").unwrap_or_default());
            }
            etc.extend(sets::etc(name).unwrap_or(&[name]));
        }
        let opt = self.names("private-opt").map(|name| ("/opt", name, EXECUTE));
        let srv = self.names("private-srv").map(|name| ("/srv", name, EXECUTE));
        for (directory, name, verb) in etc.into_iter().map(|name| ("/etc", name, READ)).chain(opt).chain(srv)
        {
            if is_plain(name) {
                rules.push(Rule::new(verb, Place::new(Base::Root, &format!("{directory}/{name}"))));
            }
        }
        rules
    }

    /// The names of a list.
    fn names(&self, list: &str) -> impl Iterator<Item = &str> {
        self.lists.get(list).into_iter().flat_map(|list| list.names.iter().map(String::as_str))
    }

    /// The programs of this host that `private-bin` names.
    fn program_paths(&self) -> Vec<String> {
        self.names("private-bin").filter(|name| *name != "none").flat_map(programs::like).collect()
    }

    /// Whether a program is listed with the libraries that it needs. That happens if the libraries aren't shown as a
    /// whole. For a script it would be the programs that it names.
    fn comes_with_libraries(&self, path: &str) -> bool {
        self.lists.contains_key("private-lib") && !programs::is_script(path)
    }

    /// States what closures contain: programs and libraries.
    fn closure(&mut self, rules: &Rules) {
        for path in self.program_paths() {
            let hidden = rules.hides(&Place::new(Base::Root, &path));
            if self.comes_with_libraries(&path) && !hidden {
                self.draft.push("closure", "programs", &text::exact(&path));
            }
        }
        let missing: Vec<&str> =
            self.names("private-bin").filter(|name| programs::like(name).is_empty()).collect();
        if !missing.is_empty() && missing != ["none"] {
            let remark = format!("`private-bin` names what isn't on this host: {}", missing.join(", "));
            self.draft.table("filesystem").remark("execute", remark);
        }
        let libraries: Vec<String> =
            self.names("private-lib").filter(|name| is_plain(name)).map(text::exact).collect();
        for library in libraries {
            self.draft.push("closure", "libraries", &library);
        }
    }

    /// Hides what the view shows by itself and firejail doesn't show.
    fn without_more(&mut self, rules: &Rules) {
        let programs = self.program_paths().into_iter().filter(|path| self.comes_with_libraries(path));
        let called = programs
            .filter_map(|path| path.rsplit('/').next().map(str::to_owned))
            .chain(self.program.clone());
        let directories = called
            .filter(|name| is_plain(name))
            .flat_map(|name| ["/etc", "/usr/share"].map(|directory| format!("{directory}/{name}")));
        let made = |path: &str| {
            (path == "/etc/resolv.conf" && !self.name_servers.is_empty())
                || (path == "/etc/hosts" && self.hosts_file)
        };
        let paths: Vec<String> = always_shown()
            .map(str::to_owned)
            .chain(directories)
            .filter(|path| !made(path) && !rules.state(&Place::new(Base::Root, path)).shown)
            .collect();
        for path in paths {
            self.draft.push("filesystem", "hide", &text::exact(&path));
        }
    }

    /// Keeps the variables that say where the shown sockets are.
    fn sockets(&mut self, rules: &Rules) {
        if rules.state(&ground::x11()).shown {
            self.draft.table("filesystem").push("write", "${x11}");
            // Firejail copies it into a home of the sandbox's own.
            if !rules.hides(&Place::new(Base::Home, ".Xauthority")) {
                self.draft.table("filesystem").push("read", "~/.Xauthority");
            }
            // The file may lie in the runtime directory.
            let runtime = Place { base: Base::Runtime, names: Vec::new() };
            if !rules.hides(&runtime) && !rules.clears(&runtime) {
                self.draft.table("filesystem").push("read", "${XAUTHORITY}");
            }
            for name in ["DISPLAY", "XAUTHORITY"] {
                self.draft.table("environment").push("keep", name);
            }
        }
        let wayland = [ground::wayland(), Place::new(Base::Runtime, "wayland-0")];
        if wayland.iter().any(|place| rules.state(place).shown) {
            self.draft.table("environment").push("keep", "WAYLAND_DISPLAY");
        }
    }

    fn network_mode(&mut self) {
        let host = self.network();
        self.draft.table("network").text("mode", if host { "host" } else { "none" });
        let missing = |family: &str| !self.protocols.contains(family);
        let unix = missing("unix");
        let more = host && ["inet", "inet6", "netlink"].into_iter().any(missing);
        for (at, statement) in std::mem::take(&mut self.protocol_said) {
            let said = Said { at: &at, statement: &statement, section: "network", key: "" };
            if unix || more {
                let why = "kept, but local, internet and route sockets aren't separate: with the network all three are allowed";
                self.draft.not_kept(said, why);
            } else {
                self.draft.taken();
            }
        }
        let servers: String =
            self.name_servers.iter().map(|address| format!("nameserver {address}\n")).collect();
        if !servers.is_empty() {
            self.draft.table("files").pair("read", "/etc/resolv.conf", servers);
        }
    }

    fn buses(&mut self, rules: &Rules) {
        let session = if rules.state(&ground::session_bus()).shown { self.session } else { Bus::None };
        let system = if rules.state(&ground::system_bus()).shown { self.system } else { Bus::None };
        let unsaid = "Without a statement about it, Firejail opens the whole bus, and its services can start programs outside. \
                      Name the services that the program needs.";
        let table = self.draft.table("dbus");
        match session {
            Bus::None => table.text("session", "none"),
            Bus::Filtered => table.text("session", "filtered"),
            Bus::Unsaid => {
                table.remark("session", unsaid);
                table.text("session", "filtered");
            }
        }
        match system {
            Bus::Filtered => table.text("system", "filtered"),
            Bus::None => table.text("system", "none"),
            Bus::Unsaid => {
                table.remark("system", "Without a statement about it, Firejail opens the system's bus.");
                table.text("system", "none");
            }
        }
        for key in ["see", "talk", "own", "call", "broadcast"] {
            if let (true, Some(list)) = (session != Bus::None, self.lists.get(key)) {
                for name in &list.names {
                    self.draft.push("dbus", key, &text::plain(name));
                }
            }
        }
        for key in ["system_see", "system_talk", "system_own", "system_call"] {
            if let (Bus::Filtered, Some(list)) = (system, self.lists.get(key)) {
                for name in &list.names {
                    self.draft.push("dbus", key, &text::plain(name));
                }
            }
        }
    }

    fn process(&mut self) {
        let wait = if self.switches.contains("deterministic-shutdown") { "command" } else { "all" };
        let own = self.own_namespaces();
        let table = self.draft.table("process");
        table.flag("namespaces", own);
        table.text("wait", wait);
    }

    /// Whether a program may build a sandbox of its own, as browsers do: then firejail lets it change its root.
    fn own_namespaces(&self) -> bool {
        let restricted =
            ["restrict-namespaces", "noroot"].iter().any(|switch| self.switches.contains(switch));
        self.calls.excepts("chroot") && !restricted
    }

    fn calls_changed(&mut self) {
        let (refused, allowed, mut kept_back) = self.calls.changes(self.switches.contains("allow-debuggers"));
        // A program with namespaces of its own changes its root in them.
        kept_back.retain(|name| name != "chroot" || !self.own_namespaces());
        if !kept_back.is_empty() {
            let remark = format!(
                "Firejail allows these calls; here protected names exclude them: {}",
                kept_back.join(", ")
            );
            self.draft.table("syscalls").remark("allow", remark);
        }
        for (key, names) in [("allow", allowed), ("deny", refused)] {
            for name in names {
                self.draft.table("syscalls").push(key, name);
            }
        }
    }

    /// Adds hooks for what firejail makes on the host before the launch.
    fn hooks(&mut self) {
        for (directories, words) in [
            (true, ["/usr/bin/mkdir", "-p", "-m", "0700", "--"].as_slice()),
            (false, ["/usr/bin/touch", "-a", "--"].as_slice()),
        ] {
            let made = self.made.iter().filter(|(directory, place)| {
                *directory == directories && (self.home == Home::Real || place.base != Base::Home)
            });
            let paths: Vec<String> = made.filter_map(|(_directory, place)| place.argument()).collect();
            if paths.is_empty() {
                continue;
            }
            let mut table = Table::default();
            for word in words {
                table.append("command", *word);
            }
            for path in paths {
                table.append("command", path);
            }
            table.flag("may_fail", true);
            self.draft.item("hooks.before", table);
            self.draft.report.hooks += 1;
        }
    }
}

/// The path as a pattern that matches only this path. Firejail ignores a path that doesn't exist, and a private
/// directory can't be mounted there.
fn if_there(place: &Place, path: String) -> String {
    match path.char_indices().next_back() {
        Some((at, last))
            if place.base == Base::Home && !place.is_pattern() && last.is_ascii_alphanumeric() =>
        {
            format!("{}[{last}]", &path[..at])
        }
        _ => path,
    }
}

/// Whether firejail accepts a name in a list.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['@', '/'])
        && name != "none"
        && name.split('/').all(|part| part != "..")
        && !name.contains(char::is_control)
}

/// Whether a place belongs to the sandbox: then nothing is mounted there that could be made unexecutable.
fn is_own(place: &Place, own_home: bool) -> bool {
    match place.base {
        Base::Home => own_home && place.names.is_empty(),
        Base::Runtime => place.names.is_empty(),
        Base::Root => {
            let below = |names: &[&str]| place.is_below(names) && place.names.len() == names.len();
            below(&["tmp"]) || below(&["run"]) || below(&["dev", "shm"]) || below(&["run", "shm"])
        }
    }
}

const fn key_of(statement: &FileStatement) -> &'static str {
    match statement.verb {
        Verb::Hide | Verb::Clear => "hide",
        Verb::ReadOnly | Verb::Show { .. } => "read",
        Verb::ReadWrite => "write",
        Verb::NoExecute => "execute",
        Verb::Empty => "tmpfs",
    }
}
