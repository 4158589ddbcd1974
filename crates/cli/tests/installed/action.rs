// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The GitHub action, in the shape of a runner: its variables, an ordinary user with and without sudo, and the archive in a
//! directory or on the loopback interface.

use super::{CURRENT, file, root, shell};
use crate::support::{Place, Run, has, job, ordinary};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A runner of one user: a home with the directories that a runner has, and a release.
struct Runner {
    place: Place,
}

/// How a runner refuses sandboxes, until a set-up was made.
const REFUSING: &str = r#"#!/bin/sh
case $1 in
    doctor) [ -e "$HOME/set-up" ] || { echo "NO user namespaces"; exit 1; } ;;
    setup) [ "$*" = "setup --yes" ] && [ -n "$AS_ROOT" ] && : >"$HOME/set-up" ;;
    *) exec "${0%/*}/palisade.real" "$@" ;;
esac
"#;
const SUDO: &str =
    "#!/bin/sh\n[ \"$1\" = -n ] || exit 9\nshift\necho \"$*\" >>~/sudo.log\nAS_ROOT=1 exec \"$@\"\n";

fn archive(version: &str) -> String {
    format!("palisade-{version}-{}-linux.tar.gz", std::env::consts::ARCH)
}

impl Runner {
    fn new() -> Self {
        let place = ordinary();
        shell(&place, "mkdir -p ~/temp ~/tools ~/release ~/bin; : >~/path; : >~/output").ok();
        // The runner fetches the repository of an action. The checkout may lie where an ordinary user can't reach it.
        for name in ["Cargo.toml", "packaging/action/action.yml", "packaging/action/install"] {
            place.write(&format!("action/{name}"), std::fs::read(root().join(name)).unwrap());
        }
        shell(&place, "chmod 755 ~/action/packaging/action/install").ok();
        let runner = Self { place };
        runner.release(CURRENT, None);
        runner
    }

    /// Releases a version; with `script`, its program is this script, and the program is beside it.
    fn release(&self, version: &str, script: Option<&str>) {
        let top = format!("made/palisade-{version}-{}-linux", std::env::consts::ARCH);
        let program = std::fs::read(self.place.binary()).unwrap();
        match script {
            Some(script) => {
                self.place.write(&format!("{top}/bin/palisade"), script);
                self.place.write(&format!("{top}/bin/palisade.real"), program);
            }
            None => drop(self.place.write(&format!("{top}/bin/palisade"), program)),
        }
        let line = format!(
            "chmod 755 ~/{top}/bin/*; cd ~/made && tar -czf ~/release/{0} {1} && cd ~/release && sha256sum *.tar.gz >SHA256SUMS",
            archive(version),
            top.trim_start_matches("made/")
        );
        shell(&self.place, &line).ok();
    }

    fn source(&self) -> String {
        format!("file://{}", self.place.home.join("release").display())
    }

    fn sum(&self, version: &str) -> String {
        shell(&self.place, &format!("sha256sum <~/release/{}", archive(version))).ok()[..64].to_owned()
    }

    /// Runs the step of the action with these inputs.
    fn step(&self, inputs: &[(&str, &str)]) -> Run {
        let home = |name: &str| self.place.home.join(name);
        let (command, variables) = step(inputs);
        let mut runner = self.place.command("sh");
        runner
            .args(["-e", "-c", &command])
            .envs(variables)
            .env("PATH", format!("{}:{}", home("bin").display(), crate::support::PATH))
            .env("GITHUB_ACTION_PATH", home("action/packaging/action"))
            .env("GITHUB_PATH", home("path"))
            .env("GITHUB_OUTPUT", home("output"))
            .env("RUNNER_TEMP", home("temp"))
            .env("RUNNER_TOOL_CACHE", home("tools"))
            .env("RUNNER_OS", "Linux");
        job::finish(&mut runner)
    }

    /// The step succeeded: later steps find the program on `PATH`, and nothing is left in the temporary directory.
    fn installed(&self, run: &Run, version: &str) -> String {
        run.ok();
        let path = self.place.read("path");
        let program = format!("{}/palisade", path.trim_end());
        assert_eq!(self.place.read("output"), format!("version={version}\npath={program}\n"));
        let later = format!("PATH='{}':$PATH palisade run -- echo inside", path.trim_end());
        assert_eq!(shell(&self.place, &later).ok(), "inside");
        assert_eq!(shell(&self.place, "ls -A ~/temp").ok(), "");
        assert_eq!(shell(&self.place, "find ~/tools -name '.staged*'").ok(), "");
        program
    }

    /// The step failed with these words, and has changed nothing that later steps see.
    fn refused(&self, run: &Run, words: &str) {
        assert_eq!(run.code, 1, "{run:?}");
        assert!(
            run.out.contains("::error title=Palisade::") && run.out.contains(words),
            "no {words:?} in {run:?}"
        );
        assert_eq!((self.place.read("path"), self.place.read("output")), (String::new(), String::new()));
        assert_eq!(shell(&self.place, "ls -A ~/temp; find ~/tools -name '.staged*'").ok(), "");
    }
}

