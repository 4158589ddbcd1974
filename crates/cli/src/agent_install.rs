// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade agent install` and `palisade agent remove`: an agent that runs outside of a sandbox runs its commands in
//! one.
//!
//! - [`agent`]: the agents, and what each one's settings need
//! - [`codex`]: Codex, which finds its sandbox on `PATH`

mod agent;
mod codex;

use self::agent::Agent;
use crate::changed_settings::difference;
use crate::hook::LAUNCH;
use crate::hook_error::HookError;
use crate::kept::{self, KeptOptions, Launch};
use crate::verb::{self, Exit, NO, YES};
use crate::{link, output, situation};
use palisade_sandbox::facts::Facts;
use palisade_settings::record::{Owned, Planned};
use palisade_settings::{Draft, Format, Records};
use palisade_text::Show as _;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Which hook to make.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The agent itself stays outside; the commands that it runs are confined. `palisade agent remove` takes
everything back, and the agent's settings are then as they were, byte by byte.

Examples:
  palisade agent install --show claude                       what would it change?
  palisade agent install --allow registry.npmjs.org claude   its commands may reach that host
  palisade agent install --list                              which agents have a hook?")]
pub(crate) struct Install {
    /// The agent
    #[arg(required_unless_present = "list")]
    agent: Option<Agent>,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    show: bool,
    /// List the agents, and whether each has its hook
    #[arg(long, conflicts_with_all = ["agent", "show"])]
    list: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: KeptOptions,
}

/// Which hook to take away.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The agent
    agent: Agent,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// `palisade agent install`. Returns the exit code.
pub(crate) fn install(install: &Install) -> u8 {
    verb::finish(install.json, install.run())
}

/// `palisade agent remove`. Returns the exit code: 0 done, 1 nothing to take away, 2 error.
pub(crate) fn remove(remove: &Remove) -> u8 {
    verb::finish(remove.json, remove.run())
}

/// Where an agent's hook is, and what it is made of.
struct Hook<'f> {
    agent: Agent,
    facts: &'f Facts,
    directory: PathBuf,
}

impl<'f> Hook<'f> {
    fn new(agent: Agent, facts: &'f Facts) -> Self {
        Self { agent, facts, directory: facts.places.data.join("hooks").join(agent.name()) }
    }

    fn owner(&self) -> Owned {
        Owned::Agent(self.agent.name().to_owned())
    }

    /// The change of the agent's settings.
    fn plan(&self, records: &Records) -> Result<Option<Planned>, HookError> {
        let Some(path) = self.agent.settings(self.facts) else { return Ok(None) };
        for name in self.agent.links() {
            let link = self.directory.join(name);
            if link.to_str().is_none() {
                return Err(HookError::NotText { path: link });
            }
        }
        let edit = |draft: &mut Draft| self.agent.edit(draft, &self.directory);
        Ok(Some(records.plan(&self.owner(), &path, Format::Json, edit)?))
    }

    /// Makes the links and the file with the options. Returns whether one is new.
    fn make(&self, options: Vec<String>) -> Result<bool, HookError> {
        if self.agent == Agent::Codex {
            return codex::make(self.facts, &self.directory, options);
        }
        link::make_directory(&self.directory)?;
        let mut new = false;
        for name in self.agent.links() {
            link::check(&self.directory.join(name))?;
        }
        new |= Launch::new(options).write(&self.directory.join(LAUNCH))?;
        for name in self.agent.links() {
            new |= link::make(&self.directory.join(name))?;
        }
        Ok(new)
    }

    /// Takes the links away, and what is beside them. Returns whether there were any.
    fn unmake(&self) -> Result<bool, HookError> {
        if self.agent == Agent::Codex {
            return codex::unmake(self.facts, &self.directory);
        }
        let mut any = false;
        for name in self.agent.links() {
            any |= link::remove(&self.directory.join(name))?;
        }
        any |= link::remove_file(&self.directory.join(LAUNCH))?;
        link::remove_empty(&[&self.directory, &self.facts.places.data.join("hooks")]);
        Ok(any)
    }

    /// The options, if the links are there.
    fn options(&self) -> Result<Option<Vec<String>>, HookError> {
        if self.agent == Agent::Codex {
            return codex::options(self.facts, &self.directory);
        }
        let linked = self.agent.links().iter().all(|name| self.directory.join(name).exists());
        let launch = Launch::read(&self.directory.join(LAUNCH))?;
        Ok(launch.filter(|_launch| linked).map(|launch| launch.options))
    }

    fn state(&self, records: &Records) -> Result<State, HookError> {
        let options = self.options()?;
        let mut settings = Vec::new();
        let mut complete = true;
        for entry in records.of(&self.owner()) {
            settings.push(entry.path.clone());
            let content = palisade_settings::Loaded::read(&entry.path)?.content.unwrap_or_default();
            complete &= Draft::new(&content, Format::Json).is_ok_and(|draft| entry.is_in(&draft));
        }
        let written = self.agent.settings(self.facts).is_none() || !settings.is_empty();
        let state = match (&options, written && complete) {
            (Some(_), true) => "installed",
            (None, _) if settings.is_empty() => "not installed",
            _ => "incomplete",
        };
        Ok(State { agent: self.agent.name(), state, settings, options: options.unwrap_or_default() })
    }
}

