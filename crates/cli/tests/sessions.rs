// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays whole sessions of coding agents, as npm and PyPI install them, in `palisade agent`. A model on loopback
//! (`sessions/model.py`) follows a script: it reads and edits a file, runs the tests, commits below the top of a repository and
//! in a worktree, starts a server that is asked from outside, and tries one forbidden action for each wall. Each of those
//! works outside, is refused inside, and is explained. `docs/agents.md` has the results;
//! `PALISADE_SESSIONS=write` measures the start of each agent and writes them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod agents;
mod hooked;
mod script;
mod table;

use crate::network::bed::Bed;
use crate::support::{Place, everybody, has};
use agents::{Agent, Installed};
use palisade_acceptance::process;
use script::{Explained, Kind, Script, Step};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a session may take. On an idle machine it is about half a minute.
const SESSION: Duration = Duration::from_secs(300);

#[test]
fn of_aider() {
    play(&agents::AIDER);
}

#[test]
fn of_claude() {
    play(&agents::CLAUDE);
}

#[test]
fn of_codex() {
    play(&agents::CODEX);
}

#[test]
fn of_gemini() {
    play(&agents::GEMINI);
}

#[test]
fn of_opencode() {
    play(&agents::OPENCODE);
}

#[test]
fn of_qwen() {
    play(&agents::QWEN);
}

/// Installs an agent, and plays its sessions as every person.
fn play(agent: &Agent) {
    if !["internet", "git", agent.feature()].iter().all(|feature| has(feature)) {
        return;
    }
    let people = everybody();
    let installed = Installed::new(agent, people.first().unwrap());
    for place in people {
        Session::new(agent, &installed, place).play().compare_or_write();
    }
}

/// A person's project, in which an agent works.
struct Session<'a> {
    agent: &'a Agent,
    installed: &'a Installed,
    bed: Bed,
}

/// How a session ended.
struct Played {
    results: BTreeMap<String, String>,
    err: String,
    all: String,
    /// Lives until what was refused was tried outside.
    model: Model,
}

impl<'a> Session<'a> {
    fn new(agent: &'a Agent, installed: &'a Installed, place: Place) -> Self {
        make_project(&place, agent, installed);
        Self { agent, installed, bed: Bed::new(place) }
    }

    fn place(&self) -> &Place {
        &self.bed.place
    }

    /// The agent's own home.
    fn home(&self) -> PathBuf {
        self.place().home.join(".local/share/palisade/homes").join(self.agent.name)
    }

    /// Plays both sessions, and returns the agent's row for the page.
    fn play(&self) -> table::Row {
        let (subdirectory, worktree) = (script::in_a_subdirectory(), script::in_a_worktree());
        let played = self.run(&subdirectory, &self.place().work.join("sub"));
        self.judge(&subdirectory, &played);
        let played = self.run(&worktree, &self.place().home.join("tree/sub"));
        self.judge(&worktree, &played);
        let log = self
            .place()
            .outside("git log --format=%s; git -C ~/tree log --format=%s; git show HEAD:sub/calc.py");
        assert!(
            log.starts_with("repaired\nfirst\nin the worktree\nfirst\n") && log.contains("a + b"),
            "{log}"
        );
        let steps: Vec<&Step> = subdirectory.steps.iter().chain(&worktree.steps).collect();
        let refused = steps.iter().filter(|step| matches!(step.kind, Kind::Forbidden { .. })).count();
        table::Row {
            agent: self.agent.title,
            name: self.agent.name,
            version: self.agent.version,
            steps: steps.len(),
            refused,
            start: self.start(),
        }
    }

