// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Greywall's workloads, by its categories. Each has an effect that is checked in every run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::server::Servers;
use crate::entry::Missing;
use crate::workload::{self, Check, Workload, WorkloadError, installed};

/// One workload.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) category: &'static str,
    pub(crate) workload: Workload,
    /// It connects to a server on a loopback port.
    pub(crate) network: bool,
}

const TEXT: &str = "written inside\n";
/// The number of files that are searched.
const FILES: usize = 200;

type Prepare = fn(&Path, &Servers) -> Result<Workload, WorkloadError>;

const KINDS: [(&str, &str, Prepare); 9] = [
    ("Spawn-only", "true", |_, _| workload::nothing()),
    ("Spawn-only", "echo", |_, _| echo()),
    ("Interpreter", "python3 -c pass", |_, _| workload::python()),
    ("Interpreter", "node -e ''", |_, _| node()),
    ("FS-heavy", "file write", |work, _| file_write(work)),
    ("FS-heavy", "file read", |work, _| file_read(work)),
    ("FS-heavy", "rg -n package", |work, _| search(work)),
    ("Real tools", "git status --porcelain", |work, _| {
        workload::git(work, "git status --porcelain", &["status", "--porcelain"])
    }),
    ("Network (local)", "curl", |_, servers| curl(servers)),
];

/// The workloads that can be prepared below `work`, and why the others can't.
pub(crate) fn all(work: &Path, servers: &Servers) -> (Vec<Task>, Vec<Missing>) {
    let mut tasks = Vec::new();
    let mut missing = Vec::new();
    for (category, name, prepare) in KINDS {
        match prepare(work, servers) {
            Ok(workload) => tasks.push(Task { category, workload, network: name == "curl" }),
            Err(error) => {
                let how = match &error {
                    WorkloadError::Missing { program } => {
                        format!("{error}; apt install {}", package(program))
                    }
                    _ => error.to_string(),
                };
                missing.push(Missing { name: format!("workload {name}"), how });
            }
        }
    }
    (tasks, missing)
}

fn package(program: &'static str) -> &'static str {
    match program {
        "rg" => "ripgrep",
        "node" => "nodejs",
        "true" | "echo" | "cat" => "coreutils",
        other => other,
    }
}

fn echo() -> Result<Workload, WorkloadError> {
    let command = vec![installed("echo")?, "hello".into()];
    Ok(Workload { name: "echo", command, check: Check::Output(b"hello\n".to_vec()), rounds_divisor: 1 })
}

fn node() -> Result<Workload, WorkloadError> {
    let command = vec![installed("node")?, "-e".into(), String::new()];
    Ok(Workload { name: "node -e ''", command, check: Check::Success, rounds_divisor: 4 })
}

fn file_write(work: &Path) -> Result<Workload, WorkloadError> {
    let path = work.join("written.txt");
    // The script is a file and not a text for `-c`, because some launchers join their arguments into one line.
    let script = work.join("write.sh");
    let line = format!("printf '%s' {} >{}\n", shell_words::quote(TEXT), quoted(&path));
    write(&script, &line)?;
    let command = vec![installed("sh")?, script.to_string_lossy().into_owned()];
    let check = Check::Wrote { path, content: TEXT.into() };
    Ok(Workload { name: "file write", command, check, rounds_divisor: 1 })
}

fn file_read(work: &Path) -> Result<Workload, WorkloadError> {
    let path = work.join("read.txt");
    let text: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    write(&path, &text)?;
    let command = vec![installed("cat")?, path.to_string_lossy().into_owned()];
    Ok(Workload { name: "file read", command, check: Check::Output(text.into()), rounds_divisor: 1 })
}

fn search(work: &Path) -> Result<Workload, WorkloadError> {
    let rg = installed("rg")?;
    let corpus = work.join("corpus");
    for number in 0..FILES {
        let text: String = (0..100)
            .map(
                |line| if line % 25 == 7 { format!("package p{number}\n") } else { format!("text {line}\n") },
            )
            .collect();
        write(&corpus.join(format!("d{}", number % 10)).join(format!("f{number}.txt")), &text)?;
    }
    let command = vec![rg.clone(), "-n".into(), "package".into(), corpus.to_string_lossy().into_owned()];
    let output = Command::new(&rg)
        .args(&command[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| WorkloadError::Start { program: rg, source })?;
    Ok(Workload { name: "rg -n package", command, check: Check::Lines(output.stdout), rounds_divisor: 2 })
}

fn curl(servers: &Servers) -> Result<Workload, WorkloadError> {
    let url = format!("http://127.0.0.1:{}/", servers.http.port());
    let command = [&installed("curl")?, "--silent", "--show-error", "--fail", "--noproxy", "*", &url];
    Ok(Workload {
        name: "curl",
        command: command.iter().map(|&word| word.to_owned()).collect(),
        check: Check::Output(servers.body.clone().into()),
        rounds_divisor: 2,
    })
}

fn write(path: &Path, text: &str) -> Result<(), WorkloadError> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .map_err(|source| WorkloadError::Write { path: path.to_owned(), source })
}

fn quoted(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Invocation, Launched, Launcher};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn every_workload_passes_its_own_check() {
        let directory = tempfile::tempdir().unwrap();
        let servers = Servers::start(3).unwrap();
        let (tasks, missing) = all(directory.path(), &servers);
        assert_eq!(tasks.len() + missing.len(), KINDS.len());
        let launcher = Launcher::new(directory.path(), Duration::from_secs(60), &Arc::default()).unwrap();
        for task in tasks {
            let argv = task.workload.command.iter().map(Into::into).collect();
            let run = launcher.run(&Invocation {
                argv,
                directory: directory.path().to_owned(),
                variables: Vec::new(),
            });
            let Launched::Ended(run) = run.unwrap() else { panic!("{} isn't started", task.workload.name) };
            assert_eq!(task.workload.check.verify(&run), Ok(()), "{}", task.workload.name);
        }
    }

    #[test]
    fn what_is_not_installed_has_a_package() {
        assert_eq!((package("rg"), package("curl")), ("ripgrep", "curl"));
    }
}
