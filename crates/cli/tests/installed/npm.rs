// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The npm packages: npm, npx and pnpm install them from a registry on the loopback interface, and the launcher behaves as
//! the program that it starts.

use super::{CURRENT, NEWER, commands, described, execute, made, place_tree, shell};
use crate::support::{Place, has, ordinary};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A registry with the packages of the given directories. It ends with this.
struct Registry {
    server: Child,
    /// Variables that have npm and pnpm use it.
    variables: String,
}

impl Registry {
    fn of(place: &Place, directories: &[&Path]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/installed/registry.py");
        let mut server = Command::new("/usr/bin/python3");
        server.arg(script).args(directories).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let tools = std::env::var("PALISADE_TEST_TOOLS").unwrap_or_default();
        let cache = place.home.join("npm-cache");
        // pnpm reads no variables.
        place.write(".npmrc", format!("registry=http://127.0.0.1:{}/\n", port.trim()));
        let variables = format!(
            "PATH=$PATH:{tools} npm_config_registry=http://127.0.0.1:{} npm_config_cache={} npm_config_audit=false \
             npm_config_fund=false npm_config_update_notifier=false",
            port.trim(),
            cache.display()
        );
        Self { server, variables }
    }

    fn shell(&self, place: &Place, line: &str) -> String {
        let run = shell(place, &format!("export {}; {line}", self.variables));
        assert_eq!(run.code, 0, "{line}: {run:?}");
        run.out
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _reaped = self.server.wait();
    }
}

/// The program below a `node_modules`.
fn program(modules: &str) -> String {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    format!("{modules}/@palisade-sandbox/linux-{machine}/bin/palisade")
}

fn is_here() -> bool {
    has("npm") && has("node") && has("python3")
}

