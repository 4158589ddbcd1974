// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the view `closure`: it shows a program's own files, and nothing else of the host.

use crate::support::{Place, everybody, has, job, ordinary};
use std::ffi::OsStr;
use std::path::Path;

const CLOSURE: &[&str] = &["--quiet", "--view", "closure"];

#[test]
fn nothing_else_is_there() {
    for place in everybody() {
        // The name is computed, so reading the line can't find the program.
        let line = "echo /usr/bin/* /etc/*; $1 /etc/passwd; [ -e \"$2\" ]; echo $?; [ -e \"$3\" ]; echo $?; \
                    cd /usr/share; echo *; cd /; cd \"$OLDPWD\" && echo reached";
        // Outside all of it is there.
        assert!(Path::new("/usr/bin/ls").exists() && Path::new("/etc/shadow").exists());
        let run = place.run(CLOSURE, &["sh", "-c", line, "sh", "cat", "/usr/bin/ls", "/etc/shadow"]);
        let lines: Vec<&str> = run.out.lines().collect();
        let programs: Vec<&str> = lines[0].split(' ').filter(|path| path.starts_with("/usr/bin/")).collect();
        assert!(
            programs.contains(&"/usr/bin/sh") && programs.len() <= 2,
            "the link and what it leads to: {run:?}"
        );
        assert!(!lines[0].contains("/etc/ssl") && lines[0].contains("/etc/passwd"), "{run:?}");
        assert!(run.err.contains("cat: not found"), "{run:?}");
        assert_eq!(lines[1..3], ["1", "1"], "{run:?}");
        assert!(run.out.ends_with("reached\n"), "{run:?}");
    }
}

/// More files than are mounted one by one: Landlock allows them.
#[test]
fn many_files_are_allowed_by_name() {
    for place in everybody().iter().filter(|_| has("python3")) {
        let program = r#"
import os, ssl, sqlite3, ctypes, json, subprocess, encodings.idna
print(json.dumps(ssl.OPENSSL_VERSION_INFO[0] > 0))
def refused(label, action):
    try: action(); print(label, "done")
    except OSError as error: print(label, error.strerror)
refused("list", lambda: os.listdir("/usr/bin"))
refused("read", lambda: open("/usr/bin/env", "rb").read(4))
refused("run", lambda: subprocess.run(["/usr/bin/env", "true"]))
refused("top", lambda: os.listdir("/"))
open("made", "w").write("reached"); print(open("made").read(), os.listdir("."))
"#;
        let outside =
            job::finish(place.command("/usr/bin/python3").args(["-c", program]).current_dir(&place.work));
        assert_eq!(outside.out, "true\nlist done\nread done\nrun done\ntop done\nreached ['made']\n");
        let inside = place.run(CLOSURE, &["/usr/bin/python3", "-c", program]);
        let denied = "Permission denied";
        let expected =
            format!("true\nlist {denied}\nread {denied}\nrun {denied}\ntop {denied}\nreached ['made']\n");
        assert_eq!(inside.ok(), expected.trim_end(), "{inside:?}");
        std::fs::remove_file(place.work.join("made")).unwrap();
    }
}

#[test]
fn what_a_script_names_is_there() {
    for place in everybody() {
        let script = "#!/bin/sh\nTOOL=sort\nprintf 'b\\na\\n' | $TOOL | head -1\n[ -z x ] || exec basename /x/reached\n";
        place.write("work/script", script);
        place.outside("chmod 755 ~/work/script");
        assert_eq!(place.run(CLOSURE, &["./script"]).ok(), "a\nreached");
        // A program that it doesn't name isn't shown, and it isn't run to find that out.
        place.write(
            "work/script",
            "#!/bin/sh\ntouch executed\necho $(echo ls | tr a a)\nwc -l </dev/null\nls\n",
        );
        let run = place.run(&["--view", "closure", "--dry-run"], &["./script"]);
        assert!(!place.work.join("executed").exists());
        assert!(run.ok().contains("/usr/bin/wc") && !run.out.contains("/usr/bin/sed"), "{run:?}");
    }
}

