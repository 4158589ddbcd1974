// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports Antimony's profiles and features: TOML files. Most of their keys have a counterpart in Palisade.
//!
//! - `variables`: `$NAME` and `~` in paths and texts
//! - `program`, `files`, `bus`, `hooks`, `condition`: the parts that have rules of their own

mod bus;
mod condition;
mod files;
mod hooks;
mod program;
mod variables;

use crate::ImportError;
use crate::document::Value as Written;
use crate::draft::{Draft, Said};
use crate::profile::Kind;
use crate::report::At;
use crate::tree::{self, Node, Value};
use palisade_sandbox::layers::is_profile_name;
use std::path::Path;

/// The level of the file that is being imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Profile,
    Feature,
    /// A variant inside a profile.
    Variant,
}

/// The section and the key of Palisade's profile for a kind of statement.
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
    /// The program's path as the file writes it. A grant that contains it also allows execution.
    program: Option<String>,
}

/// Imports the text of a profile or a feature.
pub(crate) fn import(path: &Path, text: &str, kind: Kind, draft: &mut Draft) -> Result<(), ImportError> {
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

const NO_TEXT: &str = "Antimony expects a text here";
const NO_FLAG: &str = "Antimony expects true or false here";
const NO_LIST: &str = "Antimony expects a list of texts here";
const NO_TABLE: &str = "Antimony expects a table here";
const UNSAYABLE: &str = "Palisade's key doesn't accept this text";

impl Importer<'_> {
    /// Adds what Antimony does for every profile.
    fn ground(&mut self, entries: &[(String, Node)]) {
        let said = |wanted: &str| entries.iter().any(|(key, _node)| key == wanted);
        let table = self.draft.table("filesystem");
        table.text("view", "closure");
        table.flag("working_directory", false);
        if said("preserve_env") {
            return;
        }
        if said("features") || said("inherits") {
            // A statement about variables in a later layer would override those of features.
            self.draft.document.header.push(
                "Antimony starts programs with no variables but those that it sets; here they inherit yours, except secrets."
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

    fn unknown(&mut self, node: &Node, statement: &str) {
        self.draft.unknown(&node.at(), statement);
    }

    /// Counts a statement as imported if `could` is true. Otherwise the statement is left out.
    fn said_if(&mut self, could: bool, node: &Node, statement: &str, place: Place) {
        if could {
            self.draft.taken();
        } else {
            self.left_out(node, statement, place, UNSAYABLE);
        }
    }

    /// Adds a text to a list if the list accepts it. Otherwise the statement is left out.
    fn put(&mut self, node: &Node, statement: &str, place: Place, text: &str) -> bool {
        let could = self.draft.push(place.section, place.key, text);
        if !could {
            self.left_out(node, statement, place, UNSAYABLE);
        }
        could
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
                    self.texts(node, key, place("program", "arguments"), |importer, node, text| {
                        let argument = variables::literal(text);
                        let could =
                            Draft::takes("program", "arguments", Written::List(vec![argument.clone()]));
                        if could {
                            importer.draft.table("program").append("arguments", argument);
                        }
                        let statement = format!("arguments: {text:?}");
                        importer.said_if(could, node, &statement, place("program", "arguments"));
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
                let could = self.draft.set("program", "id", Written::Text(crate::text::plain(id)));
                self.said_if(could, node, &statement, place("program", "id"));
            }
            ("dir", Value::Text(directory)) if profile => match variables::path(directory, false) {
                Ok(path) => {
                    let could = self.draft.set("process", "cwd", Written::Text(path));
                    self.said_if(could, node, &statement, place("process", "cwd"));
                }
                Err(why) => self.left_out(node, &statement, place("process", "cwd"), why),
            },
            ("lockdown", Value::Flag(false)) if profile => self.draft.taken(),
            ("lockdown", Value::Flag(true)) if profile => {
                let why = "programs run as you, not as a separate user; they see only what the profile grants";
                self.not_kept(node, &statement, place("process", ""), why);
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
                "variables are inherited, except secrets and those that lead out of the sandbox: `keep` adds single ones",
            ),
            ("path" | "id" | "dir" | "seccomp" | "notes" | "name" | "description" | "caveat", _) => {
                self.left_out(node, &statement, top, NO_TEXT);
            }
            ("lockdown" | "preserve_env", _) => self.left_out(node, &statement, top, NO_FLAG),
            _ => self.unknown(node, &statement),
        }
    }

    fn program_path(&mut self, node: &Node, path: &str, statement: &str) {
        // In Palisade, this is the home of the profile.
        let inside = path.strip_prefix("$AT_HOME/").map(|rest| format!("~/{rest}"));
        let said = if path.contains('/') || path.starts_with(['~', '$']) {
            variables::path(inside.as_deref().unwrap_or(path), false)
        } else {
            Ok(crate::text::plain(path))
        };
        match said {
            Ok(said) => {
                let could = self.draft.set("program", "path", Written::Text(said));
                self.said_if(could, node, statement, place("program", "path"));
            }
            Err(why) => self.left_out(node, statement, place("program", "path"), why),
        }
    }

    fn seccomp(&mut self, node: &Node, policy: &str, statement: &str) {
        let place = place("syscalls", "mode");
        match policy {
            "Disabled" => self.approximated(
                node,
                statement,
                place,
                "the deny list always applies; `allow` permits single calls",
            ),
            "Permissive" | "Enforcing" | "Notifying" => {
                let mode = match policy {
                    "Permissive" => "learn",
                    "Enforcing" => "enforce",
                    _ => "ask",
                };
                if self.draft.set("syscalls", "mode", Written::Text(mode.to_owned())) {
                    self.draft.set("syscalls", "refusal", Written::Text("kill".to_owned()));
                }
                self.approximated(
                    node,
                    statement,
                    place,
                    "Antimony's records aren't imported: `palisade open --syscalls learn` records anew; the deny list always applies",
                );
            }
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
                importer.left_out(
                    node,
                    &statement,
                    place("", to),
                    "no profile or feature can have this name",
                );
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
                "Antimony leaves the other one out; here the launch fails until the profile says `without`",
            );
        });
    }

    fn conditional(&mut self, node: &Node) {
        let statement = format!("conditional = {}", node.quoted());
        let takes = |conditions: &Vec<String>| Draft::takes("", "when", Written::List(conditions.clone()));
        match node.text().and_then(condition::conditions).filter(takes) {
            Some(conditions) => {
                for condition in conditions {
                    self.draft.table("").push("when", condition);
                }
                self.draft.taken();
            }
            _ => {
                // Two conditions that never hold together: an unknown condition must not count as fulfilled.
                self.draft
                    .table("")
                    .set("when", Written::List(vec!["exists /".to_owned(), "not exists /".to_owned()]));
                let why = "conditions can't run commands here: the feature is left out until you edit `when`";
                self.left_out(node, &statement, place("", "when"), why);
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
                self.left_out(node, &statement, place("", ""), "no variant can have this name");
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
