// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one case: its control once, and its attack once with each tool.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::arena::Arena;
use crate::case::{Case, Expect, Language};
use crate::look::Look;
use crate::person::Person;
use crate::process::{Brood, Ended, MARK, SYSTEM_PATH, run};
use crate::tool::Tool;

/// What all cases of one user and one half of the suite share.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The user that runs them.
    pub person: &'a Person,
    /// `tests/acceptance`, at a path that the user can read.
    pub data: &'a Path,
    /// `prelude.py`, put before each Python snippet.
    pub python: &'a str,
    /// `prelude.sh`, put before each shell snippet of the harness.
    pub shell: &'a str,
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An attack without effect, as it must be.
    Refused,
    /// Something that must work and does.
    Works,
    /// The tool stopped before the command, as it must.
    Stopped,
    /// As the data file states for this tool; the text is from there.
    KnownGap(String),
    /// The attack had its effect; with what the look at it printed.
    Escape(String),
    /// What should work doesn't, or the tool should have stopped.
    Broken(String),
    /// The pair says nothing: the control or the snippet did not run as it should.
    NoResult(String),
    /// The control or the attack was ended at its time limit.
    NotDecided(String),
    /// The machine lacks a feature, and the feature isn't declared.
    NotTried(String),
}

impl Outcome {
    /// Whether it tells nothing about the tool, perhaps because the machine was too busy.
    #[must_use]
    pub fn says_nothing(&self) -> bool {
        matches!(self, Outcome::NoResult(_) | Outcome::NotDecided(_))
    }

    /// For the reader of a failure.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Outcome::Refused => "refused".into(),
            Outcome::Works => "works".into(),
            Outcome::Stopped => "stopped".into(),
            Outcome::KnownGap(why) => format!("known gap: {why}"),
            Outcome::Escape(seen) if seen.is_empty() => "ESCAPE".into(),
            Outcome::Escape(seen) => format!("ESCAPE: {seen}"),
            Outcome::Broken(why) => format!("broken: {why}"),
            Outcome::NoResult(why) => format!("no result: {why}"),
            Outcome::NotDecided(why) => format!("not decided: {why}"),
            Outcome::NotTried(feature) => format!("not tried: no {feature} here"),
        }
    }
}

/// One observed run.
struct Observed {
    started: bool,
    effect: bool,
    /// What the look at the effect printed.
    seen: String,
    ended: Ended,
    stderr: String,
    stdout: String,
}

/// Why a run could not be observed.
#[derive(Debug, thiserror::Error)]
enum Unobserved {
    /// A directory, a file or a process that can't be had.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// One of the harness's own snippets failed.
    #[error("{label} failed ({ended:?}): {said}")]
    Failed {
        /// `setup`, `effect`, …
        label: &'static str,
        ended: Ended,
        said: String,
    },
}

impl Unobserved {
    fn outcome(self, place: &str) -> Outcome {
        let words = format!("{place}: {self}");
        match self {
            Unobserved::Failed { ended: Ended::TimedOut, .. } => Outcome::NotDecided(words),
            _ => Outcome::NoResult(words),
        }
    }
}

/// Runs `case` outside and, if that had its effect, inside each of `tools`.
#[must_use]
pub fn try_case(case: &Case, stage: &Stage<'_>, tools: &[&Tool]) -> Vec<Outcome> {
    let outside = match observe(case, stage, None) {
        Err(error) => Some(error.outcome("outside")),
        Ok(control) if control.started && control.effect => None,
        Ok(control) => {
            let words = format!(
                "the control outside had no effect ({:?}); stdout {:?}; stderr {:?}; seen {:?}",
                control.ended, control.stdout, control.stderr, control.seen
            );
            Some(match control.ended {
                Ended::TimedOut => Outcome::NotDecided(words),
                Ended::Exited(_) => Outcome::NoResult(words),
            })
        }
    };
    let inside = |tool: &&Tool| match &outside {
        Some(outcome) => outcome.clone(),
        None => match observe(case, stage, Some(tool)) {
            Err(error) => error.outcome("inside"),
            Ok(observed) => judge(case, stage, tool, &observed),
        },
    };
    tools.iter().map(inside).collect()
}

