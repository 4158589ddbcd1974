// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports Claude Code's settings: the permissions, the sandbox and the variables of a `settings.json`.
//!
//! All files can be read, and the working directory can be changed. A permission that refuses something counts at every
//! depth. The sandbox's own rules about reading are those of sandbox-runtime: of two, the more specific one decides.
//! `ask` becomes a refusal: a sandbox asks about hosts only.

use super::paths::{Base, Dialect, Spot};
use super::rules::{Item, Order, Rule};
use super::{Importer, OWN};
use crate::ImportError;
use crate::report::At;
use crate::tree::{Node, Value};

/// Settings that are about the agent itself.
const AGENT: &[&str] = &[
    "agent",
    "alwaysThinkingEnabled",
    "apiKeyHelper",
    "attribution",
    "autoMemoryDirectory",
    "autoMemoryEnabled",
    "autoMode",
    "autoUpdates",
    "autoUpdatesChannel",
    "availableModels",
    "awsAuthRefresh",
    "awsCredentialExport",
    "blockedMarketplaces",
    "channelsEnabled",
    "cleanupPeriodDays",
    "companyAnnouncements",
    "defaultShell",
    "disableAllHooks",
    "disableAutoMode",
    "disabledMcpjsonServers",
    "deniedMcpServers",
    "effortLevel",
    "enableAllProjectMcpServers",
    "enabledMcpjsonServers",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "fastMode",
    "fastModePerSessionOptIn",
    "feedbackSurveyRate",
    "fileSuggestion",
    "forceLoginMethod",
    "forceLoginOrgUUID",
    "hooks",
    "allowManagedHooksOnly",
    "allowManagedMcpServersOnly",
    "allowManagedPermissionRulesOnly",
    "allowedHttpHookUrls",
    "allowedMcpServers",
    "httpHookAllowedEnvVars",
    "includeCoAuthoredBy",
    "includeGitInstructions",
    "language",
    "mcpServers",
    "minimumVersion",
    "model",
    "modelOverrides",
    "otelHeadersHelper",
    "outputStyle",
    "plansDirectory",
    "pluginConfigs",
    "pluginTrustMessage",
    "prefersReducedMotion",
    "respectGitignore",
    "showClearContextOnPlanAccept",
    "showThinkingSummaries",
    "skipDangerousModePermissionPrompt",
    "skipWebFetchPreflight",
    "spinnerTipsEnabled",
    "spinnerTipsOverride",
    "spinnerVerbs",
    "statusLine",
    "strictKnownMarketplaces",
    "strictPluginOnlyCustomization",
    "teammateMode",
    "terminalProgressBarEnabled",
    "theme",
    "tui",
    "useAutoModeDuringPlan",
    "verbose",
    "viewMode",
    "voiceEnabled",
    "worktree",
];

/// What a permission says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Ask,
    Deny,
}

const ASKED: &str = "a sandbox asks about hosts only: what would be asked is refused";
const TOOL: &str = "a tool of the agent's own: a sandbox sees only what the tool does";
const EVERY_PATH: &str = "a permission without a path: list the paths under [filesystem]";
const EVERY_HOST: &str = "a permission without a host: list the hosts under [network]";
const NOT_OUTSIDE: &str = "no command runs outside the sandbox";
const MODE: &str = "the agent's own mode: a sandbox has no modes";

