// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests programs that send false sequences, floods of output, and files that can't be written.

use super::screen::{PALISADE, Screen, Setting, has};
use palisade_acceptance::patience::pause;
use std::time::Duration;

/// How much memory the proxy has, in KiB.
fn memory(screen: &Screen) -> u64 {
    let pid = screen.pid().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_program_that_says_it_is_the_prompt_is_not_believed() {
    let mut screen = Setting::of("bash", "").file(".bash_history", "echo the quick brown fox\n").ready();
    pause(Duration::from_millis(1200));
    screen.line("printf '\\e]133;D;0\\a\\e]133;A\\a$ \\e]133;B\\a'; head -n1 | rev");
    pause(Duration::from_millis(300));
    screen.slowly("echo th");
    pause(Duration::from_millis(300));
    assert!(!screen.text().contains("quick"), "{}", screen.text());
    screen.keys("\r");
    screen.wait_for_line("ht ohce");
}

#[test]
fn a_wrong_nonce_is_none() {
    let mut screen = Setting::of("bash", "").ready();
    let wrong = "0".repeat(32);
    screen.line(&format!(
        "printf '\\e]7717;{wrong};L;3;rm\\a\\e]133;B;p={wrong}\\a\\e]7717;{wrong};X;evil-line\\a'; echo af''ter"
    ));
    screen.wait_for_line("after");
    screen.line("exit");
    screen.end();
    let store = std::fs::read(screen.path(".local/state/palisade/history.sqlite")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&store).contains("evil-line\0"));
}

#[test]
fn the_nonce_is_never_on_the_terminal() {
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| has(shell)) {
        let mut screen = Setting::of(shell, "").ready();
        screen.line("echo on''ce");
        screen.wait_for_line("once");
        screen.line("cd /; echo tw''ice");
        screen.wait_for_line("twice");
        let raw = String::from_utf8_lossy(screen.raw()).into_owned();
        assert!(!raw.contains(";p=") && !raw.contains("7717"), "{shell}: {raw:?}");
        assert!(raw.contains("\x1b]133;A\x07"), "{shell}: the terminal is told of prompts: {raw:?}");
    }
}

#[test]
fn a_command_without_end_takes_no_memory() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("true");
    pause(Duration::from_millis(300));
    let before = memory(&screen);
    screen.line("for p in '\\e]133;' '\\e]7717;' '\\eP' '\\e['; do printf $p; head -c 3000000 /dev/zero | tr '\\0' 1; printf '\\a\\e\\\\m'; done; echo sur''vived");
    screen.wait_for("survived");
    let after = memory(&screen);
    assert!(after < before + 8 * 1024, "{before} KiB, then {after} KiB");
    screen.line("echo aft''er");
    screen.wait_for_line("after");
}

#[test]
fn much_output_takes_no_memory() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("yes 'a line of some length with \u{20ac} and more in it, over and over' | head -c 60000000 | tail -c 60000000; echo fin''ished");
    pause(Duration::from_millis(300));
    let early = memory(&screen);
    screen.wait_for("finished");
    let late = memory(&screen);
    assert!(late < early + 8 * 1024, "{early} KiB, then {late} KiB");
}

#[test]
fn a_megabyte_is_pasted() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line(
        "stty -icanon -echo; echo rea''dy; head -c 1048588 | tr -d '\\033' | md5sum | cut -c1-8; stty sane",
    );
    screen.wait_for_line("ready");
    let mut paste = b"\x1b[200~".to_vec();
    paste.resize(6 + (1 << 20), b'x');
    paste.extend_from_slice(b"\x1b[201~");
    screen.keys(&paste);
    let wanted = {
        let mut command = std::process::Command::new("sh");
        let said = command
            .args(["-c", "(printf '[200~'; head -c 1048576 /dev/zero | tr '\\0' x; printf '[201~') | md5sum | cut -c1-8"])
            .output()
            .unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    };
    screen.wait_for_line(&wanted);
}

#[test]
fn a_shell_that_does_not_read_holds_nothing_up() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line(
        "stty -icanon -echo; for i in $(seq 40); do echo tick; sleep 0.1; done; stty sane; echo do''ne",
    );
    screen.wait_for("tick");
    let keys = vec![b'x'; 60_000];
    screen.keys(&keys);
    screen.wait_until("ticks", |screen| screen.contents().matches("tick").count() > 10);
    screen.keys("\x03");
    screen.keys("\x03");
}

#[test]
fn ten_thousand_columns() {
    for shell in ["bash", "zsh"].into_iter().filter(|shell| has(shell)) {
        let mut screen = Setting::of(shell, "").ready();
        let line = format!("echo {} | wc -c", "x".repeat(9_990));
        screen.keys(format!("\x1b[200~{line}\x1b[201~"));
        pause(Duration::from_millis(500));
        screen.keys("\r");
        screen.wait_for_line("9991");
    }
}

#[test]
fn bytes_that_are_no_text_pass() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("stty raw -echo; echo g''o; head -c 256 | md5sum | cut -c1-8; stty sane");
    screen.wait_for("go");
    let bytes: Vec<u8> = (0..=255).collect();
    screen.keys(&bytes);
    screen.wait_for("e2c865db");
    screen.line("head -c 300 /dev/urandom | head -c 0; printf '\\377\\376\\200'; echo; echo fi''ne");
    screen.wait_for_line("fine");
}

#[test]
fn a_home_that_cannot_be_written_is_said_and_nothing_else() {
    let state = "/proc/nowhere";
    let mut screen = Setting::of("bash", "").with("XDG_STATE_HOME", state).ready();
    screen.line("echo wo''rks");
    screen.wait_for_line("works");
    screen.wait_for("the history isn't saved");
    screen.line("echo st''ill");
    screen.wait_for_line("still");
    screen.line("exit 6");
    assert_eq!(screen.end().code(), Some(6));
}

#[test]
fn a_recording_on_a_full_disk_ends_and_the_shell_goes_on() {
    let mut screen = Setting::of("bash", "")
        .command(&[PALISADE, "shell", "record", "/dev/full", "--shell", "/bin/bash"])
        .start();
    // The header can't be written: the proxy reports that before it starts anything.
    let status = screen.end();
    assert_eq!(status.code(), Some(125));
    screen.wait_for("can't write /dev/full");
    assert!(screen.is_restored());
}

#[test]
fn settings_that_cannot_be_understood_leave_the_default() {
    let mut screen = Setting::of("bash", "")
        .file(".config/palisade/shell.toml", "schema = 1\nmodules = [\"keymp\"]\n")
        .start();
    screen.wait_for("did you mean `keymap`?");
    screen.line("echo wo''rks");
    screen.wait_for_line("works");
}

#[test]
fn a_shell_without_hooks_is_left_alone() {
    let mut screen = Setting::of("bash", "")
        .command(&[PALISADE, "shell", "--shell", "/bin/sh"])
        .with("PS1", "$ ")
        .file(".bash_history", "echo the quick brown fox\n")
        .ready();
    pause(Duration::from_millis(1200));
    screen.slowly("echo th");
    pause(Duration::from_millis(200));
    assert!(!screen.text().contains("quick"), "{}", screen.text());
    screen.keys("em\r");
    screen.wait_for_line("them");
}