fn judge(case: &Case, stage: &Stage<'_>, tool: &Tool, observed: &Observed) -> Outcome {
    let (expect, why) = case.expected(tool.name(), stage.person.who);
    let said = || format!("{:?}; stdout {:?}; stderr {:?}", observed.ended, observed.stdout, observed.stderr);
    let stopped = !observed.started && observed.ended.code() == Some(125) && !observed.stderr.is_empty();
    let escaped = case.expect == Expect::Refused && observed.effect;
    // Hanging is no refusal, and on a busy machine no failure. What has its effect all the same is judged by it.
    let hung = matches!(observed.ended, Ended::TimedOut);
    let is_gap = case.expect == Expect::Works && expect != Expect::Works;
    if hung && !escaped && !is_gap && (!observed.effect || case.exit.is_some()) {
        return Outcome::NotDecided(format!("inside it hung: {}; seen {:?}", said(), observed.seen));
    }
    if expect == Expect::Stops {
        return match &case.stderr {
            _ if !stopped => Outcome::Broken(format!("it should have stopped before exec: {}", said())),
            Some(text) if !observed.stderr.contains(text.as_str()) => {
                Outcome::Broken(format!("stderr does not say {text:?}: {}", said()))
            }
            _ => Outcome::Stopped,
        };
    }
    if stopped && case.may_stop {
        return Outcome::Refused;
    }
    if !observed.started {
        return Outcome::NoResult(format!("the snippet did not start inside: {}", said()));
    }
    // An escape is reported as one, whatever else failed.
    if tool.name() == "palisade" && !escaped {
        if let Some(code) = case.exit
            && observed.ended.code() != Some(code)
        {
            return Outcome::Broken(format!("exit code {code} expected: {}", said()));
        }
        if let Some(text) = &case.stderr
            && !observed.stderr.contains(text.as_str())
        {
            return Outcome::Broken(format!("stderr does not say {text:?}: {}", said()));
        }
    }
    match (case.expect, observed.effect) {
        (Expect::Works, true) => Outcome::Works,
        (Expect::Works, false) if expect != Expect::Works => {
            Outcome::KnownGap(why.unwrap_or_default().to_owned())
        }
        (Expect::Works, false) => {
            Outcome::Broken(format!("it should work: {}; seen {:?}", said(), observed.seen))
        }
        (_, false) => Outcome::Refused,
        (_, true) if expect != Expect::Refused => Outcome::KnownGap(why.unwrap_or_default().to_owned()),
        (_, true) => Outcome::Escape(observed.seen.clone()),
    }
}

/// Sets up, runs, looks, cleans up.
fn observe(case: &Case, stage: &Stage<'_>, tool: Option<&Tool>) -> Result<Observed, Unobserved> {
    let brood = Brood::begin();
    let arena = Arena::new(stage.person, case.place)?;
    let result = observe_in(&arena, case, stage, tool);
    brood.kill_marked(&arena.token);
    if let Some(cleanup) = &case.root_cleanup {
        harness(&arena, case, stage, cleanup, true, "cleanup")?;
    }
    result
}

