// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports the statements, one after the other.

use super::path::{Base, Place};
use super::places::Verb;
use super::{Bus, FileStatement, Home, Profile};
use crate::draft::Said;
use crate::report::At;
use std::rc::Rc;

/// Statements of one word that are applied when the profile is built, or that every sandbox fulfils.
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
    // Every sandbox fulfils these.
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
    // What they change never exists here.
    "apparmor-replace",
    "apparmor-stack",
    "shell",
    "warn",
];

/// Statements with arguments that every sandbox fulfils, or that change nothing that exists here.
const WITHOUT_EFFECT: [&str; 4] = ["shell", "warn", "seccomp.32", "seccomp.32.drop"];

/// Statements about a network interface. No sandbox has one.
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

impl Profile<'_> {
    /// Imports one line.
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
                // Both halves are one statement. It counts once.
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
                let why = "a policy can't give a sandbox its own interface: no network at all";
                self.draft.approximated(Said { section: "network", key: "mode", ..said }, why);
            }
            "net" => {
                self.no_network = true;
                self.draft.taken();
            }
            "protocol" => self.protocol(said, rest),
            _ if INTERFACE.contains(&word) => {
                let why = "a policy can't give a sandbox its own interface";
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
        // If an absolute path includes the home, only what lies in the home is the user's.
        if !path.starts_with("${PATH}") && places.iter().any(|place| place.base != Base::Root) {
            places.retain(|place| place.base != Base::Root);
        }
        if path == "/var/run" {
            // It is a link that every sandbox has.
            return self.draft.taken();
        }
        if places.iter().any(|place| Self::top(place).is_none()) {
            let why = "firejail accepts no top-level directory";
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
                let why = "only files in the home or the runtime directory are made before a launch";
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
                self.hosts_file = true;
                self.draft.taken();
            }
            None => self.draft.left_out(said, "it is no file"),
        }
    }
}
