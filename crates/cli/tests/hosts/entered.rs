// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a host, runs the line in it, and reads what the line tells. A launch that hangs is ended.

use super::container;
use super::outcome::{Mode, Outcome};
use super::table::Host;
use crate::support::{self, PATH, Place};
use palisade_acceptance::patience::Patience;
use palisade_acceptance::process;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A launch that fails does so in this time on an idle machine.
const FAILS_WITHIN: Duration = Duration::from_secs(1);
/// One that runs may wait for slow parts of the host.
const RUNS_WITHIN: Duration = Duration::from_secs(10);
/// The host itself.
const MADE_WITHIN: Duration = Duration::from_secs(30);

/// What the launches told, by mode.
pub(super) type Said = BTreeMap<Mode, Outcome>;

/// Runs the line in the host.
pub(super) fn run(host: &Host) -> Result<Said, String> {
    let place = if host.root { support::root().ok_or("not root")? } else { support::ordinary() };
    let made = tempfile::Builder::new().prefix("palisade-host-").tempdir_in("/var/tmp").unwrap();
    support::job::finish(Command::new("chmod").arg("755").arg(made.path())).ok();
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts");
    let tree = made.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let environment = environment(host, &place);
    if let Some(name) = &host.tree {
        let mut maker = Command::new("/bin/sh");
        maker.arg(hosts.join("trees.sh")).arg(name).arg(&tree).arg(place.binary());
        // The user of a tree is an ordinary one, whoever runs the line.
        let user = support::ordinary().uid.to_string();
        maker.env("ID", user).env("PATH", PATH).env("MARK", host.mark.as_deref().unwrap_or_default());
        support::job::finish(&mut maker).ok();
    }
    let line = place.write("line.sh", std::fs::read(hosts.join("line.sh")).unwrap());
    let script = match (&host.enter, &host.container) {
        (Some(enter), _) => enter.clone(),
        (None, Some(container)) => {
            let mut environment = environment.clone();
            environment.extend(host.environment.clone());
            container::write(container, host, &environment, made.path());
            container::ENTER.to_owned()
        }
        (None, None) => return Err("this machine can't make it".to_owned()),
    };
    let script = format!(". {}/enter.sh\n{script}", hosts.display());
    // Everything ends with the first process of the PID namespace, and every mount with the last one. The first one stays
    // root's: with another user the kernel would forget that it must end with its parent.
    let first = "/bin/sh -c \"$0\"; true";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "/bin/sh",
        "-c",
        first,
        &script,
    ]);
    command.env_clear().env("PATH", PATH).env("HOSTS", &hosts).env("PLACE", made.path()).env("TREE", &tree);
    command.env("ID", place.uid.to_string()).env("LINE", format!("/bin/sh {}", line.display()));
    for name in ["HOME", "WORK", "P"] {
        command.env(name, &environment[name]);
    }
    for (name, value) in environment.iter().chain(&host.environment) {
        command.env(format!("IN_{name}"), value);
    }
    if host.container.as_ref().is_some_and(container::Container::is_mapped) {
        command.env("MAPPED", "yes");
    }
    command.current_dir(made.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("can't start unshare: {error}"))?;
    let said = read(host, child)?;
    made.close().map_err(|error| format!("the host's directory can't be removed: {error}"))?;
    Ok(said)
}

/// The environment of the line, in the tree or on this machine.
fn environment(host: &Host, place: &Place) -> BTreeMap<String, String> {
    let home = match (&host.tree, host.root) {
        (None, _) => place.home.clone(),
        (Some(_), true) => PathBuf::from("/root"),
        (Some(_), false) => PathBuf::from("/home/user"),
    };
    let palisade = if host.tree.is_some() { Path::new("/host/palisade") } else { place.binary() };
    let environment: BTreeMap<String, String> = [
        ("PATH", PATH.to_owned()),
        ("WORK", home.join("work").display().to_string()),
        ("HOME", home.display().to_string()),
        ("P", palisade.display().to_string()),
        ("LANG", "C.UTF-8".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    environment
}

/// Reads until the line is over, and waits until nothing of the host is left.
fn read(host: &Host, mut child: Child) -> Result<Said, String> {
    let errors = lines(child.stderr.take().unwrap());
    let told = lines(child.stdout.take().unwrap());
    let result = follow(host, &told);
    let ended = result.is_ok() && matches!(process::wait(&mut child, MADE_WITHIN), Ok(Some(_)));
    if !ended {
        let _killed = child.kill();
        let _reaped = child.wait();
    }
    let mut words = Vec::new();
    for output in [&errors, &told] {
        let mut patience = Patience::new(MADE_WITHIN);
        loop {
            match output.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => words.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if !patience.is_spent() => {}
                Err(RecvTimeoutError::Timeout) => return Err("a process of the host is left".to_owned()),
            }
        }
    }
    match result {
        Ok(_) if !ended => Err("the host doesn't end".to_owned()),
        result => result.map_err(|why| format!("{why}\n  {}", words.join("\n  "))),
    }
}

fn follow(host: &Host, told: &Receiver<String>) -> Result<Said, String> {
    let mut said = Said::new();
    let mut patience = Patience::new(MADE_WITHIN);
    let mut at = None;
    let mut bound = "the host isn't made";
    loop {
        let line = match told.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if !patience.is_spent() => continue,
            Err(RecvTimeoutError::Timeout) => return Err(format!("{bound} in time; told: {said:?}")),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("the line ended early; told: {said:?}"));
            }
        };
        let Some(line) = line.strip_prefix('@') else { continue };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mode = if rest == "strict" { Mode::Strict } else { Mode::Best };
        if word == "begin" {
            let fails = matches!(host.expected(mode), super::table::Expected::Fails(_));
            patience = Patience::new(if fails { FAILS_WITHIN } else { RUNS_WITHIN });
            bound = if fails { "the launch doesn't fail" } else { "the launch doesn't end" };
            at = Some(mode);
        }
        if word == "over" {
            return Ok(said);
        }
        let Some(mode) = at else { continue };
        let outcome = said.entry(mode).or_default();
        match word {
            "end" => {
                patience = Patience::new(MADE_WITHIN);
                outcome.code = rest.parse().map_err(|_| format!("no exit code: {line}"))?;
            }
            "status" => outcome.status.push(rest.to_owned()),
            "out" => outcome.out.push(rest.to_owned()),
            "err" => outcome.err.push(rest.to_owned()),
            "fact" => {
                outcome.facts.insert(rest.to_owned());
            }
            _ => {}
        }
    }
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
