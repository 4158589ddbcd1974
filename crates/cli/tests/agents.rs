// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the first commands of coding agents that execute `bwrap`: Codex and sandbox-runtime, as npm installs them. Each
//! command is run through bubblewrap and through this program, and must come to the same.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use crate::support::{Place, Run, has, job, ordinary};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What is installed. `docs/bwrap.md` names the same versions.
const PACKAGES: [&str; 2] = ["@anthropic-ai/sandbox-runtime@0.0.83", "@openai/codex@0.171.0"];

/// A place with the agents, a repository in it, and directories in which `bwrap` is another program.
struct Bed {
    place: Place,
}

impl Bed {
    fn new() -> Option<Self> {
        if !["agents", "bwrap", "userns"].iter().all(|feature| has(feature)) {
            return None;
        }
        let place = ordinary();
        // npm knows the authorities that it brings. A host may have others in front of the registry.
        let install = format!(
            "export npm_config_cafile=/etc/ssl/certs/ca-certificates.crt; [ -e $npm_config_cafile ] || unset npm_config_cafile; \
             npm install --silent --no-audit --no-fund --cache ~/npm-cache --prefix ~/agents {}",
            PACKAGES.join(" ")
        );
        place.outside(&install);
        place.outside("git init -q . && mkdir -p .vscode");
        let bed = Self { place };
        let (home, binary) = (bed.place.home.display(), bed.place.binary().display());
        let ours = format!("#!/bin/sh\necho \"$@\" >>{home}/used\nexec {binary} bwrap \"$@\"\n");
        for (name, script) in [("ours", ours), ("real", "#!/bin/sh\nexec /usr/bin/bwrap \"$@\"\n".to_owned())]
        {
            let path = bed.directory(name).join("bwrap");
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        symlink(bed.place.binary(), bed.directory("linked").join("bwrap")).unwrap();
        bed.settings("settings.json", "");
        Some(bed)
    }

    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.place.home.join(name);
        std::fs::create_dir(&directory).unwrap();
        directory
    }

    /// Settings of sandbox-runtime: the working directory is writable, and one file can't be read.
    fn settings(&self, name: &str, more: &str) {
        let secret = self.place.write("secret", "secret");
        let text = format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": [], "allowAllUnixSockets": {}}},
                "filesystem": {{"denyRead": [{secret:?}], "allowWrite": ["."], "denyWrite": []}}{more}}}"#,
            name.contains("sockets")
        );
        self.place.write(name, text);
    }

    /// Runs an agent's command with `bwrap` from one of the directories.
    fn run(&self, bwrap: &str, policy: Option<&str>, command: &[&str]) -> Run {
        let (home, tools) = (self.place.home.display(), Path::new("/usr/sbin:/usr/bin:/sbin:/bin").display());
        let path = format!("{home}/{bwrap}:{home}/agents/node_modules/.bin:{tools}");
        let mut agent = self.place.command("env");
        agent.env("PATH", path).env("TERM", "dumb");
        if let Some(policy) = policy {
            agent.env("PALISADE_BWRAP_POLICY", policy);
        }
        job::finish(agent.args(command))
    }
}

/// How each agent runs a line of shell, and what the line may do.
const LINES: [&str; 6] = [
    "echo hello",
    "exit 7",
    "echo 1 >made && cat made && rm made",
    "echo 1 >../outside",
    "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status",
    "id -u; ls -d /usr ~; kill -0 1 && echo one",
];

