// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Codex's permission profiles: `[permissions.NAME]`, and those that a profile extends.

use super::member;
use crate::ImportError;
use crate::agents::paths::{Base, Dialect, Spot};
use crate::agents::rules::{Item, Reads, Rule};
use crate::agents::{Entries, Importer, OWN};
use crate::tree::{Node, Value};

/// How many profiles may extend each other.
const DEEPEST: usize = 10;

/// Directories that `:minimal` stands for.
const MINIMAL: &[&str] = &["/bin", "/sbin", "/usr", "/lib", "/lib64", "/etc", "/nix", "/opt"];

const UNPROXIED: &str =
    "without `features.network_proxy` Codex doesn't enforce the rules about hosts; the profile does";
const NO_HOSTS: &str = "no connection is made";
const METHODS: &str = "Palisade doesn't look into encrypted connections, so every method is allowed";
const PROXY: &str = "Palisade needs no proxy of another program to filter connections";

/// A statement of a profile: a key, and a key of the table that stands at it.
struct Stated<'n> {
    key: &'n str,
    below: Option<&'n str>,
    node: &'n Node,
}

/// The statements of a profile and of those that it extends. A statement replaces the same one of a profile that is
/// extended.
#[derive(Default)]
struct Merged<'n> {
    files: Vec<Stated<'n>>,
    network: Vec<Stated<'n>>,
    roots: Vec<Stated<'n>>,
    /// The built-in profile at the end of the chain.
    ground: Option<&'n str>,
}

/// Adds the statements of a table.
fn add<'n>(entries: &'n Entries, to: &mut Vec<Stated<'n>>) {
    let mut one = |key: &'n str, below: Option<&'n str>, node: &'n Node| {
        // A path alone, and `.` below it, are the same.
        let below = below.filter(|below| *below != ".");
        to.retain(|known| known.key != key || known.below != below);
        to.push(Stated { key, below, node });
    };
    for (key, node) in entries {
        match &node.value {
            Value::Table(below) => {
                for (name, node) in below {
                    one(key, Some(name), node);
                }
            }
            _ => one(key, None, node),
        }
    }
}

