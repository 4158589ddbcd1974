// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests programs on a terminal: editors, shells with job control, pipelines, sizes. Afterwards the terminal belongs
//! to the caller's shell again.

use crate::support::terminal::Terminal;
use crate::support::{Place, everybody, has};

/// A terminal for each person, if the machine can have one.
fn on_terminals(test: impl Fn(&Place, &Terminal<'_>, &str)) {
    if !has("tmux") {
        return;
    }
    for place in everybody() {
        let terminal = Terminal::open(&place);
        let run = format!("{} run", place.binary().display());
        test(&place, &terminal, &run);
    }
}

/// The shell has its terminal back: it answers, and its jobs are stopped by keys.
fn assert_shell_is_back(terminal: &Terminal<'_>) {
    terminal.line("echo 'ba''ck'; stty -a | grep -c '^isig'");
    terminal.wait_for_line("back");
    terminal.wait_for_line("1");
}

#[test]
fn vim_saves_a_file_and_restores_the_screen() {
    if !has("vim") {
        return;
    }
    on_terminals(|place, terminal, run| {
        terminal.line("echo be''fore");
        terminal.wait_for_line("before");
        terminal.line(&format!("{run} -- vim -N -u NONE -n written"));
        terminal.wait_for("\"written\"");
        terminal.key("i");
        terminal.wait_for("-- INSERT --");
        terminal.text("typed in vim");
        terminal.wait_for("typed in vim");
        terminal.key("Escape");
        terminal.wait_until("normal mode", |screen| !screen.contains("-- INSERT --"));
        terminal.line(":wq");
        terminal
            .wait_until("the screen before", |screen| screen.contains("before") && !screen.contains("typed"));
        assert_eq!(place.read("work/written"), "typed in vim\n");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn control_c_ends_the_command_and_not_the_shell() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!("{run} -- sh -c 'echo star''ted; sleep 1000; echo wrong'; echo \"code $?\""));
        terminal.wait_for_line("started");
        terminal.key("C-c");
        terminal.wait_for("code 130");
        assert!(!terminal.screen().lines().any(|line| line == "wrong"));
        assert_shell_is_back(terminal);
    });
}

#[test]
fn control_c_is_the_commands_to_catch() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!("{run} -- bash -c 'trap \"echo cau\"\"ght; exit 7\" INT; echo star''ted; while :; do sleep 0.05; done'; echo \"code $?\""));
        terminal.wait_for_line("started");
        terminal.key("C-c");
        terminal.wait_for_line("code 7");
        assert_eq!(terminal.screen().matches("caught\n").count(), 1, "once: {}", terminal.screen());
        assert_shell_is_back(terminal);
    });
}

#[test]
fn control_z_stops_and_fg_goes_on() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!(
            "{run} -- bash -c 'echo star''ted; read line; echo \"got $line\"'; echo \"code $?\""
        ));
        terminal.wait_for_line("started");
        terminal.key("C-z");
        terminal.wait_for("Stopped");
        assert_shell_is_back(terminal);
        terminal.line("fg");
        terminal.wait_until("fg's line", |screen| screen.matches("got $line").count() >= 3);
        terminal.line("input");
        terminal.wait_for_line("got input");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_stopped_command_goes_on_in_the_background() {
    on_terminals(|place, terminal, run| {
        terminal.line(&format!("{run} -- sh -c 'echo star''ted; sleep 0.2; while ! [ -e go ]; do sleep 0.05; done; echo end >ended'"));
        terminal.wait_for_line("started");
        terminal.key("C-z");
        terminal.wait_for("Stopped");
        terminal.line("bg; echo in the back''ground");
        terminal.wait_for_line("in the background");
        place.write("work/go", "");
        terminal.line("wait; echo wai''ted");
        terminal.wait_for_line("waited");
        assert_eq!(place.read("work/ended"), "end\n");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_shell_inside_controls_its_jobs() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!("{run} --env PS1='in> ' -- bash --norc --noprofile -i"));
        terminal.wait_for_line("in>");
        assert!(!terminal.screen().contains("job control"), "{}", terminal.screen());
        terminal.line("sh -c 'echo run''ning; exec sleep 1000'");
        terminal.wait_for_line("running");
        terminal.key("C-z");
        terminal.wait_for("Stopped");
        terminal.line("jobs | grep -c sleep; fg");
        terminal.wait_for_line("1");
        terminal.wait_until("sleep in front", |screen| {
            screen.lines().filter(|line| line.contains("exec sleep")).count() >= 2
        });
        terminal.key("C-c");
        terminal.line("echo \"after $?\"");
        terminal.wait_for_line("after 130");
        terminal.line("exit 5");
        terminal.line("echo \"code $?\"");
        terminal.wait_for_line("code 5");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_new_size_reaches_the_command() {
    on_terminals(|_place, terminal, run| {
        let script = "trap \"echo resized \\$(stty size)\" WINCH; echo size $(stty size); while :; do sleep 0.05; done";
        terminal.line(&format!("{run} -- bash -c '{script}'"));
        terminal.wait_for_line("size 24 80");
        terminal.resize(100, 30);
        terminal.wait_for("resized 30 100");
        terminal.key("C-c");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_pager_at_the_end_of_a_pipeline_reads_keys() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!("seq 1 200 | {run} -- less; echo \"code $?\""));
        terminal.wait_for_line("1");
        terminal.key("G");
        terminal.wait_for_line("200");
        terminal.key("q");
        terminal.wait_for_line("code 0");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_pipeline_is_ended_by_control_c() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!(
            "{run} -- sh -c 'echo star''ted >&2; sleep 1000' | cat; echo \"codes ${{PIPESTATUS[*]}}\""
        ));
        terminal.wait_for_line("started");
        terminal.key("C-c");
        terminal.wait_for("codes 130");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_killed_command_gives_the_terminal_back() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!("{run} -- sh -c 'echo star''ted; kill -9 $$'; echo \"code $?\""));
        terminal.wait_for_line("code 137");
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_password_prompt_reads_from_the_terminal() {
    on_terminals(|_place, terminal, run| {
        terminal.line(&format!(
            "{run} -- bash -c 'read -s -p \"sec\"\"ret: \" s </dev/tty; echo; echo \"read ${{#s}}\"'"
        ));
        terminal.wait_for_line("secret:");
        terminal.line("unseen");
        terminal.wait_for_line("read 6");
        assert!(!terminal.screen().contains("unseen"), "{}", terminal.screen());
        assert_shell_is_back(terminal);
    });
}

#[test]
fn a_terminal_of_another_pid_namespaces_group() {
    on_terminals(|place, terminal, run| {
        let into = if place.is_root() { "unshare" } else { "unshare -U --map-current-user" };
        terminal.line(&format!(
            "{into} --pid --fork --mount-proc {run} -- sh -c 'echo star''ted; read line </dev/tty; echo \"got $line\"; exit 3'; echo \"code $?\""
        ));
        terminal.wait_for_line("started");
        terminal.line("input");
        terminal.wait_for_line("got input");
        terminal.wait_for_line("code 3");
        assert_shell_is_back(terminal);
    });
}
