// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports the program, the programs that it starts, and its surroundings.

use super::{Importer, NO_LIST, NO_TABLE, NO_TEXT, place, variables};
use crate::document::Value as Written;
use crate::tree::{Node, Value};
use crate::{programs, text};

impl Importer<'_> {
    pub(super) fn exit_codes(&mut self, node: &Node) {
        let to = place("program", "ignore_exit");
        let Value::List(list) = &node.value else {
            return self.left_out(
                node,
                &format!("ignored_exit_codes = {}", node.quoted()),
                to,
                "it is no list of numbers",
            );
        };
        for code in list {
            match code.value {
                Value::Number(number) if (1..=255).contains(&number) => {
                    self.draft.table(to.section).number(to.key, number);
                    self.draft.taken();
                }
                _ => {
                    let statement = format!("ignored_exit_codes: {}", code.quoted());
                    self.left_out(code, &statement, to, "no program can end with this code");
                }
            }
        }
    }

    pub(super) fn binary(&mut self, node: &Node, written: &str) {
        let to = place("closure", "programs");
        let statement = format!("binaries: {written:?}");
        if written.contains("=") {
            return match variables::mapping(written, false) {
                Ok(mapping) => {
                    let to = place("filesystem", "execute");
                    if !self.put(node, &statement, to, &mapping) {
                        return;
                    }
                    let why = "it is shown at the other path; name the libraries that it needs in [closure]";
                    self.approximated(node, &statement, place("filesystem", "execute"), why);
                }
                Err(why) => self.left_out(node, &statement, to, why),
            };
        }
        if written.contains('*') {
            let found = programs::like(written.strip_prefix("/usr/bin/").unwrap_or(written));
            if found.is_empty() {
                return self.left_out(node, &statement, to, "no program on this host has this name");
            }
            for path in found {
                self.draft.push(to.section, to.key, &text::exact(&path));
            }
            let why = "the programs that match on this host today: import again after you install others";
            return self.approximated(node, &statement, to, why);
        }
        if matches!(written, "/usr/bin" | "/bin" | "/usr/sbin" | "/sbin") {
            // Antimony shows both directories if it shows one.
            for directory in ["/usr/bin", "/usr/sbin"] {
                self.draft.table("filesystem").push("execute", directory);
            }
            return self.draft.taken();
        }
        let path = written.contains('/') || written.starts_with(['~', '$']);
        match if path { variables::path(written, false) } else { Ok(text::plain(written)) } {
            Ok(program) => {
                let could = self.draft.push(to.section, to.key, &program);
                self.said_if(could, node, &statement, to);
            }
            Err(why) => self.left_out(node, &statement, to, why),
        }
    }

    pub(super) fn device(&mut self, node: &Node, written: &str) {
        const ALWAYS: [&str; 6] =
            ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
        let to = place("devices", "allow");
        let statement = format!("devices: {written:?}");
        if ALWAYS.contains(&written) {
            return self.draft.taken();
        }
        match written.trim_end_matches('/') {
            "/dev/shm" => {
                self.approximated(node, &statement, to, "each sandbox has a /dev/shm of its own");
            }
            "/dev" => {
                self.draft.table("devices").push("allow", "/dev/*");
                self.draft.taken();
            }
            path if path.starts_with("/dev/") => match variables::path(path, false) {
                Ok(path) => {
                    let could = self.draft.push(to.section, to.key, &path);
                    self.said_if(could, node, &statement, to);
                }
                Err(why) => self.left_out(node, &statement, to, why),
            },
            _ => self.left_out(node, &statement, to, "devices lie below /dev"),
        }
    }

    pub(super) fn namespace(&mut self, node: &Node, name: &str) {
        let statement = format!("namespaces: {name:?}");
        if matches!(name, "User" | "All") {
            self.draft.table("process").flag("namespaces", true);
        }
        if matches!(name, "Net" | "All") {
            self.draft.table("network").text("mode", "host");
        }
        let why = match name {
            "User" | "Net" => return self.draft.taken(),
            "All" => {
                "the host's network and user namespaces; each sandbox has its own processes, names and control groups"
            }
            "Pid" => "a sandbox never sees the host's processes",
            "Ipc" => "a sandbox never shares the host's memory segments and queues",
            "Uts" => "a sandbox can't name the host",
            "CGroup" => "a sandbox doesn't manage the host's control groups",
            _ => "Antimony has no such namespace",
        };
        self.left_out(node, &statement, place("process", "namespaces"), why);
    }

    pub(super) fn wrapper(&mut self, node: &Node) {
        let to = place("program", "wrapper");
        let statement = format!("sandbox_args = {}", node.quoted());
        let Value::List(list) = &node.value else { return self.left_out(node, &statement, to, NO_LIST) };
        let Some(mut words) = list.iter().map(Node::text).collect::<Option<Vec<_>>>() else {
            return self.left_out(node, &statement, to, NO_LIST);
        };
        if let Some(hash) = words.iter().position(|word| *word == "#") {
            words.drain(..=hash);
        }
        if let Some(end) = words.iter().position(|word| *word == "!") {
            words.truncate(end);
            return if matches!(
                words.as_slice(),
                ["sh" | "bash" | "/bin/sh" | "/usr/bin/sh" | "/usr/bin/bash"]
            ) {
                self.draft.table("behaviour").flag("shell", true);
                self.draft.taken();
            } else {
                let why = "it runs another program instead: make a separate profile for that";
                self.left_out(node, &statement, to, why);
            };
        }
        match words.first() {
            None => self.draft.taken(),
            Some(first) if first.starts_with('-') => {
                self.not_kept(
                    node,
                    &statement,
                    to,
                    "options of bubblewrap: state their effects in the sections of the profile",
                );
            }
            Some(_) => {
                let words: Vec<String> = words.into_iter().map(variables::literal).collect();
                let could = self.draft.set("program", "wrapper", Written::List(words));
                self.said_if(could, node, &statement, to);
            }
        }
    }

    pub(super) fn environment(&mut self, node: &Node) {
        let Value::Table(entries) = &node.value else {
            return self.left_out(node, "environment", place("environment", ""), NO_TABLE);
        };
        for (name, node) in entries {
            let statement = format!("environment: {name} = {}", node.quoted());
            let to = place("environment", "set");
            match node.text() {
                _ if name.is_empty() || name.contains(['=', '\0']) => {
                    self.left_out(node, &statement, to, "no variable can have this name");
                }
                None => self.left_out(node, &statement, to, NO_TEXT),
                Some(value) if value.contains('\0') => {
                    self.left_out(node, &statement, to, "no variable can have this value");
                }
                Some(value) if value == format!("${name}") => {
                    let could = self.draft.push("environment", "keep", name);
                    self.said_if(could, node, &statement, to);
                }
                Some(value) => {
                    let could = self.draft.pair("environment", "set", name, &variables::value(value));
                    self.said_if(could, node, &statement, to);
                }
            }
        }
    }
}
