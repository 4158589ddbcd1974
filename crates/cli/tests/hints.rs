// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that every hint works. The files `hints/*.toml` say how each hint is provoked, and what it must achieve; hints that
//! aren't executed are there with the reason. A hint of the sources that is in none of these files fails a test.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod source;

use crate::support::{PATH, Place, Run, everybody, job};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file of hints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    #[serde(default)]
    hint: Vec<Hint>,
    #[serde(default)]
    not_executed: Vec<NotExecuted>,
}

/// A hint that is executed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hint {
    /// The text in the source, with its placeholders.
    text: String,
    /// What must be there before.
    #[serde(default)]
    prepare: String,
    /// A line of shell that prints the hint.
    provoke: String,
    /// What a user types for a word of the hint.
    #[serde(default)]
    fill: BTreeMap<String, String>,
    /// The command begins behind these words.
    after: Option<String>,
    /// A line of shell in which the hint is a part, as `HINT`: for a hint that is an option.
    within: Option<String>,
    /// The exit code of the hint's command.
    #[serde(default)]
    code: i32,
    /// `provoke` succeeds when the hint's command has been executed.
    #[serde(default)]
    again: bool,
    /// A line of shell that succeeds when the hint's command has been executed, and fails before.
    then: Option<String>,
    /// Programs without which it isn't tried.
    #[serde(default)]
    needs: Vec<String>,
    /// `root` or `user`: it is tried only as that one.
    who: Option<String>,
}

/// A hint that isn't executed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotExecuted {
    /// Why not.
    why: String,
    /// The texts in the source.
    #[serde(default)]
    texts: Vec<String>,
    /// The sources of which no text is executed.
    #[serde(default)]
    files: Vec<String>,
    /// No text is a command, although some begin as one.
    #[serde(default)]
    no_commands: bool,
}

/// All files of hints.
fn cases() -> Cases {
    let mut all = Cases { hint: Vec::new(), not_executed: Vec::new() };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hints");
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let cases: Cases =
                toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
            all.hint.extend(cases.hint);
            all.not_executed.extend(cases.not_executed);
        }
    }
    all
}

/// The fixed parts of a text, between its placeholders. `{{` is a brace.
fn parts(text: &str) -> Vec<String> {
    let text = text.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut parts = vec![String::new()];
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        parts.last_mut().unwrap().push_str(before);
        parts.push(String::new());
        rest = after.split_once('}').map_or("", |(_name, rest)| rest);
    }
    parts.last_mut().unwrap().push_str(rest);
    parts.iter().map(|part| part.replace('\u{1}', "{").replace('\u{2}', "}")).collect()
}

/// What was printed for the hint in this line.
fn printed<'l>(text: &str, line: &'l str) -> Option<&'l str> {
    let parts = parts(&text.replace('\r', ""));
    let begins = match parts.first().filter(|part| !part.is_empty()) {
        Some(first) => line.find(first.as_str())?,
        None => line.find("hint: ")? + "hint: ".len(),
    };
    let mut end = begins;
    for part in &parts {
        end += line[end..].find(part.as_str())? + part.len();
    }
    if parts.last().is_some_and(String::is_empty) {
        end = line.len();
    }
    line.get(begins..end)
}

/// The command of a hint, with what a user types in place of words such as `COMMAND`.
fn command(printed: &str, after: Option<&str>, fill: &BTreeMap<String, String>) -> Result<String, String> {
    let command = printed.split("   #").next().unwrap_or_default();
    let command = match after {
        Some(words) => command.split_once(words).ok_or_else(|| format!("no {words:?} in {command:?}"))?.1,
        None => command,
    };
    let mut command = command.trim_end().to_owned();
    // `COMMAND…` is filled before `…`.
    for (word, typed) in fill.iter().rev() {
        if !command.contains(word.as_str()) {
            return Err(format!("no {word:?} to fill in {command:?}"));
        }
        command = command.replace(word.as_str(), typed);
    }
    let open = ["…", "COMMAND", "DIRECTORY", "FILE", "NAME", "PROFILE", "PROGRAM"];
    match open
        .iter()
        .find(|word| command.split(|c: char| !c.is_alphanumeric() && c != '…').any(|w| w == **word))
    {
        Some(word) => Err(format!("{word} isn't filled in {command:?}")),
        None => Ok(command),
    }
}

