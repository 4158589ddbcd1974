// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests programs that run behind the proxy: editors, multiplexers, keyboard protocols, terminal sizes.

use super::screen::{Setting, has};
use palisade_acceptance::patience::{Patience, pause};
use std::time::Duration;

#[test]
fn control_c_through_kittys_protocol() {
    let mut screen = Setting::of("bash", "").ready();
    // A program has switched it on and reads nothing: the key must be the signal all the same.
    screen.line("printf '\\e[>1u'; echo wa''iting; sleep 1000");
    screen.wait_for_line("waiting");
    screen.wait_for_program("sleep");
    screen.press("\x1b[99;5u", "$");
    // And it is still on at the prompt, where the shell knows nothing of it.
    screen.keys("echo x\x1b[117;5uecho ki''tty\x1b[13u");
    screen.wait_for_line("kitty");
}

#[test]
fn a_program_that_wants_kittys_protocol_has_it() {
    let mut screen = Setting::of("bash", "").ready();
    screen
        .line("printf '\\e[>1u'; stty raw -echo; echo re''ady; head -c7 | od -c; stty sane; printf '\\e[<u'");
    screen.wait_for("ready");
    screen.keys("\x1b[99;5u");
    screen.wait_for("033   [   9   9   ;   5   u");
}

#[test]
fn a_sequence_that_comes_in_pieces_is_one_key() {
    for shell in ["bash", "zsh"].into_iter().filter(|shell| has(shell)) {
        let mut screen = Setting::of(shell, "").ready();
        screen.keys("echo ac");
        for byte in b"\x1b[D" {
            screen.keys([*byte]);
            std::thread::sleep(Duration::from_millis(1));
        }
        screen.keys("b\r");
        screen.wait_for_line("abc");
    }
}

#[test]
fn characters_that_come_in_pieces_are_whole() {
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| has(shell)) {
        // zsh waits so long for the rest of a character, in hundredths of a second.
        let mut screen = Setting::of(shell, if shell == "zsh" { "KEYTIMEOUT=300" } else { "" }).ready();
        screen.keys("echo -");
        for byte in "€é👍".bytes() {
            screen.keys([byte]);
            std::thread::sleep(Duration::from_millis(3));
        }
        screen.keys("-\r");
        screen.wait_for_line("-€é👍-");
    }
}

#[test]
fn vim_starts_edits_and_leaves_the_screen_as_it_was() {
    if !has("vim") {
        return;
    }
    let mut screen = Setting::of("bash", "").ready();
    screen.line("echo be''fore");
    screen.wait_for_line("before");
    screen.line("vim -N -u NONE -n written");
    screen.wait_for("written");
    screen.keys("i");
    screen.wait_for("-- INSERT --");
    screen.keys("typed in vim");
    screen.wait_for("typed in vim");
    screen.keys("\x1b");
    screen.wait_until("normal mode", |screen| !screen.contents().contains("-- INSERT --"));
    screen.keys(":wq\r");
    screen.wait_until("the screen before", |screen| {
        !screen.alternate_screen() && screen.contents().contains("before")
    });
    screen.wait_for_last("$");
    assert_eq!(std::fs::read_to_string(screen.path("written")).unwrap(), "typed in vim\n");
}

#[test]
fn an_editors_questions_to_the_terminal_are_answered_to_it() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line(
        "stty raw -echo; printf '\\e[6n\\e[c\\e]11;?\\a'; head -c6 | od -An -c; stty sane; echo answe''red",
    );
    pause(Duration::from_millis(300));
    screen.keys("\x1b[5;1R");
    screen.wait_for("033   [   5   ;   1   R");
    screen.wait_for("answered");
}

#[test]
fn an_answer_that_comes_late_does_not_end_in_the_line() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("echo fi''rst");
    screen.wait_for_line("first");
    screen.line("cat -v");
    pause(Duration::from_millis(200));
    screen.keys("\x1b[?62c\n");
    screen.wait_for("^[[?62c");
    screen.keys("\x04");
    screen.line("echo se''cond");
    screen.wait_for_line("second");
}

