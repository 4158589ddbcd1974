// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade mcp wrap`, `unwrap` and `list`: each server of the Model Context Protocol that an agent starts gets a
//! sandbox with a policy of its own.
//!
//! [`configuration`] finds the configurations of agents, and the servers in them.

mod configuration;

use self::configuration::{Configuration, Server};
use crate::changed_settings::difference;
use crate::hook_error::HookError;
use crate::kept::{self, KeptOptions};
use crate::verb::{self, Exit, Failure, NO, YES};
use crate::{link, output, situation};
use clap::ValueHint;
use palisade_sandbox::facts::Facts;
use palisade_settings::record::Owned;
use palisade_settings::{Draft, EditError, Entry, Records};
use palisade_text::Show as _;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A server reads its directory and changes nothing, unless it is allowed more.
const PROFILE: &str = "read-only";

/// Which servers to wrap.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --profile, a server can read the directory in which the agent starts it, and nothing else:
no network, no home. Variables that the configuration gives it are kept. Servers that are reached
by a URL run elsewhere, and are left.

Examples:
  palisade mcp wrap claude --show                            what would it change?
  palisade mcp wrap claude github --allow api.github.com     one server may reach that host
  palisade mcp wrap .mcp.json files --rw ~/notes             a server of a project's file")]
pub(crate) struct Wrap {
    /// An agent, or a configuration file
    #[arg(value_name = "AGENT|FILE", value_hint = ValueHint::FilePath)]
    configuration: String,
    /// The servers; by default all
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    show: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: KeptOptions,
}

/// Which servers to leave without a policy.
#[derive(Debug, clap::Args)]
pub(crate) struct Unwrap {
    /// An agent, or a configuration file
    #[arg(value_name = "AGENT|FILE", value_hint = ValueHint::FilePath, required_unless_present = "all")]
    configuration: Option<String>,
    /// The servers; by default all
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// All servers that were wrapped, wherever
    #[arg(long, conflicts_with_all = ["configuration", "servers"])]
    all: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// Which configurations to list.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// An agent, or a configuration file; by default all that are there
    #[arg(value_name = "AGENT|FILE", value_hint = ValueHint::FilePath)]
    configuration: Option<String>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// `palisade mcp wrap`. Returns the exit code: 0 done, 1 nothing to do, 2 error.
pub(crate) fn wrap(wrap: &Wrap) -> u8 {
    verb::finish(wrap.json, wrap.run())
}

/// `palisade mcp unwrap`. Returns the exit code.
pub(crate) fn unwrap(unwrap: &Unwrap) -> u8 {
    verb::finish(unwrap.json, unwrap.run())
}

/// `palisade mcp list`. Returns the exit code.
pub(crate) fn list(list: &List) -> u8 {
    verb::finish(list.json, list.run())
}

/// What happened to a server.
#[derive(Serialize)]
struct Changed {
    file: PathBuf,
    server: String,
    /// `wrapped`, `unwrapped`, `unchanged`, `left`: it is no program, or `changed`: another has changed it, so it stays.
    state: &'static str,
    diff: String,
    /// Members that another has changed meanwhile: they stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<String>,
}

#[derive(Serialize)]
struct Answer<T> {
    servers: Vec<T>,
}

fn told(answer: &Answer<Changed>) -> String {
    let line = |changed: &Changed| {
        let name = palisade_text::harmless(&changed.server);
        format!("{name} in {}: {}\n{}", changed.file.shown(), changed.state, changed.diff)
    };
    answer.servers.iter().map(line).collect()
}

/// The configurations that are meant, and are there.
fn configurations(facts: &Facts, named: &str) -> Result<Vec<Configuration>, Failure> {
    let found = configuration::named(facts, named)?;
    if found.is_empty() {
        return Err(HookError::NoConfiguration { name: named.to_owned() }.into());
    }
    Ok(found)
}

/// The servers that are meant. Each name must be that of one.
fn chosen(configurations: &[Configuration], names: &[String]) -> Result<Vec<(usize, Server)>, Failure> {
    let all = configurations.iter().enumerate().flat_map(|(index, configuration)| {
        configuration.servers.iter().map(move |server| (index, server.clone()))
    });
    let all: Vec<(usize, Server)> = all.collect();
    for name in names {
        if !all.iter().any(|(_index, server)| server.name == *name) {
            let path =
                configurations.first().map(|configuration| configuration.path.clone()).unwrap_or_default();
            return Err(HookError::NoServer { name: name.clone(), path }.into());
        }
    }
    Ok(all.into_iter().filter(|(_index, server)| names.is_empty() || names.contains(&server.name)).collect())
}

impl Wrap {
    fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let mut options = self.kept.words_with_profile();
        if self.kept.profile.is_none() {
            options.insert(0, format!("--profile={PROFILE}"));
        }
        kept::check(&options)?;
        let found = configurations(&facts, &self.configuration)?;
        let chosen = chosen(&found, &self.servers)?;
        let state = &facts.places.state;
        let records = if self.show { Records::look(state) } else { Records::open(state) };
        let mut records = records.map_err(HookError::from)?;
        let myself = link::myself()?;
        let myself = myself.to_str().ok_or_else(|| HookError::NotText { path: myself.clone() })?;
        let mut answer = Answer { servers: Vec::new() };
        for (index, server) in chosen {
            let Some(configuration) = found.get(index) else { continue };
            let mut changed = Changed {
                file: configuration.path.clone(),
                server: server.name.clone(),
                state: "left",
                diff: String::new(),
                kept: Vec::new(),
            };
            if server.is_program() {
                let words = launch(myself, &options, &server);
                let planned = records
                    .plan(&server.owner(), &configuration.path, configuration.format, |draft| {
                        edit(draft, &server, &words)
                    })
                    .map_err(HookError::from)?;
                changed.state = if planned.is_change() { "wrapped" } else { "unchanged" };
                if planned.is_change() {
                    changed.diff = difference(&configuration.path, &planned.before(), &planned.content);
                }
                if !self.show {
                    records.make(planned).map_err(HookError::from)?;
                }
            }
            answer.servers.push(changed);
        }
        let any = answer.servers.iter().any(|changed| changed.state != "left");
        verb::tell(self.json, &answer, told)?;
        Ok(if any { YES } else { NO })
    }
}

