// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `palisade mcp wrap`, `unwrap` and `list`: a server of the Model Context Protocol is really started, outside
//! and wrapped, and configurations are afterwards as they were.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, everybody, has, job};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

/// A server with one tool, which reads a file.
const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    if call["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "files", "version": "1"}}
    elif call["method"] == "tools/call":
        try:
            text = open(os.path.expanduser(call["params"]["arguments"]["path"])).read()
            result = {"content": [{"type": "text", "text": text + os.environ.get("API_TOKEN", "")}]}
        except OSError as error:
            result = {"isError": True, "content": [{"type": "text", "text": str(error)}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"#;

fn mcp(place: &Place, words: &[&str]) -> Run {
    job::finish(place.command(place.binary()).arg("mcp").args(words))
}

/// Starts a server as an agent does, has it read a file, and returns the answer.
fn read_by(place: &Place, server: &Value, path: &str) -> Value {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let words = match &server["command"] {
        Value::String(program) => [vec![program.clone()], texts(&server["args"])].concat(),
        other => texts(other),
    };
    let (program, arguments) = words.split_first().unwrap();
    let mut command = place.command(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in server["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().unwrap());
    }
    let mut child = command.spawn().unwrap();
    let calls = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read", "arguments": {"path": path}}}),
    ];
    let lines: String = calls.iter().map(|call| format!("{call}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2, "{out}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "files");
    answers[1]["result"].clone()
}

#[test]
fn a_wrapped_server_reads_only_what_its_policy_shows() {
    if !has("userns") || !Path::new("/usr/bin/python3").exists() {
        return;
    }
    for place in everybody() {
        place.write("secret", "secret");
        place.write("work/own", "own");
        place.write("work/server.py", SERVER);
        let text = "{\n  // servers\n  \"mcpServers\": {\n    \"files\": {\n      \"command\": \"/usr/bin/python3\",\n      \
             \"args\": [\"server.py\"], // one\n      \"env\": {\"API_TOKEN\": \"t0\"}\n    },\n    \
             \"far\": {\"type\": \"http\", \"url\": \"https://example.org/mcp\"}\n  }\n}\n";
        place.write("work/.mcp.json", text);
        let server = || -> Value {
            let stripped: String = place
                .read("work/.mcp.json")
                .lines()
                .map(|line| line.split(" //").next().unwrap())
                .collect::<Vec<_>>()
                .join("\n")
                .replace("  // servers", "");
            serde_json::from_str::<Value>(&stripped).unwrap()["mcpServers"]["files"].clone()
        };
        let outside = read_by(&place, &server(), "~/secret");
        assert_eq!(outside["content"][0]["text"], "secrett0");

        let wrapped = mcp(&place, &["wrap", ".mcp.json"]);
        assert!(wrapped.ok().contains("far in") && wrapped.out.contains(": left\n"), "{wrapped:?}");
        let inside = read_by(&place, &server(), "~/secret");
        assert_eq!(inside["isError"], true, "{inside}");
        // Its directory and the variables of its configuration are there.
        assert_eq!(read_by(&place, &server(), "own")["content"][0]["text"], "ownt0");
        let again = mcp(&place, &["wrap", "claude"]);
        assert!(again.ok().contains(": unchanged\n"), "{again:?}");
        let list = mcp(&place, &["list"]);
        assert!(list.ok().contains("files                wrapped"), "{list:?}");
        assert!(list.out.contains("far                  remote"), "{list:?}");

        // With more allowed.
        mcp(&place, &["wrap", ".mcp.json", "files", "--ro", place.home.join("secret").to_str().unwrap()])
            .ok();
        assert_eq!(read_by(&place, &server(), "~/secret")["content"][0]["text"], "secrett0");
        mcp(&place, &["unwrap", ".mcp.json"]).ok();
        assert_eq!(place.read("work/.mcp.json"), text);
        assert_eq!(mcp(&place, &["unwrap", ".mcp.json"]).code, 1);
    }
}

/// Each agent's configuration, with one program as a server.
const CONFIGURATIONS: [(&str, &str, &str); 13] = [
    ("claude", ".claude.json", "{\"mcpServers\": {\"s\": {\"command\": \"true\"}}, \"history\": [1]}"),
    (
        "claude",
        ".claude.json",
        "{\n\t\"projects\": {\n\t\t\"/x.y\": {\"mcpServers\": {\"s\": {\"command\": \"true\", \"args\": []}}}}}",
    ),
    ("claude", "work/.mcp.json", "{\"mcpServers\":{\"s\":{\"args\":[\"-a\"],\"command\":\"true\"}}}"),
    (
        "codex",
        ".codex/config.toml",
        "model = \"x\" # mine\n\n[mcp_servers.s]\ncommand = 'true'\nargs = [\n  \"a\", # b\n]\n\n[t]\n",
    ),
    ("codex", ".codex/config.toml", "[mcp_servers]\ns = { command = \"true\", env = { A = \"1\" } }"),
    ("codex", ".codex/config.toml", "mcp_servers.s.command = \"true\"\r\n"),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.\"s\"]\ncommand = \"true\"\n[mcp_servers.s.env]\nA = \"1\"\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\"mcp\": {\"s\": {\"type\": \"local\", \"command\": [\"true\", \"x\"]}}}",
    ),
    (
        "opencode",
        "work/opencode.jsonc",
        "{\n  \"mcp\": {\n    \"s\": { \"command\": [\n      \"true\",\n    ], },\n  },\n}\n",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "\u{feff}{\"mcpServers\": {\"s\": {\"command\": \"true\", \"args\": [\"a\"]}}}\r\n",
    ),
    ("gemini", ".gemini/settings.json", "{\"mcpServers\": {\"s\": {\"command\": \"true\"}}}"),
    (
        "copilot",
        ".copilot/mcp-config.json",
        "{\"mcpServers\": {\"s\": {\"type\": \"local\", \"command\": \"true\", \"args\": []}}}",
    ),
    ("vscode", "work/.vscode/mcp.json", "{\"servers\": {\"s\": {\"command\": \"true\"}}} // end"),
];

#[test]
fn configurations_are_afterwards_as_they_were() {
    for place in everybody() {
        for (agent, file, text) in CONFIGURATIONS {
            let path = place.write(file, text);
            let wrapped = mcp(&place, &["wrap", agent, "--allow", "example.org", "--json"]);
            let answer: Value = serde_json::from_str(wrapped.ok()).unwrap();
            assert_eq!(answer["servers"][0]["state"], "wrapped", "{agent}: {answer}");
            let changed = place.read(file);
            assert!(
                changed.contains("\"--allow=example.org\"") && changed.contains("--profile=read-only"),
                "{changed}"
            );
            let list = mcp(&place, &["list", agent, "--json"]);
            let listed: Value = serde_json::from_str(list.ok()).unwrap();
            let starts = listed["servers"][0]["starts"].as_str().unwrap();
            assert_eq!(listed["servers"][0]["state"], "wrapped", "{listed}");
            assert!(starts.contains(" run --profile=read-only --allow=example.org"), "{starts}");
            assert!(starts.contains(" -- true"), "{starts}");
            // Another policy replaces the first.
            mcp(&place, &["wrap", agent, "s"]).ok();
            assert!(!place.read(file).contains("example.org"));
            mcp(&place, &["unwrap", agent]).ok();
            assert_eq!(place.read(file), text, "{agent}: {changed}");
            std::fs::remove_file(path).unwrap();
        }
        assert!(mcp(&place, &["list"]).ok().contains("no servers"));
    }
}

#[test]
fn what_is_edited_meanwhile_stays() {
    for place in everybody() {
        let (file, text) = (
            "work/.mcp.json",
            "{\"mcpServers\": {\"a\": {\"command\": \"true\"}, \"b\": {\"command\": \"true\"}}}",
        );
        place.write(file, text);
        mcp(&place, &["wrap", "claude"]).ok();
        // An agent writes the file anew, with another server and another argument.
        let mut value: Value = serde_json::from_str(&place.read(file)).unwrap();
        value["mcpServers"]["c"] = json!({"url": "https://example.org"});
        value["mcpServers"]["a"]["args"].as_array_mut().unwrap().push(json!("--more"));
        place.write(file, serde_json::to_string_pretty(&value).unwrap());
        mcp(&place, &["unwrap", "--all"]).ok();
        let value: Value = serde_json::from_str(&place.read(file)).unwrap();
        assert_eq!(value["mcpServers"]["c"]["url"], "https://example.org");
        assert_eq!(value["mcpServers"]["a"], json!({"command": "true", "args": ["--more"]}));
        assert_eq!(value["mcpServers"]["b"]["command"], "true");
        // A command and its arguments go together or not at all.
        place.write(file, text);
        mcp(&place, &["wrap", "claude", "a"]).ok();
        let edited = place.read(file).replace("--profile=read-only", "--profile=other");
        place.write(file, &edited);
        for verb in ["unwrap", "wrap"] {
            mcp(&place, &[verb, "claude", "a"]);
            assert_eq!(place.read(file), edited, "{verb}");
        }
        let left = mcp(&place, &["unwrap", "claude", "a"]);
        assert!(left.code == 1 && left.err.contains("was changed meanwhile"), "{left:?}");
        place.write(file, edited.replace("--profile=other", "--profile=read-only"));
        mcp(&place, &["unwrap", "claude", "a"]).ok();
        assert_eq!(place.read(file), text);
    }
}

#[test]
fn bad_configurations_are_errors() {
    for place in everybody() {
        place.write("work/.mcp.json", "{\"mcpServers\": {\"a\": }}");
        for verb in ["wrap", "list"] {
            mcp(&place, &[verb, ".mcp.json"]).refused(2, &["line 1, column"]).with_hint();
        }
        place.write("work/c.toml", "[mcp_servers.a]\ncommand = \n");
        mcp(&place, &["wrap", "c.toml"]).refused(2, &["line 2, column"]).with_hint();
        mcp(&place, &["wrap", "no-such"]).refused(2, &["neither an agent nor a file"]).with_hint();
        mcp(&place, &["wrap", "cursor"]).refused(2, &["no configuration"]).with_hint();
        place.write(
            "work/.mcp.json",
            "{\"mcpServers\": {\"a\": {\"command\": 1}, \"b\": {\"command\": \"x\", \"args\": \"y\"}}}",
        );
        let wrapped = mcp(&place, &["wrap", ".mcp.json"]);
        assert_eq!((wrapped.code, wrapped.out.matches(": left\n").count()), (1, 2), "{wrapped:?}");
        mcp(&place, &["wrap", ".mcp.json", "z"]).refused(2, &["no server \"z\""]).with_hint();
        mcp(&place, &["wrap", ".mcp.json", "--allow", "a b"]).refused(2, &["a b"]);
    }
}

/// Claude Code starts servers with the prefix of its commands, too.
#[test]
fn a_wrapped_server_keeps_its_policy_under_the_prefix_of_claude() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        place.write("secret", "secret");
        let secret = place.home.join("secret");
        place.write("work/.mcp.json", "{\"mcpServers\": {\"s\": {\"command\": \"cat\"}}}");
        mcp(&place, &["wrap", ".mcp.json", "--ro", secret.to_str().unwrap()]).ok();
        job::finish(place.command(place.binary()).args(["agent", "install", "claude"])).ok();
        let settings: Value = serde_json::from_str(&place.read(".claude/settings.json")).unwrap();
        let prefix = settings["env"]["CLAUDE_CODE_SHELL_PREFIX"].as_str().unwrap();
        let value: Value = serde_json::from_str(&place.read("work/.mcp.json")).unwrap();
        let server = &value["mcpServers"]["s"];
        let mut words = vec![server["command"].as_str().unwrap()];
        words.extend(server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        words.push(secret.to_str().unwrap());
        let line = words.join(" ");
        assert_eq!(job::finish(place.command(prefix).arg(&line)).ok(), "secret");
        // Other options than the recorded ones don't count: it is a line as any other, in the sandbox of lines.
        let other = line.replace("--profile=read-only", "--profile=read-only --rw=/");
        let refused = job::finish(place.command(prefix).arg(&other));
        assert!(refused.code != 0 && !refused.out.contains("secret"), "{refused:?}");
    }
}