impl Importer<'_> {
    pub(super) fn claude(&mut self, root: &Node) -> Result<(), ImportError> {
        self.rules.order = Order::Specific;
        for (key, node) in self.table(root, "the file")? {
            match key.as_str() {
                "$schema" => self.taken(),
                "permissions" => self.permissions(node)?,
                "sandbox" => self.claude_sandbox(node)?,
                "env" => self.variables(node, key)?,
                key if AGENT.contains(&key) => self.left_out(node, key, OWN),
                _ => self.unknown(node, key),
            }
        }
        if self.draft.report.taken == 0
            && self.draft.report.findings.is_empty()
            && self.rules.is_empty()
            && self.hosts.is_empty()
        {
            return Ok(());
        }
        // The agent works in this directory.
        self.rules.write.push(Rule {
            item: Item {
                at: At::line(root.line),
                statement: "the working directory".to_owned(),
                text: ".".to_owned(),
            },
            spot: Spot::base(Base::WorkingDirectory),
        });
        Ok(())
    }

    /// Variables with their values.
    pub(super) fn variables(&mut self, node: &Node, name: &str) -> Result<(), ImportError> {
        for (variable, node) in self.table(node, name)? {
            let label = format!("{name}.{variable}");
            let value = match &node.value {
                Value::Text(text) => text.clone(),
                Value::Number(_) | Value::Flag(_) => node.quoted(),
                _ => return Err(self.wrong(node, &label, "a text")),
            };
            let item = self.item(node, &label, "");
            if self.draft.pair("environment", "set", variable, &crate::text::plain(&value)) {
                self.taken();
            } else {
                self.draft.left_out(item.said("environment", ""), "this can't be a variable");
            }
        }
        Ok(())
    }

    fn permissions(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "permissions")? {
            let name = format!("permissions.{key}");
            match key.as_str() {
                "allow" | "ask" | "deny" => {
                    let verdict = match key.as_str() {
                        "allow" => Verdict::Allow,
                        "ask" => Verdict::Ask,
                        _ => Verdict::Deny,
                    };
                    for item in self.texts(node, &name)? {
                        self.permission(item, verdict);
                    }
                }
                "additionalDirectories" => {
                    for item in self.texts(node, &name)? {
                        let rules = self.rules(&item, Dialect::Shell, true);
                        self.rules.write.extend(rules);
                    }
                }
                "defaultMode" => {
                    if self.text(node, &name)? == "plan" {
                        self.not_kept(node, &name, "the profile lets commands change the working directory");
                    } else {
                        self.left_out(node, &name, MODE);
                    }
                }
                "disableBypassPermissionsMode" | "disableAutoMode" | "skipDangerousModePermissionPrompt" => {
                    self.left_out(node, &name, MODE);
                }
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    /// One permission: `Tool`, or `Tool(what)`.
    fn permission(&mut self, mut item: Item, verdict: Verdict) {
        let written = item.text.clone();
        let (tool, what) = match written.split_once('(') {
            Some((tool, rest)) => (tool.trim(), Some(rest.strip_suffix(')').unwrap_or(rest).trim())),
            None => (written.trim(), None),
        };
        // No word inside the brackets means every one.
        let what = what.filter(|what| !what.is_empty() && !matches!(*what, "*" | "**"));
        match (tool, what) {
            ("Bash", _) => self.command(&item, what, verdict),
            ("Read" | "Grep" | "Glob" | "LS" | "NotebookRead", Some(path)) => {
                item.text = path.to_owned();
                self.reading(&item, verdict);
            }
            ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", Some(path)) => {
                item.text = path.to_owned();
                self.changing(&item, verdict);
            }
            ("WebFetch", Some(what)) => match what.strip_prefix("domain:") {
                Some(domain) => {
                    item.text = domain.trim().to_owned();
                    self.domain(item, verdict);
                }
                None => self.everything(&item, verdict, EVERY_HOST),
            },
            ("WebFetch" | "WebSearch", None) => self.everything(&item, verdict, EVERY_HOST),
            ("Read" | "Grep" | "Glob" | "LS" | "NotebookRead", None) => match verdict {
                Verdict::Allow => self.taken(),
                Verdict::Ask | Verdict::Deny => self.everything(&item, verdict, EVERY_PATH),
            },
            ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", None) => {
                self.everything(&item, verdict, EVERY_PATH);
            }
            _ => self.everything(&item, verdict, TOOL),
        }
    }

    /// A permission that has no place in a profile.
    fn everything(&mut self, item: &Item, verdict: Verdict, why: &'static str) {
        match verdict {
            Verdict::Allow => self.draft.left_out(super::top(item), why),
            Verdict::Ask | Verdict::Deny => self.draft.not_kept(super::top(item), why),
        }
    }

    fn command(&mut self, item: &Item, what: Option<&str>, verdict: Verdict) {
        match verdict {
            Verdict::Allow => self.command_allowed(item),
            Verdict::Ask | Verdict::Deny => {
                // `git push:*` and `git push *` are the lines that begin with these words.
                let words = what.unwrap_or_default();
                let words = words.strip_suffix(":*").or_else(|| words.strip_suffix(" *")).unwrap_or(words);
                self.command_refused(item, words.trim());
            }
        }
    }

    fn reading(&mut self, item: &Item, verdict: Verdict) {
        let rules = self.rules(item, Dialect::Ignore, verdict == Verdict::Allow);
        if rules.is_empty() {
            return;
        }
        match verdict {
            Verdict::Allow => self.rules.read.extend(rules),
            Verdict::Ask | Verdict::Deny => {
                self.rules.never_read.extend(rules);
                self.asked(item, verdict, "hide");
            }
        }
    }

    fn changing(&mut self, item: &Item, verdict: Verdict) {
        let rules = self.rules(item, Dialect::Ignore, verdict == Verdict::Allow);
        if rules.is_empty() {
            return;
        }
        match verdict {
            Verdict::Allow => self.rules.write.extend(rules),
            Verdict::Ask | Verdict::Deny => {
                self.rules.not_write.extend(rules);
                self.asked(item, verdict, "protect_paths");
            }
        }
    }

    fn domain(&mut self, item: Item, verdict: Verdict) {
        match verdict {
            Verdict::Allow => self.hosts.allowed.push(item),
            Verdict::Ask | Verdict::Deny => {
                if verdict == Verdict::Ask {
                    self.draft.approximated(item.said("network", "deny"), ASKED);
                }
                self.hosts.refused.push(item);
            }
        }
    }

    /// Reports that a question became a refusal.
    fn asked(&mut self, item: &Item, verdict: Verdict, key: &'static str) {
        if verdict == Verdict::Ask {
            self.draft.approximated(item.said("filesystem", key), ASKED);
        }
    }

    fn claude_sandbox(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "sandbox")? {
            let name = format!("sandbox.{key}");
            match key.as_str() {
                "enabled" => {
                    if self.flag(node, &name)? == Some(false) {
                        self.approximated(node, &name, "the profile restricts commands all the same");
                    } else {
                        self.taken();
                    }
                }
                "failIfUnavailable" => {
                    self.flag(node, &name)?;
                    self.taken();
                }
                "autoAllowBashIfSandboxed" => {
                    self.flag(node, &name)?;
                    self.taken();
                }
                "excludedCommands" => {
                    for item in self.texts(node, &name)? {
                        self.draft.left_out(super::top(&item), NOT_OUTSIDE);
                    }
                }
                "allowUnsandboxedCommands" => self.grants(node, &name, NOT_OUTSIDE)?,
                "network" => self.claude_network(node)?,
                "filesystem" => {
                    for (key, node) in self.table(node, &name)? {
                        let name = format!("{name}.{key}");
                        match key.as_str() {
                            "allowManagedReadPathsOnly" => self.restricts(node, &name, OWN)?,
                            _ if self.filesystem_member(key, node, &name)? => {}
                            _ => self.unknown(node, &name),
                        }
                    }
                }
                "credentials" => self.credentials(node, &name)?,
                _ if self.srt_member(key, node, &name)? => {}
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }

    fn claude_network(&mut self, node: &Node) -> Result<(), ImportError> {
        for (key, node) in self.table(node, "sandbox.network")? {
            let name = format!("sandbox.network.{key}");
            match key.as_str() {
                "allowManagedDomainsOnly" => self.restricts(node, &name, OWN)?,
                "strictAllowlist" => {
                    self.flag(node, &name)?;
                    self.taken();
                }
                "tlsTerminate" => self.not_kept(node, &name, super::srt::REQUESTS),
                _ if self.network_member(key, node, &name)? => {}
                _ => self.unknown(node, &name),
            }
        }
        Ok(())
    }
}