fn observe_in(
    arena: &Arena,
    case: &Case,
    stage: &Stage<'_>,
    tool: Option<&Tool>,
) -> Result<Observed, Unobserved> {
    if let Some(setup) = &case.root_setup {
        must(harness(arena, case, stage, setup, true, "root_setup")?, "root_setup", arena)?;
    }
    if let Some(setup) = &case.setup {
        must(harness(arena, case, stage, setup, false, "setup")?, "setup", arena)?;
    }
    let snippet = if tool.is_some() { &case.inside } else { case.outside.as_ref().unwrap_or(&case.inside) };
    let started = format!("started {}", arena.token);
    let names = arena.attack_names();
    let command = match case.language {
        Language::Sh => {
            let text = format!("{names}echo 'started '$T\n{snippet}");
            vec!["/bin/sh".into(), "-c".into(), text]
        }
        Language::Python => {
            let mut text = stage.python.to_owned();
            for name in &case.python {
                text.push_str(&std::fs::read_to_string(stage.data.join(name))?);
            }
            text.push_str(&format!("\n{snippet}"));
            let text = format!("{names}print('started', T, flush=True)\n{}{text}", imports(&text));
            vec!["/usr/bin/python3".into(), "-IS".into(), "-c".into(), text]
        }
    };
    let command = match tool {
        Some(tool) => tool.wrap(case, arena, command),
        None => command,
    };
    let line = match &case.via {
        None => command,
        Some(via) => {
            let names = arena.harness_names(stage.person, stage.data);
            let program = tool.map(Tool::program).unwrap_or_default();
            let text = format!("{names}TOOL='{program}'\n{}\n{via}", stage.shell);
            [vec!["/bin/sh".into(), "-c".into(), text, "via".into()], command].concat()
        }
    };
    let ended = run(
        &line,
        stage.person.uid,
        stage.person.gid,
        &arena.work,
        &environment(arena, stage.person),
        &arena.stdout(),
        &arena.stderr(),
        Duration::from_secs(case.limit),
    )?;
    let seen = |look: &str| -> Result<bool, Unobserved> {
        if let Some(look) = Look::parse(look) {
            return Ok(look.sees(arena));
        }
        let ended = harness(arena, case, stage, look, true, "effect")?;
        match ended.code() {
            Some(code) => Ok(code == 0),
            // Not "no effect": it wasn't seen to the end.
            None => must(ended, "effect", arena).map(|()| false),
        }
    };
    // Before the effect, because looking for that may change files itself.
    let trace = match &case.trace {
        Some(trace) if tool.is_some() => seen(trace)?,
        _ => false,
    };
    let effect = seen(&case.effect)?;
    let stdout = String::from_utf8_lossy(&std::fs::read(arena.stdout())?).into_owned();
    let stderr = String::from_utf8_lossy(&std::fs::read(arena.stderr())?).into_owned();
    Ok(Observed {
        started: stdout.contains(&started) || Path::new(&arena.log).join("started").exists(),
        effect: effect || trace,
        seen: tail(&std::fs::read_to_string(arena.log.join("effect")).unwrap_or_default()),
        ended,
        stderr: tail(&stderr),
        stdout: tail(&stdout.replacen(&started, "", 1)),
    })
}

/// Imports the modules that a Python text names. All of them would take as long as Python takes to start.
fn imports(text: &str) -> String {
    let named = ["signal", "socket"].into_iter().filter(|name| text.contains(&format!("{name}.")));
    named.map(|name| format!("import {name}\n")).collect()
}

/// Runs one of the harness's own snippets outside; its output goes to a file of its own.
fn harness(
    arena: &Arena,
    case: &Case,
    stage: &Stage<'_>,
    snippet: &str,
    as_root: bool,
    label: &str,
) -> io::Result<Ended> {
    let names = arena.harness_names(stage.person, stage.data);
    let text = format!("{names}{}\n{snippet}", stage.shell);
    let (uid, gid) = if as_root { (0, 0) } else { (stage.person.uid, stage.person.gid) };
    let log = arena.log.join(label);
    let line = ["/bin/sh".into(), "-c".into(), text];
    let limit = Duration::from_secs(case.limit);
    run(&line, uid, gid, &arena.work, &environment(arena, stage.person), &log, &log, limit)
}

fn must(ended: Ended, label: &'static str, arena: &Arena) -> Result<(), Unobserved> {
    if ended.code() == Some(0) {
        return Ok(());
    }
    let said = std::fs::read_to_string(arena.log.join(label)).unwrap_or_default();
    Err(Unobserved::Failed { label, ended, said })
}

fn environment(arena: &Arena, person: &Person) -> Vec<(String, String)> {
    [
        ("PATH", SYSTEM_PATH),
        ("HOME", &arena.home.to_string_lossy()),
        ("USER", &person.name),
        ("LOGNAME", &person.name),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        (MARK, &arena.token),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// The end of a text, long enough to show the cause.
fn tail(text: &str) -> String {
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(600);
    text.chars().skip(skip).collect()
}
