// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports Greywall's settings: `greywall.json`.
//!
//! Unless the file says otherwise, only the system's directories, the working directory and what is listed can be read.
//! Connections go through a proxy of the user's, which decides about hosts.

use super::rules::{Order, Reads};
use super::{Importer, UNKNOWN};
use crate::ImportError;
use crate::tree::Node;

/// Directories that Greywall and Fence show when reading is refused by default.
pub(super) const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib64",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "~/.nvm",
    "~/.fnm",
    "~/.volta",
    "~/.n",
    "~/.pyenv",
    "~/.local/pipx",
    "~/.rbenv",
    "~/.rvm",
    "~/.cargo/bin",
    "~/.rustup",
    "~/go/bin",
    "~/.go",
    "~/.local/bin",
    "~/bin",
    "~/.bun/bin",
    "~/.deno/bin",
];

const DNS: &str = "the proxy resolves the names";
const SECOND: &str = "one proxy serves all connections: the one of `proxyUrl`";
const SSH: &str = "ssh is a program as others: allow HOST:22 under [network]";
const SSH_WORDS: &str = "Palisade doesn't see what a command does on another host";
const DEFAULTS: &str =
    "the commands of the program's own list have no power inside: the sandbox has no rights on the host";

impl Importer<'_> {
    pub(super) fn greywall(&mut self, root: &Node) -> Result<(), ImportError> {
        self.rules.order = Order::Refusals;
        let parts = self.chain(root)?;
        let (mut closed, mut proxy, mut other_proxy) = (true, None, None);
        for part in &parts {
            (self.path, self.file) = (part.path.clone(), part.file.clone());
            for (key, node) in self.table(&part.root, "the file")? {
                match key.as_str() {
                    "$schema" | "extends" => self.taken(),
                    "network" => {
                        for (key, node) in self.table(node, key)? {
                            let name = format!("network.{key}");
                            match key.as_str() {
                                "proxyUrl" => proxy = Some(self.item(node, &name, self.text(node, &name)?)),
                                "httpProxyUrl" => {
                                    other_proxy = Some(self.item(node, &name, self.text(node, &name)?));
                                }
                                "dnsAddr" => {
                                    self.text(node, &name)?;
                                    self.approximated(node, &name, DNS);
                                }
                                "allowLocalOutbound" => self.local_outbound(node, &name)?,
                                _ if self.network_member(key, node, &name)? => {}
                                _ => self.unknown(node, &name),
                            }
                        }
                    }
                    "filesystem" => {
                        for (key, node) in self.table(node, key)? {
                            let name = format!("filesystem.{key}");
                            match key.as_str() {
                                "defaultDenyRead" => {
                                    closed = self.flag(node, &name)?.unwrap_or(closed);
                                    self.taken();
                                }
                                _ if self.filesystem_member(key, node, &name)? => {}
                                _ => self.unknown(node, &name),
                            }
                        }
                    }
                    "command" => self.commands(node)?,
                    "ssh" => self.ssh(node)?,
                    "allowPty" => {
                        self.flag(node, key)?;
                        self.taken();
                    }
                    _ => self.unknown(node, key),
                }
            }
        }
        self.rules.reads = if closed { Reads::System(SYSTEM) } else { Reads::All };
        self.rules.shows_working_directory = closed;
        // An empty text states no proxy.
        let stated = |item: &super::Item| !item.text.is_empty();
        match (proxy.filter(stated), other_proxy.filter(stated)) {
            (Some(proxy), other) => {
                if let Some(other) = other {
                    self.draft.left_out(super::top(&other), SECOND);
                }
                self.proxy(proxy);
            }
            (None, Some(proxy)) => self.proxy(proxy),
            (None, None) => self.draft.document.header.push(
                "The file names no proxy. Greywall reaches nothing without one, and the sandbox reaches nothing."
                    .to_owned(),
            ),
        }
        Ok(())
    }

    /// All connections go through a proxy.
    fn proxy(&mut self, proxy: super::Item) {
        self.hosts.all = Some(proxy.clone());
        self.hosts.proxy = Some(proxy);
    }

    /// Whether ports of the host's loopback can be reached.
    pub(super) fn local_outbound(&mut self, node: &Node, name: &str) -> Result<(), ImportError> {
        self.grants(node, name, "name the ports with `reach` under [network]")
    }

    /// Rules about command lines.
    pub(super) fn commands(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "command")? {
            let name = format!("command.{key}");
            match key.as_str() {
                "deny" => {
                    for item in self.texts(node, &name)? {
                        self.command_refused(&item, &item.text);
                    }
                }
                "allow" => {
                    for item in self.texts(node, &name)? {
                        self.command_allowed(&item);
                    }
                }
                "useDefaults" => match self.flag(node, &name)? {
                    Some(true) => self.approximated(node, &name, DEFAULTS),
                    Some(false) | None => self.taken(),
                },
                "runtimeExecPolicy" => {
                    self.text(node, &name)?;
                    self.not_kept(node, &name, "no command is refused by its words");
                }
                "acceptSharedBinaryCannotRuntimeDeny" => {
                    self.texts(node, &name)?;
                    self.left_out(node, &name, "a program that others share isn't refused anyway");
                }
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    /// Rules about ssh.
    pub(super) fn ssh(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "ssh")? {
            let name = format!("ssh.{key}");
            match key.as_str() {
                "allowedHosts" => {
                    for item in self.texts(node, &name)? {
                        self.draft.left_out(super::top(&item), SSH);
                    }
                }
                "deniedHosts" => {
                    for mut item in self.texts(node, &name)? {
                        item.text = format!("{}:22", item.text);
                        self.hosts.refused.push(item);
                    }
                }
                "allowedCommands" | "deniedCommands" => {
                    for item in self.texts(node, &name)? {
                        self.draft.not_kept(super::top(&item), SSH_WORDS);
                    }
                }
                "allowAllCommands" => self.grants(node, &name, SSH)?,
                "inheritDeny" => self.restricts(node, &name, SSH_WORDS)?,
                _ => self.not_kept(node, &name, UNKNOWN),
            }
        }
        Ok(())
    }
}