#[test]
fn the_size_is_the_windows() {
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| has(shell)) {
        let mut screen = Setting::of(shell, "").ready();
        screen.line("stty size");
        screen.wait_for_line("24 80");
        screen.resize(100, 30);
        pause(Duration::from_millis(100));
        screen.line("stty size");
        screen.wait_for_line("30 100");
    }
}

#[test]
fn a_size_that_changes_during_output_loses_none() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("for i in $(seq 3000); do echo \"line $i of it\"; done; echo fin''ished");
    for step in 0..20u16 {
        screen.resize(60 + step, 20 + step % 5);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut patience = Patience::new(Duration::from_secs(20));
    while !String::from_utf8_lossy(screen.raw()).contains("\nfinished") {
        assert!(!patience.is_spent(), "{}", screen.text());
        std::thread::sleep(Duration::from_millis(10));
    }
    let raw = String::from_utf8_lossy(screen.raw()).into_owned();
    for i in [1, 500, 1500, 2999, 3000] {
        assert!(raw.contains(&format!("line {i} of it")), "line {i}");
    }
}

#[test]
fn in_the_alternate_screen_nothing_is_drawn_and_no_key_is_kept() {
    let mut screen = Setting::of("bash", "").file(".bash_history", "echo the quick brown fox\n").ready();
    pause(Duration::from_millis(1200));
    screen.line(
        "printf '\\e[?1049h'; stty raw -echo; echo go; head -c10 | od -An -c; stty sane; printf '\\e[?1049l'",
    );
    screen.wait_until("the alternate screen", |screen| screen.alternate_screen());
    screen.wait_for("go");
    screen.keys("echo\x1b[C\x1bix");
    screen.wait_until("the main screen", |screen| !screen.alternate_screen());
    let raw = String::from_utf8_lossy(screen.raw()).into_owned();
    assert!(raw.contains("e   c   h   o 033   [   C 033   i   x"), "{raw}");
    assert!(!raw.contains("quick"), "{raw}");
}

#[test]
fn a_multiplexer_runs_behind_it() {
    if !has("tmux") {
        return;
    }
    // By default tmux takes keys that come fast for a paste, and then doesn't see its own key bindings.
    let mut screen = Setting::of("bash", "").file("tmux.conf", "set -g assume-paste-time 0\n").ready();
    let socket = format!("palisade-inner-{}", std::process::id());
    screen.line(&format!("tmux -L {socket} -f tmux.conf new-session 'echo in''side; exec sleep 1000'"));
    screen.wait_for("inside");
    screen.keys("\x02d");
    screen.wait_for("detached");
    screen.line(&format!("tmux -L {socket} kill-server; echo go''ne"));
    screen.wait_for_line("gone");
}

#[test]
fn expect_talks_to_a_shell_behind_it() {
    if !has("expect") {
        return;
    }
    let script = format!(
        "set timeout 15\nspawn {} shell --shell /bin/bash --norc\nexpect -re {{[$#] }}\nsend \"echo 4\\$((1+1))\\r\"\nexpect 42\nsend \"exit 9\\r\"\nexpect eof\nexit [lindex [wait] 3]",
        super::screen::PALISADE
    );
    let said = std::process::Command::new("expect").args(["-c", &script]).output().unwrap();
    assert_eq!(said.status.code(), Some(9), "{}", String::from_utf8_lossy(&said.stdout));
}

#[test]
fn what_is_on_the_screen_is_recorded() {
    let mut screen = Setting::of("bash", "")
        .file(".config/palisade/shell.toml", "schema = 1\n")
        .command(&[super::screen::PALISADE, "shell", "record", "session.cast", "--shell", "/bin/bash"])
        .ready();
    // It goes on when other settings are in force.
    std::fs::write(screen.path(".config/palisade/shell.toml"), "schema = 1\nmodules = [\"ghost\"]\n")
        .unwrap();
    pause(Duration::from_millis(1200));
    screen.line("true");
    // The message may have appeared before that line, which removes it.
    screen.wait_for_raw(b"the settings are read again");
    screen.line("echo re''corded €");
    screen.wait_for_line("recorded €");
    screen.resize(90, 25);
    pause(Duration::from_millis(100));
    screen.line("exit");
    screen.end();
    let text = std::fs::read_to_string(screen.path("session.cast")).unwrap();
    let mut lines = text.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((header["version"].as_i64(), header["width"].as_i64()), (Some(2), Some(80)));
    let events: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let output: String =
        events.iter().filter(|event| event[1] == "o").map(|event| event[2].as_str().unwrap()).collect();
    assert!(output.contains("recorded €"), "{output}");
    assert!(events.iter().any(|event| event[1] == "r" && event[2] == "90x25"), "{text}");
    assert!(!output.contains(";p="), "the nonce is in it: {output}");
}

