// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A story: a home on the host, a policy, and what an attacker does in several launches under this policy.
//!
//! Paths are relative to the home, without links in their own spelling; `w` is the working directory.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Directory,
    File,
    /// A link of the host's, with the path of the home that it leads to.
    Link(String),
}

/// What the host has before the first launch, by path: parents come first.
pub(super) type Tree = BTreeMap<String, Node>;

/// The layers that can state a rule; later ones take precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Layer {
    /// `[locked.filesystem]` of the administrator's.
    Locked,
    /// The user's own `config.toml`.
    User,
    CommandLine,
}

/// What a rule says. The order is that of keys in a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Access {
    Deny,
    Execute,
    Hide,
    Read,
    Write,
}

impl Access {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Execute => "execute",
            Self::Hide => "hide",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    pub(super) const fn option(self) -> &'static str {
        match self {
            Self::Deny => "--deny",
            Self::Hide => "--hide",
            Self::Write => "--rw",
            Self::Execute | Self::Read => "--ro",
        }
    }

    pub(super) const fn is_grant(self) -> bool {
        matches!(self, Self::Execute | Self::Read | Self::Write)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub(super) layer: Layer,
    pub(super) access: Access,
    /// A path, or a pattern with `*`.
    pub(super) path: String,
    /// Relative to the working directory, where the path lies in it.
    pub(super) dotted: bool,
    /// Where it shows, if that is elsewhere: an absolute path.
    pub(super) destination: Option<String>,
}

impl Rule {
    pub(super) fn is_pattern(&self) -> bool {
        self.path.contains('*')
    }

    /// As it is written in a file, or behind an option.
    pub(super) fn spelled(&self) -> String {
        let path = match self.path.strip_prefix("w/").filter(|_| self.dotted) {
            Some(rest) => format!("./{rest}"),
            None => format!("~/{}", self.path),
        };
        match &self.destination {
            Some(destination) => format!("{path}={destination}"),
            None => path,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Launch {
    /// Options other than those for rules.
    pub(super) options: Vec<&'static str>,
    /// What `player.c` does, `@` for the home.
    pub(super) calls: Vec<String>,
    /// What goes on, again and again, while the next launch begins and goes on.
    pub(super) race: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Story {
    pub(super) tree: Tree,
    pub(super) rules: Vec<Rule>,
    pub(super) launches: Vec<Launch>,
}

impl Story {
    /// What is in the policy file of a layer.
    pub(super) fn policy(&self, layer: Layer) -> Option<String> {
        let section = if layer == Layer::Locked { "locked.filesystem" } else { "filesystem" };
        let mut keys: BTreeMap<Access, Vec<String>> = BTreeMap::new();
        for rule in self.rules.iter().filter(|rule| rule.layer == layer) {
            keys.entry(rule.access).or_default().push(format!("{:?}", rule.spelled()));
        }
        let lines: Vec<String> = keys
            .iter()
            .map(|(access, paths)| format!("{} = [{}]\n", access.key(), paths.join(", ")))
            .collect();
        (!lines.is_empty()).then(|| format!("schema = 1\n\n[{section}]\n{}", lines.concat()))
    }

    /// The options that state rules.
    pub(super) fn options(&self) -> Vec<String> {
        let rules = self.rules.iter().filter(|rule| rule.layer == Layer::CommandLine);
        rules.flat_map(|rule| [rule.access.option().to_owned(), rule.spelled()]).collect()
    }
}

impl fmt::Display for Story {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree: Vec<String> = self
            .tree
            .iter()
            .map(|(path, node)| match node {
                Node::Directory => format!("{path}/"),
                Node::File => path.clone(),
                Node::Link(target) => format!("{path} -> ~/{target}"),
            })
            .collect();
        writeln!(to, "  home: {}", tree.join("  "))?;
        for rule in &self.rules {
            writeln!(to, "  {:?}: {} {}", rule.layer, rule.access.key(), rule.spelled())?;
        }
        for (number, launch) in self.launches.iter().enumerate() {
            writeln!(to, "  launch {}: {}", number + 1, launch.options.join(" "))?;
            for call in &launch.calls {
                writeln!(to, "    {call}")?;
            }
            if let Some(race) = &launch.race {
                writeln!(to, "    until the next launch has ended, again and again: {race}")?;
            }
        }
        Ok(())
    }
}