/// Agents and other tools are installed in the home, and their profiles have a private home.
#[test]
fn a_program_in_the_home_has_its_name_in_a_private_home() {
    for place in everybody() {
        let script = "#!/bin/sh\necho $0; ls -A ~/.local/bin ~/.local/share/tool/v1\n";
        place.write(".local/share/tool/v1/tool", script);
        place.outside(
            "mkdir ~/.local/bin; ln -s ../share/tool/v1/tool ~/.local/bin/tool; cd ~/.local/share/tool/v1; \
             chmod 755 tool; echo 1 >other",
        );
        for view in ["closure", "system"] {
            let profile = format!(
                "schema = 1\n[filesystem]\nview = \"{view}\"\n[program]\npath = \"tool\"\n[home]\npolicy = \"private\"\n[closure]\nprograms = [\"ls\"]\n"
            );
            let profile = place.write(&format!("{view}.toml"), profile);
            let path = format!("{}/.local/bin", place.home.display());
            // The second launch has a kept plan, and finds the mount points that the first one made.
            for _ in 0..2 {
                let mut open = place.command(place.binary());
                open.args([OsStr::new("open"), profile.as_os_str()])
                    .env("PATH", format!("{path}:/usr/bin:/bin"));
                let found = job::finish(&mut open);
                assert_eq!(found.ok().lines().next().unwrap(), format!("{path}/tool"), "{found:?}");
                assert_eq!(found.out.matches("\ntool\n").count(), 2, "{found:?}");
                assert!(!found.out.contains("other"), "{found:?}");
            }
        }
    }
}

/// The application owns its private home between the launches, and prepares the place at which its program is mounted.
#[test]
fn links_that_an_application_left_in_its_private_home_lead_nowhere() {
    for place in everybody() {
        place.outside(
            "mkdir -p ~/.local/bin ~/victim; cp /usr/bin/true ~/.local/bin/tool; echo kept >~/victim/f",
        );
        let policy = "schema = 1\n[filesystem]\nview = \"system\"\n[program]\npath = \"tool\"\n[home]\npolicy = \"private\"\n";
        let profile = place.write("tool.toml", policy);
        let open = || {
            let path = format!("{}/.local/bin:/usr/bin:/bin", place.home.display());
            job::finish(place.command(place.binary()).args([Path::new("open"), &profile]).env("PATH", path))
        };
        open().ok();
        for line in [
            "ln -s ~/victim $h/.local",
            "mkdir $h/.local; ln -s ~/victim $h/.local/bin",
            "mkdir -p $h/.local/bin; ln -s ~/victim/f $h/.local/bin/tool",
            "mkdir -p $h/.local/bin; ln -s ~/victim/new $h/.local/bin/tool",
        ] {
            place.outside(&format!("h=~/.local/share/palisade/homes/tool; rm -r $h/.local; {line}"));
            let run = open();
            assert_eq!(run.code, 125, "{line}: {run:?}");
            assert_eq!(place.outside("cd ~/victim; find . -type f; cat f"), "./f\nkept\n", "{line}");
        }
    }
}

#[test]
fn each_program_has_its_own_plan() {
    let place = ordinary();
    for _ in 0..2 {
        for (command, out) in
            [(["echo", "one"], "one"), (["basename", "/x/two"], "two"), (["echo", "three"], "three")]
        {
            assert_eq!(place.run(CLOSURE, &command).ok(), out);
        }
    }
    // A line is part of what a shell needs.
    for _ in 0..2 {
        for (line, out) in [("echo a | cat", "a"), ("basename /x/b", "b")] {
            assert_eq!(place.sh(CLOSURE, line).ok(), out);
        }
        assert_eq!(place.sh(CLOSURE, "echo c | tr c d").ok(), "d");
    }
    // By a file of the policy, too.
    place.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nview = \"closure\"\n");
    for _ in 0..2 {
        let run = place.run(&["--quiet"], &["sh", "-c", "X=$(echo l)s; $X"]);
        assert!(run.err.contains("ls: not found"), "{run:?}");
        assert_eq!(place.run(&["--quiet"], &["ls", "/usr/bin"]).ok(), "ls");
    }
    // Other verbs that plan for a command know which program it is, so the view works for them, too.
    let verb = |arguments: &[&str]| {
        let mut palisade = place.command(place.binary());
        job::finish(palisade.args(arguments).current_dir(&place.work))
    };
    verb(&["explain", "--command", "ls"]).ok();
    verb(&["learn", "--quiet", "--output", "-", "--", "ls", "/usr/bin"]).ok();
    std::fs::remove_file(place.home.join(".config/palisade/config.toml")).unwrap();
}

/// The next launch notices changes on the host.
#[test]
fn an_upgrade_is_noticed() {
    for place in everybody().iter().filter(|_| has("gcc")) {
        build(place, "one");
        let run = |place: &Place| place.run(CLOSURE, &["./program"]).ok().to_owned();
        assert_eq!(run(place), "one");
        assert_eq!(run(place), "one");
        // Another library, which the plan for the old program doesn't have.
        build(place, "other");
        assert_eq!(run(place), "other");
        place.outside("rm -r ~/lib ~/work/program");
    }
}

