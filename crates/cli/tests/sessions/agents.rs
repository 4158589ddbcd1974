// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agents: how each is installed, and started with the model of the test.

use crate::support::{Place, is_root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where an agent comes from.
#[derive(Debug, Clone, Copy)]
enum Package {
    /// npm's registry.
    Npm(&'static str),
    /// PyPI, into a virtual environment.
    Pip(&'static str),
}

/// An agent, and how it is started without a terminal.
pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    package: Package,
    /// The version that is played; `docs/agents.md` names it.
    pub(super) version: &'static str,
    /// Settings that it obeys at its next start, below its home.
    pub(super) settings: &'static str,
    /// What these settings are for the session; `@PORT@` is the model's.
    written: &'static str,
    environment: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
}

/// Its model has no tools: it edits files by text, and runs tests. So the steps are a script, which it runs as the tests.
pub(super) const AIDER: Agent = Agent {
    name: "aider",
    title: "aider",
    package: Package::Pip("aider-chat"),
    version: "0.86.2",
    settings: ".aider.conf.yml",
    written: "auto-commits: false\n",
    environment: &[("OPENAI_API_BASE", "http://127.0.0.1:@PORT@/v1"), ("OPENAI_API_KEY", "key")],
    arguments: &[
        "--model=openai/edits",
        "--weak-model=openai/words",
        "--edit-format=diff",
        "--map-tokens=0",
        "--yes-always",
        "--no-check-update",
        "--no-gitignore",
        "--no-pretty",
        "--no-show-model-warnings",
        "--no-show-release-notes",
        "--no-auto-lint",
        "--auto-test",
        "--test-cmd=cd sub && sh ../steps.sh",
        "--message=Do the steps.",
        "calc.py",
    ],
};

pub(super) const CLAUDE: Agent = Agent {
    name: "claude",
    title: "Claude Code",
    package: Package::Npm("@anthropic-ai/claude-code"),
    version: "2.1.197",
    settings: ".claude/settings.json",
    written: "{}\n",
    environment: &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:@PORT@"), ("ANTHROPIC_API_KEY", "key")],
    arguments: &["--dangerously-skip-permissions", "-p", "Do the steps."],
};

pub(super) const CODEX: Agent = Agent {
    name: "codex",
    title: "Codex",
    package: Package::Npm("@openai/codex"),
    version: "0.171.0",
    settings: ".codex/config.toml",
    written: "model = \"model\"\nmodel_provider = \"test\"\n[model_providers.test]\nname = \"test\"\n\
              base_url = \"http://127.0.0.1:@PORT@/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n",
    environment: &[("OPENAI_API_KEY", "key")],
    arguments: &["exec", "--skip-git-repo-check", "Do the steps."],
};

pub(super) const GEMINI: Agent = Agent {
    name: "gemini",
    title: "Gemini CLI",
    package: Package::Npm("@google/gemini-cli"),
    version: "0.61.0",
    settings: ".gemini/settings.json",
    written: "{\"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}}\n",
    environment: &[
        ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:@PORT@"),
        ("GEMINI_API_KEY", "key"),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ],
    arguments: &["-m", "gemini-2.5-pro", "--yolo", "-p", "Do the steps."],
};

pub(super) const OPENCODE: Agent = Agent {
    name: "opencode",
    title: "opencode",
    package: Package::Npm("opencode-ai"),
    version: "1.18.33",
    settings: ".config/opencode/opencode.json",
    written: "{\"$schema\": \"https://opencode.ai/config.json\", \"model\": \"test/test\", \"small_model\": \"test/test\", \"permission\": \"allow\", \"provider\": {\"test\": {\
              \"npm\": \"@ai-sdk/openai-compatible\", \"name\": \"test\", \
              \"options\": {\"baseURL\": \"http://127.0.0.1:@PORT@/v1\", \"apiKey\": \"key\"}, \
              \"models\": {\"test\": {\"name\": \"test\", \"tool_call\": true}}}}}\n",
    environment: &[],
    arguments: &["run", "Do the steps."],
};

pub(super) const QWEN: Agent = Agent {
    name: "qwen",
    title: "Qwen Code",
    package: Package::Npm("@qwen-code/qwen-code"),
    version: "0.15.10",
    settings: ".qwen/settings.json",
    written: "{}\n",
    environment: &[
        ("OPENAI_BASE_URL", "http://127.0.0.1:@PORT@/v1"),
        ("OPENAI_API_KEY", "key"),
        ("OPENAI_MODEL", "test"),
    ],
    arguments: &["--auth-type", "openai", "--yolo", "-p", "Do the steps."],
};

impl Agent {
    /// What the machine must have.
    pub(super) const fn feature(&self) -> &'static str {
        match self.package {
            Package::Npm(_) => "sessions",
            Package::Pip(_) => "sessions-pip",
        }
    }

    /// Where its program is below the directory, and the line of shell that installs it there.
    fn installation(&self, directory: &Path) -> (&'static str, String) {
        let (directory, version) = (directory.display(), self.version);
        match self.package {
            // npm knows the authorities that it brings. A host may have others in front of the registry.
            Package::Npm(name) => (
                "node_modules/.bin",
                format!(
                    "export npm_config_cafile=/etc/ssl/certs/ca-certificates.crt; [ -e $npm_config_cafile ] || unset npm_config_cafile; \
                     npm install --silent --no-audit --no-fund --cache ~/npm-cache --prefix {directory} {name}@{version}; \
                     rm -rf ~/npm-cache"
                ),
            ),
            Package::Pip(name) => (
                "bin",
                format!(
                    "/usr/bin/python3 -m venv {directory} && {directory}/bin/pip install --quiet --no-cache-dir {name}=={version}"
                ),
            ),
        }
    }

    /// Writes the agent's settings into its own home, and sets the user's variables.
    pub(super) fn prepare(&self, place: &Place, home: &Path, command: &mut Command, port: u16) {
        let filled = |text: &str| text.replace("@PORT@", &port.to_string());
        let settings = home.join(self.settings);
        place.write(settings.strip_prefix(&place.home).unwrap().to_str().unwrap(), filled(self.written));
        for (name, value) in self.environment {
            command.arg(format!("{name}={}", filled(value)));
        }
    }

    pub(super) fn arguments(&self) -> &'static [&'static str] {
        self.arguments
    }
}