/// The command of the action's only step, and its variables, as the runner makes them of `action.yml`.
fn step(inputs: &[(&str, &str)]) -> (String, BTreeMap<String, String>) {
    let text = std::fs::read_to_string(root().join("packaging/action/action.yml")).unwrap();
    let (top, steps) = text.split_once("\nruns:\n").unwrap();
    let declared = top.split_once("\ninputs:\n").unwrap().1.split("\noutputs:\n").next().unwrap();
    let mut values = BTreeMap::new();
    let mut name = "";
    for line in declared.lines() {
        if let Some(input) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) {
            name = input.trim_end_matches(':');
        } else if let Some(value) = line.trim().strip_prefix("default: ") {
            values.insert(name, value.trim_matches('"').to_owned());
        }
    }
    assert_eq!(values.keys().copied().collect::<Vec<_>>(), ["setup", "sha256", "source", "version"]);
    for (name, value) in inputs {
        assert!(values.insert(name, (*value).to_owned()).is_some(), "no input {name}");
    }
    assert!(steps.contains("using: composite") && steps.contains("shell: sh"));
    let command = steps.lines().find_map(|line| line.trim().strip_prefix("run: ")).unwrap();
    let mut variables = BTreeMap::new();
    for line in steps.lines() {
        let Some((name, value)) = line.trim().split_once(": ${{ inputs.") else { continue };
        variables.insert(name.to_owned(), values[value.trim_end_matches(" }}")].clone());
    }
    assert_eq!(variables.len(), values.len(), "each input is passed on");
    (command.trim_matches('\'').to_owned(), variables)
}

fn is_here() -> bool {
    has("curl")
}

#[test]
fn the_newest_and_a_named_version_are_installed() {
    if !is_here() {
        return;
    }
    let runner = Runner::new();
    let program = runner.installed(&runner.step(&[("source", &runner.source())]), CURRENT);
    let cached = runner.place.home.join(format!("tools/palisade/{CURRENT}/{}", std::env::consts::ARCH));
    assert_eq!(Path::new(&program), cached.join("bin/palisade"));
    let beside = cached.with_file_name(format!("{}.complete", std::env::consts::ARCH));
    assert!(beside.exists());
    // A second job on the same runner, which keeps the tools.
    shell(&runner.place, ": >~/path; : >~/output").ok();
    runner.installed(&runner.step(&[("source", &runner.source()), ("version", CURRENT)]), CURRENT);
    let runner = Runner::new();
    let sum = runner.sum(CURRENT);
    runner.installed(&runner.step(&[("source", &runner.source()), ("sha256", &sum)]), CURRENT);
}

#[test]
fn an_archive_with_another_checksum_is_refused() {
    if !is_here() {
        return;
    }
    let runner = Runner::new();
    let (source, right) = (runner.source(), runner.sum(CURRENT));
    let wrong = "0".repeat(64);
    runner.refused(&runner.step(&[("source", &source), ("sha256", &wrong)]), "and the input sha256 states");
    for odd in ["abc", "; true", &right.to_uppercase()] {
        runner.refused(&runner.step(&[("source", &source), ("sha256", odd)]), "sha256");
    }
    // The archive was replaced, and then its checksum, too.
    let replace = format!("cd ~/release && printf x >>{}", archive(CURRENT));
    shell(&runner.place, &replace).ok();
    runner.refused(&runner.step(&[("source", &source)]), "nothing was installed");
    shell(&runner.place, "cd ~/release && sha256sum *.tar.gz >SHA256SUMS").ok();
    runner.refused(&runner.step(&[("source", &source), ("sha256", &right)]), "and the input sha256 states");
    assert_eq!(shell(&runner.place, "find ~/tools -type f").ok(), "");
}

#[test]
fn what_no_release_has_is_refused() {
    if !is_here() {
        return;
    }
    let runner = Runner::new();
    let source = runner.source();
    let inputs = [
        (("version", "7.7.7"), "lists no archive of version 7.7.7"),
        (("version", "../../x"), "no such version"),
        (("version", ".*"), "no such version"),
        (("source", "file:///nonexistent"), "can't fetch file:///nonexistent/SHA256SUMS"),
        (("source", "ftp://example.org"), "no address"),
        (("source", "/srv/release"), "no address"),
        (("source", "http://127.0.0.1:1"), "can be replaced on its way"),
        (("source", "x\n::warning::forged"), "no address"),
    ];
    for (input, words) in inputs {
        let run = runner.step(&[("source", &source), input]);
        runner.refused(&run, words);
        assert!(!run.out.contains("\n::warning"), "{run:?}");
    }
    // Names that would be paths aren't taken, and two archives for one machine are ambiguous.
    shell(&runner.place, "cd ~/release && sed 's|palisade-|palisade-../|' SHA256SUMS >x && mv x SHA256SUMS")
        .ok();
    runner.refused(&runner.step(&[("source", &source)]), "lists no archive");
    let runner = Runner::new();
    runner.release("9.9.9", None);
    runner.refused(&runner.step(&[("source", &runner.source())]), "several archives");
    runner.installed(&runner.step(&[("source", &runner.source()), ("version", "9.9.9")]), "9.9.9");
}

