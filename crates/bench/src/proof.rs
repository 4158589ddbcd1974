// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Proves that a launcher runs the given command, and observes what it isolates.
//!
//! Once per session and launcher, a script runs inside. It must write a file with a number that only this run knows; the
//! bench then checks that file from outside. The script reports its namespaces and its seccomp state, and tries to read and
//! write a directory beside the working directory. A launcher that isolates less than its row claims is shown as failed: a
//! sandbox that doesn't hold isn't fast.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::entry::{Claim, Entry};
use crate::launch::{LaunchError, Launched, Launcher, Run};
use crate::random::Random;
use crate::session::{Session, SessionError};
use crate::workload::{Check, Failure, first_line};

const NAMESPACES: [&str; 8] = ["user", "pid", "mnt", "ipc", "uts", "net", "cgroup", "time"];

/// What was observed from inside and outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Isolation {
    namespaces: Vec<&'static str>,
    seccomp: bool,
    no_new_privileges: bool,
    write_outside_refused: bool,
    read_outside_refused: bool,
}

impl Isolation {
    /// The isolation in words, for the report.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        if !self.namespaces.is_empty() {
            words.push(format!("namespaces {}", self.namespaces.join(" ")));
        }
        let facts = [
            (self.seccomp, "seccomp"),
            (self.no_new_privileges, "no new privileges"),
            (self.write_outside_refused, "no writing outside"),
            (self.read_outside_refused, "no reading outside"),
        ];
        words.extend(facts.iter().filter(|(seen, _)| *seen).map(|(_, word)| (*word).to_owned()));
        words
    }

    fn missing(&self, claims: &[Claim]) -> Vec<String> {
        claims
            .iter()
            .filter(|claim| !match claim {
                Claim::Namespace(name) => self.namespaces.contains(name),
                Claim::Seccomp => self.seccomp,
                Claim::NoWritingOutside => self.write_outside_refused,
                Claim::NoReadingOutside => self.read_outside_refused,
            })
            .map(ToString::to_string)
            .collect()
    }
}

/// Why a proof can't be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProofError {
    #[error("can't write {}", path.display())]
    Script { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// The script, which is written once per session, and the bench's own namespaces for the comparison.
#[derive(Debug)]
pub(crate) struct Proof {
    script: PathBuf,
    work: PathBuf,
    outside: PathBuf,
    own: BTreeMap<&'static str, String>,
    random: Random,
}

impl Proof {
    pub(crate) fn prepare(session: &Session, random: Random) -> Result<Self, ProofError> {
        let (work, outside) = (session.work(), session.outside());
        // The script is a file and not `sh -c TEXT`: launchers that join their arguments into a line would fail here,
        // although they run the workloads.
        let script = work.join("proof.sh");
        fs::write(&script, text(&work, &outside))
            .map_err(|source| ProofError::Script { path: script.clone(), source })?;
        let own = NAMESPACES.iter().filter_map(|&name| Some((name, namespace(name)?))).collect();
        Ok(Self { script, work, outside, own, random })
    }

    /// Runs the proof in `entry` and checks its claims.
    pub(crate) fn check(
        &mut self,
        entry: &Entry,
        session: &Session,
        launcher: &Launcher,
    ) -> Result<Result<Isolation, Failure>, ProofError> {
        let nonce = format!("{:016x}", self.random.next());
        let command = vec!["/bin/sh".to_owned(), self.script.to_string_lossy().into_owned(), nonce.clone()];
        let launched = launcher.run(&session.invocation(&entry.template, &command)?)?;
        Ok(match launched {
            Launched::NotStarted(why) => Err(Failure::NotStarted { why }),
            Launched::Ended(run) => self.judge(&run, &nonce, &entry.claims),
        })
    }

    fn judge(&self, run: &Run, nonce: &str, claims: &[Claim]) -> Result<Isolation, Failure> {
        Check::Success.verify(run)?;
        let left_file = fs::read_to_string(self.work.join(format!("ran-{nonce}"))).unwrap_or_default();
        if left_file.trim_end() != nonce {
            let said = first_line(&run.stderr);
            let why = if said.is_empty() {
                "exit code 0, but the command was not run: it left no trace in the working directory"
                    .to_owned()
            } else {
                format!("exit code 0, but the command left no trace in the working directory: {said}")
            };
            return Err(Failure::Proof { why });
        }
        let mut isolation = self.read(&String::from_utf8_lossy(&run.stdout));
        isolation.write_outside_refused = !self.outside.join(format!("ran-{nonce}")).exists();
        let missing = isolation.missing(claims);
        if missing.is_empty() {
            Ok(isolation)
        } else {
            Err(Failure::Proof { why: format!("it does not isolate: {}", missing.join(", ")) })
        }
    }

    fn read(&self, report: &str) -> Isolation {
        let mut isolation = Isolation { read_outside_refused: true, ..Isolation::default() };
        for line in report.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["namespace", name, id] => {
                    if let Some((&name, own)) = self.own.get_key_value(*name)
                        && own != id
                    {
                        isolation.namespaces.push(name);
                    }
                }
                ["Seccomp:", mode] => isolation.seccomp = *mode == "2",
                ["NoNewPrivs:", value] => isolation.no_new_privileges = *value == "1",
                ["canary"] => isolation.read_outside_refused = false,
                _ => {}
            }
        }
        isolation
    }
}

