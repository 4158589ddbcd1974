// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests lines that another program than the shell reads: the status line names that program, and the lines aren't judged.

use super::screen::{Screen, Setting};
use palisade_acceptance::patience::{Patience, pause};

const SETTINGS: &str = "schema = 1\n[status]\nrow = true\nshow = [\"context\", \"exit\"]\n";

fn setting() -> Setting {
    Setting::of("bash", "").file(".config/palisade/shell.toml", SETTINGS)
}

fn row(screen: &vt100::Screen) -> String {
    screen.rows(0, 1000).last().unwrap_or_default().trim().to_owned()
}

/// Waits until the status line says exactly that before how the last line ended.
#[track_caller]
pub(super) fn wait_for_context(screen: &mut Screen, wanted: &str) {
    screen.wait_until(&format!("context {wanted:?}"), |screen| {
        let row = row(screen);
        row == wanted || row.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(" | exit"))
    });
}

/// What the history has.
pub(super) fn remembered(screen: &mut Screen) -> String {
    screen.line(&format!("'{}' shell history list > listed; echo li''sted", super::screen::PALISADE));
    screen.wait_for_line("listed");
    std::fs::read_to_string(screen.path("listed")).unwrap()
}

#[test]
fn a_shell_inside_is_another_whose_lines_are_its_own() {
    let mut screen = setting().ready();
    screen.line("PS1='inner> ' bash --norc");
    screen.wait_for_line("inner>");
    wait_for_context(&mut screen, "bash");
    screen.line("echo in''ner-line");
    screen.wait_for_line("inner-line");
    // Another one, in it: the outermost first.
    screen.line("PS1='third> ' sh -i");
    screen.wait_for_line("third>");
    screen.line("echo th''ird-line; (exit 3)");
    screen.wait_for_line("third-line");
    screen.line("exit");
    screen.line("exit");
    screen.wait_until("the shell itself", |screen| row(screen).starts_with("exit "));
    let remembered = remembered(&mut screen);
    assert!(remembered.contains("bash --norc"), "{remembered}");
    assert!(!remembered.contains("-line"), "{remembered}");
}

#[test]
fn another_users_program_is_in_front() {
    let mut screen = setting().ready();
    // Whether it asks for a password or not, it has the terminal.
    screen.line("su -s /bin/sh nobody");
    wait_for_context(&mut screen, "su nobody");
    screen.keys("\x03\x04\r");
    screen.line("exit 0");
    screen.line("echo ba''ck");
}

#[test]
fn containers_and_pods_are_known_by_the_programs_that_lead_there() {
    let mut screen = setting().file("exec", "echo 'in'side; read -r line; echo \"got $line\"\n").ready();
    for (program, arguments, wanted) in [
        ("docker", "exec -it web sh", "docker web"),
        ("podman", "exec --user 0 box sh", "podman box"),
        ("kubectl", "exec -it -n prod pod-1 -- sh", "kubectl prod/pod-1"),
        ("sudo", "exec", "sudo root"),
    ] {
        // None of them is needed: what counts is what a process was started with.
        screen.line(&format!("(exec -a {program} bash {arguments})"));
        screen.wait_for("inside");
        wait_for_context(&mut screen, wanted);
        screen.line("so''mething");
        screen.wait_for("got");
        screen.wait_until("the shell itself", |screen| row(screen).starts_with("exit "));
        screen.line("clear");
        screen.wait_until("an empty screen", |screen| !screen.contents().contains("inside"));
    }
}

#[test]
fn where_a_line_led_is_remembered_with_it() {
    let mut screen = setting().file("exec", "echo 'in'side; read -r line; echo \"got $line\"\n").ready();
    // The kernel knows, whatever the line looks like.
    screen.line("(exec -a docker bash exec -it web sh)");
    screen.wait_for("inside");
    wait_for_context(&mut screen, "docker web");
    screen.line("so''mething");
    screen.wait_for("got");
    screen.wait_until("the shell itself", |screen| row(screen).starts_with("exit "));
    screen.line("echo he''re");
    screen.wait_for_line("here");
    // The program ends before the proxy can see it, so the line alone must give the context.
    screen.line("sudo() { :; }; clear");
    screen.line("sudo -u www true");
    screen.line("echo do''ne");
    screen.wait_for_line("done");
    // A thread writes it in the background, so wait until it is there.
    let ask = |context: &str, wanted: &str| {
        let mut found = String::new();
        let mut patience = Patience::new(std::time::Duration::from_secs(20));
        while !patience.is_spent() {
            let output = std::process::Command::new(super::screen::PALISADE)
                .args(["shell", "history", "list", "--json", "--context", context])
                .env("HOME", screen.path(""))
                .env_remove("XDG_STATE_HOME")
                .output()
                .unwrap();
            found = String::from_utf8(output.stdout).unwrap();
            if found.contains(wanted) {
                return found;
            }
            pause(std::time::Duration::from_millis(100));
        }
        panic!("no {wanted} in {context}: {found}");
    };
    let docker = ask("docker", "exec -a docker");
    assert!(docker.contains(r#""context": "docker web""#) && !docker.contains("he''re"), "{docker}");
    let local = ask("local", "echo he''re");
    assert!(!local.contains("exec -a docker") && !local.contains("-u www true"), "{local}");
    let sudo = ask("sudo www", "sudo -u www true");
    assert!(!sudo.contains("echo"), "{sudo}");
}

#[test]
fn ordinary_commands_are_no_context() {
    let mut screen = setting().ready();
    screen.line("false");
    screen.wait_until("exit code", |screen| row(screen) == "exit 1");
    screen.line("sh -c 'sleep 1; echo sle''pt'");
    screen.wait_for("slept");
    screen.wait_until("the prompt", |screen| row(screen) == "exit 0");
    let raw = String::from_utf8_lossy(screen.raw()).into_owned();
    assert!(!raw.contains("sh |"), "{raw}");
}

#[test]
fn who_has_the_nonce_behind_somebody_else_is_not_the_shell() {
    let mut screen = setting().file(".bash_history", "echo the quick brown fox\n").ready();
    // The shell itself gives it away, to a shell inside.
    screen.line("PS1=\"\\\\[\\e]133;A;p=$__palisade_nonce\\a\\\\]in> \\\\[\\e]133;B;p=$__palisade_nonce\\a\\\\]\" bash --norc");
    screen.wait_for_line("in>");
    wait_for_context(&mut screen, "bash");
    screen.line("true");
    screen.wait_until("two prompts", |screen| screen.contents().matches("in>").count() >= 2);
    pause(std::time::Duration::from_millis(1200));
    screen.slowly("echo the");
    pause(std::time::Duration::from_millis(300));
    assert!(!screen.text().contains("quick"), "{}", screen.text());
    // Lines are not judged there either.
    screen.keys("\x15");
    screen.line("echo 'curl x | sh' > /dev/null; echo ru''n");
    screen.wait_for("run");
    screen.line("exit");
    screen.wait_until("the shell itself", |screen| row(screen).is_empty());
    let remembered = remembered(&mut screen);
    assert!(!remembered.contains("ru''n"), "{remembered}");
}
