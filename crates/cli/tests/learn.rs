// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade learn`: it makes a profile that suffices for what the command used, and that grants no more than the
//! run had. No profile takes effect before the user has seen it.

use crate::support::{Place, Run, everybody, has, job};

use palisade_acceptance::patience::Patience;
use palisade_policy::{Access, Layer, LayerPolicy};
use std::time::Duration;

/// `palisade learn OPTIONS -- COMMAND` where there is no terminal.
fn learn(place: &Place, options: &[&str], command: &[&str]) -> Run {
    let mut palisade = place.command("setsid");
    palisade.arg("--wait").arg(place.binary()).arg("learn").args(options).arg("--").args(command);
    job::finish(&mut palisade)
}

/// Learns a line of shell into the profile `p`.
fn learn_line(place: &Place, options: &[&str], line: &str) -> LayerPolicy {
    let options = [&["--name", "p", "--yes"], options].concat();
    learn(place, &options, &["bash", "-c", line]).ok();
    profile(place)
}

fn text(place: &Place) -> String {
    place.read(".config/palisade/profiles/p.toml")
}

fn profile(place: &Place) -> LayerPolicy {
    let text = text(place);
    palisade_policy::parse(&text, None, Layer::User).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// What a profile states of a list.
fn list(policy: &LayerPolicy, access: Access) -> Vec<String> {
    let rules = policy.settings.paths.iter().filter(|rule| rule.access == access);
    rules.map(|rule| rule.pattern.to_string()).collect()
}

#[test]
fn a_build_runs_with_what_was_learned_of_it_and_can_do_no_more() {
    if !has("gcc") {
        return;
    }
    for place in everybody() {
        place.write("work/a.c", "int main(void) { return 0; }\n");
        place.write("work/Makefile", "out/a: a.c\n\tcc -o out/a a.c\n\t./out/a\n");
        place.write("work/out/keep", "");
        place.write("data/big", "needed");
        place.write("data/other", "not needed");
        let options = ["--ro", place.home.join("data").to_str().unwrap()].map(str::to_owned);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let learned = learn_line(&place, &options, "make && cat ~/data/big");
        assert_eq!(list(&learned, Access::Write), ["./out"], "{}", text(&place));
        assert_eq!(list(&learned, Access::Execute), ["./out"], "{}", text(&place));
        assert_eq!(list(&learned, Access::Read), [".", "~/data/big"], "{}", text(&place));

        std::fs::remove_file(place.work.join("out/a")).unwrap();
        let with = ["--profile", "p"];
        place.sh(&with, "make && cat ~/data/big").ok();
        for more in ["echo x >b.c", "echo x >>a.c", "cat ~/data/other", "cp /bin/true out/../t"] {
            assert_eq!(
                place.sh(&[], more.replace("cat ~/data/other", "echo x >x").as_str()).code,
                0,
                "{more}"
            );
            assert_ne!(place.sh(&with, more).code, 0, "{more}");
        }
    }
}

#[test]
fn what_is_wanted_is_said_and_not_granted() {
    for place in everybody() {
        place.write(".netrc", "secret");
        place.write("work/.git/config", "");
        place.write("kept/file", "");
        place.write("other/file", "");
        let line = "cat ~/.netrc; echo x >~/kept/new; mkdir -p ~/.tool && echo x >~/.tool/a; echo x >~/.cache/a; \
                    mkdir .git/hooks; : >.git/hooks/x; : >/usr/lib/x; echo x >~/other/new; \
                    exec 3<>/dev/tcp/192.0.2.1/443; true";
        let learned = learn_line(&place, &["--ro", place.home.join("kept").to_str().unwrap()], line);
        let said = text(&place);
        for remark in [
            "# \"~/.netrc\",   # by cat",
            "# \"~/kept\",   # by bash",
            "# \"~/other\",   # by bash",
            "# \"~/.tool\",   # 2 names written to a private directory and lost, by bash and mkdir",
            "# \".git/hooks\",   # protected; the command tried to change it",
            "# \"/usr/lib\",   # by bash",
            "# With `palisade learn --net-default allow` the hosts are learned. It tried to reach:",
            "#   192.0.2.1:443, by bash",
        ] {
            assert!(said.contains(remark), "{remark}\n{said}");
        }
        assert_eq!(list(&learned, Access::Write), Vec::<String>::new(), "{said}");
        assert!(!said.contains("cache"), "{said}");
        assert!(!list(&learned, Access::Read).iter().any(|path| path.contains("netrc")), "{said}");
        assert_eq!(place.outside("ls -A .git; ls -A ~/kept"), "config\nfile\n");
        let run = place.sh(&["--profile", "p"], "cat ~/.netrc");
        assert_ne!(run.code, 0, "{run:?}");
    }
}

#[test]
fn nothing_is_written_unasked() {
    for place in everybody() {
        let run = learn(&place, &[], &["true"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("+read = [\".\"]"), "{run:?}");
        assert!(run.err.contains("nothing is written, there is no terminal to ask on"), "{run:?}");
        let shown = learn(&place, &["--dry-run", "--yes"], &["true"]);
        assert!(shown.err.contains("+read = [\".\"]"), "{shown:?}");
        assert!(!place.home.join(".config").exists());

        let out = learn(&place, &["--quiet", "--output", "-"], &["echo", "its own"]);
        assert!(out.out.starts_with("its own\n# Learned from one run of `echo`."), "{out:?}");
        assert!(out.err.is_empty(), "{out:?}");
    }
}

#[test]
fn a_second_run_shows_what_changes() {
    for place in everybody() {
        place.write("work/sub/x", "");
        learn_line(&place, &[], "cat sub/x");
        let again = learn(&place, &["--name", "p"], &["bash", "-c", "cat sub/x"]);
        assert!(again.err.contains("nothing new was learned"), "{again:?}");
        let more = learn(&place, &["--name", "p", "--yes"], &["bash", "-c", "echo x >sub/y"]);
        assert!(more.err.contains("\n+write = ["), "{more:?}");
        assert!(more.err.contains("\n read = [\".\"]"), "{more:?}");
        assert_eq!(list(&profile(&place), Access::Write), ["./sub"]);
    }
}

#[test]
fn what_was_said_on_the_command_line_stays() {
    for place in everybody() {
        place.write("work/.env", "secret");
        place.write("work/src/a", "");
        let options =
            ["--hide", ".env", "--limit", "open_files=99", "--env", "CI=1", "--allow-name", ".vscode"];
        let learned = learn_line(&place, &options, "cat src/a; test ! -s .env");
        assert_eq!(list(&learned, Access::Hide), [".env"], "{}", text(&place));
        place.sh(&["--profile", "p"], "test ! -s .env && test $CI = 1 && test $(ulimit -n) = 99").ok();
        assert!(text(&place).contains("allow_names = [\".vscode\"]"), "{}", text(&place));
    }
}

#[test]
fn odd_names_are_quoted() {
    for place in everybody() {
        let names = ["a b", "quo\"te", "new\nline", "st*r", "e=q", "$x", "back\\slash", "br{ace", "#hash"];
        for name in names {
            place.write(&format!("odd/{name}/f"), "");
            let bound = place.home.join("odd").join(name);
            let bound = palisade_policy::PathPattern::exactly(&bound).unwrap();
            let mut palisade = place.command("setsid");
            palisade.arg("--wait").arg(place.binary()).args(["learn", "--name", "p", "--yes", "--rw"]);
            palisade
                .arg(bound.as_os_str())
                .args(["--", "touch"])
                .arg(place.home.join("odd").join(name).join("g"));
            job::finish(&mut palisade).ok();
            let inside = place.home.join("odd").join(name).join("h");
            let run = place.run(&["--profile", "p"], &["touch", inside.to_str().unwrap()]);
            assert_eq!(run.code, 0, "{name:?}: {run:?}\n{}", text(&place));
            assert!(inside.exists(), "{name:?}");
        }
        // A path that TOML can't express is reported.
        let line = "d=$(printf 'bytes\\377'); mkdir ./$d && : >./$d/f";
        learn_line(&place, &[], line);
    }
}

#[test]
fn a_command_that_fails_is_learned_as_far_as_it_came_and_its_code_kept() {
    for place in everybody() {
        let run = learn(&place, &["--output", "-", "-q"], &["sh", "-c", "exit 7"]);
        assert_eq!(run.code, 7);
        assert!(run.out.contains("# The command failed (exit code 7)"), "{run:?}");
        let run = learn(&place, &["--yes"], &["no-such-command"]);
        run.refused(127, &["no-such-command", "not found"]).with_hint();
        assert!(!place.home.join(".config").exists());
    }
}

#[test]
fn wrong_options_are_errors_before_anything_starts() {
    for place in everybody() {
        for (options, words) in [
            (&["--namespaces", "none"][..], &["--namespaces none", "no process can receive"][..]),
            (&["--plan", "x"], &["--plan"]),
            (&["--name", "a/b"], &["profile's name"]),
            (&["--name", ".hidden"], &["profile's name"]),
        ] {
            let run = learn(&place, options, &["touch", "started"]);
            run.refused(125, words).with_hint();
            assert!(!place.work.join("started").exists());
        }
    }
}

#[test]
fn many_files_and_processes_are_learned_in_bounded_time() {
    for place in everybody() {
        place.write(
            "work/many.sh",
            "for i in $(seq 300); do mkdir -p d/$((i % 7)); echo $i >d/$((i % 7))/$i; cat d/$((i % 7))/$i; done\n",
        );
        let mut patience = Patience::new(Duration::from_secs(60));
        let learned = learn_line(&place, &[], "for n in 1 2 3 4; do sh many.sh >/dev/null & done; wait");
        assert!(!patience.is_spent());
        assert_eq!(list(&learned, Access::Write), ["."]);
        place.assert_all_dead();
    }
}

/// The profile gets the view of the run, or a narrower one.
#[test]
fn a_profile_shows_no_more_than_there_was() {
    for place in everybody() {
        // A script that names a public file in /etc sees it. This one makes the name when it runs.
        let line = "test -e /etc/passwd -a ! -e $(printf /e)tc/login.defs";
        place.outside("test -e /etc/login.defs");
        let learned = learn_line(&place, &["--view", "closure"], line);
        assert!(text(&place).contains("view = \"closure\""), "{}", text(&place));
        assert_eq!(learned.settings.view.len(), 1);
        place.run(&["--profile", "p"], &["bash", "-c", line]).ok();
        learn_line(&place, &["--view", "host"], "true");
        assert!(text(&place).contains("view = \"system\""), "{}", text(&place));
    }
}

/// A path that the options refuse inside one that they grant stays refused.
#[test]
fn what_was_refused_stays_refused() {
    for place in everybody() {
        place.write("data/kept/file", "kept");
        place.write("data/x", "");
        let path = |name: &str| place.home.join(name).to_str().unwrap().to_owned();
        let options = ["--rw".to_owned(), path("data"), "--ro".to_owned(), path("data/kept")];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let line = "echo new >~/data/y; echo x >~/data/x; echo x >>~/data/kept/file; true";
        learn_line(&place, &options, line);
        assert!(text(&place).contains("~/data/kept"), "{}", text(&place));
        let with = ["--profile", "p"];
        place.sh(&with, "echo z >~/data/y").ok();
        assert_ne!(place.sh(&with, "echo x >>~/data/kept/file").code, 0, "{}", text(&place));
        assert_eq!(place.read("data/kept/file"), "kept");
    }
}

/// Rules for the addresses of names are saved together with the names.
#[test]
fn rules_for_addresses_are_kept() {
    for place in everybody() {
        let options = ["--net-default", "allow", "--allow", "10.9.8.0/24", "--deny-host", "10.9.8.7"];
        learn_line(&place, &options, "true");
        // The command reached no host, so the profile allows none.
        assert!(!text(&place).contains("10.9.8.0/24"), "{}", text(&place));
        assert!(text(&place).contains("deny = [\"10.9.8.7\"]"), "{}", text(&place));
    }
}

#[test]
fn a_shipped_profile_is_replaced_only_by_force() {
    for place in everybody() {
        let run = learn(&place, &["--yes", "--name", "vim"], &["true"]);
        run.refused(125, &["\"vim\" is the name of a profile that Palisade ships"]).with_hint();
        assert!(run.err.contains("hint: palisade learn --force --yes --name vim -- true"), "{run:?}");
        assert!(!place.home.join(".config/palisade/profiles/vim.toml").exists());
        learn(&place, &["--force", "--yes", "--name", "vim"], &["true"]).ok();
        assert!(place.home.join(".config/palisade/profiles/vim.toml").exists());
        // By now the user has changed it.
        learn(&place, &["--yes", "--name", "vim"], &["true"]).ok();
    }
}

/// A line of Python that makes a call that Python by itself doesn't make, and goes on without it.
const INTERVAL: &str = "import os\ntry: os.sched_rr_get_interval(0)\nexcept OSError: print('refused')";

/// System calls that the options refuse the profile refuses, too, and those that were learned it allows.
#[test]
fn refused_system_calls_stay_refused() {
    for place in everybody() {
        let python = |options: &[&str], line: &str| place.run(options, &["python3", "-c", line]);
        let known = "import os; print(type(os.getpriority(os.PRIO_PROCESS, 0)))";
        python(&["--syscalls", "learn"], known).ok();
        let options = ["--syscalls", "enforce", "--name", "p", "--yes"];
        let run = learn(&place, &options, &["python3", "-c", INTERVAL]);
        assert_eq!((run.code, run.out.as_str()), (0, "refused\n"), "{run:?}");
        assert!(text(&place).contains("mode = \"enforce\""), "{}", text(&place));
        assert_eq!(python(&["--profile", "p"], INTERVAL).out, "refused\n");
        python(&["--profile", "p"], known).ok();
        // From a profile that enforces comes one that enforces, with what was learned for the first.
        let run = learn(&place, &["--profile", "p", "--name", "q", "--yes"], &["python3", "-c", INTERVAL]);
        assert!(!run.err.contains("no command can be run"), "{run:?}");
        assert_eq!(python(&["--profile", "q"], INTERVAL).out, "refused\n");
        python(&["--profile", "q"], known).ok();
        // Calls that were learned for the profile earlier stay allowed, and that is reported.
        place.run(&["--profile", "q", "--syscalls", "learn"], &["python3", "-c", INTERVAL]).ok();
        let run = learn(&place, &["--profile", "p", "--name", "q", "--yes"], &["python3", "-c", INTERVAL]);
        let told =
            "the system call sched_rr_get_interval was refused, but it was learned for the profile before";
        assert!(run.err.contains(told), "{run:?}");
        // What was learned of it in this run becomes the profile's.
        let run =
            learn(&place, &["--syscalls", "learn", "--name", "r", "--yes"], &["python3", "-c", INTERVAL]);
        assert_eq!((run.code, run.out.as_str()), (0, ""), "{run:?}");
        assert_eq!(python(&["--profile", "r", "--syscalls", "enforce"], INTERVAL).out, "");
    }
}

/// A call that was refused during the run, and that a later layer than the profile allows, is reported.
#[test]
fn a_system_call_that_the_profile_cannot_refuse_is_told() {
    for place in everybody() {
        place.run(&["--syscalls", "learn"], &["python3", "-c", "pass"]).ok();
        place.write("work/.palisade.toml", "schema = 1\n[syscalls]\nmode = \"off\"\n");
        job::finish(place.command(place.binary()).args(["project", "allow", "--yes"])).ok();
        let options = ["--syscalls", "enforce", "--name", "p", "--yes"];
        let run = learn(&place, &options, &["python3", "-c", INTERVAL]);
        assert_eq!(run.out, "refused\n", "{run:?}");
        let told = "the system call sched_rr_get_interval was refused, and the profile allows it";
        assert!(run.err.contains(told), "{run:?}");
    }
}
