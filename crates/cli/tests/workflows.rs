// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that what people do in a project directory works in a sandbox at first try, or after the option that the refusal
//! names. `workflows/rows.txt` lists the workflows, and `workflows/*.toml` have the cases.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, Place, Run, everybody, has, job, ordinary};
use palisade_acceptance::patience::Patience;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    workflow: Vec<Workflow>,
}

/// All cases, from the files `workflows/*.toml`.
fn cases() -> Vec<Workflow> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflows");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let read = |path: PathBuf| {
        let cases: Cases = toml::from_str(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        cases.workflow
    };
    files.into_iter().flat_map(read).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workflow {
    name: String,
    /// The rows of `rows.txt` that it tries.
    rows: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    prepare: String,
    #[serde(default, rename = "in")]
    directory: String,
    #[serde(default)]
    options: Vec<String>,
    command: String,
    /// The command isn't a line of shell. A word may begin with the home's tilde.
    #[serde(default)]
    direct: bool,
    /// What is typed inside instead, with `palisade`, if it isn't the command after `palisade run`.
    typed: Option<String>,
    /// Variables.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// A line of shell that runs outside at the same time.
    beside: Option<String>,
    /// A server that runs outside meanwhile.
    server: Option<String>,
    /// The command starts when this line of shell succeeds outside.
    ready: Option<String>,
    /// The command runs at a terminal, where these keys are pressed one after the other.
    keys: Option<Vec<String>>,
    /// Further launches in the same directory, each with options of its own.
    #[serde(default)]
    then: Vec<Launch>,
    hint: Option<String>,
    /// It takes seconds.
    #[serde(default)]
    long: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    #[serde(default)]
    options: Vec<String>,
    command: String,
}

/// Registries with one package, until this is dropped.
struct Registries {
    server: Child,
    port: String,
}

impl Registries {
    fn start(place: &Place) -> Self {
        let mut python = place.command("/usr/bin/python3");
        python.args(["-c", include_str!("workflows/registry.py")]);
        let mut server = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { server, port: port.trim().to_owned() }
    }
}

impl Drop for Registries {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.server.stdin.take());
        let _ended = self.server.wait();
    }
}

/// The directories of Go and of a user's Rust come after those of the system.
fn path(place: &Place) -> String {
    let home = place.home.display();
    format!("{}:/usr/local/go/bin:{home}/.cargo/bin:{home}/bin", support::PATH)
}

/// Downloads of the control, which would make the launch inside easier.
const FORGET: &str = "chmod -R u+w ~/go 2>/dev/null; rm -rf ~/go ~/.npm ~/.cache/[!p]* ~/.cache/pi* ~/.cache/pnpm ~/.cargo/registry ~/.m2/repository \
                      ~/.gradle ~/.local/share/pnpm ~/.local/pipx ~/.local/share/pipx";

