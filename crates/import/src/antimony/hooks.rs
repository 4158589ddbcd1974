// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports the programs that run around the sandbox.

use super::{Importer, NO_FLAG, NO_LIST, NO_TABLE, NO_TEXT, UNSAYABLE, place, variables};
use crate::document::Table;
use crate::draft::Draft;
use crate::text;
use crate::tree::{Node, Value};
use palisade_sandbox::layers::is_profile_name;

impl Importer<'_> {
    pub(super) fn hooks(&mut self, entries: &[(String, Node)]) {
        for (key, node) in entries {
            let statement = format!("hooks.{key}");
            match (key.as_str(), &node.value) {
                ("pre", Value::List(list)) => {
                    list.iter().for_each(|hook| self.hook(hook, "hooks.before", &statement))
                }
                ("post", Value::List(list)) => {
                    list.iter().for_each(|hook| self.hook(hook, "hooks.after", &statement))
                }
                ("parent", Value::Table(_)) => self.hook(node, "hooks.parent", &statement),
                ("inherit", Value::Flag(true)) => self.draft.taken(),
                ("inherit", Value::Flag(false)) => {
                    let why = "the hooks of inherited profiles and features run, too";
                    self.left_out(node, "hooks.inherit = false", place("hooks", ""), why);
                }
                ("inherit", _) => self.left_out(node, &statement, place("hooks", ""), NO_FLAG),
                ("pre" | "post" | "parent", _) => {
                    self.left_out(node, &statement, place("hooks", ""), NO_TABLE)
                }
                _ => self.unknown(node, &statement),
            }
        }
    }

    fn hook(&mut self, node: &Node, to: &'static str, statement: &str) {
        let Value::Table(entries) = &node.value else {
            return self.left_out(node, statement, place("hooks", ""), NO_TABLE);
        };
        let find = |wanted: &str| entries.iter().find(|(key, _node)| key == wanted).map(|(_key, node)| node);
        let text_of = |wanted: &str| find(wanted).and_then(Node::text);
        let arguments: Option<Vec<&str>> = match find("arguments").map(|node| &node.value) {
            None => Some(Vec::new()),
            Some(Value::List(list)) => list.iter().map(Node::text).collect(),
            Some(_) => None,
        };
        let statement = match text_of("name") {
            Some(name) => format!("{statement} {name:?}"),
            None => statement.to_owned(),
        };
        // Older files name a program by its path alone.
        let (kind, content) = match (text_of("type"), text_of("content"), text_of("path")) {
            (Some(kind), Some(content), _) => (kind, content),
            (None, None, Some(path)) => ("Program", path),
            (None, Some(content), None) => ("Shell", content),
            _ => {
                return self.left_out(
                    node,
                    &statement,
                    place("hooks", ""),
                    "it names neither a program nor a script",
                );
            }
        };
        let Some(arguments) = arguments else {
            return self.left_out(node, &statement, place("hooks", ""), NO_LIST);
        };
        let mut table = Table::default();
        if let Some(name) = text_of("name") {
            table.remark("", name);
        }
        let begun = match kind {
            "Program" => program(&mut table, content, &arguments),
            "Shell" => shell(&mut table, content, &arguments),
            "Profile" => profile(&mut table, content, &arguments),
            _ => Err("Antimony has no such kind of hook"),
        };
        if let Err(why) = begun {
            return self.left_out(node, &statement, place("hooks", ""), why);
        }
        for key in ["command", "arguments"] {
            if let Some(words) = table.value(key)
                && !Draft::takes("program", "arguments", words.clone())
            {
                return self.left_out(node, &statement, place("hooks", ""), UNSAYABLE);
            }
        }
        if kind != "Profile" {
            self.draft.report.hooks += 1;
        }
        // Entries that have no effect beside those above.
        self.draft.taken();
        for (key, node) in entries {
            let single = format!("{statement}: {key} = {}", node.quoted());
            self.hook_flag(
                &mut table,
                key,
                node,
                &single,
                find("capture_error").and_then(Node::flag) == Some(true),
            );
        }
        if to == "hooks.parent" {
            *self.draft.table(to) = table;
        } else {
            self.draft.item(to, table);
        }
    }

    fn hook_flag(&mut self, table: &mut Table, key: &str, node: &Node, single: &str, error_wins: bool) {
        let to = match key {
            "attach" => "attach",
            "can_fail" => "may_fail",
            "env" => "environment",
            "capture_output" | "capture_error" => "capture",
            "new_privileges" => "",
            "name" | "type" | "content" | "path" | "arguments" => return,
            _ => return self.unknown(node, single),
        };
        let Some(on) = node.flag() else {
            let why = if node.text().is_some() { NO_FLAG } else { NO_TEXT };
            return self.left_out(node, single, place("hooks", ""), why);
        };
        match (key, on) {
            ("new_privileges", true) => {
                let why = "a policy can't say whether a hook may gain privileges";
                return self.approximated(node, single, place("hooks", ""), why);
            }
            ("capture_error", true) => table.text("capture", "error"),
            ("capture_output", true) if !error_wins => table.text("capture", "output"),
            ("attach" | "can_fail" | "env", true) => table.flag(to, true),
            _ => {}
        }
        self.draft.taken();
    }
}

const OWN: &str = "it needs one of Antimony's own programs or directories";

fn program(table: &mut Table, path: &str, arguments: &[&str]) -> Result<(), &'static str> {
    let said = if path.contains('/') {
        variables::path(path, false).map_err(|_why| OWN)?
    } else {
        text::plain(path)
    };
    if said.contains('\\') {
        return Err("its path holds characters with a special meaning in paths");
    }
    table.append("command", said.strip_prefix('~').map_or(said.clone(), |rest| format!("${{home}}{rest}")));
    for argument in arguments {
        table.append("command", filled(argument)?);
    }
    Ok(())
}

fn shell(table: &mut Table, script: &str, arguments: &[&str]) -> Result<(), &'static str> {
    if script.contains("ANTIMONY_CACHE") || script.contains("ANTIMONY_INSTANCE") || script.contains("AT_HOME")
    {
        return Err(OWN);
    }
    let script = script.replace("ANTIMONY_HOME", "PALISADE_HOME").replace("ANTIMONY_NAME", "PALISADE_NAME");
    table.append("command", "/usr/bin/bash");
    table.append("command", "-c");
    // The shell fills in the variables. Palisade must leave them alone.
    table.append("command", text::plain(&script));
    for argument in arguments {
        table.append("command", filled(argument)?);
    }
    Ok(())
}

fn profile(table: &mut Table, name: &str, arguments: &[&str]) -> Result<(), &'static str> {
    if !is_profile_name(name) || name.contains('$') {
        return Err("it names no profile");
    }
    if arguments.iter().any(|argument| argument.starts_with('-')) {
        return Err("its arguments are options of `antimony run`");
    }
    table.text("profile", name);
    for argument in arguments {
        table.append("arguments", filled(argument)?);
    }
    Ok(())
}

fn filled(argument: &str) -> Result<String, &'static str> {
    if argument.contains("ANTIMONY_") || argument.contains("AT_HOME") {
        Err(OWN)
    } else {
        Ok(text::plain(argument))
    }
}