/// The words that launch a server, up to its own.
fn launch(myself: &str, options: &[String], server: &Server) -> Vec<String> {
    let variables = server.variables.iter().map(|name| format!("--keep-env={name}"));
    let begin = [myself.to_owned(), "run".to_owned()].into_iter();
    begin.chain(options.iter().cloned()).chain(variables).chain(["--".to_owned()]).collect()
}

/// Puts the words in front of a server's own.
fn edit(draft: &mut Draft, server: &Server, words: &[String]) -> Result<(), EditError> {
    let member =
        |name: &'static str| -> Vec<&str> { server.path.iter().map(String::as_str).chain([name]).collect() };
    // What an earlier call has written is taken back, so this is the server's own command.
    let Some(command) = draft.at(&member("command")).map(palisade_settings::Node::value) else {
        return Ok(());
    };
    let is_launch = |first: Option<&str>, second: Option<&str>| {
        first == words.first().map(String::as_str) && second == Some("run")
    };
    let element = |name: &'static str, index: usize| {
        draft.at(&member(name)).and_then(|node| node.elements()?.get(index)?.text())
    };
    // Wrapped, without a record of it: a sandbox in a sandbox can't be made.
    if is_launch(command.as_str(), element("args", 0))
        || is_launch(element("command", 0), element("command", 1))
    {
        return Ok(());
    }
    let texts = |words: &[String]| words.iter().cloned().map(Value::String).collect::<Vec<_>>();
    let Some((program, rest)) = words.split_first() else { return Ok(()) };
    if command.is_array() {
        return draft.prepend(&member("command"), &texts(words));
    }
    let mut arguments = texts(rest);
    arguments.push(command);
    if draft.at(&member("args")).is_none() {
        // By itself: arguments that are added later stay.
        draft.set(&member("args"), &Value::Array(Vec::new()))?;
    }
    draft.prepend(&member("args"), &arguments)?;
    draft.set(&member("command"), &Value::String(program.clone()))
}

