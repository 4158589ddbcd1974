// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports Codex's settings: what a `config.toml` says about the sandbox.
//!
//! A file has either the older settings (`sandbox_mode`), or a permission profile that it chooses by
//! `default_permissions`. If it has both, the older settings count, as in Codex. Of two rules on a path, the more
//! specific one decides; a pattern that refuses counts at every depth.

mod permissions;

use super::paths::{Base, Dialect, Spot};
use super::rules::{Item, Order, Reads, Rule};
use super::{Entries, Importer, OWN};
use crate::ImportError;
use crate::tree::{Node, Value};

/// Settings that are about the agent itself, or about programs that it starts beside its commands.
const AGENT: &[&str] = &[
    "agents",
    "allow_login_shell",
    "analytics",
    "apps",
    "audio",
    "background_terminal_max_timeout",
    "chatgpt_base_url",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "commit_attribution",
    "compact_prompt",
    "default_tools_approval_mode",
    "developer_instructions",
    "disable_paste_burst",
    "disable_response_storage",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
    "feedback",
    "file_opener",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "ghost_snapshot",
    "hide_agent_reasoning",
    "history",
    "hooks",
    "instructions",
    "log_dir",
    "marketplaces",
    "mcp_oauth_callback_port",
    "mcp_oauth_callback_url",
    "mcp_oauth_credentials_store",
    "mcp_servers",
    "memories",
    "model",
    "model_auto_compact_token_limit",
    "model_catalog_json",
    "model_context_window",
    "model_instructions_file",
    "model_max_output_tokens",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_supports_reasoning_summaries",
    "model_verbosity",
    "notice",
    "notify",
    "openai_base_url",
    "oss_provider",
    "otel",
    "personality",
    "plan_mode_reasoning_effort",
    "plugins",
    "preferred_auth_method",
    "profiles",
    "project_doc_fallback_filenames",
    "project_doc_max_bytes",
    "project_root_markers",
    "projects",
    "review_model",
    "service_tier",
    "show_raw_agent_reasoning",
    "skills",
    "sqlite_home",
    "suppress_unstable_features_warning",
    "tool_output_token_limit",
    "tools",
    "tui",
    "web_search",
    "windows",
    "windows_wsl_setup_acknowledged",
    "zsh_path",
];

const APPROVALS: &str = "a sandbox asks about hosts only: what the profile doesn't allow is refused";
const OLDER: &str = "`sandbox_mode` counts instead, as in Codex";
const SHELL: &str =
    "Palisade starts the command itself, and no shell's start-up file decides about variables";
const OWN_TMP: &str = "the sandbox has a /tmp of its own, which is empty at each start";

/// The names of a writable directory that Codex keeps as they are.
const KEPT: [&str; 3] = [".git", ".agents", ".codex"];

/// The value of a key.
fn member<'n>(entries: &'n Entries, name: &str) -> Option<&'n Node> {
    entries.iter().find(|(key, _node)| key == name).map(|(_key, node)| node)
}