#[test]
fn an_archive_without_the_program_is_refused() {
    if !is_here() {
        return;
    }
    let runner = Runner::new();
    let line = format!(
        "mkdir -p ~/x/top/other && cd ~/x && tar -czf ~/release/{} top && cd ~/release && sha256sum *.tar.gz >SHA256SUMS",
        archive(CURRENT)
    );
    shell(&runner.place, &line).ok();
    runner.refused(&runner.step(&[("source", &runner.source())]), "has no program bin/palisade");
}

#[test]
fn a_source_without_encryption_needs_a_checksum() {
    if !is_here() || !has("python3") {
        return;
    }
    let runner = Runner::new();
    let script = "import functools, http.server, sys, threading\n\
                  handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n\
                  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n\
                  threading.Thread(target=server.serve_forever, daemon=True).start()\n\
                  print(server.server_address[1], flush=True)\n\
                  sys.stdin.read()\n";
    let mut server = Command::new("/usr/bin/python3");
    server.args(["-c", script]).arg(runner.place.home.join("release"));
    let mut server =
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let source = format!("http://127.0.0.1:{}", port.trim());
    let refused = runner.step(&[("source", &source)]);
    let installed = runner.step(&[("source", &source), ("sha256", &runner.sum(CURRENT))]);
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(refused.code == 1 && refused.out.contains("can be replaced on its way"), "{refused:?}");
    runner.installed(&installed, CURRENT);
}

#[test]
fn a_runner_that_refuses_sandboxes_is_set_up_with_sudo_or_named() {
    if !is_here() {
        return;
    }
    let runner = Runner::new();
    runner.release(CURRENT, Some(REFUSING));
    let source = runner.source();
    // sudo that asks for a password is none.
    runner.place.write("bin/sudo", "#!/bin/sh\nexit 1\n");
    shell(&runner.place, "chmod 755 ~/bin/sudo").ok();
    let run = runner.step(&[("source", &source)]);
    runner.refused(&run, "sudo isn't permitted");
    assert!(run.out.contains("NO user namespaces") && run.out.contains("hint: as root"), "{run:?}");
    runner.place.write("bin/sudo", SUDO);
    runner.refused(&runner.step(&[("source", &source), ("setup", "false")]), "this runner refuses sandboxes");
    assert!(!runner.place.home.join("sudo.log").exists());
    let program = runner.installed(&runner.step(&[("source", &source)]), CURRENT);
    assert_eq!(runner.place.read("sudo.log"), format!("true\n{program} setup --yes\n"));
    // Where nothing is refused, nothing is set up.
    let runner = Runner::new();
    runner.place.write("bin/sudo", SUDO);
    shell(&runner.place, "chmod 755 ~/bin/sudo").ok();
    runner.installed(&runner.step(&[("source", &runner.source())]), CURRENT);
    assert!(!runner.place.home.join("sudo.log").exists());
}

/// A set-up that permits only a copy that root owns: later steps start that one.
#[test]
fn a_set_up_that_changes_nothing_is_an_error() {
    if !is_here() {
        return;
    }
    let runner = Runner::new();
    let refusing = REFUSING.replace(": >\"$HOME/set-up\"", "true");
    runner.release(CURRENT, Some(&refusing));
    runner.place.write("bin/sudo", SUDO);
    shell(&runner.place, "chmod 755 ~/bin/sudo").ok();
    let run = runner.step(&[("source", &runner.source())]);
    // The host may have a program where the set-up puts its copy.
    if Path::new("/usr/local/bin/palisade").exists() {
        assert_eq!(runner.installed(&run, CURRENT), "/usr/local/bin/palisade");
    } else {
        runner.refused(&run, "after palisade setup, too");
    }
}

#[test]
fn the_actions_own_files_are_complete() {
    let directory = root().join("packaging/action");
    let text = std::fs::read_to_string(directory.join("action.yml")).unwrap();
    assert!(text.contains("$GITHUB_ACTION_PATH/install"));
    use std::os::unix::fs::PermissionsExt as _;
    let mode = file(&directory, "/install").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    if has("ruby") {
        let line = "ruby -ryaml -e 'puts YAML.load_file(ARGV[0]).fetch(\"runs\").fetch(\"using\")' ~/action/packaging/action/action.yml";
        assert_eq!(shell(&Runner::new().place, line).ok(), "composite");
    }
}
