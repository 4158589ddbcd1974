// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports statements about the message buses.

use super::{Importer, NO_FLAG, place, variables};
use crate::text::{is_bus_name, is_rule};
use crate::tree::{Node, Value};

impl Importer<'_> {
    pub(super) fn bus(&mut self, entries: &[(String, Node)]) {
        let on = |wanted: &str| {
            entries.iter().any(|(key, node)| key == wanted && matches!(node.value, Value::Flag(true)))
        };
        let (disabled, whole) = (on("disable"), on("user_bus"));
        for (key, node) in entries {
            let statement = format!("ipc.{key} = {}", node.quoted());
            match (key.as_str(), &node.value) {
                ("disable", Value::Flag(disable)) => {
                    if *disable {
                        self.draft.table("dbus").text("session", "none");
                        self.draft.table("dbus").text("system", "none");
                    }
                    self.draft.taken();
                }
                ("user_bus", Value::Flag(on)) => {
                    if *on && !disabled {
                        self.draft.table("dbus").text("session", "host");
                    }
                    self.draft.taken();
                }
                ("system_bus", Value::Flag(on)) => {
                    if *on && !disabled {
                        self.draft.table("dbus").text("system", "host");
                    }
                    self.draft.taken();
                }
                ("harden", Value::Flag(_)) => {
                    let why = "a profile can't configure the proxy of the bus";
                    self.approximated(node, &statement, place("dbus", ""), why);
                }
                ("disable" | "user_bus" | "system_bus" | "harden", _) => {
                    self.left_out(node, &statement, place("dbus", ""), NO_FLAG);
                }
                // These have no effect beside the others, in Antimony, too.
                ("portals" | "sees" | "talks" | "owns" | "calls", Value::List(list)) if disabled || whole => {
                    for _entry in list {
                        self.draft.taken();
                    }
                }
                ("portals", _) => self.texts(node, "ipc.portals", place("dbus", "portals"), Self::portal),
                ("sees", _) => self.bus_names(node, "ipc.sees", "see"),
                ("talks", _) => self.bus_names(node, "ipc.talks", "talk"),
                ("owns", _) => self.bus_names(node, "ipc.owns", "own"),
                ("calls", _) => self.texts(node, "ipc.calls", place("dbus", "call"), Self::call),
                _ => self.unknown(node, &statement),
            }
        }
    }

    fn portal(&mut self, node: &Node, name: &str) {
        let to = place("dbus", "portals");
        let statement = format!("ipc.portals: {name:?}");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return self.left_out(node, &statement, to, "no portal has this name");
        }
        let real = if name == "Notifications" { "Notification" } else { name };
        if !self.put(node, &statement, to, real) {
            return;
        }
        if real == name {
            self.draft.taken();
        } else {
            self.approximated(node, &statement, to, "the portal's name is `Notification`");
        }
    }

    fn bus_names(&mut self, node: &Node, key: &str, to: &'static str) {
        self.texts(node, key, place("dbus", to), |importer, node, written| {
            let name = variables::bus_name(written);
            if is_bus_name(&name) && importer.draft.push("dbus", to, &name) {
                importer.draft.taken();
            } else {
                let statement = format!("{to}: {written:?}");
                importer.left_out(node, &statement, place("dbus", to), "it isn't a valid name on the bus");
            }
        });
    }

    fn call(&mut self, node: &Node, written: &str) {
        let to = place("dbus", "call");
        let said = variables::bus_name(written);
        let fits = said.split_once('=').is_some_and(|(name, rule)| is_bus_name(name) && is_rule(rule));
        if fits && self.draft.push(to.section, to.key, &said) {
            self.draft.taken();
        } else {
            let why = "a call is NAME=INTERFACE.METHOD@PATH";
            self.left_out(node, &format!("ipc.calls: {written:?}"), to, why);
        }
    }
}
