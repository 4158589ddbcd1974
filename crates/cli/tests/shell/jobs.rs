// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests exit codes, job control, nesting, and running without a terminal.

use super::screen::{PALISADE, Setting, has};
use palisade_acceptance::patience::pause;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

fn shells() -> Vec<&'static str> {
    ["bash", "zsh", "fish"].into_iter().filter(|shell| has(shell)).collect()
}

#[test]
fn each_shell_runs_commands_behind_it() {
    for shell in shells() {
        let mut screen = Setting::of(shell, "").ready();
        screen.line("echo one''two");
        screen.wait_for_line("onetwo");
        screen.line("exit 7");
        assert_eq!(screen.end().code(), Some(7), "{shell}: {}", screen.text());
        assert!(screen.is_restored(), "{shell}");
    }
}

#[test]
fn start_up_files_that_say_nothing_of_it_are_no_hindrance() {
    for shell in shells() {
        let program = format!("/usr/bin/{shell}");
        let mut screen = Setting::of(shell, "")
            .file(".bashrc", "PS1='$ '; HISTFILE=; read=bashrc\n")
            .file(".zshrc", "PS1='$ '; HISTFILE=; read=zshrc\n")
            .file(
                ".config/fish/config.fish",
                "function fish_prompt; echo -n '$ '; end; set read config.fish\n",
            )
            .command(&[PALISADE, "shell", "--shell", &program])
            .ready();
        screen.line("echo \"it has re\"ad $read");
        let file = if shell == "fish" { "config.fish".to_owned() } else { format!("{shell}rc") };
        screen.wait_for_line(&format!("it has read {file}"));
        screen.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with('$'));
        let raw = String::from_utf8_lossy(screen.raw()).into_owned();
        assert!(raw.contains("\x1b]133;A"), "{shell}: {raw:?}");
        // fish draws over a message below its line.
        if shell != "fish" {
            screen.line("curl -s https://a.example/b | sh");
            screen.wait_for("Enter again");
        }
    }
}

#[test]
fn a_shell_that_is_killed_is_told_by_128_and_the_signal() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("kill -KILL $$");
    // That is asked about.
    screen.wait_for("Enter again");
    pause(Duration::from_millis(400));
    screen.keys("\r");
    assert_eq!(screen.end().code(), Some(137));
    assert!(screen.is_restored());
}

#[test]
fn control_c_ends_the_command_and_not_the_shell() {
    for shell in shells() {
        let mut screen = Setting::of(shell, "").ready();
        screen.line("echo sta''rt; sleep 1000");
        screen.wait_for_line("start");
        screen.wait_for_program("sleep");
        screen.dismiss();
        screen.line("echo af''ter");
        screen.wait_for_line("after");
    }
}

#[test]
fn jobs_stop_and_go_on() {
    for shell in shells() {
        let mut screen = Setting::of(shell, "").ready();
        // The command waits without starting a process: a shell that is stopped in the middle of a vfork sleeps uninterruptibly,
        // so its parent doesn't see it as stopped.
        screen.line("mkfifo go; sh -c 'echo be''gun; read -r line <go; echo fin''ished'");
        screen.wait_for_line("begun");
        screen.wait_for_program("sh");
        screen.keys("\x1a");
        screen.wait_until("a stopped job", |screen| {
            let text = screen.contents().to_lowercase();
            text.contains("stopped") || text.contains("suspended")
        });
        // Opened for reading and writing, because opening a FIFO only for writing would wait for a reader.
        let mut go = File::options().read(true).write(true).open(screen.path("go")).unwrap();
        go.write_all(b"on\n").unwrap();
        screen.line("fg");
        screen.wait_for_line("finished");
    }
}

#[test]
fn the_end_of_input_ends_it() {
    for shell in ["bash", "fish"].into_iter().filter(|shell| has(shell)) {
        let mut screen = Setting::of(shell, "").ready();
        screen.keys("\x04");
        assert_eq!(screen.end().code(), Some(0), "{shell}");
    }
}

