// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that run inside, and how each run is verified.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launch::Run;
use crate::programs;

/// The condition for a run to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Exit code 0. For programs without any effect; the proof has shown that the launcher runs commands at all.
    Success,
    /// Exit code 0 and exactly this on standard output.
    Output(Vec<u8>),
    /// Exit code 0 and these lines on standard output, in any order.
    Lines(Vec<u8>),
    /// Exit code 0, and a file with this content, which is then removed.
    Wrote { path: PathBuf, content: Vec<u8> },
}

/// Why a run doesn't count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("took too long and was ended")]
    TimedOut,
    #[error("exit code {code}{}", after_colon(said))]
    Exit { code: i32, said: String },
    #[error("exit code 0, but the output is not that of the plain run{}", after_colon(said))]
    Output { said: String },
    #[error("not started: {why}")]
    NotStarted { why: String },
    #[error("{why}")]
    Proof { why: String },
}

fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl Check {
    pub(crate) fn verify(&self, run: &Run) -> Result<(), Failure> {
        if run.timed_out {
            return Err(Failure::TimedOut);
        }
        if !run.status.success() {
            return Err(Failure::Exit { code: run.code(), said: first_line(&run.stderr) });
        }
        match self {
            Self::Output(expected) if *expected != run.stdout => {
                Err(Failure::Output { said: first_line(&run.stderr) })
            }
            Self::Lines(expected) if sorted(expected) != sorted(&run.stdout) => {
                Err(Failure::Output { said: first_line(&run.stderr) })
            }
            Self::Wrote { path, content } => {
                let found = fs::read(path);
                // Remove the file: otherwise the next run would seem to have written it.
                let removed = fs::remove_file(path);
                match (found, removed) {
                    (Ok(found), Ok(())) if found == *content => Ok(()),
                    _ => Err(Failure::Proof {
                        why: format!("exit code 0, but {} isn't written", path.display()),
                    }),
                }
            }
            _ => Ok(()),
        }
    }
}

fn sorted(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// The first line that isn't empty, shortened for a table.
pub(crate) fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    line.chars().filter(|character| !character.is_control()).take(160).collect()
}

/// A command to run in every sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
    pub(crate) check: Check,
    /// Long workloads get fewer rounds: one round of this many.
    pub(crate) rounds_divisor: usize,
}

/// Why a workload can't be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkloadError {
    #[error("{program} is not installed")]
    Missing { program: &'static str },
    #[error("can't write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("can't start {program}")]
    Start { program: String, source: io::Error },
    #[error("`git {arguments}` failed: {said}")]
    Git { arguments: String, said: String },
}

/// `/bin/true`: only the launch is measured.
pub(crate) fn nothing() -> Result<Workload, WorkloadError> {
    let command = vec![installed("true")?];
    Ok(Workload { name: "true", command, check: Check::Success, rounds_divisor: 1 })
}

/// An interpreter that starts and ends: several hundred file operations.
pub(crate) fn python() -> Result<Workload, WorkloadError> {
    let command = vec![installed("python3")?, "-c".into(), "pass".into()];
    Ok(Workload { name: "python3 -c pass", command, check: Check::Success, rounds_divisor: 2 })
}

/// A small repository with changes, made below `directory`.
pub(crate) fn git_status(directory: &Path) -> Result<Workload, WorkloadError> {
    git(directory, "git status", &["status"])
}

