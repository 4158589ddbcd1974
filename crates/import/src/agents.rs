// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports the settings of coding agents and of the sandboxes that were made for them.
//!
//! - `greywall`, `fence`, `srt`, `claude`, `codex`: one file for each format
//! - `shared`: members that several formats have in common; `commands`: rules about command lines
//! - `extends`: files that a file of Greywall or Fence builds on
//! - `rules`, `hosts`: what a file says about paths and hosts, and its form in a profile; `paths`: how paths are written
//! - `json`: the reader of JSON with comments

mod claude;
mod codex;
mod commands;
mod extends;
mod fence;
mod greywall;
mod hosts;
mod json;
mod paths;
mod rules;
mod shared;
mod srt;
#[cfg(test)]
mod tests;

use crate::ImportError;
use crate::draft::{Draft, Said};
use crate::profile::Host;
use crate::report::At;
use crate::tree::{self, Mistake, Node, Value};
use hosts::Hosts;
use paths::{Dialect, Spot};
use rules::{Item, Rule, Rules};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A program whose settings can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Greyhaven's Greywall: JSON with comments.
    Greywall,
    /// Fence: JSON with comments.
    Fence,
    /// Anthropic's sandbox-runtime: JSON.
    Srt,
    /// Claude Code: its permissions and its sandbox, in JSON.
    Claude,
    /// OpenAI's Codex: TOML.
    Codex,
}

impl Agent {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Greywall => "Greywall",
            Self::Fence => "Fence",
            Self::Srt => "sandbox-runtime",
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
        }
    }

    /// Its name after `--from`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Greywall => "greywall",
            Self::Fence => "fence",
            Self::Srt => "srt",
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::Greywall | Self::Fence => Dialect::Braces,
            Self::Srt | Self::Claude | Self::Codex => Dialect::Shell,
        }
    }
}

/// The members of a table, in the file's order.
type Entries = [(String, Node)];

/// The import of one file.
struct Importer<'d> {
    agent: Agent,
    host: Host<'d>,
    draft: &'d mut Draft,
    rules: Rules,
    hosts: Hosts,
    /// The file that is being read.
    path: PathBuf,
    /// Its name in reports, if it isn't the file that is imported.
    file: Option<Rc<str>>,
}

const UNKNOWN: &str = "Palisade doesn't know this member: it may restrict something";
const OWN: &str = "a setting of the agent itself: a sandbox neither grants nor refuses it";
const MACOS: &str = "it has a meaning on macOS only";

/// Imports the text of a file.
pub(crate) fn import(
    agent: Agent,
    path: &Path,
    text: &str,
    host: &Host<'_>,
    draft: &mut Draft,
) -> Result<(), ImportError> {
    // What a profile for applications inherits by default isn't meant for commands.
    draft.table("").set("inherits", crate::document::Value::List(Vec::new()));
    let mut importer = Importer {
        agent,
        host: *host,
        draft,
        rules: Rules { home: Some(host.home.to_owned()), ..Rules::default() },
        hosts: Hosts::default(),
        path: path.to_owned(),
        file: None,
    };
    importer.remarks();
    let root = importer.parse(text)?;
    match agent {
        Agent::Greywall => importer.greywall(&root)?,
        Agent::Fence => importer.fence(&root)?,
        Agent::Srt => importer.srt(&root)?,
        Agent::Claude => importer.claude(&root)?,
        Agent::Codex => importer.codex(&root)?,
    }
    let Importer { draft, rules, hosts, .. } = importer;
    if draft.report.taken == 0 && draft.report.findings.is_empty() && rules.is_empty() && hosts.is_empty() {
        return Err(ImportError::Empty { path: path.to_owned() });
    }
    rules.state(draft);
    hosts.state(draft);
    Ok(())
}

