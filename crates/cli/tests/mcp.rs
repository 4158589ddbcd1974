// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade mcp serve`: its answers inside and outside, against what then happens; questions to the user; and
//! clients that mean harm.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::{Bed, people};
use crate::support::terminal::{Terminal, words};
use crate::support::{Place, everybody, has, job};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// No answer takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(60);

/// A client that has agreed on a version with its server.
struct Client {
    server: Child,
    input: Option<ChildStdin>,
    replies: Receiver<Value>,
    next: u64,
}

impl Client {
    fn start(command: &mut Command, version: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut server = command.spawn().unwrap();
        let (sender, replies) = channel();
        let out = BufReader::new(server.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let reply = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(reply).is_err() {
                    break;
                }
            }
        });
        let mut client = Self { input: server.stdin.take(), server, replies, next: 0 };
        let agreed = client.request("initialize", json!({ "protocolVersion": version, "capabilities": {} }));
        assert_eq!(agreed["result"]["protocolVersion"], version);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    /// A server in a sandbox of this place.
    fn inside(place: &Place, options: &[&str]) -> Self {
        Self::start(&mut inside(place, options), "2025-06-18")
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn reply(&self) -> Value {
        self.replies.recv_timeout(LIMIT).unwrap()
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.send(&request.to_string());
        let reply = self.reply();
        assert_eq!(reply["id"], self.next, "{reply}");
        reply
    }

    /// Calls a tool. Returns its answer.
    fn call(&mut self, name: &str, arguments: Value) -> Value {
        let reply = self.request("tools/call", json!({ "name": name, "arguments": arguments }));
        let result = &reply["result"];
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        if result["isError"] == false {
            assert_eq!(result["structuredContent"], text, "both forms say the same");
        }
        text
    }

    fn may(&mut self, arguments: Value) -> Value {
        self.call("what_may_i_do", arguments)
    }

    /// Ends standard input. The server ends, too.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.server.wait().unwrap().success());
    }
}

/// `palisade run … -- palisade mcp serve`.
fn inside(place: &Place, options: &[&str]) -> Command {
    let binary = place.binary().to_str().unwrap();
    let options = [&["--refusals", "--ro", binary], options].concat();
    place.palisade(&options, &[binary, "mcp", "serve"])
}

#[test]
fn inside_an_answer_about_a_path_is_what_happens() {
    for place in everybody() {
        place.outside("echo x >~/work/file; mkdir -p ~/work/given ~/other; echo x >~/work/given/file; echo x >~/other/file");
        let options = ["--ro", "given"];
        let mut client = Client::inside(&place, &options);
        let absolute = |path: &str| path.replace('~', place.home.to_str().unwrap());
        for (path, access, attempt, allowed) in [
            ("file", "read", "cat file", true),
            ("file", "write", "echo y >file", true),
            ("new", "write", "echo y >new && rm new", true),
            ("/etc/passwd", "read", "cat /etc/passwd", true),
            ("/etc/passwd", "write", "echo y >>/etc/passwd", false),
            ("/bin/true", "execute", "/bin/true", true),
            ("given/file", "read", "cat given/file", true),
            ("given/file", "write", "echo y >given/file", false),
            ("given/new", "write", "echo y >given/new", false),
            (".vscode", "write", "mkdir .vscode", false),
            (".git/hooks/x", "write", "mkdir -p .git/hooks; echo x >.git/hooks/x", false),
            ("~/other/file", "read", "cat ~/other/file", false),
            ("/no/such/file", "read", "cat /no/such/file", false),
        ] {
            let answer = client.may(json!({ "path": absolute(path), "access": access }));
            assert_eq!(answer["allowed"], allowed, "{path}: {answer}");
            let done = place.sh(&options, &format!("({attempt}) >/dev/null 2>&1"));
            assert_eq!(done.code == 0, allowed, "{attempt}: {done:?}");
            if !allowed {
                assert_eq!(answer["retry"], false);
                assert!(answer["user_command"].as_str().unwrap().starts_with("palisade run --"), "{answer}");
            }
        }
        // The command that the answer names permits it.
        let answer = client.may(json!({ "path": "given/file", "access": "write" }));
        let given = place.work.join("given/file");
        let command = format!("palisade run --rw {} …", given.display());
        assert_eq!(answer["user_command"], command);
        place.sh(&["--ro", "given", "--rw", given.to_str().unwrap()], "echo y >given/file").ok();
        for (command, allowed) in [("sh", true), ("/bin/sh", true), ("no-such-program", false)] {
            assert_eq!(client.may(json!({ "command": command }))["allowed"], allowed, "{command}");
        }
        // Asking is no attempt: the user sees no refusal.
        assert_eq!(client.call("refusals", json!({}))["refusals"], json!([]));
        client.end();
    }
}

