// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Antimony's profiles and features: TOML, whose keys mostly have one here.
//!
//! - `tree`: the file, with lines; `variables`: `$NAME` and `~` in paths and texts
//! - `files`, `bus`, `hooks`, `condition`: the sections with rules of their own

mod bus;
mod condition;
mod files;
mod hooks;
mod tree;
mod variables;

use super::document::Value as Written;
use super::draft::{Draft, Said};
use super::report::At;
use super::{ImportError, Kind};
use palisade_sandbox::layers::is_profile_name;
use std::path::Path;
use tree::{Node, Value};

/// Which level of the file is spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Profile,
    Feature,
    /// A variant inside a profile.
    Variant,
}

/// A key, and where the profile speaks of such things.
#[derive(Debug, Clone, Copy)]
struct Place {
    section: &'static str,
    key: &'static str,
}

const fn place(section: &'static str, key: &'static str) -> Place {
    Place { section, key }
}

struct Importer<'d> {
    draft: &'d mut Draft,
    level: Level,
    /// The program's path as the file says it: what holds it may be executed.
    program: Option<String>,
}

/// Imports the text of a profile or a feature.
pub(super) fn import(path: &Path, text: &str, kind: Kind, draft: &mut Draft) -> Result<(), ImportError> {
    let root = tree::parse(text).map_err(|mistake| ImportError::Syntax {
        path: path.to_owned(),
        line: mistake.line,
        message: mistake.message,
    })?;
    let level = match kind {
        Kind::Profile => Level::Profile,
        Kind::Feature => Level::Feature,
    };
    let Value::Table(entries) = &root.value else { return Ok(()) };
    let mut importer = Importer { draft, level, program: None };
    importer.program =
        entries.iter().find(|(key, _)| key == "path").and_then(|(_, node)| node.text()).map(str::to_owned);
    if level == Level::Profile {
        importer.ground(entries);
    }
    importer.level(entries);
    Ok(())
}

impl Node {
    fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn at(&self) -> At {
        At::line(self.line)
    }

    /// As it may be quoted.
    fn quoted(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("{text:?}"),
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::List(list) => {
                format!("[{}]", list.iter().map(Self::quoted).collect::<Vec<_>>().join(", "))
            }
            Value::Table(_) => "{…}".to_owned(),
            Value::Other => "…".to_owned(),
        }
    }
}

const NO_TEXT: &str = "it is no text, which Antimony wants here";
const NO_FLAG: &str = "it is neither true nor false, which Antimony wants here";
const NO_LIST: &str = "it is no list of texts, which Antimony wants here";
const NO_TABLE: &str = "it is no table, which Antimony wants here";
const UNKNOWN: &str = "Antimony has no such key";

