// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests questions and failures of applications that are started from a menu: a notification daemon shows them, and its
//! buttons are pressed.

use crate::apps::display::Display;
use crate::support::{Place, Run, everybody, has, job};

/// What every session begins and ends with. The daemon's own menu presses a button: it takes the line from a program.
const SESSION: &str = r#"
cd ~/work
dunst -conf ~/dunstrc >/dev/null 2>&1 & daemon=$!
# Any other call would start a second daemon.
owned() {
    dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner \
        string:org.freedesktop.Notifications | grep -q true
}
for _ in $(seq 400); do owned && break; sleep 0.05; done
displayed() { dunstctl count displayed 2>/dev/null; }
# Waits until so many notifications are displayed.
wait_for() {
    for _ in $(seq 400); do [ "$(displayed)" = "$1" ] && return; sleep 0.05; done
    echo "there are $(displayed) notifications and not $1"
}
wait_for 0
press() { echo "$1" >~/choice; dunstctl action 0; }
history() { dunstctl close-all; sleep 0.2; dunstctl history; }
"#;
const PICK: &str = "#!/bin/sh\ncat >~/menu\ngrep -F \"$(cat ~/choice)\" ~/menu\n";
/// Makes a call about which the policy asks, beside a child that writes all the time.
const ASK: &str = r"
import os, time
child = os.fork()
if child == 0:
    while True: os.write(1, b'.'); time.sleep(0.01)
time.sleep(0.3)
try: came = 'made ' + str(os.sched_rr_get_interval(0) >= 0)
except OSError as error: came = 'refused ' + str(error.errno)
os.kill(child, 9)
open('came', 'w').write(came)
";

/// Runs a line of shell in a session with a notification daemon and without a terminal.
fn session(place: &Place, display: &Display, line: &str) -> Run {
    let script = format!("{SESSION}\n{line}\nkill $daemon; wait $daemon\n");
    let mut command = place.command("setsid");
    command.args(["--wait", "dbus-run-session", "--", "sh", "-c", &script]);
    command.env("DISPLAY", &display.name).env("XAUTHORITY", &display.authority);
    job::finish(command.env("PALISADE", place.binary()))
}

fn profile(place: &Place, name: &str, body: &str) {
    place.write(
        &format!(".config/palisade/profiles/{name}.toml"),
        format!("schema = 1\nname = \"{name}\"\n[program]\n{body}\n"),
    );
}

fn in_sessions(test: impl Fn(&Place, &Display)) {
    for place in everybody().iter().filter(|_| has("notifications")) {
        let pick = place.write("pick", PICK);
        place.outside("chmod 755 ~/pick");
        place.write("dunstrc", format!("[global]\ndmenu = {}\n", pick.display()));
        let display = Display::start(place).unwrap_or_else(|error| panic!("{error}"));
        test(place, &display);
    }
}

#[test]
fn a_button_answers_a_question() {
    in_sessions(|place, display| {
        place.write("work/ask.py", ASK);
        profile(
            place,
            "told",
            "path = \"python3\"\n[filesystem]\nworking_directory = true\n[syscalls]\n\
             answers = [{ call = \"sched_rr_get_interval\", action = \"ask\" }]",
        );
        let line = "rm -f came; \"$PALISADE\" open told \"$PWD/ask.py\" >beats 2>err </dev/null & launch=$!\n\
                    wait_for 1; before=$(wc -c <beats); sleep 0.6; after=$(wc -c <beats)\n\
                    [ \"$before\" -gt 5 ] && [ \"$before\" = \"$after\" ] && echo stopped";
        for (button, came) in
            [("Allow once", "made True"), ("Allow until it ends", "made True"), ("Refuse", "refused 1")]
        {
            let run = session(place, display, &format!("{line}\npress '{button}'; wait $launch; cat came"));
            assert_eq!(run.ok(), format!("stopped\n{came}"), "{button}: {run:?}\n{}", place.read("work/err"));
        }
        let run = session(place, display, &format!("{line}\ndunstctl close; wait $launch; cat came"));
        assert_eq!(run.ok(), "stopped\nrefused 1", "a closed notification allows nothing: {run:?}");
        // The notification leaves with its launch.
        let run =
            session(place, display, &format!("{line}\nkill $launch; wait_for 0; wait $launch; cat came"));
        assert!(run.out == "stopped\n" && run.err.contains("came: No such file"), "{run:?}");
    });
}

#[test]
fn a_failure_is_told_where_nobody_reads_standard_error() {
    in_sessions(|place, display| {
        profile(place, "crash", "path = \"python3\"");
        profile(place, "absent", "path = \"no-such-program\"");
        let run = session(
            place,
            display,
            "\"$PALISADE\" open crash -c 'import os; os.abort()' >/dev/null 2>&1 </dev/null & launch=$!\n\
             wait_for 1; dunstctl action 0\n\
             for _ in $(seq 100); do history >said; grep -q 'Why crash' said && break; done; cat said; wait $launch",
        );
        for said in ["crash has failed", "Why crash has failed", "ended with code 134"] {
            assert!(run.out.contains(said), "{said}: {run:?}");
        }
        let run = session(
            place,
            display,
            "\"$PALISADE\" open absent >/dev/null 2>&1 </dev/null & wait_for 1; history; wait $!; echo code $?",
        );
        assert!(run.out.contains("isn't on this host") && run.out.ends_with("code 125\n"), "{run:?}");
        // Success, an end by a signal that a user sends, and standard error that a program reads.
        let run = session(
            place,
            display,
            "\"$PALISADE\" open crash -c 'pass' >/dev/null 2>&1 </dev/null\n\
             \"$PALISADE\" open crash -c 'import os; os.kill(os.getpid(), 15)' >/dev/null 2>&1 </dev/null\n\
             \"$PALISADE\" open absent </dev/null; displayed; history",
        );
        assert!(run.out.starts_with("0\n") && !run.out.contains("summary"), "{run:?}");
        assert!(run.err.contains("isn't on this host"), "{run:?}");
    });
}