#[test]
fn inside_an_answer_about_a_host_is_what_happens() {
    for place in people() {
        let bed = Bed::new(place);
        let binary = bed.place.binary().to_str().unwrap().to_owned();
        let options = [
            "--refusals",
            "--ro",
            &binary,
            "--allow",
            "*.allowed.example:80",
            "--deny-host",
            "api.allowed.example",
        ];
        let mut client =
            Client::start(&mut bed.palisade(&options, &format!("exec {binary} mcp serve")), "2024-11-05");
        for (host, allowed) in [
            ("www.allowed.example:80", true),
            ("www.allowed.example:443", false),
            ("api.allowed.example:80", false),
            ("denied.example:80", false),
            ("93.184.216.34:80", false),
            ("10.0.0.1:80", false),
        ] {
            let reply = client
                .request("tools/call", json!({ "name": "what_may_i_do", "arguments": { "host": host } }));
            assert!(reply["result"].get("structuredContent").is_none(), "this version has only texts");
            let answer: Value =
                serde_json::from_str(reply["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(answer["allowed"], allowed, "{answer}");
            let fetch = format!("curl -fsS -m 20 --noproxy '*' -o /dev/null http://{host}/ 2>/dev/null");
            assert_eq!(bed.sh(&options, &fetch).code == 0, allowed, "{host}");
        }
        client.end();
    }
}

#[test]
fn without_a_network_the_user_is_told_how_to_permit_a_host() {
    for place in everybody() {
        let mut client = Client::inside(&place, &[]);
        let answer = client.call("request_permission", json!({ "host": "one.example:443" }));
        assert_eq!(
            (&answer["permitted"], &answer["asked_launcher"]),
            (&false.into(), &false.into()),
            "{answer}"
        );
        assert_eq!(answer["user_command"], "palisade run --allow one.example:443 …");
        assert!(answer["next"].as_str().unwrap().starts_with("Do not retry. Tell the user"), "{answer}");
        let answer = client.may(json!({ "host": "https://you@one.example/page?x" }));
        assert_eq!(answer["user_command"], "palisade run --allow one.example:443 …");
        client.end();
        // In a launch by that command it is permitted.
        let mut client = Client::inside(&place, &["--allow", "one.example:443"]);
        assert_eq!(
            client.call("request_permission", json!({ "host": "one.example:443" }))["permitted"],
            true
        );
        // A request for a path grants nothing.
        let asked = client.call("request_permission", json!({ "path": ".vscode", "access": "write" }));
        assert_eq!((&asked["permitted"], &asked["asked_launcher"]), (&false.into(), &false.into()));
        assert_eq!(asked["user_command"], "palisade run --allow-name .vscode …");
        assert_eq!(client.may(json!({ "path": ".vscode", "access": "write" }))["allowed"], false);
        client.end();
    }
}

/// What an administrator has locked, no command of the user permits, and none is proposed.
#[test]
fn a_lock_is_not_argued_with() {
    let Some(place) = crate::support::root().filter(|_| has("bwrap")) else { return };
    let config = "[network]\nmode = \"filtered\"\n[locked.network]\ndeny = [\"denied.example\"]\n";
    let mut palisade = place.administered(config);
    let binary = place.binary().to_str().unwrap();
    palisade.args(["run", "--refusals", "--ro", binary, "--", binary, "mcp", "serve"]);
    let mut client = Client::start(&mut palisade, "2025-06-18");
    for (host, command) in [("denied.example:443", false), ("other.example:443", true)] {
        let answer = client.call("request_permission", json!({ "host": host }));
        assert_eq!(answer["permitted"], false);
        assert_eq!(answer["user_command"].is_string(), command, "{answer}");
    }
    client.end();
    let mut palisade = place.administered("[locked.network]\nmode = \"none\"\n");
    palisade.args(["run", "--refusals", "--ro", binary, "--", binary, "mcp", "serve"]);
    let mut client = Client::start(&mut palisade, "2025-06-18");
    let answer = client.call("request_permission", json!({ "host": "other.example:443" }));
    assert_eq!((&answer["permitted"], &answer["user_command"]), (&false.into(), &Value::Null), "{answer}");
    client.end();
}

#[test]
fn the_user_decides_about_a_host() {
    for place in people().into_iter().filter(|_| has("tmux")) {
        let bed = Bed::new(place);
        let terminal = Terminal::open(&bed.place);
        let binary = bed.place.binary().to_str().unwrap().to_owned();
        let ask = |id: u64, host: &str| {
            let call = json!({ "name": "request_permission", "arguments": { "host": host } });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }).to_string()
        };
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-06-18" } });
        bed.place.outside("mkfifo ~/work/in");
        let line = format!("{binary} mcp serve <in >out; exit");
        let options = ["--refusals", "--ro", &binary, "--net-default", "ask"];
        terminal.line(&words(&bed.palisade(&options, &line)));
        let mut input = std::fs::OpenOptions::new().write(true).open(bed.place.work.join("in")).unwrap();
        let mut send = |line: String| input.write_all(format!("{line}\n").as_bytes()).unwrap();
        let answer = |id: u64| {
            let mut found = None;
            let came = crate::support::eventually(|| {
                let out = std::fs::read_to_string(bed.place.work.join("out")).unwrap_or_default();
                let replies = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                found = replies.into_iter().find(|reply| reply["id"] == id);
                found.is_some()
            });
            assert!(came, "no answer to request {id}");
            found.unwrap()["result"].clone()
        };
        send(initialize.to_string());
        send(ask(1, "www.allowed.example:80"));
        terminal.wait_for_question("www.allowed.example:80");
        // Nothing inside is answered meanwhile: everything inside is stopped.
        terminal.answer("www.allowed.example:80", "y");
        let granted = answer(1)["structuredContent"].clone();
        assert_eq!(
            (&granted["permitted"], &granted["asked_launcher"]),
            (&true.into(), &true.into()),
            "{granted}"
        );
        send(ask(2, "api.allowed.example:80"));
        terminal.answer("api.allowed.example:80", "no");
        let refused = answer(2)["structuredContent"].clone();
        assert_eq!(
            (&refused["permitted"], &refused["asked_launcher"]),
            (&false.into(), &true.into()),
            "{refused}"
        );
        assert_eq!(refused["user_command"], "palisade run --allow api.allowed.example:80 …");
        // The launcher's rule for what was asked: the server has no way of its own.
        send(json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" }).to_string());
        assert_eq!(answer(3), json!({}));
    }
}

#[test]
fn a_question_without_a_terminal_is_refused_and_the_answer_says_why() {
    for place in people() {
        let bed = Bed::new(place);
        let binary = bed.place.binary().to_str().unwrap().to_owned();
        let options = ["--refusals", "--ro", &binary, "--net-default", "ask"];
        let palisade = bed.palisade(&options, &format!("exec {binary} mcp serve"));
        // `setsid`, because the caller of the tests may have a terminal.
        let mut alone = bed.place.command("setsid");
        alone.arg("--wait").arg(palisade.get_program()).args(palisade.get_args());
        let mut client = Client::start(&mut alone, "2025-06-18");
        let answer = client.call("request_permission", json!({ "host": "www.allowed.example:80" }));
        assert_eq!(answer["permitted"], false, "{answer}");
        assert!(answer["why"].as_str().unwrap().contains("couldn't be asked"), "{answer}");
        assert_eq!(answer["user_command"], "palisade run --allow www.allowed.example:80 …");
        // The launcher writes it down while the answer is on its way.
        let mut refusals = Value::Null;
        let listed = crate::support::eventually(|| {
            refusals = client.call("refusals", json!({}));
            refusals["refusals"][0]["object"] == "www.allowed.example:80"
        });
        assert!(listed, "{refusals}");
        client.end();
    }
}

#[test]
fn refusals_are_listed_with_their_counts() {
    for place in everybody() {
        let binary = place.binary().to_str().unwrap();
        let line = "for n in 1 2 3; do mkdir .vscode 2>/dev/null; done
            until grep -q '\"count\": *3,' \"$PALISADE_REFUSALS\"; do sleep 0.05; done; exec \"$0\" mcp serve";
        let command = ["sh", "-c", line, binary];
        let mut client =
            Client::start(&mut place.palisade(&["--refusals", "--ro", binary], &command), "2025-03-26");
        let reply = client.request("tools/call", json!({ "name": "refusals" }));
        let answer: Value =
            serde_json::from_str(reply["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(answer["refusals"].as_array().unwrap().len(), 1, "{answer}");
        assert_eq!((&answer["refusals"][0]["count"], &answer["older"]), (&3.into(), &0.into()));
        assert_eq!(answer["refusals"][0]["retry"], false);
        client.end();
    }
}

/// On the host the answers are those of `palisade explain`, about the launch that the options describe.
#[test]
fn outside_the_answers_are_about_a_launch() {
    for place in everybody() {
        place.outside("mkdir -p ~/other; echo x >~/other/file");
        let other = place.home.join("other");
        let serve = |options: &[&str]| {
            let mut command = place.command(place.binary());
            command.args(["mcp", "serve"]).args(options);
            Client::start(&mut command, "2025-06-18")
        };
        let file = other.join("file");
        let mut client = serve(&[]);
        let answer = client.may(json!({ "path": file, "access": "read" }));
        assert_eq!(answer["allowed"], false, "{answer}");
        let asked = client.call("request_permission", json!({ "path": file, "access": "read" }));
        assert_eq!((&asked["permitted"], &asked["user_command"]), (&false.into(), &answer["permit"]));
        assert_eq!(client.may(json!({ "command": "sh" }))["allowed"], true);
        assert_eq!(client.may(json!({ "host": "one.example" }))["allowed"], false);
        // Refusals of launches that run while the server does.
        assert_eq!(client.call("refusals", json!({}))["refusals"], json!([]));
        place.sh(&[], "mkdir .vscode; true").ok();
        let refusals = client.call("refusals", json!({}));
        assert!(refusals["refusals"][0]["object"].as_str().unwrap().ends_with("work/.vscode"), "{refusals}");
        client.end();
        let mut client = serve(&["--ro", other.to_str().unwrap(), "--allow", "one.example"]);
        assert_eq!(client.may(json!({ "path": file, "access": "read" }))["allowed"], true);
        assert_eq!(client.may(json!({ "host": "one.example" }))["allowed"], true);
        client.end();
    }
}

/// The most memory that a process has had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_client_that_means_harm_gets_errors_and_no_memory() {
    for place in everybody() {
        let mut command = place.command(place.binary());
        command.args(["mcp", "serve"]);
        let mut client = Client::start(&mut command, "2025-06-18");
        // 64 MiB in one line, a megabyte of brackets, no UTF-8, no request.
        let input = client.input.as_mut().unwrap();
        for _part in 0..64 {
            input.write_all(&[b'x'; 1 << 20]).unwrap();
        }
        input.write_all(b"\n").unwrap();
        assert_eq!(client.reply()["error"]["code"], -32700);
        client.send(&"[".repeat(1_000_000));
        assert_eq!(client.reply()["error"]["code"], -32700);
        client.send(&"{\"a\":".repeat(100_000));
        assert_eq!(client.reply()["error"]["code"], -32700);
        client.input.as_mut().unwrap().write_all(b"\xff\xfe\x00{}\n").unwrap();
        assert_eq!(client.reply()["error"]["code"], -32700);
        client.send("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]");
        assert_eq!(client.reply()["error"]["code"], -32600);
        let long = client.request(
            "tools/call",
            json!({ "name": "what_may_i_do", "arguments": { "path": "x".repeat(900_000) } }),
        );
        assert_eq!(long["error"]["code"], -32602);
        // A flood of requests, each answered.
        for number in 0..5_000_u64 {
            client.send(&json!({ "jsonrpc": "2.0", "id": number, "method": "tools/list" }).to_string());
        }
        for number in 0..5_000_u64 {
            assert_eq!(client.reply()["id"], number);
        }
        let peak = peak(client.server.id());
        assert!(peak < 64 << 10, "{peak} KiB");
        client.end();
    }
}

#[test]
fn a_flood_of_requests_for_permissions_is_refused() {
    for place in everybody() {
        let mut client = Client::inside(&place, &[]);
        let mut answers = |host: &str| client.call("request_permission", json!({ "host": host }));
        for number in 0..10 {
            assert_eq!(answers(&format!("h{number}.example:443"))["permitted"], false);
        }
        for number in 0..50 {
            let error = answers(&format!("g{number}.example:443"));
            assert!(error["error"].as_str().unwrap().starts_with("too many requests"), "{error}");
        }
        client.end();
    }
}

/// A client that writes and never reads waits for itself. Its end ends the server.
#[test]
fn a_client_that_reads_nothing_is_no_harm() {
    for place in everybody() {
        let mut server = inside(&place, &[]);
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = server.spawn().unwrap();
        let (mut input, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
        let (done, ended) = channel();
        std::thread::spawn(move || {
            let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(1000);
            let mut written = 0_usize;
            while input.write_all(line.as_bytes()).is_ok() {
                written += line.len();
            }
            done.send(written).unwrap();
        });
        // The pipes are full: the server waits, and so does the client.
        assert!(ended.recv_timeout(Duration::from_secs(1)).is_err());
        drop(output);
        let written = ended.recv_timeout(LIMIT).unwrap();
        assert!(written < 4 << 20, "{written}");
        assert!(server.wait().unwrap().success());
    }
}

/// The answers are one line each, whatever names are asked about.
#[test]
fn names_begin_no_line_of_their_own() {
    for place in everybody() {
        let mut client = Client::inside(&place, &[]);
        let name = "x\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\u{1b}[2J\u{202e}";
        for arguments in [json!({ "path": name }), json!({ "command": name }), json!({ "host": name })] {
            let _answer = client.may(arguments.clone());
            let _answer = client.call("request_permission", json!({ "path": name }));
        }
        client.end();
        let done = job::finish(place.command(place.binary()).args(["mcp", "serve", "--no-such-option"]));
        assert_eq!(done.code, 2, "{done:?}");
    }
}