    /// The times of `--version` outside and inside, if the page is to be written: medians of pairs, in milliseconds.
    fn start(&self) -> Option<(u128, u128)> {
        if !table::writes() || self.place().is_root() {
            return None;
        }
        let median = |mut times: Vec<u128>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap()
        };
        let time = |command: &mut Command| {
            let begun = std::time::Instant::now();
            let run = crate::support::job::finish(command);
            assert_eq!(run.code, 0, "{run:?}");
            begun.elapsed().as_millis()
        };
        let outside = || time(self.place().command(&self.installed.program).arg("--version"));
        let inside = || {
            time(self.place().command(self.place().binary()).args(["agent", self.agent.name, "--version"]))
        };
        let _warm = (outside(), inside());
        let (outside, inside) = (0..9).map(|_pair| (outside(), inside())).unzip();
        Some((median(outside), median(inside)))
    }

    /// Runs the agent with a script's model in a directory, and asks the server that it starts.
    fn run(&self, script: &Script, directory: &Path) -> Played {
        let place = self.place();
        let model = Model::start(&self.bed, &script.written(place, self.agent));
        let mut command = self.bed.command("env");
        command.arg(format!("--chdir={}", directory.display()));
        self.agent.prepare(place, &self.home(), &mut command, model.port);
        command.arg(place.binary()).args(["agent", "--repo", "--publish", "18080:8000", "--reach"]);
        command.arg(model.port.to_string()).arg(self.agent.name).args(self.agent.arguments());
        let (out, err) = (place.home.join("out"), place.home.join("err"));
        command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let mut agent = command.spawn().unwrap();
        let texts =
            || [&out, &err].map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
        let mut ended = None;
        if script.serves {
            // The command that serves ends when the file is there.
            palisade_acceptance::patience::eventually(SESSION, || {
                let page = self.bed.outside("curl -sS -m 5 http://127.0.0.1:18080/calc.py");
                ended = agent.try_wait().unwrap();
                page.out.contains("def add") || ended.is_some()
            });
            place.write("work/sub/asked", "it was asked\n");
        }
        let ended = ended.or_else(|| process::wait(&mut agent, SESSION).unwrap());
        if ended.is_none() {
            let _killed = agent.kill();
            let _reaped = agent.wait();
        }
        let [out, err] = texts();
        let record = model.record();
        let all = format!("{}, as {}: {ended:?}\n{record}\n{out}\n{err}", self.agent.name, place.name());
        assert!(ended.is_some_and(|status| status.success()), "{all}");
        Played { results: model.results(), err, all, model }
    }

    /// Checks each step's result. What was refused must work outside; this is tried last, as it changes what was protected.
    fn judge(&self, script: &Script, played: &Played) {
        let Played { results, err, all, .. } = played;
        for step in &script.steps {
            let result = results.get(step.name).unwrap_or_else(|| panic!("no step {:?}: {all}", step.name));
            match &step.kind {
                Kind::Works { prints } => {
                    assert!(result.contains(prints), "{}: {result}\n{all}", step.name);
                }
                Kind::Forbidden { prints, explained } => {
                    assert!(result.contains(script::TRIED), "{} wasn't tried: {result}\n{all}", step.name);
                    assert!(!result.contains(prints), "{} works: {result}\n{all}", step.name);
                    if let Err(text) = self.explained(err, explained) {
                        panic!("{}: not explained: {text}\n{all}", step.name);
                    }
                }
            }
        }
        for step in &script.steps {
            if let Kind::Forbidden { prints, .. } = &step.kind {
                let line = script::filled(step.command, self.place(), self.agent);
                // Inside, the agent's home is in the place of the user's.
                let line = line.replace("~/", &format!("{}/", self.home().display()));
                let line = line.replace("@PID@", &played.model.child.id().to_string());
                let outside = self.bed.outside(&format!("cd ~/work/sub; {line}"));
                assert!(outside.out.contains(prints), "{} doesn't work outside: {outside:?}", step.name);
            }
        }
        self.place().outside("rm -f ~/work/.git/hooks/post-commit");
    }

    /// Whether a refusal is explained. If not, what was found instead.
    fn explained(&self, err: &str, explained: &Explained) -> Result<(), String> {
        let filled = |text| script::filled(text, self.place(), self.agent);
        let (binary, name) = (self.place().binary().display(), self.agent.name);
        let found = |found: bool, text: String| if found { Ok(()) } else { Err(text) };
        match explained {
            Explained::Note(words) => found(err.contains(&filled(words)), err.to_owned()),
            Explained::Asked { question, says } => {
                let question = filled(question);
                let text = self.bed.outside(&format!(
                    "cd ~/work/sub; {binary} explain --profile {name} --home-name {name} --repo {question}; true"
                ));
                found(text.out.contains(&filled(says)), text.out)
            }
            Explained::Refusal(words) => {
                let words = filled(words);
                let said = format!("palisade: refused: {words} by ");
                // The command that permits it.
                let hint = ": palisade agent --";
                if err.lines().any(|line| line.starts_with(&said) && line.contains(hint)) {
                    return Ok(());
                }
                // Only the first refusals of a session are printed, and then the command that prints all.
                let told = "palisade: further refusals: palisade ";
                let Some(command) = err.lines().find_map(|line| line.strip_prefix(told)) else {
                    return Err(err.to_owned());
                };
                let all = self.bed.outside(&format!("{binary} {command} --no-follow")).out;
                let lines: Vec<&str> = all.lines().collect();
                let said = format!(": refused {words}");
                let there = lines.windows(2).any(
                    |pair| matches!(pair, [first, next] if first.contains(&said) && next.contains(hint)),
                );
                found(there, all)
            }
        }
    }
}