/// A user's empty home.
struct Shell<'p> {
    place: &'p Place,
    home: PathBuf,
}

impl<'p> Shell<'p> {
    fn new(place: &'p Place, number: usize) -> Self {
        let home = place.home.join(format!("hints/{number}"));
        let make = "mkdir -p \"$0/work\" \"$0/.local/bin\" \"$0/shims\"; \
                    printf '#!/bin/sh\\nexec \"$@\"\\n' >\"$0/shims/sudo\"; chmod 755 \"$0/shims/sudo\"";
        let made = job::finish(place.command("sh").args(["-c", make]).arg(&home));
        assert_eq!(made.code, 0, "{made:?}");
        let write = |name: &str, text: &str| {
            let program = home.join("shims").join(name);
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        };
        write("terminal", include_str!("hints/terminal.py"));
        // What isn't there is missing among what a case needs: without fanotify there is no guard,
        // and without overlays the host's directories can't be copied.
        let (guard, scopes) = (crate::support::has("fanotify"), crate::support::has("scopes"));
        if place.is_root() && crate::support::has("overlay") {
            write("apart", include_str!("hints/apart.sh"));
            write("packaged", include_str!("hints/packaged.sh"));
            write("refusing", include_str!("hints/refusing.sh"));
        }
        if place.is_root() && guard {
            write("guarded", include_str!("hints/guarded.sh"));
        }
        if place.is_root() && scopes {
            write("scoped", include_str!("hints/scoped.sh"));
            write("served", include_str!("hints/served.sh"));
            write("palisaded.service", include_str!("../../../packaging/palisaded.service"));
        }
        if place.is_root() && (guard || scopes) {
            let palisaded =
                palisade_acceptance::programs::palisaded(Path::new(env!("CARGO_BIN_EXE_palisade")));
            std::os::unix::fs::symlink(palisaded, home.join("shims/palisaded")).unwrap();
        }
        Self { place, home }
    }

    /// Runs a line of shell in `~/work`, without a terminal.
    fn run(&self, line: &str) -> Run {
        let programs = self.place.binary().parent().unwrap();
        let path = format!(
            "{}:{}:{}:{PATH}",
            self.home.join("shims").display(),
            self.home.join(".local/bin").display(),
            programs.display()
        );
        let mut shell = self.place.command("setsid");
        shell.args(["--wait", "sh", "-c", line]).current_dir(self.home.join("work"));
        job::finish(shell.env("HOME", &self.home).env("PATH", path))
    }
}

impl Hint {
    /// What is wrong. `None`: nothing, or it can't be tried here.
    fn wrong(&self, place: &Place, number: usize) -> Option<String> {
        if self.who.as_ref().is_some_and(|who| (who == "root") != place.is_root()) {
            return None;
        }
        // Shown if the test fails: a command that doesn't end says nothing.
        eprintln!("tried as {}: {}", place.name(), self.text);
        let shell = Shell::new(place, number);
        let lacks = |program: &&String| shell.run(&format!("command -v {program}")).code != 0;
        if let Some(program) = self.needs.iter().find(lacks) {
            eprintln!("not tried: {}: no {program} here", self.text);
            return None;
        }
        let prepared = shell.run(&self.prepare);
        if prepared.code != 0 {
            return Some(format!("can't prepare it: {prepared:?}"));
        }
        let provoked = shell.run(&self.provoke);
        let said = format!("{}{}", provoked.err, provoked.out).replace('\r', "");
        // Root doesn't read it: `output.rs`.
        let text = match place.is_root() {
            true => self.text.strip_prefix("sudo ").unwrap_or(&self.text),
            false => &self.text,
        };
        // A text of several lines ends with a line break.
        let found = match text.ends_with('\n') {
            true => printed(text, &said),
            false => said.lines().find_map(|line| printed(text, line)),
        };
        let Some(printed) = found else {
            return Some(format!("it isn't printed: {provoked:?}"));
        };
        if self.again && provoked.code == 0 {
            return Some("what provokes it succeeds, too".to_owned());
        }
        if let Some(then) = &self.then
            && shell.run(then).code == 0
        {
            return Some(format!("{then:?} succeeds without it"));
        }
        let command = match command(printed, self.after.as_deref(), &self.fill) {
            Ok(command) => {
                self.within.as_ref().map_or(command.clone(), |line| line.replace("HINT", &command))
            }
            Err(why) => return Some(why),
        };
        let run = shell.run(&command);
        if run.code != self.code {
            return Some(format!("{command:?}: {run:?}"));
        }
        let achieves = self.then.as_ref().or(self.again.then_some(&self.provoke))?;
        let effect = shell.run(achieves);
        (effect.code != 0).then(|| format!("{command:?} doesn't help: {achieves:?}: {effect:?}"))
    }
}