/// Whether an agent has its hook.
#[derive(Serialize)]
struct State {
    agent: &'static str,
    /// `installed`, `not installed`, or `incomplete`: somebody has changed a part.
    state: &'static str,
    settings: Vec<PathBuf>,
    options: Vec<String>,
}

#[derive(Serialize)]
struct States {
    agents: Vec<State>,
}

/// What was done.
#[derive(Serialize)]
struct Done {
    agent: &'static str,
    installed: bool,
    /// Whether anything is different now.
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<PathBuf>,
    diff: String,
    /// Members that another has changed meanwhile: they stay.
    left: Vec<String>,
}

fn listed(states: &States) -> String {
    let line = |state: &State| {
        let options = palisade_text::harmless(&state.options.join(" "));
        let options = if options.is_empty() { options } else { format!("  {options}") };
        let files: Vec<String> = state.settings.iter().map(|path| format!("  {}", path.shown())).collect();
        format!("{:<10}{}{}{options}\n", state.agent, state.state, files.concat())
    };
    states.agents.iter().map(line).collect()
}

impl Install {
    fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let Some(agent) = self.agent else { return self.list(&facts) };
        let options = match agent {
            Agent::Codex => codex::check(&self.kept)?,
            _ => self.kept.words_with_profile(),
        };
        kept::check(&self.kept.words_with_profile())?;
        let hook = Hook::new(agent, &facts);
        let mut records = if self.show {
            Records::look(&facts.places.state).map_err(HookError::from)?
        } else {
            Records::open(&facts.places.state).map_err(HookError::from)?
        };
        let planned = hook.plan(&records)?;
        let mut done = Done {
            agent: agent.name(),
            installed: !self.show,
            changed: planned.as_ref().is_some_and(Planned::is_change),
            settings: planned.as_ref().map(|planned| planned.loaded.path.clone()),
            diff: planned
                .as_ref()
                .filter(|planned| planned.is_change())
                .map(|planned| difference(&planned.loaded.path, &planned.before(), &planned.content))
                .unwrap_or_default(),
            left: Vec::new(),
        };
        if self.show {
            verb::tell(self.json, &done, |done| shown(done, &hook))?;
            return Ok(YES);
        }
        done.changed |= hook.make(options)?;
        if let Some(planned) = planned {
            records.make(planned).map_err(HookError::from)?;
        }
        if self.json {
            verb::print_json(&done)?;
        } else {
            verb::print(&made(&done))?;
            agent.notes(&facts).iter().filter(|_note| done.changed).for_each(|note| output::note(note));
        }
        Ok(YES)
    }

    fn list(&self, facts: &Facts) -> Exit {
        let records = Records::look(&facts.places.state).map_err(HookError::from)?;
        let states: Result<_, _> =
            Agent::ALL.iter().map(|agent| Hook::new(*agent, facts).state(&records)).collect();
        verb::tell(self.json, &States { agents: states? }, listed)?;
        Ok(YES)
    }
}

fn shown(done: &Done, hook: &Hook<'_>) -> String {
    let links: Vec<String> = hook
        .agent
        .links()
        .iter()
        .map(|name| format!("would make the link {}\n", hook.directory.join(name).shown()))
        .collect();
    let made = if matches!(hook.options(), Ok(Some(_))) { String::new() } else { links.concat() };
    match (done.diff.is_empty(), made.is_empty()) {
        (true, true) => format!("{}: installed already, nothing would change\n", done.agent),
        _ => made + &done.diff,
    }
}

fn made(done: &Done) -> String {
    let place = |path: &Path| format!(" in {}", path.shown());
    let place = done.settings.as_deref().map(place).unwrap_or_default();
    match done.changed {
        true => format!("{}: installed{place}\n{}", done.agent, done.diff),
        false => format!("{}: installed already, nothing is changed\n", done.agent),
    }
}

impl Remove {
    fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let hook = Hook::new(self.agent, &facts);
        let mut records = Records::open(&facts.places.state).map_err(HookError::from)?;
        let owner = hook.owner();
        let mut done = Done {
            agent: self.agent.name(),
            installed: false,
            changed: false,
            settings: None,
            diff: String::new(),
            left: Vec::new(),
        };
        let entries: Vec<_> = records.of(&owner).cloned().collect();
        for entry in entries {
            let undoing = records.plan_undo(&entry, Format::Json).map_err(HookError::from)?;
            let after = undoing.content.as_deref().unwrap_or_default();
            done.diff.push_str(&difference(&entry.path, &undoing.before(), after));
            done.left.extend(undoing.kept.iter().map(|path| path.join(".")));
            done.settings = Some(entry.path);
            done.changed = true;
            records.undo(&owner, undoing).map_err(HookError::from)?;
        }
        // The settings name the links, so these go last.
        done.changed |= hook.unmake()?;
        verb::tell(self.json, &done, |done| match done.changed {
            true => format!("{}: removed\n{}", done.agent, done.diff),
            false => format!("{}: isn't installed\n", done.agent),
        })?;
        for name in &done.left {
            output::note(&format_args!("{name} was changed meanwhile, and stays as it is"));
        }
        Ok(if done.changed { YES } else { NO })
    }
}
