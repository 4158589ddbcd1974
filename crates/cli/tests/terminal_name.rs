// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the terminal that a command inherits has a name inside, and that no other terminal gets one.

use crate::support::terminal::Terminal;
use crate::support::{everybody, has, job};

/// Starts what its arguments say with another terminal as standard input, opened for reading, and prints the output.
const OTHER: &str = "import os, subprocess, sys\n\
    outer, inner = os.openpty()\n\
    given = os.open(os.ttyname(inner), os.O_RDONLY | os.O_NOCTTY)\n\
    done = subprocess.run(sys.argv[1:], stdin=given, capture_output=True, start_new_session=True)\n\
    print(done.stdout.decode(), done.stderr.decode())\n";

#[test]
fn the_terminal_of_the_command_has_a_name_inside() {
    if !has("tmux") {
        return;
    }
    for place in everybody() {
        let terminal = Terminal::open(&place);
        let run = format!("{} run --", place.binary().display());
        let lines = [
            ("tty", "/dev/console"),
            ("sh -c 'echo | cat; tty <&2'", "/dev/console"),
            ("python3 -c 'import os; print(os.ttyname(0), os.ttyname(2))'", "/dev/console /dev/console"),
            // It is the same terminal.
            ("sh -c 'test /dev/console -ef /dev/stdin && echo same'", "same"),
        ];
        for (number, (line, found)) in lines.into_iter().enumerate() {
            let line = format!("{run} {line}");
            terminal.line(&format!("clear; {line}; echo en''ded {number}"));
            terminal.wait_for_line(&format!("ended {number}"));
            let screen = terminal.screen();
            assert!(screen.lines().any(|shown| shown == found), "{line}\n{screen}");
        }
    }
}

#[test]
fn no_other_terminal_gets_a_name() {
    for place in everybody().iter().filter(|_| has("python3")) {
        let script = "test -t 0 && echo has a terminal; tty; ls /dev/console";
        place.write("work/other.py", OTHER);
        let mut other = place.command("python3");
        other.arg("other.py").arg(place.binary()).args(["run", "--", "sh", "-c", script]);
        let run = job::finish(&mut other);
        assert!(run.ok().contains("has a terminal\nnot a tty\n"), "{run:?}");
        assert!(run.out.contains("cannot access '/dev/console'"), "{run:?}");
        let none = job::finish(place.command("setsid").args(["--wait"]).arg(place.binary()).args([
            "run",
            "--",
            "ls",
            "/dev/console",
        ]));
        assert_ne!(none.code, 0, "{none:?}");
    }
}