/// Makes what an agent works on, and what it must not reach; and the link by which the agent is found.
fn make_project(place: &Place, agent: &Agent, installed: &Installed) {
    place.write(".ssh/id_test", "a private key\n");
    place.write("other/file", "a file of another project\n");
    place.write("work/.env", "PASSWORD=one\n");
    place.write("work/.gitignore", ".env\nasked\n__pycache__\n*.sock\n");
    place.write("work/sub/calc.py", "def add(a, b):\n    return a - b\n");
    place.write(
        "work/sub/test.sh",
        "python3 -c 'import calc; assert calc.add(2, 3) == 5; print(\"pas\" + \"sed\")'\n",
    );
    // In the repository, because some agents let git read no configuration of the user's.
    place.outside("git init -q . && git config user.name Me && git config user.email me@example.org");
    place.outside("git add . && git commit -qm first && git worktree add -q ~/tree");
    place.write(&format!(".local/bin/{}", agent.name), "");
    let link = place.home.join(".local/bin").join(agent.name);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&installed.program, link).unwrap();
}

/// A model that follows a script.
struct Model {
    child: Child,
    port: u16,
    record: PathBuf,
}

impl Model {
    /// Starts it on the test's host.
    fn start(bed: &Bed, script: &str) -> Self {
        Self::start_by(bed.command("python3"), &bed.place, script)
    }

    /// The same by this command of Python's.
    fn start_by(mut command: Command, place: &Place, script: &str) -> Self {
        let program = place.write("model.py", include_str!("sessions/model.py"));
        let script = place.write("script.json", script);
        let (record, socket) = (place.home.join("record"), place.work.join("model.sock"));
        for former in [&record, &socket] {
            let _none_yet = std::fs::remove_file(former);
        }
        command.args([&program, &script, &record, &socket]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().parse().unwrap(), record }
    }

    fn record(&self) -> String {
        std::fs::read_to_string(&self.record).unwrap_or_default()
    }

    /// What the agent has said of each step.
    fn results(&self) -> BTreeMap<String, String> {
        let mut results = BTreeMap::new();
        for line in self.record().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let (Some(step), Some(result)) = (line["step"].as_str(), line["result"].as_str()) {
                results.insert(step.to_owned(), result.to_owned());
            }
        }
        results
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _reaped = process::wait(&mut self.child, Duration::from_secs(20));
        let _dead_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}
