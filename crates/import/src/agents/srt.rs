// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports the settings of sandbox-runtime: `srt-settings.json`.
//!
//! All files can be read except those that are refused, and only those that are listed can be changed. Of two rules about
//! reading, the more specific one decides.

use super::rules::Order;
use super::{Importer, MACOS};
use crate::ImportError;
use crate::tree::{Node, Value};

pub(super) const OWN_PARTS: &str = "where sandbox-runtime finds its own parts";
pub(super) const WEAKER: &str = "Palisade weakens no sandbox inside another one";
pub(super) const REQUESTS: &str = "Palisade doesn't look into encrypted connections";

impl Importer<'_> {
    pub(super) fn srt(&mut self, root: &Node) -> Result<(), ImportError> {
        self.rules.order = Order::Specific;
        let entries = self.table(root, "the file")?;
        for required in ["network", "filesystem"] {
            if !entries.iter().any(|(key, _node)| key == required) {
                return Err(self.wrong(root, "the file", &format!("a member `{required}`")));
            }
        }
        for (key, node) in entries {
            match key.as_str() {
                "network" => self.srt_network(node)?,
                "filesystem" => {
                    for (key, node) in self.table(node, key)? {
                        let name = format!("filesystem.{key}");
                        if !self.filesystem_member(key, node, &name)? {
                            self.unknown(node, &name);
                        }
                    }
                }
                "credentials" => self.credentials(node, key)?,
                _ if self.srt_member(key, node, key)? => {}
                "$schema" => self.taken(),
                _ => self.unknown(node, key),
            }
        }
        Ok(())
    }

    fn srt_network(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "network")? {
            let name = format!("network.{key}");
            match key.as_str() {
                "strictAllowlist" => {
                    self.flag(node, &name)?;
                    self.taken();
                }
                "deniedDomainReasons" => {
                    self.table(node, &name)?;
                    self.approximated(node, &name, "a refusal names the rule of the policy instead");
                }
                "deniedResolvedAddresses" => {
                    let items = self.texts(node, &name)?;
                    self.hosts.refused.extend(items);
                }
                "mitmProxy" | "tlsTerminate" | "filterRequest" => self.not_kept(node, &name, REQUESTS),
                "parentProxy" => self.parent_proxy(node, &name)?,
                _ if self.network_member(key, node, &name)? => {}
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    /// The proxy behind which the sandbox's own proxy is.
    fn parent_proxy(&mut self, node: &Node, name: &str) -> Result<(), ImportError> {
        let mut proxies = Vec::new();
        for (key, node) in self.table(node, name)? {
            let name = format!("{name}.{key}");
            match key.as_str() {
                "http" | "https" => proxies.push(self.item(node, &name, self.text(node, &name)?)),
                "noProxy" => {
                    self.text(node, &name)?;
                    self.approximated(node, &name, "all connections go through the proxy");
                }
                _ => self.unknown(node, &name),
            }
        }
        let Some(last) = proxies.pop() else { return Ok(()) };
        for other in proxies.iter().filter(|other| other.text != last.text) {
            self.draft.left_out(super::top(other), "one proxy serves all connections");
        }
        self.hosts.proxy = Some(last);
        Ok(())
    }

    /// A member beside `network` and `filesystem`. Returns whether it is one of sandbox-runtime's.
    pub(super) fn srt_member(&mut self, key: &str, node: &Node, name: &str) -> Result<bool, ImportError> {
        match key {
            "enableWeakerNestedSandbox" => self.grants(node, name, WEAKER)?,
            "enableWeakerNetworkIsolation" | "allowAppleEvents" => self.grants(node, name, MACOS)?,
            "ignoreViolations" => {
                self.left_out(node, name, "Palisade reports each refusal, the same one only once");
            }
            "mandatoryDenySearchDepth" => {
                if !matches!(node.value, Value::Number(_)) {
                    return Err(self.wrong(node, name, "a number"));
                }
                self.approximated(node, name, "protected names are protected at every depth");
            }
            "allowPty" => {
                self.flag(node, name)?;
                self.taken();
            }
            "ripgrep" | "seccomp" | "bwrapPath" | "socatPath" | "javaAgentJarPath" => {
                self.left_out(node, name, OWN_PARTS);
            }
            "windows" => self.left_out(node, name, "it has a meaning on Windows only"),
            "git" => self.left_out(node, name, "git's own settings can hold `safe.directory`"),
            _ => return Ok(false),
        }
        Ok(true)
    }
}