/// Installed, described, updated and removed. `remains` are the names that may stay in `directory`.
fn lives(
    (place, current, newer): (&Place, &Path, &Path),
    install: &str,
    (directory, program, by): (&str, &str, &str),
    remains: &[&str],
) {
    let old = Registry::of(place, &[current]);
    old.shell(place, install);
    let program = place.home.join(program);
    let answer = described(place, &program);
    assert_eq!(answer["installed_by"], by, "{answer}");
    drop(old);
    let both = Registry::of(place, &[current, newer]);
    execute(place, &commands(&answer, "update"), &both.variables);
    let manifest = program.ancestors().nth(2).unwrap().join("package.json");
    if by != "npx" {
        assert!(std::fs::read_to_string(manifest).unwrap().contains(NEWER), "{answer}");
        assert_eq!(described(place, &program)["installed_by"], by);
    }
    execute(place, &commands(&answer, "remove"), &both.variables);
    let left = place_tree(&place.home.join(directory));
    let left: Vec<&String> = left.iter().filter(|path| !remains.contains(&path.as_str())).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn with_packages() -> (Place, PathBuf, PathBuf) {
    let place = ordinary();
    let (current, newer) = (made(&place, "npm", CURRENT), made(&place, "npm", NEWER));
    (place, current, newer)
}

#[test]
fn npm_installs_it_for_a_project_and_for_all() {
    if !is_here() {
        return;
    }
    let (place, current, newer) = with_packages();
    let place = (&place, current.as_path(), newer.as_path());
    let install = "mkdir ~/project && cd ~/project && npm init -y >/dev/null && npm install palisade-sandbox";
    let remains = [
        ".",
        "./package.json",
        "./package-lock.json",
        "./node_modules",
        "./node_modules/.package-lock.json",
        // npm leaves these, without anything in them.
        "./node_modules/.bin",
        "./node_modules/@palisade-sandbox",
    ];
    lives(place, install, ("project", &program("project/node_modules"), "npm"), &remains);
    let install = "npm install --global --prefix ~/global palisade-sandbox";
    let nested = "global/lib/node_modules/palisade-sandbox/node_modules";
    let remains = [".", "./bin", "./lib", "./lib/node_modules", "./lib/node_modules/.package-lock.json"];
    lives(place, install, ("global", &program(nested), "npm"), &remains);
}

#[test]
fn pnpm_installs_it_for_a_project() {
    if !is_here() || !has("pnpm") {
        return;
    }
    let (place, current, newer) = with_packages();
    let registry = Registry::of(&place, &[&current]);
    registry.shell(
        &place,
        "mkdir ~/project && cd ~/project && npm init -y >/dev/null && pnpm add palisade-sandbox",
    );
    let find =
        "find ~/project/node_modules/.pnpm -path '*/@palisade-sandbox/linux-*/bin/palisade' | head -n 1";
    let found = PathBuf::from(shell(&place, find).ok());
    let answer = described(&place, &found);
    assert_eq!(answer["installed_by"], "pnpm", "{answer}");
    drop(registry);
    let both = Registry::of(&place, &[&current, &newer]);
    execute(&place, &commands(&answer, "update"), &both.variables);
    assert!(place.read("project/package.json").contains(NEWER));
    execute(&place, &commands(&answer, "remove"), &both.variables);
    assert!(!place.read("project/package.json").contains("palisade"));
}

#[test]
fn npx_keeps_it_in_its_cache() {
    if !is_here() {
        return;
    }
    let (place, current, newer) = with_packages();
    let registry = Registry::of(&place, &[&current]);
    let out = registry.shell(&place, "npx --yes palisade-sandbox run -- echo inside");
    assert_eq!(out, "inside\n");
    let found = shell(&place, "find ~/npm-cache/_npx -path '*/bin/palisade' -type f").ok().to_owned();
    let answer = described(&place, Path::new(&found));
    assert_eq!(answer["installed_by"], "npx", "{answer}");
    drop(registry);
    let both = Registry::of(&place, &[&current, &newer]);
    execute(&place, &commands(&answer, "update"), &both.variables);
    assert!(shell(&place, "cat ~/npm-cache/_npx/*/package-lock.json").ok().contains(NEWER));
    execute(&place, &commands(&answer, "remove"), &both.variables);
    assert!(!Path::new(&found).exists());
}

#[test]
fn the_launcher_is_as_the_program() {
    if !is_here() {
        return;
    }
    let (place, current, _newer) = with_packages();
    let registry = Registry::of(&place, &[&current]);
    registry.shell(&place, "mkdir ~/p && cd ~/p && npm init -y >/dev/null && npm install palisade-sandbox");
    let launcher = place.home.join("p/node_modules/.bin/palisade");
    let launcher = launcher.display();
    // Arguments, standard streams and exit codes.
    let line = format!(
        "echo given | {launcher} run -- sh -c 'cat; printf \"<%s>\" \"$@\"; echo said >&2; exit 7' sh 'a  b' '' '*'"
    );
    let run = shell(&place, &line);
    assert_eq!((run.code, run.out.as_str()), (7, "given\n<a  b><><*>"), "{run:?}");
    assert!(run.err.contains("said"), "{run:?}");
    assert_eq!(shell(&place, &format!("{launcher} no-such-verb")).code, 2);
    assert_eq!(shell(&place, &format!("{launcher} run -- no-such-program")).code, 127);
    // Signals, and what the parent sees of the end.
    place.write("ended.py", SIGNAL);
    let ended = |program: &str, whom: &str, signal: &str| {
        let line = format!("/usr/bin/python3 ~/ended.py {whom} {signal} {program} run -- sleep 600");
        let run = shell(&place, &line);
        place.assert_all_dead();
        run.ok().to_owned()
    };
    let direct = place.home.join(program("p/node_modules"));
    let direct = direct.display().to_string();
    for signal in ["SIGTERM", "SIGINT", "SIGHUP"] {
        assert_eq!(ended(&launcher.to_string(), "it", signal), ended(&direct, "it", signal), "{signal}");
    }
    assert_eq!(ended(&launcher.to_string(), "child", "SIGKILL"), "-9");
}

/// Signals a command, or its child, when its `sleep` runs, and prints the command's end.
const SIGNAL: &str = r#"
import os, signal, subprocess, sys, time

def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []

def sleeps(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip() == "sleep" or any(map(sleeps, children(pid)))
    except OSError:
        return False

whom, name, *command = sys.argv[1:]
started = subprocess.Popen(command, start_new_session=True)
while not sleeps(started.pid):
    time.sleep(0.05)
os.kill(started.pid if whom == "it" else children(started.pid)[0], getattr(signal, name))
print(started.wait())
"#;

#[test]
fn without_the_platforms_package_the_launcher_says_what_to_do() {
    if !is_here() {
        return;
    }
    let (place, current, _newer) = with_packages();
    let registry = Registry::of(&place, &[&current]);
    let install =
        "mkdir ~/p && cd ~/p && npm init -y >/dev/null && npm install --omit=optional palisade-sandbox";
    registry.shell(&place, install);
    let run = shell(&place, "~/p/node_modules/.bin/palisade --version");
    run.refused(125, &["is not installed"]);
    let hint = run.err.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap();
    let hint = hint.split("   #").next().unwrap();
    registry.shell(&place, &format!("cd ~/p && {hint}"));
    assert_eq!(shell(&place, "~/p/node_modules/.bin/palisade --version").ok(), format!("palisade {CURRENT}"));
}

/// Nothing of a package runs when it is installed.
#[test]
fn no_package_has_an_install_script() {
    if !is_here() {
        return;
    }
    let place = ordinary();
    let directory = made(&place, "npm", CURRENT);
    let line = format!(
        "cd '{}' && for file in *.tgz; do tar -xzOf $file package/package.json; done",
        directory.display()
    );
    let all = shell(&place, &line);
    assert!(all.ok().matches("\"version\": ").count() == 2 && !all.out.contains("\"scripts\""), "{all:?}");
    assert!(all.out.contains("\"os\": [") && all.out.contains("\"cpu\": [") && !all.out.contains("\"libc\""));
}
