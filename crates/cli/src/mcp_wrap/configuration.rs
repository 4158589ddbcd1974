// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files in which agents keep their servers, and the servers in them.

use crate::changed_settings::format_of;
use crate::hook_error::HookError;
use palisade_sandbox::facts::Facts;
use palisade_settings::record::{Owned, RecordError};
use palisade_settings::{Draft, Format, Loaded, Node};
use std::path::{Path, PathBuf};

/// The members that hold servers, in files of any agent.
const MEMBERS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "mcp"];

/// A file with servers.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The agent, or `file`.
    pub(super) agent: &'static str,
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) servers: Vec<Server>,
}

/// A server.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) name: String,
    /// The names that lead to its object.
    pub(super) path: Vec<String>,
    /// The program and its arguments. Empty for a server that is reached by a URL.
    pub(super) command: Vec<String>,
    url: Option<String>,
    /// Variables that the configuration gives it.
    pub(super) variables: Vec<String>,
}

impl Server {
    /// Whether the agent starts a program for it.
    pub(super) fn is_program(&self) -> bool {
        !self.command.is_empty()
    }

    /// Who records changes of it.
    pub(super) fn owner(&self) -> Owned {
        Owned::Server(self.path.clone())
    }

    /// The command, or the URL.
    pub(super) fn starts(&self) -> String {
        match &self.url {
            Some(url) if self.command.is_empty() => url.clone(),
            _ => {
                let words: Vec<String> =
                    self.command.iter().map(|word| palisade_text::quoted(word)).collect();
                words.join(" ")
            }
        }
    }

    fn new(name: &str, path: Vec<String>, node: &Node) -> Self {
        let texts = |node: Option<&Node>| -> Option<Vec<String>> {
            node?.elements()?.iter().map(|element| element.text().map(str::to_owned)).collect()
        };
        let command = match node.get("command") {
            Some(command) if command.text().is_some() => {
                let program = command.text().map(str::to_owned);
                // Arguments that aren't texts are none that an agent could give to a program.
                let arguments = match node.get("args") {
                    None => Some(Vec::new()),
                    some => texts(some),
                };
                program.zip(arguments).map(|(program, rest)| [vec![program], rest].concat())
            }
            other => texts(other),
        };
        let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|name| node.get(name)?.text());
        let of_table = |name: &str| node.get(name).and_then(Node::members).unwrap_or_default();
        let mut variables: Vec<String> = ["env", "environment"]
            .iter()
            .flat_map(|name| of_table(name))
            .map(|member| member.name.clone())
            .collect();
        variables.extend(texts(node.get("env_vars")).unwrap_or_default());
        // The options of a launch take globs, and a name has no such characters.
        variables
            .retain(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        variables.sort();
        variables.dedup();
        Self {
            name: name.to_owned(),
            path,
            command: command
                .filter(|words| words.first().is_some_and(|word| !word.is_empty()))
                .unwrap_or_default(),
            url: url.map(str::to_owned),
            variables,
        }
    }
}

/// An agent, its files, and the member that holds servers in them.
struct Known {
    agent: &'static str,
    member: &'static str,
    files: fn(&Facts) -> Vec<PathBuf>,
}

fn below(facts: &Facts, variable: &str, usual: &str) -> PathBuf {
    facts.environment.absolute(variable).map_or_else(|| facts.account.home.join(usual), Path::to_owned)
}