#[test]
fn first_commands_come_to_the_same_as_with_bubblewrap() {
    let page = include_str!("../../../docs/bwrap.md");
    for package in PACKAGES {
        let (name, version) = package.rsplit_once('@').unwrap();
        let row = page.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")));
        assert!(
            row.is_some_and(|row| row.contains(version)),
            "docs/bwrap.md doesn't have {package}: {row:?}"
        );
    }
    let Some(bed) = Bed::new() else { return };
    let own = format!(", \"bwrapPath\": {:?}", bed.place.home.join("ours/bwrap"));
    bed.settings("path.json", &own);
    let home = bed.place.home.to_str().unwrap();
    let (settings, path) = (format!("{home}/settings.json"), format!("{home}/path.json"));
    let codex = ["codex", "sandbox", "-c", "sandbox_mode=\"workspace-write\"", "--", "sh", "-c"];
    let closed = ["codex", "sandbox", "--", "sh", "-c"];
    let srt = ["srt", "--settings", &settings, "-c"];
    for (agent, more) in [(&codex[..], ""), (&closed, ""), (&srt, "cat ~/secret")] {
        for line in LINES.iter().copied().chain(Some(more).filter(|more| !more.is_empty())) {
            let command = [agent, &[line]].concat();
            let (real, ours) = (bed.run("real", None, &command), bed.run("ours", None, &command));
            assert_eq!((real.code, &real.out, &real.err), (ours.code, &ours.out, &ours.err), "{command:?}");
            assert!(!bed.place.home.join("outside").exists(), "{command:?}");
        }
        for bwrap in ["ours", "linked"] {
            assert_eq!(bed.run(bwrap, None, &[agent, &["echo hello"]].concat()).ok(), "hello");
        }
        // It is this program that was executed.
        let used = std::fs::read_to_string(bed.place.home.join("used")).unwrap();
        assert!(used.contains("--ro-bind / /"), "{agent:?}: {used}");
        std::fs::remove_file(bed.place.home.join("used")).unwrap();
    }
    // sandbox-runtime makes a user namespace in the sandbox, and a filter there.
    let filtered = bed.run("ours", None, &[&srt[..], &["grep ^Seccomp: /proc/self/status"]].concat());
    assert_eq!(filtered.ok(), "Seccomp:\t2");
    // By the setting, where bubblewrap's comes first on `PATH`.
    let by_setting = bed.run("real", None, &["srt", "--settings", &path, "-c", "echo hello"]);
    assert_eq!(by_setting.ok(), "hello");
}

#[test]
fn first_commands_run_with_a_policy() {
    let Some(bed) = Bed::new() else { return };
    bed.settings("sockets.json", "");
    bed.place.write(
        ".config/palisade/profiles/agent.toml",
        "schema = 1\nname = \"agent\"\ndescription = \"An agent's.\"\n[process]\ndatagrams = true\n",
    );
    let settings = bed.place.home.join("sockets.json");
    let codex = ["codex", "sandbox", "-c", "sandbox_mode=\"workspace-write\"", "--", "sh", "-c"];
    let srt = ["srt", "--settings", settings.to_str().unwrap(), "-c"];
    for (agent, policy) in [(&codex[..], "default"), (&srt, "agent")] {
        let run = |policy, line| bed.run("ours", policy, &[agent, &[line]].concat());
        assert_eq!(run(Some(policy), "echo hello").ok(), "hello");
        assert_eq!(run(Some(policy), "echo 1 >made && cat made").ok(), "1");
        // A name that these versions leave open, and the policy protects.
        let line = "mkdir -p x/.git/hooks && echo 1 >x/.git/hooks/post-commit";
        let without = run(None, line);
        let made = bed.place.work.join("x/.git/hooks/post-commit");
        assert!(made.exists(), "{agent:?}: {without:?}");
        bed.place.outside("rm -rf x");
        let with = run(Some(policy), line);
        assert!(!made.exists() && with.code != 0, "{agent:?}: {with:?}");
        bed.place.outside("rm -rf x");
    }
    // Its program makes a user namespace, which this policy doesn't allow.
    bed.settings("settings.json", "");
    let settings = bed.place.home.join("settings.json");
    let nested = bed.run(
        "ours",
        Some("agent"),
        &["srt", "--settings", settings.to_str().unwrap(), "-c", "echo hello"],
    );
    assert_ne!(nested.code, 0, "{nested:?}");
    assert!(nested.err.contains("palisade: refused: syscall unshare by "), "{nested:?}");
}