/// A port on which no process listens.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// A try of a workflow, outside or inside.
struct Trial<'t> {
    case: &'t Workflow,
    place: &'t Place,
    directory: PathBuf,
    /// What the case's texts stand for.
    stands_for: [(&'static str, String); 3],
}

impl Trial<'_> {
    fn fill(&self, text: &str) -> String {
        self.stands_for.iter().fold(text.to_owned(), |text, (name, what)| text.replace(name, what))
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = self.place.command("sh");
        shell.args(["-c", &self.fill(line)]);
        shell
    }

    /// Runs a command, at a terminal if there are `keys`.
    fn run(&self, mut command: Command, keys: Option<&[String]>) -> Run {
        if keys.is_some() {
            let line = support::terminal::words(&command);
            command = self.place.command("script");
            command.args(["-qefc", &format!("stty rows 24 cols 80; exec {line}"), "/dev/null"]);
            command.env("TERM", "xterm").stdin(Stdio::piped());
        } else {
            command.stdin(Stdio::null());
        }
        command.current_dir(&self.directory).env("PATH", path(self.place));
        command.envs(self.case.environment.iter().map(|(name, value)| (name, self.fill(value))));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let terminal = child.stdin.take();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let Some(mut terminal) = terminal else { return };
                for key in keys.into_iter().flatten() {
                    std::thread::sleep(Duration::from_millis(500));
                    // The command may have ended.
                    let _pressed = terminal.write_all(key.as_bytes());
                }
                std::thread::sleep(Duration::from_millis(500));
            });
            job::wait(child)
        })
    }

    /// As [`run`](Self::run), with what else the case runs meanwhile.
    fn run_all(&self, command: Command) -> Run {
        let case = self.case;
        let server = case.server.as_ref().map(|line| {
            let mut server = self.shell(&format!("exec {line}"));
            server.current_dir(&self.directory).env("PATH", path(self.place));
            server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Server(server.spawn().unwrap())
        });
        if let Some(line) = &case.ready {
            let ready = || self.run(self.shell(line), None).code == 0;
            let mut patience = Patience::new(Duration::from_secs(30));
            while !ready() {
                assert!(!patience.is_spent(), "not decided: the server of {} is not ready", case.name);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let (run, beside) = std::thread::scope(|scope| {
            let beside = case.beside.as_ref().map(|line| scope.spawn(|| self.run(self.shell(line), None)));
            (self.run(command, case.keys.as_deref()), beside.map(|beside| beside.join().unwrap()))
        });
        drop(server);
        match beside {
            Some(beside) if run.code == 0 && beside.code != 0 => beside,
            _ => run,
        }
    }
}

/// A server, until this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Workflow {
    /// Makes the project in `work/NAME`.
    fn trial<'t>(&'t self, place: &'t Place, registries: &Registries, name: &str) -> Trial<'t> {
        let directory = place.work.join(name);
        let home = place.home.to_str().unwrap().to_owned();
        let stands_for = [("@PORT@", registries.port.clone()), ("@FREE@", free_port()), ("@HOME@", home)];
        let mut trial = Trial { case: self, place, directory, stands_for };
        let prepare = trial.fill(&self.prepare);
        place.outside(&format!(
            "chmod -R u+w ~/work/{name} 2>/dev/null; rm -rf ~/work/{name}; mkdir -p ~/work/{name}; cd ~/work/{name}; {prepare}"
        ));
        trial.directory.push(&self.directory);
        trial
    }

    /// A command of this workflow: the words, or a shell with the line.
    fn words(&self, trial: &Trial<'_>, line: &str) -> Vec<String> {
        let line = trial.fill(line);
        if !self.direct {
            return vec!["sh".to_owned(), "-c".to_owned(), line];
        }
        let home = trial.place.home.to_str().unwrap();
        line.split(' ').map(|word| word.replacen('~', home, usize::from(word.starts_with('~')))).collect()
    }

    /// The launches, the first of which gets `more` options.
    fn launches<'w>(&'w self, more: &[&str]) -> impl Iterator<Item = (Vec<String>, &'w str)> {
        let options = self.options.iter().cloned().chain(more.iter().map(|option| (*option).to_owned()));
        let then = self.then.iter().map(|launch| (launch.options.clone(), launch.command.as_str()));
        std::iter::once((options.collect(), self.command.as_str())).chain(then)
    }

    /// Runs the commands up to the first one that fails.
    fn outside(&self, place: &Place, registries: &Registries) -> Run {
        let trial = self.trial(place, registries, "outside");
        let mut last = None;
        for (_options, line) in self.launches(&[]) {
            let words = self.words(&trial, line);
            let mut command = place.command(&words[0]);
            command.args(&words[1..]);
            if last.insert(trial.run_all(command)).code != 0 {
                break;
            }
        }
        last.unwrap()
    }

    /// As [`outside`](Self::outside).
    fn inside(&self, place: &Place, registries: &Registries, more: &[&str]) -> Run {
        let trial = self.trial(place, registries, "inside");
        if let Some(typed) = &self.typed {
            return trial.run_all(trial.shell(typed));
        }
        let mut last = None;
        for (options, line) in self.launches(more) {
            let options: Vec<String> = options.iter().map(|option| trial.fill(option)).collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let words = self.words(&trial, line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if last.insert(trial.run_all(place.palisade(&options, &words))).code != 0 {
                break;
            }
        }
        last.unwrap()
    }

    /// What is wrong. `None`: nothing, or it can't be tried here.
    fn wrong(&self, place: &Place, registries: &Registries) -> Option<String> {
        let is_there = |program: &&String| {
            let mut shell = place.command("sh");
            shell.args(["-c", "command -v \"$0\"", program.as_str()]);
            job::finish(shell.env("PATH", path(place))).code == 0
        };
        let exists = |need: &&String| Path::new(need).is_absolute() && Path::new(need).exists();
        if let Some(program) = self.needs.iter().find(|need| !is_there(need) && !exists(need)) {
            eprintln!("not tried: {}: no {program} here", self.name);
            return None;
        }
        eprintln!("{}", self.name);
        let began = Instant::now();
        let control = self.outside(place, registries);
        let outside = began.elapsed();
        place.outside(FORGET);
        if control.code != 0 {
            return Some(format!("the control failed: {control:?}"));
        }
        let began = Instant::now();
        let inside = self.inside(place, registries, &[]);
        report(&format!(
            "{}\t{}\t{:.3}\t{:.3}\n",
            place.name(),
            self.name,
            outside.as_secs_f64(),
            began.elapsed().as_secs_f64()
        ));
        let home = place.home.to_str().unwrap();
        let Some(hint) = self.hint.as_ref().map(|hint| hint.replace("@HOME@", home)) else {
            return (inside.code != 0).then(|| format!("{inside:?}"));
        };
        if inside.code == 0 {
            return Some("it works without the option, too".to_owned());
        }
        if !inside.err.lines().any(|line| line.ends_with(&format!("hint: {hint}"))) {
            return Some(format!("no hint {hint:?}: {inside:?}"));
        }
        let words = place.outside(&format!("printf '%s\\n' {}", hint.trim_end_matches('…')));
        let option: Vec<&str> = words.lines().skip(2).collect();
        let permitted = self.inside(place, registries, &option);
        (permitted.code != 0).then(|| format!("with {option:?}: {permitted:?}"))
    }
}

