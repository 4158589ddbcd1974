// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One statement after the other.

use super::calls::Unknown;
use super::path::{Base, Place};
use super::places::Verb;
use super::{Bus, FileStatement, Home, Profile};
use crate::import::document::Value;
use crate::import::draft::Said;
use crate::import::report::At;
use crate::import::text::{self, is_bus_name, is_rule};
use std::rc::Rc;

/// Statements of one word that are kept when the profile is built, or by every sandbox.
const SWITCHES: [&str; 38] = [
    "private-dev",
    "private-tmp",
    "private-cache",
    "disable-mnt",
    "nosound",
    "no3d",
    "novideo",
    "notv",
    "nodvd",
    "nou2f",
    "noinput",
    "noprinters",
    "writable-etc",
    "writable-var",
    "writable-var-log",
    "writable-run-user",
    "keep-var-tmp",
    "allow-debuggers",
    "deterministic-shutdown",
    "noroot",
    // Every sandbox keeps these.
    "quiet",
    "nonewprivs",
    "ipc-namespace",
    "caps",
    "seccomp.32",
    "seccomp.block-secondary",
    "deterministic-exit-code",
    "keep-config-pulse",
    "noautopulse",
    "keep-shell-rc",
    "keep-hostname",
    "notpm",
    "tab",
    "netfilter",
    // What they change is never there.
    "apparmor-replace",
    "apparmor-stack",
    "shell",
    "warn",
];

/// Statements with words behind them that every sandbox keeps, or that change nothing there is.
const WITHOUT_EFFECT: [&str; 4] = ["shell", "warn", "seccomp.32", "seccomp.32.drop"];

/// Statements on an interface of the network, none of which there is.
const INTERFACE: [&str; 13] = [
    "defaultgw",
    "ip",
    "ip6",
    "iprange",
    "mac",
    "mtu",
    "netmask",
    "netns",
    "veth-name",
    "net",
    "netfilter",
    "netfilter6",
    "netlock",
];

const NO_WORD: &str = "firejail wants something behind it";
const UNKNOWN: &str = "firejail has no such statement";