/// An installed agent, in a directory that is removed at the end. It is in no home and not in /tmp, as agents that were
/// installed for all users aren't.
pub(super) struct Installed {
    directory: PathBuf,
    pub(super) program: PathBuf,
    kept: bool,
}

impl Installed {
    /// Installs it as a person. `PALISADE_SESSIONS_AT` names a directory for agents that stay installed, which
    /// saves the time of a second installation.
    pub(super) fn new(agent: &Agent, place: &Place) -> Self {
        let kept = std::env::var_os("PALISADE_SESSIONS_AT").map(PathBuf::from);
        let name = format!("palisade-session-{}-{}", agent.name, std::process::id());
        let directory = match &kept {
            Some(directory) => directory.join(format!("{}-{}", agent.name, agent.version)),
            None if is_root() => Path::new("/opt").join(name),
            None => Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
        };
        let (programs, line) = agent.installation(&directory);
        let program = directory.join(programs).join(agent.name);
        let installed = Self { directory, program, kept: kept.is_some() };
        if !installed.program.exists() {
            std::fs::create_dir_all(&installed.directory).unwrap();
            crate::support::give(place, &installed.directory);
            place.outside(&line);
            assert!(installed.program.exists(), "no {} was installed: {line}", agent.name);
        }
        installed
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if !self.kept {
            let _removed = std::fs::remove_dir_all(&self.directory);
        }
    }
}
