// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports Fence's settings: `fence.json` and `fence.jsonc`.
//!
//! Unless the file says otherwise, all files can be read, and only those that are listed can be changed.

use super::greywall::SYSTEM;
use super::rules::{Item, Order, Reads};
use super::{Importer, MACOS};
use crate::ImportError;
use crate::document::Value as Written;
use crate::tree::{Node, Value};

const EXECUTE: &str = "a directory that may be executed can be listed, too";
const GREY: &str = "only connections that a rule allows are made, and directly";
const ALL_DEVICES: &str = "the host's devices: list the needed ones with `allow` under [devices]";

/// What single values of a chain of files result in.
#[derive(Default)]
struct Values {
    closed: bool,
    strict: bool,
    /// Whether ports of the host's loopback can be reached, and the statement.
    local: Option<(bool, Item)>,
    ports: Vec<(Item, u16)>,
}

impl Importer<'_> {
    pub(super) fn fence(&mut self, root: &Node) -> Result<(), ImportError> {
        self.rules.order = Order::Refusals;
        let parts = self.chain(root)?;
        let mut values = Values::default();
        for part in &parts {
            (self.path, self.file) = (part.path.clone(), part.file.clone());
            for (key, node) in self.table(&part.root, "the file")? {
                match key.as_str() {
                    "$schema" | "extends" => self.taken(),
                    "network" => self.fence_network(node, &mut values)?,
                    "filesystem" => self.fence_files(node, &mut values)?,
                    "devices" => self.fence_devices(node)?,
                    "command" => self.commands(node)?,
                    "ssh" => self.ssh(node)?,
                    "macos" => self.left_out(node, key, MACOS),
                    "allowPty" => {
                        self.flag(node, key)?;
                        self.taken();
                    }
                    "forceNewSession" => {
                        if self.flag(node, key)? == Some(true) {
                            self.draft.set("terminal", "inherit", Written::Flag(false));
                        }
                        self.taken();
                    }
                    _ => self.unknown(node, key),
                }
            }
        }
        self.rules.reads = match (values.strict, values.closed) {
            (true, _) => Reads::Listed,
            (false, true) => Reads::System(SYSTEM),
            (false, false) => Reads::All,
        };
        self.rules.shows_working_directory = values.closed && !values.strict;
        self.loopback(values);
        Ok(())
    }

    /// Ports of the host's loopback. They are reached only with both statements.
    fn loopback(&mut self, values: Values) {
        const PORTS: &str = "name the ports with `reach` under [network]";
        match values.local {
            Some((true, item)) if values.ports.is_empty() => self.draft.left_out(super::top(&item), PORTS),
            Some((true, _item)) => {
                self.draft.taken();
                self.hosts.ports.extend(values.ports);
            }
            Some((false, _)) | None => {
                for (item, _port) in values.ports {
                    self.draft.approximated(
                        super::top(&item),
                        "without `allowLocalOutbound` Fence doesn't open the port either",
                    );
                }
                if let Some((false, _item)) = values.local {
                    self.draft.taken();
                }
            }
        }
    }

    fn fence_network(&mut self, node: &Node, values: &mut Values) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "network")? {
            let name = format!("network.{key}");
            match key.as_str() {
                "allowLocalOutbound" => {
                    if let Some(flag) = self.flag(node, &name)? {
                        values.local = Some((flag, self.item(node, &name, "")));
                    }
                }
                "allowLocalBinding" => {
                    // It also counts for the other switch, if that one has no value.
                    if self.flag(node, &name)? == Some(true) && values.local.is_none() {
                        values.local = Some((true, self.item(node, &name, "")));
                    }
                    self.network_member(key, node, &name)?;
                }
                "allowLocalOutboundPorts" => {
                    let Value::List(list) = &node.value else {
                        return Err(self.wrong(node, &name, "a list of ports"));
                    };
                    for entry in list {
                        if let Some(port) = self.port(entry, &name)? {
                            values.ports.push((self.item(entry, &name, ""), port));
                        }
                    }
                }
                "upstreamProxy" | "defaultAction" => match self.text(node, &name)? {
                    "deny" if key == "defaultAction" => self.taken(),
                    _ => self.left_out(node, &name, GREY),
                },
                _ if self.network_member(key, node, &name)? => {}
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    fn fence_files(&mut self, node: &Node, values: &mut Values) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "filesystem")? {
            let name = format!("filesystem.{key}");
            match key.as_str() {
                "defaultDenyRead" => {
                    values.closed |= self.flag(node, &name)? == Some(true);
                    self.taken();
                }
                "strictDenyRead" => {
                    values.strict |= self.flag(node, &name)? == Some(true);
                    self.taken();
                }
                "allowExecute" => {
                    for item in self.texts(node, &name)? {
                        let rules = self.rules(&item, self.agent.dialect(), true);
                        if rules.is_empty() {
                            continue;
                        }
                        self.rules.read.extend(rules);
                        self.draft.approximated(item.said("default.filesystem", "execute"), EXECUTE);
                    }
                }
                "wslInterop" => {
                    self.flag(node, &name)?;
                    self.left_out(node, &name, "Palisade doesn't start programs of Windows");
                }
                _ if self.filesystem_member(key, node, &name)? => {}
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    fn fence_devices(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "devices")? {
            let name = format!("devices.{key}");
            match key.as_str() {
                "mode" => match self.text(node, &name)? {
                    "minimal" => self.taken(),
                    "auto" => self.approximated(node, &name, "the devices that every sandbox has"),
                    "host" => self.left_out(node, &name, ALL_DEVICES),
                    _ => return Err(self.wrong(node, &name, "\"auto\", \"minimal\" or \"host\"")),
                },
                "allow" => {
                    for item in self.texts(node, &name)? {
                        if self.draft.push("devices", "allow", &crate::text::exact(&item.text)) {
                            self.draft.taken();
                        } else {
                            self.draft.left_out(item.said("devices", "allow"), "no path of a device");
                        }
                    }
                }
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }
}