impl Importer<'_> {
    /// The profile that the file chooses.
    pub(super) fn chosen(
        &mut self,
        node: &Node,
        profiles: Option<&Node>,
        proxied: bool,
    ) -> Result<(), ImportError> {
        let name = self.text(node, "default_permissions")?;
        let profiles: &Entries = match profiles {
            Some(profiles) => self.table(profiles, "permissions")?,
            None => &[],
        };
        let mut chain = Vec::new();
        let mut next = Some((name, node));
        let mut ground = None;
        while let Some((name, node)) = next {
            if name.starts_with(':') {
                ground = Some((name, node));
                break;
            }
            let Some(profile) = member(profiles, name) else {
                return Err(self.wrong(node, "the name of a profile", "one of [permissions]"));
            };
            if chain.len() >= DEEPEST || chain.iter().any(|(known, _entries)| *known == name) {
                return Err(self.wrong(node, "extends", "a profile that doesn't extend this one"));
            }
            let entries = self.table(profile, &format!("permissions.{name}"))?;
            chain.push((name, entries));
            next = match member(entries, "extends") {
                Some(node) => Some((self.text(node, "extends")?, node)),
                None => None,
            };
        }
        for (name, node) in profiles {
            if !chain.iter().any(|(known, _entries)| known == name) {
                self.left_out(
                    node,
                    &format!("permissions.{name}"),
                    "`default_permissions` doesn't choose it",
                );
            }
        }
        self.taken();
        let mut merged = Merged::default();
        if let Some((name, node)) = ground {
            if !matches!(name, ":read-only" | ":workspace" | ":danger-full-access") {
                return Err(self.wrong(
                    node,
                    "a built-in profile",
                    "\":read-only\", \":workspace\" or \":danger-full-access\"",
                ));
            }
            merged.ground = Some(name);
        }
        for (name, entries) in chain.iter().rev() {
            self.collect(name, entries, &mut merged)?;
        }
        self.state_permissions(node, &merged, proxied)
    }

    fn collect<'n>(
        &mut self,
        profile: &str,
        entries: &'n Entries,
        merged: &mut Merged<'n>,
    ) -> Result<(), ImportError> {
        for (key, node) in entries {
            let name = format!("permissions.{profile}.{key}");
            let to = match key.as_str() {
                "extends" | "description" => {
                    self.text(node, &name)?;
                    self.taken();
                    continue;
                }
                "filesystem" => &mut merged.files,
                "network" => &mut merged.network,
                "workspace_roots" => &mut merged.roots,
                _ => {
                    self.unknown(node, &name);
                    continue;
                }
            };
            let entries = match &node.value {
                Value::Table(entries) => entries,
                _ => return Err(self.wrong(node, &name, "a table")),
            };
            add(entries, to);
        }
        Ok(())
    }

    fn state_permissions(
        &mut self,
        chosen: &Node,
        merged: &Merged<'_>,
        proxied: bool,
    ) -> Result<(), ImportError> {
        let item = self.item(chosen, "default_permissions", ".");
        self.rules.reads = Reads::Listed;
        let mut all_hosts = None;
        match merged.ground {
            Some(":read-only") => self.rules.reads = Reads::All,
            Some(":workspace") => {
                self.rules.reads = Reads::All;
                let stated = |stated: &Stated<'_>| is_workspace(stated.key) && stated.below.is_none();
                if !merged.files.iter().any(stated) {
                    self.writable(item, Spot::base(Base::WorkingDirectory));
                }
            }
            Some(":danger-full-access") => {
                self.full_access(item.clone());
                all_hosts = self.hosts.all.take();
            }
            _ => {}
        }
        // The directories that count as the workspace.
        let mut roots = vec![Spot::base(Base::WorkingDirectory)];
        for Stated { key, node, .. } in &merged.roots {
            let name = format!("workspace_roots.{key}");
            if self.flag(node, &name)? == Some(true) {
                let mut item = self.item(node, &name, key);
                self.below_the_file(&mut item);
                roots.extend(self.rules(&item, Dialect::Shell, true).into_iter().map(|rule| rule.spot));
            }
            self.taken();
        }
        for stated in &merged.files {
            self.path(stated, &roots)?;
        }
        // What the profile itself makes writable isn't kept.
        let written: Vec<Spot> = self.rules.write.iter().map(|rule| rule.spot.clone()).collect();
        self.rules.not_write.retain(|rule| !written.contains(&rule.spot));
        self.state_network(merged, proxied, all_hosts)
    }

    /// A statement on a path, or on a path below it.
    fn path(&mut self, stated: &Stated<'_>, roots: &[Spot]) -> Result<(), ImportError> {
        let &Stated { key, below, node } = stated;
        let name = match below {
            Some(below) => format!("filesystem.{key:?}.{below:?}"),
            None => format!("filesystem.{key:?}"),
        };
        match key {
            "glob_scan_max_depth" => {
                self.approximated(node, key, "patterns hold at every depth");
                return Ok(());
            }
            "allow_limited_git_writes" => {
                return self.grants(node, key, "git may change what the profile lets it change");
            }
            ":minimal" => return self.minimal(node, &name),
            ":tmpdir" | ":slash_tmp" => {
                self.approximated(node, &name, super::OWN_TMP);
                return Ok(());
            }
            _ => {}
        }
        let access = self.text(node, &name)?.to_owned();
        let refuses = matches!(access.as_str(), "deny" | "none");
        let bases: Vec<Spot> = match key {
            ":root" => vec![Spot::base(Base::Root)],
            key if is_workspace(key) => roots.to_vec(),
            key if key.starts_with(':') => {
                self.unknown(node, &name);
                return Ok(());
            }
            key => {
                let mut item = self.item(node, &name, key);
                self.below_the_file(&mut item);
                self.rules(&item, Dialect::Shell, !refuses).into_iter().map(|rule| rule.spot).collect()
            }
        };
        for base in bases {
            match base.join(below.unwrap_or(".")) {
                Ok(spot) => self.access(node, &name, &access, spot)?,
                Err(why) if refuses => self.not_kept(node, &name, why),
                Err(why) => self.left_out(node, &name, why),
            }
        }
        Ok(())
    }

    fn access(&mut self, node: &Node, name: &str, access: &str, spot: Spot) -> Result<(), ImportError> {
        let item = Item { at: self.at(node), statement: format!("{name} = {access:?}"), text: String::new() };
        let rule = Rule { item, spot };
        match access {
            "read" => self.rules.read.push(rule),
            "write" => {
                let plain = [Base::Root, Base::Home].iter().all(|base| !rule.spot.is_base(*base));
                if plain && !rule.spot.is_pattern() {
                    self.writable(rule.item, rule.spot);
                } else {
                    self.rules.write.push(rule);
                }
            }
            "deny" | "none" => self.rules.not_read.push(rule),
            _ => return Err(self.wrong(node, name, "\"read\", \"write\" or \"deny\"")),
        }
        Ok(())
    }

    /// What every program needs.
    fn minimal(&mut self, node: &Node, name: &str) -> Result<(), ImportError> {
        match self.text(node, name)? {
            "read" | "write" => {
                if self.rules.reads != Reads::All {
                    self.rules.reads = Reads::System(MINIMAL);
                }
                self.taken();
            }
            "deny" | "none" => {
                self.approximated(node, name, "what the command's own program needs is always there");
            }
            _ => return Err(self.wrong(node, name, "\"read\" or \"deny\"")),
        }
        Ok(())
    }

    fn state_network(
        &mut self,
        merged: &Merged<'_>,
        proxied: bool,
        mut all: Option<Item>,
    ) -> Result<(), ImportError> {
        let mut listed = false;
        let mut enabled = None;
        for &Stated { key, below, node } in &merged.network {
            let name = format!("network.{key}");
            match (key, below) {
                ("enabled", None) => {
                    let on = self.flag(node, &name)? == Some(true);
                    enabled = Some((on, self.item(node, &name, "")));
                }
                ("domains", Some(host)) => {
                    listed = true;
                    let item = self.item(node, &name, host);
                    match self.text(node, &name)? {
                        "allow" => self.hosts.allowed.push(item),
                        "deny" => self.hosts.refused.push(item),
                        _ => return Err(self.wrong(node, &name, "\"allow\" or \"deny\"")),
                    }
                }
                ("unix_sockets", Some(path)) => {
                    let item = self.item(node, &name, path);
                    match self.text(node, &name)? {
                        "allow" => {
                            let rules = self.rules(&item, Dialect::Shell, true);
                            self.rules.sockets.extend(rules);
                        }
                        "none" | "deny" => self.taken(),
                        _ => return Err(self.wrong(node, &name, "\"allow\" or \"none\"")),
                    }
                }
                ("domains" | "unix_sockets", None) => return Err(self.wrong(node, &name, "a table")),
                ("mode", None) => match self.text(node, &name)? {
                    "full" => self.taken(),
                    _ => self.not_kept(node, &name, METHODS),
                },
                ("allow_local_binding", None) => {
                    if self.flag(node, &name)? == Some(true) {
                        self.approximated(
                            node,
                            &name,
                            "the sandbox's loopback is its own: `palisade run --publish PORT` shows a port outside",
                        );
                    } else {
                        self.taken();
                    }
                }
                ("dangerously_allow_all_unix_sockets", None) => {
                    self.grants(node, &name, "list the sockets: one of them may lead outside")?;
                }
                (
                    "proxy_url"
                    | "socks_url"
                    | "enable_socks5"
                    | "enable_socks5_udp"
                    | "allow_upstream_proxy"
                    | "dangerously_allow_non_loopback_proxy",
                    _,
                ) => self.left_out(node, &name, PROXY),
                ("mitm" | "mitm_hooks", _) => self.not_kept(node, &name, OWN),
                _ => self.unknown(node, &name),
            }
        }
        match enabled {
            Some((true, item)) if listed || proxied => {
                if proxied {
                    self.taken();
                } else {
                    self.draft.approximated(item.said("network", "mode"), UNPROXIED);
                }
            }
            Some((true, item)) => self.hosts.all = Some(item),
            Some((false, item)) => {
                self.taken();
                all = None;
                self.hosts.none = Some(item);
            }
            None if listed && all.is_none() => {
                // Without the switch, Codex makes no connection.
                let item = self.hosts.allowed.first().or(self.hosts.refused.first()).cloned();
                if let Some(item) = &item {
                    self.draft.approximated(item.said("network", "mode"), NO_HOSTS);
                }
                self.hosts.none = item;
            }
            None => {}
        }
        if let Some(item) = all {
            self.hosts.all = Some(item);
        }
        Ok(())
    }
}

fn is_workspace(path: &str) -> bool {
    matches!(path, ":workspace_roots" | ":project_roots" | ":cwd")
}