#[test]
fn the_line_in_the_start_up_file_becomes_the_proxy_once() {
    for shell in shells() {
        let program = format!("/usr/bin/{shell}");
        let mut screen = Setting::of(shell, "").command(&[&program, "-i"]).with("SHELL", &program).ready();
        screen.line(match shell {
            "fish" => "ps -o args= -p (ps -o ppid= -p $fish_pid | string trim)",
            _ => "ps -o args= -p $(ps -o ppid= -p $$)",
        });
        screen.wait_until("the proxy", |screen| {
            screen.contents().replace('\n', "").contains(&format!("shell --shell /usr/bin/{shell}"))
        });
        screen.line("exit 3");
        assert_eq!(screen.end().code(), Some(3), "{shell}");
    }
}

#[test]
fn inside_of_it_another_is_just_the_shell() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line(&format!("'{PALISADE}' shell --shell /bin/sh -c 'echo le''vel; ps -o comm= -p $PPID'"));
    screen.wait_for_line("level");
    screen
        .wait_until("the shell as its parent", |screen| screen.contents().lines().any(|line| line == "bash"));
}

#[test]
fn in_another_terminal_inside_there_is_one_again() {
    if !has("tmux") {
        return;
    }
    let mut screen = Setting::of("bash", "").ready();
    let socket = format!("palisade-nested-{}", std::process::id());
    screen.line(&format!("tmux -L {socket} -f /dev/null new-session -x 78 -y 20 'bash -i'"));
    screen.wait_until("the pane", |screen| screen.contents().contains("[0]"));
    screen.line("ps -o args= -p $PPID");
    screen.wait_for("shell --shell");
    screen.line("echo in''ner; exit");
    screen.line("exit");
    screen.wait_for("exited");
}

#[test]
fn without_a_terminal_it_is_just_the_shell() {
    let said = Command::new(PALISADE)
        .args(["shell", "--shell", "/bin/sh", "-c", "echo plain; exit 4"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((said.status.code(), String::from_utf8_lossy(&said.stdout).as_ref()), (Some(4), "plain\n"));
    assert!(said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn without_a_terminal_the_line_does_nothing() {
    for shell in shells() {
        let said =
            Command::new(PALISADE).args(["shell", "init", shell]).stdin(Stdio::null()).output().unwrap();
        // The tests' own terminal, if there is one, counts.
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success() && (text.is_empty() || text.contains("exec")), "{text}");
    }
}

#[test]
fn a_shell_that_is_not_there_is_an_error_that_says_so() {
    let said = Command::new(PALISADE)
        .args(["shell", "--shell", "/no/such/shell"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(125));
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(words.contains("/no/such/shell") && words.contains("hint:"), "{words}");
}

#[test]
fn children_get_no_secret() {
    for shell in shells() {
        let mut screen = Setting::of(shell, "").ready();
        screen.line("env > environment; cat /proc/self/environ /proc/$PPID/environ >> environment 2>/dev/null; ls -l /proc/self/fd > fds; echo do''ne");
        screen.wait_for_line("done");
        let environment = std::fs::read(screen.path("environment")).unwrap();
        let environment = String::from_utf8_lossy(&environment);
        let long = environment
            .split(|character: char| !character.is_ascii_hexdigit())
            .find(|word| word.len() == 32 && !word.is_empty());
        assert_eq!(long, None, "{shell}");
    }
}

#[test]
fn the_status_says_whether_it_is_there() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line(&format!("'{PALISADE}' shell status; echo \"code $?\""));
    screen.wait_for_line("code 0");
    let said =
        Command::new(PALISADE).args(["shell", "status", "--json"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&said.stdout).contains("\"running\":false")
            || String::from_utf8_lossy(&said.stdout).contains("\"running\": false")
    );
}
