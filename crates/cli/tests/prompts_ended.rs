// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests how a question on the terminal ends without an answer: by Ctrl-C, by the command's end, by a signal, and because
//! there were too many. The terminal is as before each time.

use crate::network::bed::{Bed, people};
use crate::support::terminal::{Terminal, words};
use crate::support::{eventually, has, job};

const HOST: &str = "wants to reach www.allowed.example:80";
const FETCH: &str = "curl -fsS -m 600 --noproxy \"*\" http://www.allowed.example/";

/// A terminal for each person, and a launch in which the user is asked about hosts. Before it there is text on the
/// screen, and the terminal's settings are in the file `before`.
fn on_terminals(test: impl Fn(&Bed, &Terminal<'_>, &dyn Fn(&str) -> String)) {
    if !has("tmux") {
        return;
    }
    for place in people() {
        let bed = Bed::new(place);
        let terminal = Terminal::open(&bed.place);
        terminal.line("stty -a >before; echo ear''lier");
        terminal.wait_for_line("earlier");
        // The long command would take most of the screen.
        test(&bed, &terminal, &|line| {
            let launch = words(&bed.palisade(&["--net-default", "ask"], line));
            bed.place.write("work/launch", format!("echo $$ >launcher; exec {launch}\n"));
            "sh launch".to_owned()
        });
    }
}

/// Asserts that the question has left the screen, and that the shell has its terminal with the settings from before.
#[track_caller]
fn assert_restored(bed: &Bed, terminal: &Terminal<'_>) {
    let screen = terminal.screen();
    assert!(screen.lines().any(|line| line == "earlier"), "the earlier text is gone:\n{screen}");
    assert!(!screen.contains("asks for permission"), "the question is left:\n{screen}");
    terminal.line("stty -a >after; echo sa''ved");
    terminal.wait_for_line("saved");
    assert_eq!(bed.place.read("work/after"), bed.place.read("work/before"));
}

#[test]
fn control_c_refuses_and_interrupts_the_command() {
    on_terminals(|bed, terminal, run| {
        terminal.line(&format!("{}; echo code $?", run(&format!("{FETCH}; echo li''ves"))));
        terminal.wait_for_question(HOST);
        terminal.key("C-c");
        // As without a question: the shell inside and its program end by the signal.
        terminal.wait_for_line("code 130");
        let screen = terminal.screen();
        let flat: String = screen.lines().collect();
        assert!(flat.contains("refused: the command is interrupted"), "{screen}");
        assert!(!screen.lines().any(|line| line == "lives"), "the command went on:\n{screen}");
        assert_restored(bed, terminal);
        assert!(bed.reached().iter().all(|line| line.starts_with("dns")), "{screen}");
    });
}

/// The launcher is in the group that the signal is sent to, and the command would get it twice.
#[test]
fn control_c_interrupts_once_also_in_a_pipeline() {
    on_terminals(|bed, terminal, run| {
        // If it is twice, these lines say whether by the same shell, and when.
        let trap = "echo int >>ints; cat /proc/self/stat /proc/uptime >>who";
        let line = format!("trap \"{trap}\" INT; {FETCH}; echo go''es on; sleep 1; cat ints");
        terminal.line(&format!("echo | {}; echo code $?", run(&line)));
        terminal.wait_for_question(HOST);
        terminal.key("C-c");
        terminal.wait_for_line("code 0");
        let who = bed.place.read("work/who");
        assert_eq!(bed.place.read("work/ints"), "int\n", "{}\n{who}", terminal.screen());
        terminal.wait_for_line("goes on");
        assert_restored(bed, terminal);
    });
}

/// A program that draws on the whole screen has the key as a character. It isn't ended with the terminal in its settings.
#[test]
fn control_c_only_refuses_where_the_command_has_it_as_a_key() {
    on_terminals(|bed, terminal, run| {
        let line = format!(
            "stty -isig -echo; {FETCH}; echo code $?; stty isig; read -r key; stty echo; echo key $key"
        );
        terminal.line(&run(&line));
        terminal.wait_for_question(HOST);
        assert!(!terminal.screen().contains("Ctrl-C"), "{}", terminal.screen());
        terminal.key("C-c");
        terminal
            .wait_until("the code of curl", |screen| screen.lines().any(|line| line.starts_with("code ")));
        terminal.line("typed");
        terminal.wait_for_line("key typed");
        // The settings of the command were restored, too: the shell restores its own.
        assert!(!terminal.screen().lines().any(|line| line == "typed"), "{}", terminal.screen());
        assert_restored(bed, terminal);
    });
}

/// The command is killed during the question, or the launcher gets a signal that ends the command.
#[test]
fn the_end_of_the_command_ends_the_question() {
    on_terminals(|bed, terminal, run| {
        for (whom, signal, code) in [("command", "KILL", "code 137"), ("launcher", "TERM", "code 143")] {
            terminal.line(&format!("{}; echo code $?", run(&format!("{FETCH}; echo li''ves"))));
            terminal.wait_for_question(HOST);
            // It replaces the shell, whose number this is.
            let launcher = bed.place.read("work/launcher").trim().to_owned();
            let target = match whom {
                "command" => {
                    job::below(launcher.parse().unwrap(), "sh").unwrap().as_raw_nonzero().to_string()
                }
                _ => launcher,
            };
            bed.place.outside(&format!("kill -{signal} {target}"));
            terminal.wait_for_line(code);
            assert!(!terminal.screen().lines().any(|line| line == "lives"), "{}", terminal.screen());
            assert_restored(bed, terminal);
            assert!(eventually(|| bed.reached().iter().all(|line| line.starts_with("dns"))));
        }
    });
}

#[test]
fn twenty_questions_are_asked_in_five_minutes_and_a_note_says_so_once() {
    on_terminals(|bed, terminal, run| {
        let fetch = "curl -sS -m 600 --noproxy \"*\" http://n$n.denied.example/ 2>>said >>came";
        let line = format!("n=0; while [ $n -lt 24 ]; do {fetch}; n=$((n+1)); done; echo all as''ked");
        terminal.line(&run(&line));
        for question in 0..20 {
            terminal.answer(&format!("wants to reach n{question}.denied.example:80"), "");
        }
        terminal.wait_for_line("all asked");
        let flat: String = terminal.screen().lines().collect();
        assert_eq!(flat.matches("programs inside ask for too much").count(), 1, "{flat}");
        assert!(flat.contains("palisade run --net-default deny --allow HOST"), "{flat}");
        assert!(!flat.contains("wants to reach n20."), "{flat}");
        let watch =
            bed.place.command(bed.place.binary()).args(["watch", "--all", "--no-follow"]).output().unwrap();
        let events = String::from_utf8(watch.stdout).unwrap();
        assert!(events.contains("n23.denied.example") && events.contains("too many questions"), "{events}");
    });
}