impl Importer<'_> {
    pub(super) fn codex(&mut self, root: &Node) -> Result<(), ImportError> {
        self.rules.order = Order::Specific;
        self.rules.reading_limits = true;
        let entries = self.table(root, "the file")?;
        let older = member(entries, "sandbox_mode").is_some();
        let profile = member(entries, "default_permissions");
        let mut decided = false;
        for (key, node) in entries {
            match key.as_str() {
                "$schema" => self.taken(),
                "sandbox_mode" => {
                    self.mode(node)?;
                    decided = true;
                }
                "sandbox_workspace_write" if older => self.workspace_write(node, entries)?,
                "sandbox_workspace_write" => {
                    self.left_out(node, key, "without `sandbox_mode = \"workspace-write\"` it has no effect");
                }
                "default_permissions" | "permissions" if older => self.left_out(node, key, OLDER),
                "default_permissions" => {
                    self.chosen(node, member(entries, "permissions"), proxied(entries))?;
                    decided = true;
                }
                "permissions" if profile.is_some() => {}
                "permissions" => {
                    self.left_out(node, key, "`default_permissions` chooses none of these profiles");
                }
                "approval_policy" | "approvals_reviewer" | "default_approval" => {
                    self.approximated(node, key, APPROVALS);
                }
                "shell_environment_policy" => self.variables_of_codex(node)?,
                "features" => self.features(node)?,
                "profile" => self.not_kept(
                    node,
                    key,
                    "another profile of settings may restrict more: import its values",
                ),
                key if AGENT.contains(&key) || key.starts_with("experimental_") => {
                    self.left_out(node, key, OWN);
                }
                _ => self.unknown(node, key),
            }
        }
        if !decided {
            self.read_only();
            let header = &mut self.draft.document.header;
            header.push("The file chooses no sandbox: this is the narrowest one, read-only.".to_owned());
        }
        Ok(())
    }

    fn features(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "features")? {
            let name = format!("features.{key}");
            if key == "network_proxy" {
                self.taken();
            } else {
                self.left_out(node, &name, OWN);
            }
        }
        Ok(())
    }

    fn mode(&mut self, node: &Node) -> Result<(), ImportError> {
        match self.text(node, "sandbox_mode")? {
            "read-only" => {
                self.read_only();
                self.taken();
            }
            "workspace-write" => {
                // The directory itself is counted with the rules.
                self.workspace(node);
            }
            "danger-full-access" => {
                let item = self.item(node, "sandbox_mode", ".");
                self.full_access(item);
                self.approximated(
                    node,
                    "sandbox_mode",
                    "no profile is without a sandbox: your home, the working directory and the internet are allowed",
                );
            }
            _ => {
                return Err(self.wrong(
                    node,
                    "sandbox_mode",
                    "\"read-only\", \"workspace-write\" or \"danger-full-access\"",
                ));
            }
        }
        Ok(())
    }

    /// All files can be read.
    fn read_only(&mut self) {
        self.rules.reads = Reads::All;
    }

    /// The working directory can be changed, except for what Codex keeps.
    fn workspace(&mut self, node: &Node) {
        self.rules.reads = Reads::All;
        let item = self.item(node, "sandbox_mode", ".");
        self.writable(item, Spot::base(Base::WorkingDirectory));
    }

    fn full_access(&mut self, item: Item) {
        self.rules.reads = Reads::All;
        for base in [Base::Home, Base::WorkingDirectory] {
            self.rules.write.push(Rule { item: item.clone(), spot: Spot::base(base) });
        }
        self.hosts.all = Some(item);
    }

    /// A directory that can be changed, except for what Codex keeps.
    fn writable(&mut self, item: Item, root: Spot) {
        for name in KEPT {
            self.rules.not_write.push(Rule { item: item.clone(), spot: root.with(name) });
        }
        self.rules.write.push(Rule { item, spot: root });
    }

    fn workspace_write(&mut self, node: &Node, entries: &Entries) -> Result<(), ImportError> {
        let mode = member(entries, "sandbox_mode").and_then(Node::text);
        if mode != Some("workspace-write") {
            self.left_out(
                node,
                "sandbox_workspace_write",
                "without `sandbox_mode = \"workspace-write\"` it has no effect",
            );
            return Ok(());
        }
        for (key, node) in self.table(node, "sandbox_workspace_write")? {
            let name = format!("sandbox_workspace_write.{key}");
            match key.as_str() {
                "writable_roots" => {
                    for mut item in self.texts(node, &name)? {
                        self.below_the_file(&mut item);
                        for rule in self.rules(&item, Dialect::Shell, true) {
                            self.writable(rule.item, rule.spot);
                        }
                    }
                }
                "network_access" => {
                    if self.flag(node, &name)? == Some(true) {
                        self.hosts.all = Some(self.item(node, &name, ""));
                    } else {
                        self.taken();
                    }
                }
                "exclude_tmpdir_env_var" | "exclude_slash_tmp" => {
                    if self.flag(node, &name)? == Some(false) {
                        self.approximated(node, &name, OWN_TMP);
                    } else {
                        self.taken();
                    }
                }
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    /// A path that begins with a name lies beside the file.
    fn below_the_file(&self, item: &mut Item) {
        if !item.text.starts_with(['/', '~', ':'])
            && let Some(directory) = self.path.parent()
            && let Ok(directory) = directory.canonicalize()
        {
            item.text = directory.join(&item.text).to_string_lossy().into_owned();
        }
    }

    /// Which variables commands get.
    fn variables_of_codex(&mut self, node: &Node) -> Result<(), ImportError> {
        const NAME: &str = "shell_environment_policy";
        for (key, node) in self.table(node, NAME)? {
            let name = format!("{NAME}.{key}");
            match key.as_str() {
                "inherit" => {
                    let kept: &[&str] = match self.text(node, &name)? {
                        "all" => {
                            self.taken();
                            continue;
                        }
                        "core" => {
                            &["HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"]
                        }
                        "none" => &[],
                        _ => return Err(self.wrong(node, &name, "\"all\", \"core\" or \"none\"")),
                    };
                    self.only(kept);
                    self.taken();
                }
                "include_only" => {
                    let items = self.texts(node, &name)?;
                    self.only(&[]);
                    for item in items {
                        self.names(&item, "default.environment", "keep", true);
                    }
                }
                "exclude" => {
                    for item in self.texts(node, &name)? {
                        self.names(&item, "environment", "remove", false);
                    }
                }
                "ignore_default_excludes" => {
                    if self.flag(node, &name)? == Some(false) {
                        for pattern in ["*KEY*", "*SECRET*", "*TOKEN*"] {
                            self.draft.push("environment", "remove", pattern);
                        }
                        self.taken();
                    } else {
                        self.left_out(node, &name, "secrets aren't inherited: name single ones with `keep`");
                    }
                }
                "set" => self.variables(node, &name)?,
                "experimental_use_profile" => self.grants(node, &name, SHELL)?,
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    /// Only these variables are inherited.
    fn only(&mut self, names: &[&str]) {
        self.draft.push("default.environment", "remove", "*");
        for name in names {
            self.draft.push("default.environment", "keep", name);
        }
    }

    /// Names of variables, or patterns of them. Codex compares them without regard to case.
    fn names(&mut self, item: &Item, section: &'static str, key: &'static str, grants: bool) {
        let forms = [item.text.clone(), item.text.to_ascii_uppercase(), item.text.to_ascii_lowercase()];
        let could = forms.iter().all(|form| self.draft.push(section, key, form));
        match (could, grants) {
            (true, _) => self.draft.taken(),
            (false, true) => self.draft.left_out(item.said(section, key), "only `*` is a pattern of names"),
            (false, false) => self.draft.not_kept(item.said(section, key), "only `*` is a pattern of names"),
        }
    }
}

/// Whether a file has a proxy that enforces the rules about hosts.
fn proxied(entries: &Entries) -> bool {
    let features = member(entries, "features");
    let Some(Node { value: Value::Table(features), .. }) = features else { return false };
    member(features, "network_proxy").is_some_and(|node| match &node.value {
        Value::Flag(flag) => *flag,
        Value::Table(entries) => member(entries, "enabled").and_then(Node::flag).unwrap_or(true),
        _ => false,
    })
}