/// A git command in the same repository.
pub(crate) fn git(
    directory: &Path,
    name: &'static str,
    question: &[&str],
) -> Result<Workload, WorkloadError> {
    let git = installed("git")?;
    let repository = directory.join("repository");
    let write = |name: &str, text: &str| {
        let path = repository.join(name);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .map_err(|source| WorkloadError::Write { path, source })
    };
    for number in 0..40 {
        write(&format!("src/part{}/file{number}.txt", number % 4), &format!("text {number}\n"))?;
    }
    let path = repository.to_string_lossy().into_owned();
    let run = |arguments: &[&str]| -> Result<Vec<u8>, WorkloadError> {
        let output = Command::new(&git)
            .arg("-C")
            .arg(&path)
            .args(arguments)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .map_err(|source| WorkloadError::Start { program: git.clone(), source })?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(WorkloadError::Git { arguments: arguments.join(" "), said: first_line(&output.stderr) })
        }
    };
    run(&["init", "--quiet"])?;
    run(&["add", "."])?;
    run(&[
        "-c",
        "user.name=bench",
        "-c",
        "user.email=bench@invalid",
        "commit",
        "--quiet",
        "--message",
        "start",
    ])?;
    write("src/part0/file0.txt", "changed\n")?;
    write("new.txt", "untracked\n")?;
    let expected = run(question)?;
    let words = question.iter().map(|&word| word.to_owned());
    Ok(Workload {
        name,
        command: [git, "-C".into(), path].into_iter().chain(words).collect(),
        check: Check::Output(expected),
        rounds_divisor: 2,
    })
}

/// The cost in a running sandbox: a shell that starts a hundred programs.
pub(crate) fn hundred() -> Result<Workload, WorkloadError> {
    let script = format!("i=0; while [ $i -lt 100 ]; do {}; i=$((i+1)); done; echo $i", installed("true")?);
    let command = vec![installed("sh")?, "-c".into(), script];
    Ok(Workload { name: "100 × true", command, check: Check::Output(b"100\n".to_vec()), rounds_divisor: 5 })
}

/// A program of the system, by its full path. Launchers search differently, and a shim in the user's PATH (pyenv, asdf) is a
/// shell script whose cost would hide the measured one.
pub(crate) fn installed(program: &'static str) -> Result<String, WorkloadError> {
    programs::of_the_system(program)
        .map(|path| path.to_string_lossy().into_owned())
        .ok_or(WorkloadError::Missing { program })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn run(code: i32, stdout: &str) -> Run {
        Run {
            wall: Duration::from_millis(1),
            usage: Default::default(),
            status: ExitStatus::from_raw(code << 8),
            timed_out: false,
            stdout: stdout.into(),
            stderr: b"\n  cannot do it \nmore".to_vec(),
        }
    }

    #[test]
    fn a_run_counts_only_with_its_effect() {
        let check = Check::Output(b"100\n".to_vec());
        assert_eq!(check.verify(&run(0, "100\n")), Ok(()));
        assert!(matches!(check.verify(&run(0, "")), Err(Failure::Output { .. })));
        let failure = check.verify(&run(1, "100\n")).unwrap_err();
        assert_eq!(failure.to_string(), "exit code 1: cannot do it");
        assert_eq!(Check::Success.verify(&Run { timed_out: true, ..run(0, "") }), Err(Failure::TimedOut));
    }

    #[test]
    fn lines_may_come_in_any_order() {
        let check = Check::Lines(b"a\nb\n".to_vec());
        assert_eq!(check.verify(&run(0, "b\na\n")), Ok(()));
        assert!(check.verify(&run(0, "a\n")).is_err());
    }

    #[test]
    fn a_file_must_be_written_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let check = Check::Wrote { path: path.clone(), content: b"x".to_vec() };
        fs::write(&path, "x").unwrap();
        assert_eq!(check.verify(&run(0, "")), Ok(()));
        assert!(check.verify(&run(0, "")).unwrap_err().to_string().contains("isn't written"));
        fs::write(&path, "y").unwrap();
        assert!(check.verify(&run(0, "")).is_err() && !path.exists());
    }

    #[test]
    fn the_repository_has_something_to_say() {
        let directory = tempfile::tempdir().unwrap();
        let workload = git_status(directory.path()).unwrap();
        let Check::Output(expected) = workload.check else { panic!("no output to compare") };
        let expected = String::from_utf8(expected).unwrap();
        assert!(expected.contains("file0.txt") && expected.contains("new.txt"), "{expected}");
    }
}
