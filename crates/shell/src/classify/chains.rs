// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dangers that arise only from several commands together.

use super::command::{Reading, base_name};
use super::session::Session;
use super::subject::{Program, Subject};
use super::verdict::{Level, Reason};

/// What the commands of a line do together. `files` are the files that the line downloads.
pub(super) fn check(
    reading: &Reading,
    subjects: &[Subject<'_>],
    files: &[(usize, String)],
    session: &Session,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for subject in subjects {
        let Some(run) = run_file(subject) else { continue };
        let reason = |rule: &str, level, words: &str| Reason {
            rule: rule.to_owned(),
            level,
            span: subject.command.span.clone(),
            words: words.to_owned(),
            reference: "T1105".to_owned(),
        };
        if files.iter().any(|(index, file)| *index < subject.index && file == run) {
            let words = "It runs what it has just downloaded, before you have looked at it";
            reasons.push(reason("chains/download-and-run", Level::Confirm, words));
        } else if session.downloaded(run) {
            let words = "It runs a file that was downloaded in this session";
            reasons.push(reason("chains/run-downloaded", Level::Warn, words));
        }
    }
    reasons.extend(fork_bomb(reading));
    reasons
}

/// The name of the file that a command runs, without its directory.
fn run_file<'r>(subject: &Subject<'r>) -> Option<&'r str> {
    let name = subject.command.words.first()?;
    if Program::Shell.is(subject.command)
        || Program::Interpreter.is(subject.command)
        || matches!(subject.name, "source" | "." | "installer" | "open")
    {
        return subject
            .positionals()
            .next()
            .map(|word| base_name(&word.value))
            .filter(|file| !file.is_empty());
    }
    // A program of the system that has the same name as a downloaded file is not that file.
    (name.value.contains('/') && !name.value.starts_with("/usr/") && !name.value.starts_with("/bin/"))
        .then(|| base_name(&name.value))
}

/// A function that calls itself twice, or itself in the background.
fn fork_bomb(reading: &Reading) -> Option<Reason> {
    // The brackets after a name such as `:` also define a function.
    let name = reading.functions.iter().find(|name| {
        let calls =
            reading.commands.iter().enumerate().filter(|(_, command)| command.name() == name.as_str());
        let mut piped = 0;
        let mut background = 0;
        for (index, command) in calls {
            piped += usize::from(reading.is_fed(index, &|other| other.name() == name.as_str()));
            background += usize::from(command.background);
        }
        piped > 0 || background > 1
    })?;
    let calls = || reading.commands.iter().filter(|command| command.name() == name.as_str());
    let start = calls().map(|command| command.span.start).min()?;
    let end = calls().map(|command| command.span.end).max()?;
    Some(Reason {
        rule: "chains/fork-bomb".to_owned(),
        level: Level::Confirm,
        span: start..end,
        words: "A function starts itself without end: the machine becomes unusable".to_owned(),
        reference: "T1499.001".to_owned(),
    })
}
