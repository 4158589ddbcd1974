// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an agent is told to do: steps that work, and one forbidden action for each wall.

use super::agents::Agent;
use crate::support::Place;
use serde_json::{Map, Value};

/// A session.
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Whether a step starts a server, and ends when it was asked.
    pub(super) serves: bool,
}

/// A step of a session: the call of one tool.
pub(super) struct Step {
    pub(super) name: &'static str,
    tool: &'static str,
    /// For a tool that runs commands; also where an agent has no other tool.
    pub(super) command: &'static str,
    /// The file for the other tools, and what is replaced in it.
    file: Option<(&'static str, &'static str, &'static str)>,
    pub(super) kind: Kind,
}

/// What comes of a step.
pub(super) enum Kind {
    Works {
        prints: &'static str,
    },
    /// It prints this outside, and doesn't inside.
    Forbidden {
        prints: &'static str,
        explained: Explained,
    },
}

/// How the user learns why.
pub(super) enum Explained {
    /// The refusal of this operation is reported when it happens, with a command that permits it.
    Refusal(&'static str),
    /// A note at the start says it.
    Note(&'static str),
    /// Nothing is there to be refused; `palisade explain QUESTION` says why.
    Asked { question: &'static str, says: &'static str },
}

/// What a forbidden action prints first. An agent that refuses a command itself doesn't print it.
pub(super) const TRIED: &str = "tried";

impl Step {
    /// The command that the model tells the agent. The printed word isn't in its text.
    fn told(&self) -> String {
        match self.kind {
            Kind::Works { .. } => self.command.to_owned(),
            Kind::Forbidden { .. } => format!("echo tri''ed; {}", self.command),
        }
    }
}

const fn works(name: &'static str, command: &'static str, prints: &'static str) -> Step {
    Step { name, tool: "shell", command, file: None, kind: Kind::Works { prints } }
}

const fn forbidden(
    name: &'static str,
    command: &'static str,
    prints: &'static str,
    explained: Explained,
) -> Step {
    Step { name, tool: "shell", command, file: None, kind: Kind::Forbidden { prints, explained } }
}

const HOOK: Explained = Explained::Refusal("write @WORK@/.git/hooks/post-commit");

/// The session below the top of a repository. What a command prints isn't in its text, because some agents repeat the text.
pub(super) fn in_a_subdirectory() -> Script {
    let file = "@WORK@/sub/calc.py";
    let steps = vec![
        Step { tool: "read", file: Some((file, "", "")), ..works("read", "cat calc.py", "return a - b") },
        Step {
            tool: "edit",
            file: Some((file, "    return a - b", "    return a + b")),
            ..works("edit", "sed -i 's/a - b/a + b/' calc.py", "")
        },
        works("tests", "sh test.sh", "passed"),
        works(
            "commit",
            "git add . && git commit -qm repaired && git log -1 --format=subject=%s",
            "subject=repaired",
        ),
        works(
            "server",
            "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & server=$!; \
             timeout 90 sh -c 'until test -e asked; do sleep 0.1; done'; cat asked; kill $server",
            "it was asked",
        ),
        forbidden("hook", "echo : >@WORK@/.git/hooks/post-commit && echo ma''de", "made", HOOK),
        forbidden(
            "key",
            "cat @HOME@/.ssh/id_test",
            "a private key",
            Explained::Asked {
                question: "@HOME@/.ssh/id_test",
                says: "to permit  palisade run --ro @HOME@/.ssh/id_test",
            },
        ),
        forbidden(
            "project",
            "echo mo''re >>@HOME@/other/file && cat @HOME@/other/file",
            "more",
            Explained::Asked {
                question: "--access write @HOME@/other/file",
                says: "homes/@NAME@ writable at @HOME@",
            },
        ),
        forbidden(
            "secret",
            "cat @WORK@/.env",
            "PASSWORD=one",
            Explained::Note("files with secrets are hidden: @WORK@/.env; --ro @WORK@/.env shows one"),
        ),
        forbidden(
            "host",
            "curl -sS -m 5 http://other.example/page",
            "GET /page",
            Explained::Refusal("connect other.example:80"),
        ),
        forbidden(
            "port",
            "curl -sS -m 5 --noproxy '*' http://127.0.0.1:80/page",
            "GET /page",
            Explained::Asked { question: "127.0.0.1:80", says: "to permit  palisade run --reach 80 " },
        ),
        forbidden(
            "socket",
            "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"@WORK@/model.sock\"); print(s.recv(9))'",
            "hello",
            Explained::Refusal("connect @WORK@/model.sock"),
        ),
        forbidden(
            "signal",
            "kill -0 @PID@ && echo ali''ve",
            "alive",
            Explained::Asked {
                question: "--guarantee signals-inside",
                says: "processes outside can't be sent signals: yes: ",
            },
        ),
        forbidden(
            "settings",
            "echo 1 >>~/@SETTINGS@ && echo chan''ged",
            "changed",
            Explained::Asked {
                question: "--access write @HOME@/@SETTINGS@",
                says: "the sandbox can't write it",
            },
        ),
        forbidden(
            "namespace",
            "unshare --user --map-root-user true && echo ma''de",
            "made",
            Explained::Refusal("syscall unshare"),
        ),
        forbidden(
            "trace",
            "python3 -c 'import ctypes; print(\"tra\" + \"ced\", ctypes.CDLL(None).ptrace(0, 0, 0, 0))'",
            "traced 0",
            Explained::Refusal("syscall ptrace"),
        ),
    ];
    Script { steps, serves: true }
}

/// The session in a linked worktree.
pub(super) fn in_a_worktree() -> Script {
    let steps = vec![
        works(
            "commit in a worktree",
            "echo 1 >more && git add more && git commit -qm 'in the worktree' && git log -1 --format=subject=%s",
            "subject=in the worktree",
        ),
        forbidden(
            "hook of the repository",
            "echo : >@WORK@/.git/hooks/post-commit && echo ma''de",
            "made",
            HOOK,
        ),
    ];
    Script { steps, serves: false }
}

/// The session of an agent whose commands are confined, and nothing else of it: by `palisade run` without options.
pub(super) fn hooked() -> Script {
    const WALLS: [&str; 6] = ["hook", "key", "project", "signal", "namespace", "trace"];
    let mut steps = vec![works("work", "echo in''side >made && cat made", "inside")];
    steps.extend(in_a_subdirectory().steps.into_iter().filter(|step| WALLS.contains(&step.name)));
    Script { steps, serves: false }
}

/// A text with the names of this place. `@PID@` is left to the model.
pub(super) fn filled(text: &str, place: &Place, agent: &Agent) -> String {
    text.replace("@HOME@", &place.home.display().to_string())
        .replace("@WORK@", &place.work.display().to_string())
        .replace("@NAME@", agent.name)
        .replace("@SETTINGS@", agent.settings)
}

impl Script {
    /// The script as the model reads it.
    pub(super) fn written(&self, place: &Place, agent: &Agent) -> String {
        let steps = self.steps.iter().map(|step| {
            let mut object = Map::new();
            let mut set = |key: &str, value: &str| {
                object.insert(key.to_owned(), Value::from(filled(value, place, agent)));
            };
            set("step", step.name);
            set("tool", step.tool);
            set("command", &step.told());
            if let Some((file, old, new)) = step.file {
                set("path", file);
                set("old", old);
                set("new", new);
            }
            Value::Object(object)
        });
        Value::Array(steps.collect()).to_string()
    }
}