impl Profile<'_> {
    /// One line.
    pub(super) fn statement(&mut self, at: &At, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let said = Said { at, statement: line, section: "", key: "" };
        if rest.is_empty()
            && let Some(switch) = SWITCHES.iter().find(|switch| **switch == word)
        {
            self.switches.insert(switch);
            return self.draft.taken();
        }
        if !rest.is_empty() && WITHOUT_EFFECT.contains(&word) {
            return self.draft.taken();
        }
        match word {
            "blacklist" | "blacklist-nolog" => self.file(said, rest, Verb::Hide),
            "read-only" => self.file(said, rest, Verb::ReadOnly),
            "read-write" => self.file(said, rest, Verb::ReadWrite),
            "noexec" => self.file(said, rest, Verb::NoExecute),
            "tmpfs" => self.file(said, rest, Verb::Empty),
            "whitelist" => self.alone(said, rest),
            "whitelist-ro" => {
                self.alone(said, rest);
                // Both halves are one statement.
                self.draft.report.taken = self.draft.report.taken.saturating_sub(1);
                self.file(said, rest, Verb::ReadOnly);
            }
            "noblacklist" | "nowhitelist" => self.exception(said, word, rest),
            "mkdir" | "mkfile" => self.make(said, word == "mkdir", rest),
            "bind" => self.bind(said, rest),
            "private" => self.private(said, rest),
            "private-bin" | "private-etc" | "private-lib" | "private-opt" | "private-srv"
            | "private-home" => {
                self.list(word, rest);
            }
            "private-cwd" => self.directory(said, rest),
            "hosts-file" => self.hosts_file(said, rest),
            "net" | "netns" | "netlock" if rest != "none" => {
                self.no_network = true;
                let why = "an interface of its own can't be said: no network at all";
                self.draft.approximated(Said { section: "network", key: "mode", ..said }, why);
            }
            "net" => {
                self.no_network = true;
                self.draft.taken();
            }
            "protocol" => self.protocol(said, rest),
            _ if INTERFACE.contains(&word) => {
                let why = "an interface of its own can't be said";
                self.draft.left_out(Said { section: "network", ..said }, why);
            }
            "dns" => self.name_server(said, rest),
            "nodbus" => {
                (self.session, self.system) = (Bus::None, Bus::None);
                self.draft.taken();
            }
            _ if word.starts_with("dbus-user") || word.starts_with("dbus-system") => {
                self.bus(said, word, rest)
            }
            _ if word.starts_with("seccomp") => self.seccomp(said, word, rest),
            _ if word.starts_with("rlimit-") => self.limit(said, word, rest),
            "env" | "rmenv" => self.variable(said, word, rest),
            "hostname" | "hostname-randomize" => self.hostname(said, word, rest),
            _ => self.other(said, word, rest),
        }
    }

    /// Statements that need no more than a reason.
    fn other(&mut self, said: Said<'_>, word: &str, rest: &str) {
        match (word, rest) {
            ("caps.drop", "all") | ("x11", "none") | ("nogroups" | "machine-id" | "apparmor", _) => {}
            ("caps.drop" | "x11" | "restrict-namespaces" | "memory-deny-write-execute", _) => {}
            ("include" | "ignore", "") => return self.draft.not_kept(said, NO_WORD),
            ("allusers", "") => {
                let why = "other users' homes aren't shown";
                return self.draft.left_out(Said { section: "filesystem", ..said }, why);
            }
            ("caps.keep", _) => return self.draft.left_out(said, "nothing inside has a capability"),
            ("tracelog", "") => {
                return self.draft.approximated(said, "`palisade watch` shows what is refused");
            }
            ("keep-dev-shm", "") => {
                return self.draft.left_out(said, "each sandbox has a /dev/shm of its own");
            }
            ("keep-dev-tpm", "") => {
                for device in ["/dev/tpm[0-9]*", "/dev/tpmrm[0-9]*"] {
                    self.draft.table("devices").push("allow", device);
                }
                return self.draft.taken();
            }
            ("keep-dev-ntsync", "") => {
                self.draft.table("devices").push("allow", "/dev/ntsync");
                return self.draft.taken();
            }
            ("keep-fd", _) => return self.draft.left_out(said, "descriptors aren't handed on"),
            ("name" | "join-or-start", _) => {
                return self
                    .draft
                    .left_out(said, "a sandbox is named where it is started: `palisade run --name`");
            }
            ("nice", _) => return self.draft.left_out(said, "the order among processes isn't said"),
            ("cpu", _) => return self.draft.not_kept(said, "which processors are used isn't said"),
            ("timeout", _) => {
                let why = "how long a sandbox lives isn't said; `cpu_time` bounds what it computes";
                return self.draft.not_kept(Said { section: "limits", ..said }, why);
            }
            ("allow-bwrap", "") => {
                return self.draft.left_out(said, "bubblewrap inside can do no more than others");
            }
            ("xephyr-screen", _) => return self.draft.left_out(said, "there is no display of its own"),
            ("landlock.enforce", "") => {
                let why = "only what its rules name may be used there; here it is what the profile grants";
                return self.draft.not_kept(Said { section: "filesystem", ..said }, why);
            }
            (word, rest) if word.starts_with("landlock.") && !rest.is_empty() => {
                let why = "of effect with `landlock.enforce` only, which isn't said here";
                return self.draft.left_out(Said { section: "filesystem", ..said }, why);
            }
            _ => return self.draft.not_kept(said, UNKNOWN),
        }
        self.confinement(said, word, rest);
    }

    /// Statements on what programs inside are.
    fn confinement(&mut self, said: Said<'_>, word: &str, rest: &str) {
        match (word, rest) {
            ("caps.drop", "all") => self.draft.taken(),
            ("caps.drop", _) => self.draft.approximated(said, "nothing inside has any capability"),
            ("nogroups", "") => {
                let why =
                    "groups that you are in besides your own count inside, too, for files that are shown";
                self.draft.not_kept(Said { section: "process", ..said }, why);
            }
            ("machine-id", "") => {
                let zeros = format!("{}\n", "0".repeat(32));
                self.draft.table("files").pair("read", "/etc/machine-id", zeros);
                let why = "the same zeros at each launch instead of a number by chance";
                self.draft.approximated(Said { section: "files", key: "read", ..said }, why);
            }
            ("apparmor", _) => {
                self.switches.insert("apparmor");
                let why = "kept of it is that only the system's programs run; the rest every sandbox keeps, or isn't said";
                self.draft.approximated(Said { section: "filesystem", key: "execute", ..said }, why);
            }
            ("x11", _) => {
                self.switches.insert("x11");
                if rest == "none" {
                    return self.draft.taken();
                }
                let why = "a display of its own can't be said: no X11 at all";
                self.draft.approximated(Said { section: "filesystem", ..said }, why);
            }
            ("restrict-namespaces", list) => {
                self.switches.insert("restrict-namespaces");
                if list.is_empty() || list.split(',').any(|name| name == "user") {
                    return self.draft.taken();
                }
                let why = "no namespaces of any kind may be made";
                self.draft.approximated(Said { section: "process", key: "namespaces", ..said }, why);
            }
            ("memory-deny-write-execute", "") => {
                for call in ["memfd_create", "pkey_mprotect"] {
                    self.calls.refuse(call);
                }
                let why = "kept in part: memfd_create and pkey_mprotect are refused, but memory may be mapped to be written and executed";
                self.draft.not_kept(Said { section: "syscalls", key: "deny", ..said }, why);
            }
            _ => self.draft.not_kept(said, UNKNOWN),
        }
    }

    fn places(&mut self, said: Said<'_>, path: &str, gives: bool) -> Option<Vec<Place>> {
        let said = Said { section: "filesystem", ..said };
        match Place::parse(path, &self.known) {
            Ok(places) => Some(places),
            Err(why) if gives => {
                self.draft.left_out(said, why);
                None
            }
            Err(why) => {
                self.draft.not_kept(said, why);
                None
            }
        }
    }

    fn file(&mut self, said: Said<'_>, path: &str, verb: Verb) {
        let Some(places) = self.places(said, path, verb == Verb::ReadWrite) else { return };
        let except = match verb {
            Verb::Hide => Rc::clone(self.shared.get_or_insert_with(|| self.not_hidden.as_slice().into())),
            _ => Rc::new([]),
        };
        let (at, text) = (said.at.clone(), said.statement.to_owned());
        self.files.push(FileStatement { at, text, verb, places, except, alone: false });
    }

    fn alone(&mut self, said: Said<'_>, path: &str) {
        let Some(mut places) = self.places(said, path, true) else { return };
        // Of an absolute path that takes in the home only what lies there is the user's.
        if !path.starts_with("${PATH}") && places.iter().any(|place| place.base != Base::Root) {
            places.retain(|place| place.base != Base::Root);
        }
        if path == "/var/run" {
            // A link, which every sandbox has.
            return self.draft.taken();
        }
        if places.iter().any(|place| Self::top(place).is_none()) {
            let why = "firejail takes no directory at the top";
            return self.draft.left_out(Said { section: "filesystem", ..said }, why);
        }
        let (at, text) = (said.at.clone(), said.statement.to_owned());
        let except: Rc<[Place]> = self.not_alone.as_slice().into();
        let verb = Verb::Show { write: false, execute: false };
        self.files.push(FileStatement { at, text, verb, places, except, alone: true });
    }

    fn exception(&mut self, said: Said<'_>, word: &str, path: &str) {
        let of_hidden = word == "noblacklist";
        let Some(places) = self.places(said, path, of_hidden) else { return };
        if of_hidden {
            self.not_hidden.extend(places);
            self.shared = None;
        } else {
            self.not_alone.extend(places);
        }
        self.draft.taken();
    }

    fn make(&mut self, said: Said<'_>, directory: bool, path: &str) {
        let Some(places) = self.places(said, path, true) else { return };
        match places.as_slice() {
            [place] if place.base != Base::Root && !place.is_pattern() => {
                if !self.made.contains(&(directory, place.clone())) {
                    self.made.push((directory, place.clone()));
                }
                self.draft.taken();
            }
            _ => {
                let why = "only what lies in the home or the runtime directory is made before a launch";
                self.draft.left_out(Said { section: "hooks", ..said }, why);
            }
        }
    }

    fn bind(&mut self, said: Said<'_>, rest: &str) {
        let said = Said { section: "filesystem", key: "write", ..said };
        let one = |path: &str| match Place::parse(path, &self.known).as_deref() {
            Ok([place]) if !place.is_pattern() => place.said(false),
            _ => None,
        };
        let mapping =
            rest.split_once(',').and_then(|(host, inside)| Some(format!("{}={}", one(host)?, one(inside)?)));
        let Some(mapping) = mapping else { return self.draft.left_out(said, "it is no pair of paths") };
        for key in ["write", "execute"] {
            self.draft.table("filesystem").push(key, mapping.as_str());
        }
        self.draft.taken();
    }

    fn private(&mut self, said: Said<'_>, rest: &str) {
        if rest.is_empty() {
            self.home = Home::Empty;
            return self.draft.taken();
        }
        let Some(places) = self.places(said, rest, true) else {
            self.home = Home::Empty;
            return;
        };
        match places.as_slice() {
            [place] if !place.is_pattern() => {
                self.home = Home::Directory(place.clone());
                self.draft.taken();
            }
            _ => {
                self.home = Home::Empty;
                self.draft
                    .left_out(Said { section: "home", ..said }, "it is no directory: the home is empty");
            }
        }
    }

    fn list(&mut self, word: &str, rest: &str) {
        const LISTS: [&str; 6] =
            ["private-bin", "private-etc", "private-lib", "private-opt", "private-srv", "private-home"];
        let Some(list) = LISTS.iter().find(|list| **list == word) else { return };
        let names = self.lists.entry(list).or_default();
        names.said = true;
        names.names.extend(rest.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
        self.draft.taken();
    }

    fn directory(&mut self, said: Said<'_>, rest: &str) {
        let said = Said { section: "process", key: "cwd", ..said };
        if rest.is_empty() {
            self.draft.table("process").text("cwd", "~");
            return self.draft.taken();
        }
        match Place::parse(rest, &self.known).as_deref() {
            Ok([place]) if !place.is_pattern() && place.said(false).is_some() => {
                self.draft.table("process").text("cwd", place.said(false).unwrap_or_default());
                self.draft.taken();
            }
            _ => self.draft.left_out(said, "it is no directory"),
        }
    }

    fn hosts_file(&mut self, said: Said<'_>, rest: &str) {
        let said = Said { section: "filesystem", key: "read", ..said };
        let path = match Place::parse(rest, &self.known).as_deref() {
            Ok([place]) if !place.is_pattern() => place.said(false),
            _ => None,
        };
        match path {
            Some(path) => {
                self.draft.table("filesystem").push("read", format!("{path}=/etc/hosts"));
                self.draft.taken();
            }
            None => self.draft.left_out(said, "it is no file"),
        }
    }

    fn protocol(&mut self, said: Said<'_>, rest: &str) {
        const FAMILIES: [&str; 6] = ["unix", "inet", "inet6", "netlink", "packet", "bluetooth"];
        let said = Said { section: "network", ..said };
        let names: Vec<&str> = rest.split(',').map(|name| name.trim_start_matches(['+', '='])).collect();
        if names.is_empty() || names.iter().any(|name| !FAMILIES.contains(name)) {
            return self.draft.not_kept(said, "it names no kind of socket that firejail knows");
        }
        self.protocols.extend(names.into_iter().map(str::to_owned));
        // What it comes to is known when all lines are.
        self.protocol_said.push((said.at.clone(), said.statement.to_owned()));
    }

    fn name_server(&mut self, said: Said<'_>, rest: &str) {
        match rest.parse() {
            Ok(address) => {
                self.name_servers.push(address);
                self.draft.taken();
            }
            Err(_no_address) => {
                self.draft.left_out(Said { section: "files", key: "read", ..said }, "it is no address");
            }
        }
    }

    fn bus(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let session = word.starts_with("dbus-user");
        let said = Said { section: "dbus", ..said };
        let kind = word.trim_start_matches("dbus-user").trim_start_matches("dbus-system");
        let fits = match kind {
            ".see" | ".talk" | ".own" => is_bus_name(rest) && !rest.contains('$'),
            ".call" | ".broadcast" => {
                rest.split_once('=').is_some_and(|(name, rule)| is_bus_name(name) && is_rule(rule))
            }
            "" => {
                let bus = if session { &mut self.session } else { &mut self.system };
                match rest {
                    // What is closed isn't opened again.
                    "filter" if *bus != Bus::None => *bus = Bus::Filtered,
                    "filter" => {}
                    "none" => *bus = Bus::None,
                    _ => return self.draft.not_kept(said, UNKNOWN),
                }
                return self.draft.taken();
            }
            _ => return self.draft.left_out(said, UNKNOWN),
        };
        let key = match (session, kind) {
            (true, ".see") => "see",
            (true, ".talk") => "talk",
            (true, ".own") => "own",
            (true, ".call") => "call",
            (true, _) => "broadcast",
            (false, ".see") => "system_see",
            (false, ".talk") => "system_talk",
            (false, ".own") => "system_own",
            (false, ".call") => "system_call",
            (false, _) => {
                return self.draft.left_out(said, "signals of the system bus aren't said one by one");
            }
        };
        if !fits {
            return self.draft.left_out(Said { key, ..said }, "no name or rule on the bus looks so");
        }
        // Written when it is known whether the bus is open at all.
        self.lists.entry(key).or_default().names.push(rest.to_owned());
        self.draft.taken();
    }

    fn seccomp(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "syscalls", key: "deny", ..said };
        let unknown = match word {
            "seccomp" => {
                self.calls.list = true;
                self.calls.refuse(rest)
            }
            "seccomp.drop" => self.calls.refuse(rest),
            "seccomp.keep" if !rest.is_empty() => self.calls.keep(rest),
            "seccomp.32.keep" => {
                return self.draft.approximated(said, "calls of other architectures are refused altogether");
            }
            "seccomp-error-action" => {
                let why = match rest {
                    "log" => "what is refused is refused, not only logged",
                    _ => "the list says with which error each call is refused",
                };
                return self.draft.approximated(said, why);
            }
            _ => return self.draft.not_kept(said, UNKNOWN),
        };
        match unknown {
            Unknown { names: true, .. } if word == "seccomp.keep" => {
                self.draft.approximated(said, "calls that aren't known here are refused, too");
            }
            Unknown { names: true, .. } => {
                self.draft.not_kept(said, "kept but for calls and sets that aren't known here");
            }
            Unknown { answers: true, .. } => {
                self.draft.approximated(said, "the list says with which error each call is refused");
            }
            _ => self.draft.taken(),
        }
    }

    fn limit(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "limits", ..said };
        let (key, size) = match word {
            "rlimit-as" => ("address_space", true),
            "rlimit-cpu" => ("cpu_time", false),
            "rlimit-fsize" => ("file_size", true),
            "rlimit-nofile" => ("open_files", false),
            "rlimit-nproc" => ("processes", false),
            "rlimit-sigpending" => {
                return self.draft.not_kept(said, "how many signals may wait isn't said");
            }
            _ => return self.draft.not_kept(said, UNKNOWN),
        };
        let unit = if size { rest.chars().last().filter(|c| "kKmMgG".contains(*c)) } else { None };
        let digits = unit.map_or(rest, |_unit| &rest[..rest.len() - 1]);
        let number = digits.parse::<i64>().ok().filter(|number| *number > 0);
        match (number, unit) {
            (None, _) => return self.draft.not_kept(Said { key, ..said }, "it is no number"),
            (Some(number), None) => self.draft.table("limits").set(key, Value::Number(number)),
            (Some(number), Some(unit)) => {
                self.draft.table("limits").text(key, format!("{number}{}", unit.to_ascii_uppercase()));
            }
        }
        if key == "processes" {
            let why = "counts the sandbox's processes, not all of yours";
            return self.draft.approximated(Said { key, ..said }, why);
        }
        self.draft.taken();
    }

    fn variable(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "environment", ..said };
        if word == "rmenv" {
            if rest.is_empty() || rest.contains(['=', '*']) {
                return self.draft.not_kept(said, "no variable can be called so");
            }
            self.draft.table("environment").push("remove", rest);
            return self.draft.taken();
        }
        match rest.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                self.draft.table("environment").pair("set", name, text::plain(value));
                self.draft.taken();
            }
            _ => self.draft.left_out(said, "it is no NAME=VALUE"),
        }
    }

    fn hostname(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "process", key: "hostname", ..said };
        if word == "hostname-randomize" {
            self.draft.table("process").text("hostname", "localhost");
            return self.draft.approximated(said, "the same name at each launch");
        }
        if palisade_policy::Hostname::new(rest).is_ok() {
            self.draft.table("process").text("hostname", rest);
            return self.draft.taken();
        }
        self.draft.table("process").text("hostname", "localhost");
        self.draft.approximated(said, "no machine can be called so: another name that isn't the host's");
    }
}
