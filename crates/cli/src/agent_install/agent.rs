// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agents that have hooks, and what each one's settings need.

use crate::hook::wrapped::Place;
use crate::hook::{JUDGE, LINE, SHELL};
use palisade_sandbox::facts::Facts;
use palisade_settings::{Draft, EditError};
use palisade_text::quoted;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// An agent with a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// opencode
    Opencode,
    /// Cursor
    Cursor,
    /// GitHub Copilot for the terminal
    Copilot,
}

impl Agent {
    /// All of them.
    pub(super) const ALL: [Self; 5] =
        [Self::Claude, Self::Codex, Self::Opencode, Self::Cursor, Self::Copilot];

    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Cursor => "cursor",
            Self::Copilot => "copilot",
        }
    }

    /// The links that its settings name.
    pub(super) const fn links(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &[LINE],
            Self::Opencode => &[SHELL],
            Self::Cursor | Self::Copilot => &[LINE, JUDGE],
            Self::Codex => &[],
        }
    }

    /// The user's settings file. Codex's aren't changed.
    pub(super) fn settings(self, facts: &Facts) -> Option<PathBuf> {
        let home = &facts.account.home;
        let directory = |variable: &str, usual: &str| {
            facts.environment.absolute(variable).map_or_else(|| home.join(usual), Path::to_owned)
        };
        Some(match self {
            Self::Claude => directory("CLAUDE_CONFIG_DIR", ".claude").join("settings.json"),
            Self::Opencode => opencode(&directory("XDG_CONFIG_HOME", ".config").join("opencode")),
            Self::Cursor => home.join(".cursor/hooks.json"),
            // A file of its own: all files of the directory are read.
            Self::Copilot => directory("COPILOT_HOME", ".copilot").join("hooks/palisade.json"),
            Self::Codex => return None,
        })
    }

    /// Changes the settings so that they name the links of this directory.
    pub(super) fn edit(self, draft: &mut Draft, directory: &Path) -> Result<(), EditError> {
        let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
        // Hooks are lines for a shell.
        let judge = quoted(&path(JUDGE));
        match self {
            Self::Claude => draft.set(&["env", "CLAUDE_CODE_SHELL_PREFIX"], &Value::String(path(LINE))),
            Self::Opencode => draft.set(&["shell"], &Value::String(path(SHELL))),
            Self::Cursor => {
                version(draft)?;
                let replaces = json!({"command": judge, "matcher": "Shell"});
                draft.prepend(&["hooks", "preToolUse"], &[replaces])?;
                draft.prepend(&["hooks", "beforeShellExecution"], &[json!({"command": judge})])
            }
            Self::Copilot => {
                version(draft)?;
                let asks = json!({"type": "command", "bash": judge, "timeoutSec": 10});
                draft.prepend(&["hooks", "preToolUse"], &[asks])
            }
            Self::Codex => Ok(()),
        }
    }

    /// What the user has to know.
    pub(super) fn notes(self, facts: &Facts) -> Vec<String> {
        match self {
            Self::Claude => vec![
                "sessions that run already keep their settings: start Claude Code again".to_owned(),
                "its hooks and the MCP servers that it starts run in sandboxes, too".to_owned(),
            ],
            Self::Opencode | Self::Cursor | Self::Copilot => {
                vec!["sessions that run already keep their settings: start the agent again".to_owned()]
            }
            Self::Codex => {
                let links = Place::below(&facts.places.data).links();
                let on_path = facts.environment.absolute_list("PATH").first() == Some(&links);
                let line = format!(
                    "put the links first on PATH, in the start-up file of your shell: export PATH={}:\"$PATH\"",
                    quoted(&links.to_string_lossy())
                );
                if on_path { Vec::new() } else { vec![line] }
            }
        }
    }
}

/// opencode reads both files; what the second says counts.
fn opencode(directory: &Path) -> PathBuf {
    let commented = directory.join("opencode.jsonc");
    if commented.symlink_metadata().is_ok() { commented } else { directory.join("opencode.json") }
}

/// States the version of a file of hooks that has none.
fn version(draft: &mut Draft) -> Result<(), EditError> {
    if draft.at(&["version"]).is_some() { Ok(()) } else { draft.set(&["version"], &json!(1)) }
}