impl Importer<'_> {
    /// What holds for every profile that is made from such a file.
    fn remarks(&mut self) {
        let header = &mut self.draft.document.header;
        header.push("To use it: palisade run --profile NAME -- COMMAND".to_owned());
        header.push(
            "The sandbox has a /tmp, a /run and a /dev of its own, and its variables hold no secrets."
                .to_owned(),
        );
    }

    fn parse(&self, text: &str) -> Result<Node, ImportError> {
        let read = match self.agent {
            Agent::Codex => tree::parse(text),
            // It reads its file as plain JSON.
            Agent::Srt => json::parse(text, false),
            Agent::Greywall | Agent::Fence | Agent::Claude => json::parse(text, true),
        };
        read.map_err(|mistake| self.malformed(mistake))
    }

    fn malformed(&self, mistake: Mistake) -> ImportError {
        let Mistake { line, column, message } = mistake;
        ImportError::Malformed { path: self.path.clone(), line, column, message }
    }

    /// The agent would refuse the value.
    fn wrong(&self, node: &Node, name: &str, expected: &str) -> ImportError {
        let message = format!("{name} takes {expected}, and this is {}", node.quoted());
        self.malformed(Mistake { line: node.line, column: node.column, message })
    }

    fn at(&self, node: &Node) -> At {
        At { file: self.file.clone(), line: node.line }
    }

    /// A statement of the file.
    fn item(&self, node: &Node, name: &str, text: &str) -> Item {
        let value = if text.is_empty() { node.quoted() } else { format!("{text:?}") };
        Item { at: self.at(node), statement: format!("{name}: {value}"), text: text.to_owned() }
    }

    fn table<'n>(&self, node: &'n Node, name: &str) -> Result<&'n Entries, ImportError> {
        match &node.value {
            Value::Table(entries) => Ok(entries),
            // A member without a value says nothing.
            Value::Nothing => Ok(&[]),
            _ => Err(self.wrong(node, name, "an object")),
        }
    }

    /// A list of texts.
    fn texts(&self, node: &Node, name: &str) -> Result<Vec<Item>, ImportError> {
        let list = match &node.value {
            Value::List(list) => list,
            Value::Nothing => return Ok(Vec::new()),
            _ => return Err(self.wrong(node, name, "a list of texts")),
        };
        list.iter()
            .map(|entry| match entry.text() {
                Some("") => Err(self.wrong(entry, name, "texts that aren't empty")),
                Some(text) => Ok(self.item(entry, name, text)),
                None => Err(self.wrong(entry, name, "texts")),
            })
            .collect()
    }

    fn text<'n>(&self, node: &'n Node, name: &str) -> Result<&'n str, ImportError> {
        node.text().ok_or_else(|| self.wrong(node, name, "a text"))
    }

    /// A switch. `None`: it has no value.
    fn flag(&self, node: &Node, name: &str) -> Result<Option<bool>, ImportError> {
        match node.value {
            Value::Flag(flag) => Ok(Some(flag)),
            Value::Nothing => Ok(None),
            _ => Err(self.wrong(node, name, "true or false")),
        }
    }

    fn taken(&mut self) {
        self.draft.taken();
    }

    fn approximated(&mut self, node: &Node, name: &str, why: &'static str) {
        let item = self.item(node, name, "");
        self.draft.approximated(top(&item), why);
    }

    fn left_out(&mut self, node: &Node, name: &str, why: &'static str) {
        let item = self.item(node, name, "");
        self.draft.left_out(top(&item), why);
    }

    fn not_kept(&mut self, node: &Node, name: &str, why: &'static str) {
        let item = self.item(node, name, "");
        self.draft.not_kept(top(&item), why);
    }

    fn unknown(&mut self, node: &Node, name: &str) {
        self.not_kept(node, name, UNKNOWN);
    }

    /// A switch that grants something if it is on.
    fn grants(&mut self, node: &Node, name: &str, why: &'static str) -> Result<(), ImportError> {
        if self.flag(node, name)? == Some(true) {
            self.left_out(node, name, why);
        } else {
            self.taken();
        }
        Ok(())
    }

    /// A switch that restricts something if it is on.
    fn restricts(&mut self, node: &Node, name: &str, why: &'static str) -> Result<(), ImportError> {
        if self.flag(node, name)? == Some(true) {
            self.not_kept(node, name, why);
        } else {
            self.taken();
        }
        Ok(())
    }

    /// The rules that a statement about a path results in. A path that can't be expressed is reported.
    fn rules(&mut self, item: &Item, dialect: Dialect, grants: bool) -> Vec<Rule> {
        match Spot::parse(&item.text, dialect) {
            Ok(spots) => spots.into_iter().map(|spot| Rule { item: item.clone(), spot }).collect(),
            Err(why) if grants => {
                self.draft.left_out(item.said("filesystem", ""), why);
                Vec::new()
            }
            Err(why) => {
                self.draft.not_kept(item.said("filesystem", ""), why);
                Vec::new()
            }
        }
    }
}

/// A statement that has no place in the profile.
fn top(item: &Item) -> Said<'_> {
    item.said("", "")
}
