// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members that the settings of several sandboxes have in common: Greywall, Fence and Claude Code took them from
//! sandbox-runtime.

use super::rules::Item;
use super::{Importer, MACOS};
use crate::ImportError;
use crate::tree::{Node, Value};

const LOCAL: &str = "the sandbox's loopback is its own: `palisade run --publish PORT` shows a port outside";
const PROXY: &str = "Palisade needs no proxy of another program to filter connections";
const SOCKETS: &str = "list the sockets: one of them may lead outside";
const GIT: &str = "git may change its configuration as long as the change names no command";
const DISABLED: &str = "a profile always restricts files";

impl Importer<'_> {
    /// A member of `network`. Returns whether it is one of those in common.
    pub(super) fn network_member(&mut self, key: &str, node: &Node, name: &str) -> Result<bool, ImportError> {
        match key {
            "allowedDomains" => {
                let items = self.texts(node, name)?;
                self.hosts.allowed.extend(items);
            }
            "deniedDomains" => {
                let items = self.texts(node, name)?;
                self.hosts.refused.extend(items);
            }
            "allowUnixSockets" => {
                let items = self.texts(node, name)?;
                let dialect = self.agent.dialect();
                for item in items {
                    let rules = self.rules(&item, dialect, true);
                    self.rules.sockets.extend(rules);
                }
            }
            "allowAllUnixSockets" => self.grants(node, name, SOCKETS)?,
            "allowLocalBinding" => {
                if self.flag(node, name)? == Some(true) {
                    self.approximated(node, name, LOCAL);
                } else {
                    self.taken();
                }
            }
            "httpProxyPort" | "socksProxyPort" => {
                self.port(node, name)?;
                self.left_out(node, name, PROXY);
            }
            "allowMachLookup" => {
                self.texts(node, name)?;
                self.left_out(node, name, MACOS);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A member of `filesystem`. Returns whether it is one of those in common.
    pub(super) fn filesystem_member(
        &mut self,
        key: &str,
        node: &Node,
        name: &str,
    ) -> Result<bool, ImportError> {
        let dialect = self.agent.dialect();
        match key {
            "allowRead" | "allowWrite" | "denyRead" | "denyWrite" => {
                for item in self.texts(node, name)? {
                    let rules = self.rules(&item, dialect, key.starts_with("allow"));
                    let to = match key {
                        "allowRead" => &mut self.rules.read,
                        "allowWrite" => &mut self.rules.write,
                        "denyRead" => &mut self.rules.not_read,
                        _ => &mut self.rules.not_write,
                    };
                    to.extend(rules);
                }
            }
            "allowGitConfig" => {
                if self.flag(node, name)? == Some(true) {
                    self.approximated(node, name, GIT);
                } else {
                    self.taken();
                }
            }
            "disabled" => self.grants(node, name, DISABLED)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Files and variables that hold credentials, as sandbox-runtime and Claude Code declare them.
    pub(super) fn credentials(&mut self, node: &Node, name: &str) -> Result<(), ImportError> {
        for (key, node) in self.table(node, name)? {
            let name = format!("{name}.{key}");
            let (list, of_files) = match (key.as_str(), &node.value) {
                ("files", Value::List(list)) => (list, true),
                ("envVars", Value::List(list)) => (list, false),
                ("files" | "envVars", _) => return Err(self.wrong(node, &name, "a list")),
                _ => {
                    self.unknown(node, &name);
                    continue;
                }
            };
            for entry in list {
                self.credential(entry, &name, of_files)?;
            }
        }
        Ok(())
    }

    fn credential(&mut self, node: &Node, name: &str, of_file: bool) -> Result<(), ImportError> {
        let subject = if of_file { "path" } else { "name" };
        let (mut which, mut masked) = (None, false);
        for (key, value) in self.table(node, name)? {
            match key.as_str() {
                key if key == subject => which = Some(self.item(value, name, self.text(value, name)?)),
                "mode" => match self.text(value, name)? {
                    "deny" => {}
                    "mask" => masked = true,
                    _ => return Err(self.wrong(value, name, "\"deny\" or \"mask\"")),
                },
                "injectHosts" | "extract" | "decode" | "maskClaims" | "maskDuplicates"
                | "onExtractNoMatch" | "allowPlainHttp" => {}
                _ => self.unknown(value, &format!("{name}.{key}")),
            }
        }
        let Some(which) = which else {
            return Err(self.wrong(node, name, &format!("entries with a {subject}")));
        };
        self.hide_credential(&which, of_file, masked);
        Ok(())
    }

    fn hide_credential(&mut self, which: &Item, of_file: bool, masked: bool) {
        const MASKED: &str = "the credential isn't there: no placeholder stands for it";
        if of_file {
            let rules = self.rules(which, self.agent.dialect(), false);
            self.rules.never_read.extend(rules);
            if masked {
                self.draft.approximated(which.said("filesystem", "hide"), MASKED);
            }
        } else {
            let said = which.said("environment", "remove");
            match (self.draft.push("environment", "remove", &which.text), masked) {
                (true, false) => self.draft.taken(),
                (true, true) => self.draft.approximated(said, MASKED),
                (false, _) => self.draft.not_kept(said, "this can't be a variable's name"),
            }
        }
    }

    /// A port's number.
    pub(super) fn port(&self, node: &Node, name: &str) -> Result<Option<u16>, ImportError> {
        match node.value {
            Value::Number(number) => {
                // A zero stands for no port.
                let port = u16::try_from(number).map_err(|_too_large| self.wrong(node, name, "a port"))?;
                Ok(Some(port).filter(|port| *port > 0))
            }
            Value::Nothing => Ok(None),
            _ => Err(self.wrong(node, name, "a port")),
        }
    }
}