/// A program with a library that lies in the home.
fn build(place: &Place, name: &str) {
    place.outside(&format!(
        "mkdir -p ~/lib && cd ~/lib && echo '#include <stdio.h>\nvoid say(void) {{ puts(\"{name}\"); }}' >say.c && \
         echo 'void say(void); int main(void) {{ say(); }}' >main.c && gcc -shared -fPIC -o lib{name}.so say.c && \
         gcc -o new main.c -L. -l{name} -Wl,-rpath,$HOME/lib && mv new ~/work/program"
    ));
}

/// A script can't have files of the user's shown, by whatever detour it names them.
#[test]
fn a_script_gets_nothing_of_the_users() {
    for place in everybody() {
        place.write("secret", "secret");
        let way = format!("/usr/..{}/secret", place.home.display());
        let attack = format!("#!/bin/sh\ncat {way}; cat /usr/share/../..{way}; . {way}; echo reached\n");
        place.write("work/script", attack);
        place.outside("chmod 755 ~/work/script");
        let outside = job::finish(place.command("./script").current_dir(&place.work));
        assert!(outside.out.starts_with("secretsecret"), "{outside:?}");
        let run = place.run(CLOSURE, &["./script"]);
        assert!(run.err.contains("No such file") && !run.out.contains("secret"), "{run:?}");
        place.outside("rm ~/work/script ~/secret");
    }
}

/// A script may name single files of `/etc` that every user may read, and no other files.
#[test]
fn a_setting_that_a_script_names_is_there() {
    let setting = ["/etc/login.defs", "/etc/profile", "/etc/shells"].into_iter().find(|path| {
        use std::os::unix::fs::MetadataExt;
        Path::new(path).symlink_metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o4 != 0)
    });
    let setting = setting.expect("every distribution has one of these files");
    for place in everybody() {
        let script =
            format!("#!/bin/sh\nwc -c <{setting}; cat /etc/shadow | wc -l; . /etc/gshadow; echo reached\n");
        place.write("work/script", script);
        place.outside("chmod 755 ~/work/script");
        let outside = place.outside(&format!("wc -c <{setting}; cat /etc/shadow | wc -l"));
        let length = outside.lines().next().unwrap().to_owned();
        assert_eq!(
            place.is_root(),
            !outside.trim_end().ends_with("\n0"),
            "only root may read secrets: {outside:?}"
        );
        for _cold_and_hot in 0..2 {
            let run = place.run(CLOSURE, &["./script"]);
            assert!(run.out.starts_with(&format!("{length}\n0\n")), "{run:?}");
            assert!(run.err.contains("/etc/shadow: No such file"), "{run:?}");
            assert!(!run.out.contains("reached"), "a shell ends at a file that isn't there: {run:?}");
        }
        for hidden in ["--hide", "--deny"] {
            let run = place.run(&[CLOSURE, &[hidden, setting]].concat(), &["./script"]);
            assert!(!run.out.starts_with(&length), "{run:?}");
        }
        // A file that the script doesn't name.
        place.write("work/script", "#!/bin/sh\necho /etc/*\n");
        let run = place.run(CLOSURE, &["./script"]);
        assert!(!run.ok().contains(setting), "{run:?}");
        place.outside("rm ~/work/script");
    }
}

#[test]
fn what_cant_be_had_is_said() {
    for place in everybody() {
        place
            .run(CLOSURE, &["no-such-program"])
            .refused(125, &["no-such-program", "--view system"])
            .with_hint();
        place.write("work/cut", b"\x7fELF\x02\x01");
        place.outside("chmod 755 ~/work/cut; printf '#!/no/such\\n' >~/work/none; chmod 755 ~/work/none");
        place.run(CLOSURE, &["./cut"]).refused(125, &["cut is damaged"]).with_hint();
        place.run(CLOSURE, &["./none"]).refused(125, &["/no/such", "the interpreter of"]).with_hint();
        place
            .run(&["--view", "closure", "--dry-run"], &[])
            .refused(125, &["no program is named"])
            .with_hint();
        place
            .run(&["--view", "closure", "--namespaces", "none"], &["true"])
            .refused(125, &["only the program's own files are visible"])
            .with_hint();
        place.outside("rm ~/work/cut ~/work/none");
    }
}