fn namespace(name: &str) -> Option<String> {
    let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

fn text(work: &Path, outside: &Path) -> String {
    let quote = |path: &Path| shell_words::quote(&path.to_string_lossy()).into_owned();
    // `:` is a special built-in: a redirection that fails would end the shell. So each attempt has a subshell.
    format!(
        r#"PATH="$PATH:/usr/bin:/bin"
(echo "$1" >{work}/ran-"$1") || exit 1
for name in {names}; do echo "namespace $name $(readlink /proc/self/ns/$name)"; done 2>/dev/null
while read -r line; do case $line in Seccomp:*|NoNewPrivs:*) echo "$line";; esac; done 2>/dev/null </proc/self/status
(read -r word <{outside}/canary && echo "$word") 2>/dev/null
(echo "$1" >{outside}/ran-"$1") 2>/dev/null
exit 0
"#,
        work = quote(work),
        outside = quote(outside),
        names = NAMESPACES.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;
    use std::sync::Arc;
    use std::time::Duration;

    fn prove(template: &str, claims: &[Claim]) -> Result<Isolation, Failure> {
        let base = tempfile::tempdir().unwrap();
        let session = Session::create(Some(base.path())).unwrap();
        let launcher = Launcher::new(session.scratch(), Duration::from_secs(60), &Arc::default()).unwrap();
        let mut proof = Proof::prepare(&session, Random::new(1)).unwrap();
        let entry = Entry {
            name: "x".into(),
            template: Template::parse(template).unwrap(),
            claims: claims.to_vec(),
            peer: false,
            version: Vec::new(),
        };
        proof.check(&entry, &session, &launcher).unwrap()
    }

    #[test]
    fn running_it_plainly_isolates_nothing() {
        let isolation = prove("/usr/bin/env {}", &[]).unwrap();
        assert!(isolation.namespaces.is_empty());
        assert!(!isolation.read_outside_refused && !isolation.write_outside_refused);
    }

    #[test]
    fn a_launcher_that_ignores_its_command_is_caught() {
        let failure = prove("/bin/true", &[]).unwrap_err();
        assert!(failure.to_string().contains("was not run"), "{failure}");
        let failure = prove("/bin/sh -c 'echo cannot start >&2; exit 0'", &[]).unwrap_err();
        assert!(failure.to_string().contains("cannot start"), "{failure}");
    }

    #[test]
    fn a_launcher_that_only_claims_to_isolate_is_caught() {
        let failure =
            prove("/usr/bin/env {}", &[Claim::Namespace("pid"), Claim::NoWritingOutside, Claim::Seccomp])
                .unwrap_err();
        assert_eq!(
            failure.to_string(),
            "it does not isolate: a pid namespace of its own, no writing outside, seccomp"
        );
    }

    #[test]
    fn a_launcher_that_fails_is_quoted() {
        let failure = prove("/bin/sh -c 'echo no such thing >&2; exit 9'", &[]).unwrap_err();
        assert_eq!(failure.to_string(), "exit code 9: no such thing");
    }
}