/// Adds a line to the file that `PALISADE_WORKFLOW_TIMES` names, if it is set: the person, the workflow, and the seconds that
/// it took outside and inside.
fn report(line: &str) {
    if let Some(path) = std::env::var_os("PALISADE_WORKFLOW_TIMES") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Tries the workflows that take as long as `long` says. All must work, whoever starts them.
fn try_all(long: bool) {
    let cases = cases();
    // Compiling takes minutes, so that one person does it.
    let people = if long { vec![ordinary()] } else { everybody() };
    for place in people {
        place.outside(
            "printf '[user]\\n\\tname = a\\n\\temail = a@example.org\\n[init]\\n\\tdefaultBranch = main\\n' >~/.gitconfig",
        );
        if long && has("rustup") {
            crate::applications::install_toolchain(&place);
        }
        place.outside(&format!("mkdir ~/bin; ln -s {} ~/bin/palisade", place.binary().display()));
        let registries = Registries::start(&place);
        let only = std::env::var("PALISADE_WORKFLOWS").unwrap_or_default();
        let tried = cases.iter().filter(|case| case.long == long && case.name.contains(&only));
        let failed: Vec<String> = tried
            .filter_map(|case| {
                case.wrong(&place, &registries)
                    .map(|wrong| format!("{} ({}): {wrong}", case.name, place.name()))
            })
            .collect();
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    }
}

#[test]
fn work_at_first_try() {
    try_all(false);
}

#[test]
fn longer_work_at_first_try() {
    try_all(true);
}

/// A row of `rows.txt`: a workflow that a newcomer tries in the first hours.
struct Row {
    /// The least options that a newcomer would guess.
    options: String,
    /// The test that tries it, if no case does.
    test: Option<String>,
}

fn rows() -> BTreeMap<String, Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflows/rows.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let row = |line: &str| {
        let mut parts = line.split(" | ").map(|part| part.trim().to_owned());
        let options = parts.next().unwrap();
        (parts.next().unwrap(), Row { options, test: parts.next() })
    };
    lines.map(row).collect()
}

/// Whether the sources have a test of this name.
fn is_a_test(name: &str) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut modules: Vec<&str> = name.split("::").collect();
    let function = modules.pop().unwrap();
    let file = tests.join(modules.join("/")).with_extension("rs");
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {function}(")))
}

#[test]
fn each_row_is_tried_and_nearly_all_work_at_first_try() {
    let (rows, cases) = (rows(), cases());
    let tried: BTreeSet<&String> = cases.iter().flat_map(|case| &case.rows).collect();
    for (row, Row { test, .. }) in &rows {
        assert!(tried.contains(row) != test.is_some(), "{row}: no case, or two ways to try it");
        assert!(test.as_ref().is_none_or(|test| is_a_test(test)), "{row}: no test {test:?}");
    }
    for row in tried {
        assert!(rows.contains_key(row), "{row} isn't in rows.txt");
    }
    // With an option that the list has, the launch of a hint is the first try.
    let second =
        |case: &&Workflow| case.hint.is_some() && case.rows.iter().any(|row| rows[row].options == "none");
    let second: Vec<&str> = cases.iter().filter(second).map(|case| case.name.as_str()).collect();
    assert!(
        second.len() * 20 <= rows.len(),
        "{} of {} work at second try: {second:?}",
        second.len(),
        rows.len()
    );
}