const KNOWN: &[Known] = &[
    Known {
        agent: "claude",
        member: "mcpServers",
        files: |facts| {
            let own = match facts.environment.absolute("CLAUDE_CONFIG_DIR") {
                Some(directory) => directory.join(".claude.json"),
                None => facts.account.home.join(".claude.json"),
            };
            vec![own, facts.cwd.join(".mcp.json")]
        },
    },
    Known {
        agent: "codex",
        member: "mcp_servers",
        files: |facts| {
            vec![
                below(facts, "CODEX_HOME", ".codex").join("config.toml"),
                facts.cwd.join(".codex/config.toml"),
            ]
        },
    },
    Known {
        agent: "opencode",
        member: "mcp",
        files: |facts| {
            let own = below(facts, "XDG_CONFIG_HOME", ".config").join("opencode");
            [own, facts.cwd.clone()]
                .iter()
                .flat_map(|directory| [directory.join("opencode.json"), directory.join("opencode.jsonc")])
                .collect()
        },
    },
    Known {
        agent: "cursor",
        member: "mcpServers",
        files: |facts| own_and_project(facts, ".cursor/mcp.json"),
    },
    Known {
        agent: "gemini",
        member: "mcpServers",
        files: |facts| own_and_project(facts, ".gemini/settings.json"),
    },
    Known {
        agent: "qwen",
        member: "mcpServers",
        files: |facts| own_and_project(facts, ".qwen/settings.json"),
    },
    Known {
        agent: "copilot",
        member: "mcpServers",
        files: |facts| vec![below(facts, "COPILOT_HOME", ".copilot").join("mcp-config.json")],
    },
    Known {
        agent: "vscode",
        member: "servers",
        files: |facts| {
            let own = below(facts, "XDG_CONFIG_HOME", ".config").join("Code/User/mcp.json");
            vec![own, facts.cwd.join(".vscode/mcp.json")]
        },
    },
];

fn own_and_project(facts: &Facts, file: &str) -> Vec<PathBuf> {
    let mut files = vec![facts.account.home.join(file)];
    files.extend(Some(facts.cwd.join(file)).filter(|project| *project != files[0]));
    files
}

/// The names of the agents.
fn agents() -> String {
    KNOWN.iter().map(|known| known.agent).collect::<Vec<_>>().join(", ")
}

fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.agent == name)
}

/// A file that was named. A name of an agent isn't a file's: `./claude` is.
fn file(facts: &Facts, named: &str) -> Result<PathBuf, HookError> {
    let path = facts.cwd.join(named);
    match path.symlink_metadata() {
        Ok(_found) => Ok(path),
        Err(_absent) => Err(HookError::NoSuchConfiguration { name: named.to_owned(), known: agents() }),
    }
}

/// The files of an agent, or the file that was named.
pub(super) fn paths(facts: &Facts, named: &str) -> Result<Vec<PathBuf>, HookError> {
    match known(named) {
        Some(known) => Ok((known.files)(facts)),
        None => Ok(vec![file(facts, named)?]),
    }
}

/// The configurations of an agent or in a file, which have servers.
pub(super) fn named(facts: &Facts, named: &str) -> Result<Vec<Configuration>, HookError> {
    match known(named) {
        Some(known) => of_agent(facts, known),
        None => Ok(read("file", file(facts, named)?, &MEMBERS)?.into_iter().collect()),
    }
}

/// The configurations of all agents, which have servers.
pub(super) fn all(facts: &Facts) -> Result<Vec<Configuration>, HookError> {
    let each: Result<Vec<Vec<Configuration>>, HookError> =
        KNOWN.iter().map(|known| of_agent(facts, known)).collect();
    Ok(each?.into_iter().flatten().collect())
}

fn of_agent(facts: &Facts, known: &Known) -> Result<Vec<Configuration>, HookError> {
    let files = (known.files)(facts).into_iter();
    let read: Result<Vec<_>, HookError> =
        files.map(|path| read(known.agent, path, &[known.member])).collect();
    Ok(read?.into_iter().flatten().collect())
}

fn read(agent: &'static str, path: PathBuf, members: &[&str]) -> Result<Option<Configuration>, HookError> {
    let loaded = Loaded::read(&path)?;
    let Some(content) = loaded.content else { return Ok(None) };
    let format = format_of(&loaded.path);
    let draft = Draft::new(&content, format)
        .map_err(|source| RecordError::Malformed { path: loaded.path.clone(), source })?;
    let Some(root) = draft.root() else { return Ok(None) };
    let mut servers = Vec::new();
    for member in members {
        add(&mut servers, root, &[member]);
    }
    // Claude Code keeps servers for single projects, too.
    for project in root.get("projects").and_then(Node::members).unwrap_or_default() {
        add(&mut servers, root, &["projects", &project.name, "mcpServers"]);
    }
    Ok((!servers.is_empty()).then_some(Configuration { agent, path: loaded.path, format, servers }))
}

fn add(servers: &mut Vec<Server>, root: &Node, path: &[&str]) {
    for member in root.at(path).and_then(Node::members).unwrap_or_default() {
        let names = path.iter().copied().chain([member.name.as_str()]).map(str::to_owned).collect();
        servers.push(Server::new(&member.name, names, &member.value));
    }
}