impl Importer<'_> {
    /// What Antimony does whatever the profile says.
    fn ground(&mut self, entries: &[(String, Node)]) {
        let said = |wanted: &str| entries.iter().any(|(key, _node)| key == wanted);
        let table = self.draft.table("filesystem");
        table.text("view", "closure");
        table.flag("working_directory", false);
        if said("preserve_env") {
            return;
        }
        if said("features") || said("inherits") {
            // A later layer's word on variables would stand against those that features set.
            self.draft.document.header.push(
                "Antimony starts programs with no variables but those that it sets; here those of yours are inherited that hold no secrets."
                    .to_owned(),
            );
        } else {
            let table = self.draft.table("environment");
            table.remark("remove", "Antimony starts programs with no variables but those that it sets.");
            table.append("remove", "*");
            for name in ["HOME", "PATH", "XDG_RUNTIME_DIR"] {
                table.append("keep", name);
            }
        }
    }

    fn said<'s>(&self, at: &'s At, statement: &'s str, place: Place) -> Said<'s> {
        Said { at, statement, section: place.section, key: place.key }
    }

    fn approximated(&mut self, node: &Node, statement: &str, place: Place, why: &'static str) {
        let at = node.at();
        let said = self.said(&at, statement, place);
        self.draft.approximated(said, why);
    }

    fn left_out(&mut self, node: &Node, statement: &str, place: Place, why: &'static str) {
        let at = node.at();
        let said = self.said(&at, statement, place);
        self.draft.left_out(said, why);
    }

    fn not_kept(&mut self, node: &Node, statement: &str, place: Place, why: &'static str) {
        let at = node.at();
        let said = self.said(&at, statement, place);
        self.draft.not_kept(said, why);
    }

    /// All keys of a profile, a feature or a variant.
    fn level(&mut self, entries: &[(String, Node)]) {
        for (key, node) in entries {
            match (key.as_str(), self.level) {
                ("files", _) => self.table(node, key, Self::files),
                ("ipc", _) => self.table(node, key, Self::bus),
                ("hooks", _) => self.table(node, key, Self::hooks),
                ("home", Level::Profile | Level::Variant) => self.table(node, key, Self::home),
                ("libraries", _) => self.libraries(node),
                ("environment", _) => self.environment(node),
                ("configuration", Level::Profile) => self.table(node, key, Self::variants),
                ("binaries", _) => self.texts(node, key, place("closure", "programs"), Self::binary),
                ("devices", _) => self.texts(node, key, place("devices", "allow"), Self::device),
                ("namespaces", _) => self.texts(node, key, place("process", "namespaces"), Self::namespace),
                ("sandbox_args", _) => self.wrapper(node),
                ("features", Level::Profile | Level::Variant) | ("requires", Level::Feature) => {
                    self.names(node, key, "features");
                }
                ("conflicts", Level::Profile | Level::Variant) => self.names(node, key, "without"),
                ("conflicts", Level::Feature) => self.conflicts(node, key),
                ("inherits", Level::Profile) => {
                    self.draft.table("").set("inherits", Written::List(Vec::new()));
                    self.names(node, key, "inherits");
                }
                ("arguments", Level::Profile | Level::Variant) => {
                    self.texts(node, key, place("program", "arguments"), |importer, _node, text| {
                        importer.draft.table("program").append("arguments", variables::literal(text));
                        importer.draft.taken();
                    });
                }
                ("ignored_exit_codes", Level::Profile | Level::Variant) => self.exit_codes(node),
                ("conditional", Level::Feature) => self.conditional(node),
                (key, level) => self.single(key, node, level),
            }
        }
    }

    /// A key with one value.
    fn single(&mut self, key: &str, node: &Node, level: Level) {
        let statement = format!("{key} = {}", node.quoted());
        let profile = level != Level::Feature;
        let top = place("", "");
        match (key, &node.value) {
            ("path", Value::Text(path)) if profile => self.program_path(node, path, &statement),
            ("id", Value::Text(id)) if profile => {
                self.draft.table("program").text("id", crate::import::text::plain(id));
                self.draft.taken();
            }
            ("dir", Value::Text(directory)) if profile => match variables::path(directory, false) {
                Ok(path) => {
                    self.draft.table("process").text("cwd", path);
                    self.draft.taken();
                }
                Err(why) => self.left_out(node, &statement, place("process", "cwd"), why),
            },
            ("lockdown", Value::Flag(flag)) if profile => {
                self.draft.table("process").text("account", if *flag { "subordinate" } else { "own" });
                self.draft.taken();
            }
            ("name", Value::Text(_)) if level == Level::Feature => self.draft.taken(),
            ("description" | "caveat", Value::Text(text)) if level == Level::Feature => {
                let key = if key == "caveat" { "caveat" } else { "description" };
                self.draft.table("").text(key, text.trim());
                self.draft.taken();
            }
            ("notes", Value::Text(notes)) => {
                for line in notes.trim().lines() {
                    self.draft.document.header.push(line.trim_end().to_owned());
                }
                self.draft.taken();
            }
            ("seccomp", Value::Text(policy)) => self.seccomp(node, policy, &statement),
            ("preserve_env", Value::Flag(false)) => self.draft.taken(),
            ("preserve_env", Value::Flag(true)) => self.approximated(
                node,
                &statement,
                place("environment", ""),
                "variables are inherited but for those that look like secrets or lead out of the sandbox: `keep` takes them off that list",
            ),
            ("path" | "id" | "dir" | "seccomp" | "notes" | "name" | "description" | "caveat", _) => {
                self.left_out(node, &statement, top, NO_TEXT);
            }
            ("lockdown" | "preserve_env", _) => self.left_out(node, &statement, top, NO_FLAG),
            _ => self.not_kept(node, &statement, top, UNKNOWN),
        }
    }

    fn program_path(&mut self, node: &Node, path: &str, statement: &str) {
        // Here it is the home of the profile.
        let inside = path.strip_prefix("$AT_HOME/").map(|rest| format!("~/{rest}"));
        let said = if path.contains('/') || path.starts_with(['~', '$']) {
            variables::path(inside.as_deref().unwrap_or(path), false)
        } else {
            Ok(crate::import::text::plain(path))
        };
        match said {
            Ok(said) => {
                self.draft.table("program").text("path", said);
                self.draft.taken();
            }
            Err(why) => self.left_out(node, statement, place("program", "path"), why),
        }
    }

    fn seccomp(&mut self, node: &Node, policy: &str, statement: &str) {
        let place = place("syscalls", "");
        match policy {
            "Disabled" | "Permissive" => self.approximated(
                node,
                statement,
                place,
                "the calls of the list are refused always; `allow` takes single ones off it",
            ),
            "Enforcing" | "Notifying" => self.not_kept(
                node,
                statement,
                place,
                "only calls that Antimony has recorded are let through there; here the calls of the list are refused and others not",
            ),
            _ => self.not_kept(node, statement, place, "Antimony has no such policy"),
        }
    }

    /// A list of names at the top of the file.
    fn names(&mut self, node: &Node, key: &str, to: &'static str) {
        self.texts(node, key, place("", to), |importer, node, name| {
            if is_profile_name(name) {
                importer.draft.table("").push(to, name);
                importer.draft.taken();
            } else {
                let statement = format!("{to}: {name:?}");
                importer.left_out(node, &statement, place("", to), "no profile or feature can be called so");
            }
        });
    }

    fn conflicts(&mut self, node: &Node, key: &str) {
        self.texts(node, key, place("", "conflicts"), |importer, node, name| {
            importer.draft.table("").push("conflicts", name);
            let statement = format!("conflicts: {name:?}");
            importer.approximated(
                node,
                &statement,
                place("", "conflicts"),
                "Antimony leaves the other one out; here the launch stops until the profile says `without`",
            );
        });
    }

    fn conditional(&mut self, node: &Node) {
        let statement = format!("conditional = {}", node.quoted());
        match node.text().map(condition::conditions) {
            Some(Some(conditions)) => {
                for condition in conditions {
                    self.draft.table("").push("when", condition);
                }
                self.draft.taken();
            }
            _ => {
                // Two that never both hold: what can't be asked isn't taken for a yes.
                self.draft
                    .table("")
                    .set("when", Written::List(vec!["exists /".to_owned(), "not exists /".to_owned()]));
                let why =
                    "conditions run nothing here: until it is said otherwise, the feature is always left out";
                self.left_out(node, &statement, place("", "when"), why);
            }
        }
    }

    fn exit_codes(&mut self, node: &Node) {
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
                Value::Number(number) if (0..=255).contains(&number) => {
                    self.draft.table(to.section).number(to.key, number);
                    self.draft.taken();
                }
                _ => {
                    let statement = format!("ignored_exit_codes: {}", code.quoted());
                    self.left_out(code, &statement, to, "no program ends with such a code");
                }
            }
        }
    }

    fn binary(&mut self, node: &Node, written: &str) {
        let to = place("closure", "programs");
        let statement = format!("binaries: {written:?}");
        if written.contains("=") {
            return match variables::mapping(written, false) {
                Ok(mapping) => {
                    self.draft.table("filesystem").push("execute", mapping);
                    let why = "it is shown at the other place; the libraries that it needs are to be named in [closure]";
                    self.approximated(node, &statement, place("filesystem", "execute"), why);
                }
                Err(why) => self.left_out(node, &statement, to, why),
            };
        }
        if written.contains('*') {
            let names: Vec<String> = written.split('*').map(crate::import::text::exact).collect();
            let name = names.join("*");
            let pattern = if written.starts_with('/') { name } else { format!("/usr/bin/{name}") };
            self.draft.table("filesystem").push("execute", pattern);
            let why =
                "programs of a pattern are shown; the libraries that they need are to be named in [closure]";
            return self.approximated(node, &statement, place("filesystem", "execute"), why);
        }
        if matches!(written, "/usr/bin" | "/bin" | "/usr/sbin" | "/sbin") {
            // Antimony shows both if it shows one.
            for directory in ["/usr/bin", "/usr/sbin"] {
                self.draft.table("filesystem").push("execute", directory);
            }
            return self.draft.taken();
        }
        let path = written.contains('/') || written.starts_with(['~', '$']);
        match if path { variables::path(written, false) } else { Ok(crate::import::text::plain(written)) } {
            Ok(program) => {
                self.draft.table(to.section).push(to.key, program);
                self.draft.taken();
            }
            Err(why) => self.left_out(node, &statement, to, why),
        }
    }

    fn device(&mut self, node: &Node, written: &str) {
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
                    self.draft.table("devices").push("allow", path);
                    self.draft.taken();
                }
                Err(why) => self.left_out(node, &statement, to, why),
            },
            _ => self.left_out(node, &statement, to, "devices lie below /dev"),
        }
    }

    fn namespace(&mut self, node: &Node, name: &str) {
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
                "the host's network and user namespaces; of processes, names and control groups each sandbox has its own"
            }
            "Pid" => "a sandbox never sees the host's processes",
            "Ipc" => "a sandbox never shares the host's memory segments and queues",
            "Uts" => "a sandbox can't name the host",
            "CGroup" => "a sandbox doesn't manage the host's control groups",
            _ => "Antimony has no such namespace",
        };
        self.left_out(node, &statement, place("process", "namespaces"), why);
    }

    fn wrapper(&mut self, node: &Node) {
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
                let why = "it runs something instead of the program: make it a profile of its own";
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
                    "options of bubblewrap: say in their sections what they do",
                );
            }
            Some(_) => {
                for word in words {
                    self.draft.table("program").append("wrapper", variables::literal(word));
                }
                self.draft.taken();
            }
        }
    }

    fn environment(&mut self, node: &Node) {
        let Value::Table(entries) = &node.value else {
            return self.left_out(node, "environment", place("environment", ""), NO_TABLE);
        };
        for (name, node) in entries {
            let statement = format!("environment: {name} = {}", node.quoted());
            let to = place("environment", "set");
            match node.text() {
                _ if name.is_empty() || name.contains(['=', '\0']) => {
                    self.left_out(node, &statement, to, "no variable can be called so");
                }
                None => self.left_out(node, &statement, to, NO_TEXT),
                Some(value) if value.contains('\0') => {
                    self.left_out(node, &statement, to, "no variable can have this value");
                }
                Some(value) if value == format!("${name}") => {
                    self.draft.table("environment").push("keep", name);
                    self.draft.taken();
                }
                Some(value) => {
                    self.draft.table("environment").pair("set", name, variables::value(value));
                    self.draft.taken();
                }
            }
        }
    }

    fn variants(&mut self, entries: &[(String, Node)]) {
        for (name, node) in entries {
            let statement = format!("configuration.{name}");
            let Value::Table(entries) = &node.value else {
                self.left_out(node, &statement, place("", ""), NO_TABLE);
                continue;
            };
            if !is_profile_name(name) {
                self.left_out(node, &statement, place("", ""), "no variant can be called so");
                continue;
            }
            self.draft.of_variant(Some(name));
            self.level = Level::Variant;
            self.level(entries);
            self.level = Level::Profile;
            self.draft.of_variant(None);
        }
    }

    /// A table's entries.
    fn table(&mut self, node: &Node, key: &str, of: fn(&mut Self, &[(String, Node)])) {
        match &node.value {
            Value::Table(entries) => of(self, entries),
            _ => self.left_out(node, &format!("{key} = {}", node.quoted()), place("", ""), NO_TABLE),
        }
    }

    /// Each text of a list.
    fn texts(&mut self, node: &Node, key: &str, to: Place, each: impl Fn(&mut Self, &Node, &str)) {
        let Value::List(list) = &node.value else {
            return self.left_out(node, &format!("{key} = {}", node.quoted()), to, NO_LIST);
        };
        for entry in list {
            match entry.text() {
                Some(text) => each(self, entry, text),
                None => self.left_out(entry, &format!("{key}: {}", entry.quoted()), to, NO_TEXT),
            }
        }
    }
}