/// A file's own name, if it is there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_absent| path.to_owned())
}

impl Unwrap {
    fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let mut records = Records::open(&facts.places.state).map_err(HookError::from)?;
        let files: Option<Vec<PathBuf>> = match &self.configuration {
            Some(named) => {
                let paths = configuration::paths(&facts, named)?;
                Some(paths.iter().map(|path| real(path)).collect())
            }
            None => None,
        };
        let is_meant = |entry: &Entry| match &entry.owner {
            Owned::Server(path) => {
                files.as_ref().is_none_or(|files| files.contains(&real(&entry.path)))
                    && (self.servers.is_empty()
                        || path.last().is_some_and(|name| self.servers.contains(name)))
            }
            Owned::Agent(_) => false,
        };
        // The last first: a later change may have been put in front of an earlier one.
        let entries: Vec<Entry> =
            records.all().iter().rev().filter(|entry| is_meant(entry)).cloned().collect();
        let mut answer = Answer { servers: Vec::new() };
        for entry in entries {
            let format = crate::changed_settings::format_of(&entry.path);
            let undoing = records.plan_undo(&entry, format).map_err(HookError::from)?;
            let after = undoing.content.as_deref().unwrap_or_default();
            let server = match &entry.owner {
                Owned::Server(path) => path.last().cloned().unwrap_or_default(),
                Owned::Agent(name) => name.clone(),
            };
            answer.servers.push(Changed {
                diff: difference(&entry.path, &undoing.before(), after),
                kept: undoing
                    .kept
                    .iter()
                    .map(|path| path.join("."))
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect(),
                file: entry.path.clone(),
                server,
                state: if undoing.is_whole { "unwrapped" } else { "changed" },
            });
            records.undo(&entry.owner, undoing).map_err(HookError::from)?;
        }
        let any = answer.servers.iter().any(|changed| changed.state == "unwrapped");
        verb::tell(self.json, &answer, |answer| {
            if answer.servers.is_empty() { "nothing is wrapped\n".to_owned() } else { told(answer) }
        })?;
        for name in answer.servers.iter().flat_map(|changed| &changed.kept) {
            output::note(&format_args!("{name} was changed meanwhile, and stays as it is"));
        }
        Ok(if any { YES } else { NO })
    }
}

#[derive(Serialize)]
struct Listed {
    agent: String,
    file: PathBuf,
    server: String,
    /// `wrapped`, `not wrapped`, or `remote`: it is reached by a URL.
    state: &'static str,
    /// The command, or the URL.
    starts: String,
}

impl List {
    fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let found = match &self.configuration {
            Some(named) => configurations(&facts, named)?,
            None => configuration::all(&facts)?,
        };
        let myself = link::myself()?;
        let mut answer = Answer { servers: Vec::new() };
        for configuration in &found {
            for server in &configuration.servers {
                let wrapped =
                    server.command.first().is_some_and(|program| myself.as_os_str() == program.as_str())
                        && server.command.get(1).is_some_and(|verb| verb == "run");
                answer.servers.push(Listed {
                    agent: configuration.agent.to_owned(),
                    file: configuration.path.clone(),
                    server: server.name.clone(),
                    state: match (server.is_program(), wrapped) {
                        (false, _) => "remote",
                        (true, true) => "wrapped",
                        (true, false) => "not wrapped",
                    },
                    starts: server.starts(),
                });
            }
        }
        verb::tell(self.json, &answer, |answer| {
            let line = |listed: &Listed| {
                let (name, starts) =
                    (palisade_text::harmless(&listed.server), palisade_text::harmless(&listed.starts));
                format!("{name:<20} {:<12} {}  {starts}\n", listed.state, listed.file.shown())
            };
            let lines: String = answer.servers.iter().map(line).collect();
            if lines.is_empty() { "no servers are configured\n".to_owned() } else { lines }
        })?;
        Ok(YES)
    }
}
