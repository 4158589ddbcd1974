// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the page of `palisade watch` about the shell, and its counts.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::shell::screen::{PALISADE, Screen, Setting};

use palisade_acceptance::patience::Patience;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SETTINGS: &str = r#"schema = 1
[[guard.rules]]
name = "of-warning"
action = "warn"
prefix = "echo w-"
[[guard.rules]]
name = "of-asking"
action = "confirm"
prefix = "echo q-"
[[guard.rules]]
name = "of-<blocking>"
action = "block"
prefix = "echo b-"
"#;

fn palisade(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PALISADE);
    command.arg("shell").args(arguments).env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    command
}

fn metrics(home: &Path) -> Value {
    let Output { stdout, status, .. } = palisade(home, &["metrics", "--json"]).output().unwrap();
    assert!(status.success());
    serde_json::from_slice(&stdout).unwrap()
}

/// Waits until a number has come to the file: about a second after what is counted.
#[track_caller]
fn wait_for(screen: &Screen, pointer: &str, number: u64) {
    let mut patience = Patience::new(Duration::from_secs(60));
    loop {
        let metrics = metrics(&screen.path(""));
        if metrics.pointer(pointer).and_then(Value::as_u64) == Some(number) {
            return;
        }
        assert!(!patience.is_spent(), "{pointer} isn't {number}: {metrics}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The page's process.
struct Served(Child, String);

impl Served {
    fn start(home: &Path) -> Self {
        let mut child =
            palisade(home, &["page"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self(child, url.trim_end().to_owned())
    }

    fn get(&self, name: &str) -> String {
        let (authority, path) = self.1.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut stream = TcpStream::connect(authority).unwrap();
        write!(stream, "GET /{path}{name} HTTP/1.1\r\nHost: {authority}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Types a line as people do.
fn typed(screen: &mut Screen, line: &str) {
    screen.slowly(line);
    screen.keys("\r");
}

#[test]
fn what_happened_is_on_the_page_and_what_is_not_remembered_is_not() {
    let mut screen = Setting::of("bash", "").file(".config/palisade/shell.toml", SETTINGS).ready();
    let home = screen.path("");
    typed(&mut screen, "echo '<script>alert(1)</script>'");
    screen.wait_for_line("<script>alert(1)</script>");
    wait_for(&screen, "/counts/lines", 1);
    typed(&mut screen, "false");
    wait_for(&screen, "/counts/failed", 1);
    screen.wait_for_last("$");

    typed(&mut screen, "echo w-1");
    screen.wait_for_line("w-1");
    wait_for(&screen, "/counts/rulings/warned", 1);
    screen.wait_for_last("$");
    typed(&mut screen, "echo q-1");
    screen.wait_for("Enter again");
    wait_for(&screen, "/counts/rulings/asked", 1);
    screen.keys("\r");
    screen.wait_for_line("q-1");
    wait_for(&screen, "/counts/rulings/confirmed", 1);
    screen.wait_for_last("$");
    typed(&mut screen, "echo b-1 '<script>alert(2)</script>'");
    screen.wait_for("not run");
    wait_for(&screen, "/counts/rulings/blocked", 1);
    screen.keys("\x03");
    screen.wait_for_last("$");

    // What begins like the first line is shown, and taken.
    screen.slowly("echo '<");
    screen.wait_for_last("$ echo '<script>alert(1)</script>'");
    screen.keys("\x1b[C");
    wait_for(&screen, "/counts/ghost_taken", 1);
    screen.keys("\r");
    wait_for(&screen, "/counts/lines", 5);
    assert!(metrics(&home)["counts"]["ghost_shown"].as_u64() >= Some(1));

    // A space in front, and incognito: neither lines nor rulings.
    screen.wait_for_last("$");
    typed(&mut screen, " echo w-spaced-trace");
    screen.wait_for_line("w-spaced-trace");
    screen.wait_for_last("$");
    screen.keys("\x1bi");
    screen.wait_for("incognito, nothing");
    typed(&mut screen, "echo w-hidden-trace");
    screen.wait_for_line("w-hidden-trace");
    screen.wait_for_line("$");
    screen.keys("\x1bi");
    screen.wait_for("remembered again");
    typed(&mut screen, "echo last");
    screen.wait_for_line("last");
    wait_for(&screen, "/counts/lines", 6);
    wait_for(&screen, "/entries", 6);
    assert_eq!(metrics(&home)["counts"]["rulings"]["warned"], 1);

    let served = Served::start(&home);
    let page = served.get("");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(!page.contains("<script") && !page.contains("-trace"), "{page}");
    for wanted in [
        "<dt>lines run</dt><dd>6<",
        "<dt>confirmed</dt><dd>1<",
        "<code>echo b-1 &#39;&lt;script&gt;alert(2)&lt;/script&gt;&#39;</code>",
        "&lt;script&gt;alert(1)",
        "of-&lt;blocking&gt;",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let numbers = served.get("metrics");
    for wanted in [
        "palisade_shell_lines_total 6\n",
        "palisade_shell_lines_failed_total 1\n",
        "palisade_shell_guard_rulings_total{ruling=\"blocked\"} 1\n",
        "palisade_shell_guard_rule_total{rule=\"rules/of-<blocking>\",ruling=\"blocked\"} 1\n",
        "palisade_shell_page_requests_total{answer=\"given\"} 2\n",
    ] {
        assert!(numbers.contains(wanted), "{wanted}: {numbers}");
    }
    assert!(!numbers.contains("script>"), "what was typed isn't in the metrics");
    let text = palisade(&home, &["metrics"]).output().unwrap().stdout;
    assert!(String::from_utf8(text).unwrap().contains("         6  lines run\n"));
    let kept = std::fs::read_to_string(screen.path(".local/state/palisade/shell-counts.json")).unwrap();
    assert!(!kept.contains("-trace"), "{kept}");
}

#[test]
fn without_a_history_nothing_is_counted() {
    let settings = "schema = 1\nmodules = [\"keymap\", \"guard\"]\n[[guard.rules]]\nname = \"w\"\naction = \"warn\"\nprefix = \"echo w-\"\n";
    let mut screen = Setting::of("bash", "").file(".config/palisade/shell.toml", settings).ready();
    typed(&mut screen, "echo w-1");
    screen.wait_for_line("w-1");
    screen.wait_for_last("$");
    screen.line("exit");
    screen.end();
    assert!(!screen.path(".local/state/palisade/shell-counts.json").exists());
    let all = metrics(&screen.path(""));
    assert_eq!((&all["counts"]["lines"], &all["problems"]), (&Value::from(0), &Value::Array(Vec::new())));
}

#[test]
fn a_port_that_is_taken_is_said() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = palisade(home.path(), &["page", "--port", &port]).output().unwrap();
    let words = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(
        words.contains(&format!("127.0.0.1:{port}")) && words.contains("hint: palisade shell page"),
        "{words}"
    );
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "looking makes nothing");
}