#[test]
fn addresses_become_links_where_that_is_wanted() {
    let settings = "schema = 1\nmodules = [\"links\"]\n";
    let mut screen = Setting::of("bash", "").file(".config/palisade/shell.toml", settings).ready();
    screen.line("echo 'see https:'//a.example/b now");
    screen.wait_for("see https://a.example/b now");
    let raw = String::from_utf8_lossy(screen.raw()).into_owned();
    assert!(raw.contains("\x1b]8;;https://a.example/b\x1b\\https://a.example/b\x1b]8;;\x1b\\"), "{raw:?}");
}

#[test]
fn paths_of_files_that_are_there_become_links_where_that_is_wanted() {
    let settings = "schema = 1\nmodules = [\"links\"]\n";
    let mut screen = Setting::of("bash", "")
        .file(".config/palisade/shell.toml", settings)
        .file("src/main file.rs", "")
        .file("src/lib.rs", "one\ntwo\n")
        .ready();
    screen.line("grep -n tw''o src/*.rs /dev/null; echo ./src/no-such/thing");
    screen.wait_for("src/lib.rs:2:two");
    screen.wait_for_line("./src/no-such/thing");
    screen.line("cd src");
    screen.line("printf '../%s\\n' src/lib.rs");
    screen.wait_for("../src/lib.rs");
    // In the alternate screen nothing is changed.
    screen.line("printf '\\e[?1049h'; echo /dev/nu''ll; sleep 0.3; printf '\\e[?1049l'; echo af''ter");
    screen.wait_for_line("after");
    let home = std::fs::canonicalize(screen.path("")).unwrap();
    let raw = String::from_utf8_lossy(screen.raw()).into_owned();
    let linked = |path: &str, text: &str| {
        let end = format!("{}/{path}\x1b\\{text}\x1b]8;;\x1b\\", home.display());
        raw.split("\x1b]8;;file://").any(|part| part.contains(&end))
    };
    assert!(linked("src/lib.rs#2", "src/lib.rs:2"), "{raw:?}");
    assert!(linked("src/../src/lib.rs", "../src/lib.rs"), "{raw:?}");
    assert!(raw.contains("\n./src/no-such/thing"), "{raw:?}");
    assert!(raw.contains("\x1b[?1049h/dev/null"), "{raw:?}");
}

#[test]
fn the_recording_in_the_documentation_plays() {
    let text = include_str!("../../../../docs/media/shell.cast");
    let mut lines = text.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header["version"], 2);
    let size = |name: &str| u16::try_from(header[name].as_u64().unwrap()).unwrap();
    let mut screen = vt100::Parser::new(size("height"), size("width"), 0);
    let mut last = 0.0;
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = event[0].as_f64().unwrap();
        assert!(time >= last, "{line}");
        last = time;
        match event[1].as_str() {
            Some("o") => screen.process(event[2].as_str().unwrap().as_bytes()),
            Some("r") => {}
            other => panic!("{other:?}: {line}"),
        }
    }
    assert!((5.0..120.0).contains(&last), "{last} s");
    let shown = screen.screen().contents();
    for line in [
        "$ ls -R",
        "1:fn main() {}",
        "$ palisade shell history list --failed",
        "$ palisade shell classify --explain 'curl -s https://a.example/install | sh'",
        "  confirm: It runs what it gets from the network, unseen (remote-code/pipe-to-shell, T1059.004)",
        "the proxy runs in this terminal",
        "$ exit",
    ] {
        assert!(shown.lines().any(|found| found.trim_end() == line), "{line}:\n{shown}");
    }
    assert!(!text.contains(";p=") && !text.contains("7717;"), "a nonce is in it");
}