#[test]
fn lead_where_they_say() {
    for place in everybody() {
        let wrong: Vec<String> = cases()
            .hint
            .iter()
            .enumerate()
            .filter_map(|(number, hint)| {
                hint.wrong(&place, number).map(|wrong| format!("{} ({}): {wrong}", hint.text, place.name()))
            })
            .collect();
        assert!(wrong.is_empty(), "{} hints are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn all_of_the_sources_are_executed_or_have_a_reason_why_not() {
    let (sources, cases) = (source::hints(), cases());
    let executed: BTreeSet<&str> = cases.hint.iter().map(|hint| hint.text.as_str()).collect();
    let not: BTreeSet<&str> =
        cases.not_executed.iter().flat_map(|not| &not.texts).map(String::as_str).collect();
    let files: BTreeSet<&str> =
        cases.not_executed.iter().flat_map(|not| &not.files).map(String::as_str).collect();
    let excused = |file: &String| files.iter().any(|excused| file == excused);
    let missing: Vec<String> = sources
        .iter()
        .filter(|(text, places)| {
            !executed.contains(text.as_str()) && !not.contains(text.as_str()) && !places.iter().all(excused)
        })
        .map(|(text, places)| format!("{}: {text:?}", places.join(", ")))
        .collect();
    assert!(missing.is_empty(), "{} hints are in no case:\n{}", missing.len(), missing.join("\n"));
    let gone: Vec<&&str> = executed.iter().chain(&not).filter(|text| !sources.contains_key(**text)).collect();
    assert!(gone.is_empty(), "no source has these hints: {gone:#?}");
    let unused: Vec<&&str> =
        files.iter().filter(|file| !sources.values().flatten().any(|place| place == **file)).collect();
    assert!(unused.is_empty(), "these files have no hints: {unused:?}");
    let both: Vec<&&str> = executed.intersection(&not).collect();
    assert!(both.is_empty(), "executed and not executed: {both:?}");
    assert!(cases.not_executed.iter().all(|not| !not.why.is_empty()));
}

/// Every command of Palisade's that the code can print is executed.
#[test]
fn no_command_of_palisades_is_left_out() {
    let cases = cases();
    let begins = |text: &&String| {
        let printed = text.split("hint: ").last().unwrap_or_default().trim_end();
        ["palisade ", "sudo palisade "].iter().any(|start| printed.starts_with(start))
    };
    let left = cases.not_executed.iter().filter(|not| !not.no_commands).flat_map(|not| &not.texts);
    let left: Vec<&String> = left.filter(begins).collect();
    assert!(left.is_empty(), "not executed: {left:#?}");
    let tried = cases.hint.iter().filter(|case| begins(&&case.text)).count();
    assert!(tried > 100, "only {tried} commands are executed");
}

#[test]
fn a_printed_hint_is_recognised_and_its_command_is_taken_from_it() {
    let line = "palisade: refused: write /x; hint: palisade run --rw /x …";
    assert_eq!(printed("palisade run --rw {path} …", line), Some("palisade run --rw /x …"));
    assert_eq!(printed("palisade run --ro {path} …", line), None);
    assert_eq!(printed("x {}\r\nhint: a {}\r\n", "1\nx y\nhint: a b\n2"), Some("x y\nhint: a b\n"));
    assert_eq!(
        printed("{again} --force   # keeps {}", "hint: a b --force   # keeps c"),
        Some("a b --force   # keeps c")
    );
    let fill = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(word, typed)| ((*word).to_owned(), (*typed).to_owned())).collect()
    };
    let hint = "look, then: palisade run --rw /x …   # so";
    assert_eq!(
        command(hint, Some("then: "), &fill(&[("…", "-- true")])).unwrap(),
        "palisade run --rw /x -- true"
    );
    command(hint, None, &fill(&[])).unwrap_err();
    command("ls", None, &fill(&[("…", "-- true")])).unwrap_err();
}
