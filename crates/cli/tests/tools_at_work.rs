// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that package managers and similar tools do the same inside, by default options, as outside. It tries each that is
//! installed. (cargo: `applications`.) `PALISADE_TEST_TOOLS` names more directories in which they are looked for, as `PATH` does.

use crate::support::{PATH, Place, everybody, has, job, ordinary, root};
use std::process::Stdio;

struct Work {
    /// The feature that the machine must have.
    tool: &'static str,
    /// Whether it belongs to the system, for all users. The others are as the user that runs the tests has installed them.
    system: bool,
    /// Whether it is slow, so that it runs only with `PALISADE_OBEYED=all`.
    slow: bool,
    /// Done outside, first.
    before: &'static str,
    /// Done outside in one directory, and inside in another.
    line: &'static str,
}

/// Makes a package of npm's with settings of an editor in it, and a project that depends on it.
const PACKAGE: &str = r#"mkdir -p package/.vscode; echo {} >package/.vscode/settings.json
echo '{"name": "thing", "version": "1.0.0", "bin": {"thing": "thing.js"}}' >package/package.json
echo '#!/usr/bin/env node' >package/thing.js; tar czf thing.tgz package; rm -r package
echo '{"name": "p", "version": "1.0.0", "dependencies": {"thing": "file:./thing.tgz"}}' >package.json"#;

/// The same as a wheel.
const WHEEL: &str = r#"/usr/bin/python3 -c '
import zipfile
with zipfile.ZipFile("thing-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("thing/__init__.py", "")
    wheel.writestr("thing/.vscode/settings.json", "{}")
    wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    wheel.writestr("thing-1.0.dist-info/WHEEL",
        "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("thing-1.0.dist-info/RECORD", "")'"#;

const WORKS: &[Work] = &[
    Work {
        tool: "npm",
        system: true,
        slow: false,
        before: PACKAGE,
        line: "npm_config_cache=$PWD/cache npm install --offline --no-audit --no-fund --no-update-notifier && \
               test -s node_modules/thing/.vscode/settings.json && npm uninstall --no-audit thing && \
               ! test -e node_modules/thing",
    },
    Work {
        tool: "pnpm",
        system: false,
        slow: false,
        before: PACKAGE,
        line: "pnpm install --offline --store-dir $PWD/store && test -s node_modules/thing/.vscode/settings.json && \
               rm -r node_modules && pnpm install --offline --store-dir $PWD/store --frozen-lockfile && \
               test -s node_modules/.bin/thing",
    },
    Work {
        tool: "yarn",
        system: false,
        slow: false,
        before: PACKAGE,
        line: "export YARN_ENABLE_NETWORK=0 YARN_ENABLE_TELEMETRY=0 YARN_NODE_LINKER=node-modules; yarn install && \
               test -s node_modules/thing/.vscode/settings.json && rm -r node_modules && yarn install --immutable && \
               test -s node_modules/.bin/thing",
    },
    Work {
        tool: "bun",
        system: false,
        slow: false,
        before: PACKAGE,
        line: "bun install && test -s node_modules/thing/.vscode/settings.json && rm -r node_modules && bun install",
    },
    Work {
        tool: "uv",
        system: false,
        slow: false,
        before: WHEEL,
        line: "uv venv --offline -p /usr/bin/python3 v && uv pip install --offline -p v ./thing-1.0-py3-none-any.whl && \
               v/bin/python -c 'import thing' && ls v/lib/*/site-packages/thing/.vscode && uv pip uninstall -p v thing",
    },
    Work {
        tool: "mise",
        system: false,
        slow: false,
        before: "printf '[tasks.build]\\nrun = \"echo reached >built\"\\n' >mise.toml",
        line: "MISE_TRUSTED_CONFIG_PATHS=$PWD mise run build && grep reached built",
    },
    Work {
        tool: "hg",
        system: true,
        slow: false,
        before: "true",
        line: "hg init a && cd a && echo x >f && hg add f && hg commit -u a -m x && hg branch other && echo y >>f && \
               hg commit -u a -m y && hg update default && cd .. && hg clone a b && cd b && hg pull ../a && \
               hg update other && grep y f && hg verify && cd .. && rm -r b && ! test -e b",
    },
    Work {
        tool: "jj",
        system: false,
        slow: false,
        // It writes the configuration of a new repository in its place, which isn't let through.
        before: "jj git init --no-colocate a",
        line: "export JJ_USER=a JJ_EMAIL=a@example.org; cd a && echo x >f && jj commit -m x && \
               echo y >>f && jj commit -m y && jj workspace add ../b && cd ../b && jj log -r ::@ | grep -q y && \
               grep y f && jj undo && cd ../a && jj git export && jj status",
    },
    Work {
        tool: "gradle",
        system: true,
        slow: true,
        before: "echo 'apply plugin: \"java\"' >build.gradle; mkdir -p src/main/java
                 echo 'public class A { public static void main(String[] a) { } }' >src/main/java/A.java",
        line: "GRADLE_USER_HOME=$PWD/home gradle --no-daemon --offline build && test -s build/classes/java/main/A.class",
    },
];

/// Runs a line with the tools in its own directory below `work`, which `before` has filled.
fn work(place: &Place, inside: bool, work: &Work) -> job::Run {
    let directory = if inside { "inside" } else { "outside" };
    place.outside(&format!("mkdir ~/work/{directory}; cd ~/work/{directory}; {}", work.before));
    let tools = std::env::var("PALISADE_TEST_TOOLS").unwrap_or_default();
    let line = format!("cd {directory}; {}", work.line);
    let mut command = if inside {
        // What isn't the system's must be shown: npm's links lead from `.bin` to its packages, an environment of
        // Python's has its programs beside the libraries.
        let shown: Vec<String> = std::env::split_paths(&tools)
            .filter(|path| !work.system && path.is_dir())
            .flat_map(|path| ["--ro".to_owned(), top(&path)])
            .collect();
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        place.palisade(&shown, &["/bin/sh", "-c", &line])
    } else {
        let mut shell = place.command("/bin/sh");
        shell.args(["-c", &line]);
        shell
    };
    command.env("PATH", format!("{PATH}:{tools}"));
    job::finish(command.stdin(Stdio::null()))
}

/// What must be shown so that the programs in a directory run.
fn top(programs: &std::path::Path) -> String {
    let up = if programs.ends_with("node_modules/.bin") { 2 } else { 1 };
    programs.ancestors().nth(up).unwrap_or(programs).display().to_string()
}

#[test]
fn tools_do_inside_what_they_do_outside() {
    let mut tried = 0;
    let all = std::env::var("PALISADE_OBEYED").is_ok_and(|which| which == "all");
    for each in WORKS.iter().filter(|work| (all || !work.slow) && has(work.tool)) {
        let started = std::time::Instant::now();
        let people = if each.system { everybody() } else { vec![root().unwrap_or_else(ordinary)] };
        for place in people {
            let control = work(&place, false, each);
            assert_eq!(control.code, 0, "{} outside: {control:?}", each.tool);
            let run = work(&place, true, each);
            assert_eq!(run.code, 0, "{} as {}: {run:?}", each.tool, place.name());
            tried += 1;
        }
        println!("{} has worked ({:.1} s)", each.tool, started.elapsed().as_secs_f32());
    }
    println!("{tried} tried");
}
