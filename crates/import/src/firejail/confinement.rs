// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports statements that aren't about files.

use super::calls::Unknown;
use super::{Bus, Profile};
use crate::document::Value;
use crate::draft::{Draft, Said};
use crate::text::{self, is_bus_name, is_rule};

impl Profile<'_> {
    /// Statements that need nothing but a reason in the report.
    pub(super) fn other(&mut self, said: Said<'_>, word: &str, rest: &str) {
        match (word, rest) {
            ("caps.drop", "all") | ("x11", "none") | ("nogroups" | "machine-id" | "apparmor", _) => {}
            ("caps.drop" | "x11" | "restrict-namespaces" | "memory-deny-write-execute", _) => {}
            ("include" | "ignore", "") => return self.draft.unknown(said.at, said.statement),
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
                return self.draft.left_out(said, "the name belongs to the launch: `palisade run --name`");
            }
            ("nice", _) => return self.draft.left_out(said, "a policy can't set a priority"),
            ("cpu", _) => return self.draft.not_kept(said, "a policy can't choose processors"),
            ("timeout", _) => {
                let why = "a policy can't limit a sandbox's life; `cpu_time` limits its processor time";
                return self.draft.not_kept(Said { section: "limits", ..said }, why);
            }
            ("allow-bwrap", "") => {
                return self.draft.left_out(said, "bubblewrap inside can do no more than others");
            }
            ("xephyr-screen", _) => return self.draft.left_out(said, "a sandbox has no display of its own"),
            ("landlock.enforce", "") => {
                let why = "firejail's Landlock rules limit what may be used; here the profile's grants do";
                return self.draft.not_kept(Said { section: "filesystem", ..said }, why);
            }
            (word, rest) if word.starts_with("landlock.") && !rest.is_empty() => {
                let why = "it has an effect only with `landlock.enforce`, which this profile doesn't have";
                return self.draft.left_out(Said { section: "filesystem", ..said }, why);
            }
            _ => return self.draft.unknown(said.at, said.statement),
        }
        self.confinement(said, word, rest);
    }

    /// Statements about the properties of the programs inside.
    fn confinement(&mut self, said: Said<'_>, word: &str, rest: &str) {
        match (word, rest) {
            ("caps.drop", "all") => self.draft.taken(),
            ("caps.drop", _) => self.draft.approximated(said, "nothing inside has any capability"),
            ("nogroups", "") => {
                let why = "your additional groups also apply inside, to files that are shown";
                self.draft.not_kept(Said { section: "process", ..said }, why);
            }
            ("machine-id", "") => {
                let zeros = format!("{}\n", "0".repeat(32));
                self.draft.table("files").pair("read", "/etc/machine-id", zeros);
                let why = "zeros at each launch instead of a random number";
                self.draft.approximated(Said { section: "files", key: "read", ..said }, why);
            }
            ("apparmor", _) => {
                self.switches.insert("apparmor");
                let why = "only the system's programs run; every sandbox has the other rules, or a policy can't express them";
                self.draft.approximated(Said { section: "filesystem", key: "execute", ..said }, why);
            }
            ("x11", _) => {
                self.switches.insert("x11");
                if rest == "none" {
                    return self.draft.taken();
                }
                let why = "a policy can't give a sandbox its own display: no X11 at all";
                self.draft.approximated(Said { section: "filesystem", ..said }, why);
            }
            ("restrict-namespaces", list) => {
                self.switches.insert("restrict-namespaces");
                if list.is_empty() || list.split(',').any(|name| name == "user") {
                    return self.draft.taken();
                }
                let why = "the command can't make namespaces of any kind";
                self.draft.approximated(Said { section: "process", key: "namespaces", ..said }, why);
            }
            ("memory-deny-write-execute", "") => {
                for call in ["memfd_create", "pkey_mprotect"] {
                    self.calls.refuse(call);
                }
                let why = "kept in part: memfd_create and pkey_mprotect are refused, but memory can be mapped writable and executable";
                self.draft.not_kept(Said { section: "syscalls", key: "deny", ..said }, why);
            }
            _ => self.draft.unknown(said.at, said.statement),
        }
    }

    pub(super) fn protocol(&mut self, said: Said<'_>, rest: &str) {
        const FAMILIES: [&str; 6] = ["unix", "inet", "inet6", "netlink", "packet", "bluetooth"];
        let said = Said { section: "network", ..said };
        let names: Vec<&str> = rest.split(',').map(|name| name.trim_start_matches(['+', '='])).collect();
        if names.is_empty() || names.iter().any(|name| !FAMILIES.contains(name)) {
            return self.draft.not_kept(said, "it names no socket type that firejail knows");
        }
        self.protocols.extend(names.into_iter().map(str::to_owned));
        // Its effect is known only when all lines have been read.
        self.protocol_said.push((said.at.clone(), said.statement.to_owned()));
    }

    pub(super) fn name_server(&mut self, said: Said<'_>, rest: &str) {
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

    pub(super) fn bus(&mut self, said: Said<'_>, word: &str, rest: &str) {
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
                    // A closed bus isn't opened again.
                    "filter" if *bus != Bus::None => *bus = Bus::Filtered,
                    "filter" => {}
                    "none" => *bus = Bus::None,
                    _ => return self.draft.unknown(said.at, said.statement),
                }
                return self.draft.taken();
            }
            _ => return self.draft.unknown(said.at, said.statement),
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
                return self.draft.left_out(said, "a policy can't name single signals of the system bus");
            }
        };
        if !fits {
            return self.draft.left_out(Said { key, ..said }, "it isn't a valid name or rule on the bus");
        }
        if !Draft::takes("dbus", key, Value::List(vec![text::plain(rest)])) {
            return self.draft.left_out(Said { key, ..said }, "it isn't a valid name or rule on the bus");
        }
        // It is written when it is known whether the bus is open at all.
        self.lists.entry(key).or_default().names.push(rest.to_owned());
        self.draft.taken();
    }

    pub(super) fn seccomp(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "syscalls", key: "deny", ..said };
        let unknown = match word {
            "seccomp" => {
                self.calls.list = true;
                self.calls.refuse(rest)
            }
            "seccomp.drop" => self.calls.refuse(rest),
            "seccomp.keep" if !rest.is_empty() => self.calls.keep(rest),
            "seccomp.32.keep" => {
                return self.draft.approximated(said, "all calls of other architectures are refused");
            }
            "seccomp-error-action" => {
                let why = match rest {
                    "log" => "the calls are refused, not only logged",
                    _ => "the deny list states the error of each call",
                };
                return self.draft.approximated(said, why);
            }
            _ => return self.draft.unknown(said.at, said.statement),
        };
        match unknown {
            Unknown { names: true, .. } if word == "seccomp.keep" => {
                self.draft.approximated(said, "calls that this palisade doesn't know are refused, too");
            }
            Unknown { names: true, .. } => {
                self.draft.not_kept(said, "kept, except calls and sets that this palisade doesn't know");
            }
            Unknown { answers: true, .. } => {
                self.draft.approximated(said, "the deny list states the error of each call");
            }
            _ => self.draft.taken(),
        }
    }

    pub(super) fn limit(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "limits", ..said };
        let (key, size) = match word {
            "rlimit-as" => ("address_space", true),
            "rlimit-cpu" => ("cpu_time", false),
            "rlimit-fsize" => ("file_size", true),
            "rlimit-nofile" => ("open_files", false),
            "rlimit-nproc" => ("processes", false),
            "rlimit-sigpending" => {
                return self.draft.not_kept(said, "a policy can't limit pending signals");
            }
            _ => return self.draft.unknown(said.at, said.statement),
        };
        let unit = if size { rest.chars().last().filter(|c| "kKmMgG".contains(*c)) } else { None };
        let digits = unit.map_or(rest, |_unit| &rest[..rest.len() - 1]);
        let number = digits.parse::<i64>().ok().filter(|number| *number > 0);
        match (number, unit) {
            (None, _) => return self.draft.not_kept(Said { key, ..said }, "it is no number"),
            (Some(number), unit) => {
                let value = match unit {
                    None => Value::Number(number),
                    Some(unit) => Value::Text(format!("{number}{}", unit.to_ascii_uppercase())),
                };
                if !self.draft.set("limits", key, value) {
                    return self.draft.not_kept(Said { key, ..said }, "it isn't a limit that can be set");
                }
            }
        }
        if key == "processes" {
            let why = "counts the sandbox's processes, not all of yours";
            return self.draft.approximated(Said { key, ..said }, why);
        }
        self.draft.taken();
    }

    pub(super) fn variable(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "environment", ..said };
        if word == "rmenv" {
            if rest.is_empty() || rest.contains(['=', '*']) {
                return self.draft.not_kept(said, "no variable can have this name");
            }
            if !self.draft.push("environment", "remove", rest) {
                return self.draft.not_kept(said, "no variable can have this name");
            }
            return self.draft.taken();
        }
        match rest.split_once('=') {
            Some((name, value)) if self.draft.pair("environment", "set", name, &text::plain(value)) => {
                self.draft.taken();
            }
            _ => self.draft.left_out(said, "it is no NAME=VALUE"),
        }
    }

    pub(super) fn hostname(&mut self, said: Said<'_>, word: &str, rest: &str) {
        let said = Said { section: "process", key: "hostname", ..said };
        self.draft.table("files").pair("read", "/etc/hostname", "localhost\n");
        if word == "hostname-randomize" {
            self.draft.table("process").text("hostname", "localhost");
            return self.draft.approximated(said, "the same name at each launch");
        }
        if palisade_policy::Hostname::new(rest).is_ok() {
            self.draft.table("process").text("hostname", rest);
            self.draft.table("files").pair("read", "/etc/hostname", format!("{rest}\n"));
            return self.draft.taken();
        }
        self.draft.table("process").text("hostname", "localhost");
        self.draft.approximated(
            said,
            "no machine can have this name: the sandbox gets another one that isn't the host's",
        );
    }
}
