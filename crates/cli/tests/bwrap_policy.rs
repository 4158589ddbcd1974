// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade bwrap --policy`: what works without a policy and is refused with one, and what the caller asks for stays as
//! it is.

use crate::network::bed::Bed;
use crate::support::job::{self, Run};
use crate::support::{Place, eventually, everybody, has, ordinary, root};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The people, each in a repository.
fn people() -> Vec<Place> {
    let people: Vec<Place> = everybody().into_iter().filter(|_| has("userns") && has("git")).collect();
    for place in &people {
        place.outside("git init -q . && mkdir -p .git/hooks");
    }
    people
}

/// How the policy is named.
#[derive(Clone, Copy, Debug)]
enum Named {
    Nowhere,
    Option,
    Variable,
}

fn bwrap(place: &Place, named: (Named, &str), arguments: &[&str]) -> Command {
    let mut command = place.command(place.binary());
    command.arg("bwrap");
    match named {
        (Named::Nowhere, _) => &mut command,
        (Named::Option, policy) => command.args(["--policy", policy]),
        (Named::Variable, policy) => command.env("PALISADE_BWRAP_POLICY", policy),
    };
    command.args(arguments);
    command
}

fn plain(place: &Place, arguments: &[&str]) -> Run {
    job::finish(&mut bwrap(place, (Named::Nowhere, ""), arguments))
}

fn policed(place: &Place, policy: &str, arguments: &[&str]) -> Run {
    job::finish(&mut bwrap(place, (Named::Option, policy), arguments))
}

/// A profile of the place's own.
fn profile(place: &Place, name: &str, text: &str) {
    let text = format!("schema = 1\nname = \"{name}\"\ndescription = \"A test's.\"\n{text}");
    place.write(&format!(".config/palisade/profiles/{name}.toml"), text);
}

/// Programs and libraries, and nothing else of the host.
const SYSTEM: [&str; 15] = [
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--unshare-pid",
];

#[test]
fn names_are_protected_whatever_the_callers_tree_calls_them() {
    for place in people() {
        let work = place.work.to_str().unwrap();
        let binary = place.binary().to_str().unwrap();
        let git = format!("{work}/.git");
        let hooks = format!("{work}/.git/hooks");
        let host = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];
        let here = "echo 1 >.git/hooks/post-commit";
        let all = ["--dev-bind", "/", "/"];
        let attacks: Vec<(&str, Vec<&str>, &str)> = vec![
            ("by its own name", [&host[..], &["--bind", work, work]].concat(), here),
            ("by a relative path", [&host[..], &["--bind", ".", work]].concat(), here),
            ("by the bind's target", [&SYSTEM[..], &["--bind", work, "/w", "--chdir", "/w"]].concat(), here),
            (
                "by a second bind",
                [&host[..], &["--bind", work, work, "--bind", work, "/mnt"]].concat(),
                "echo 1 >/mnt/.git/hooks/post-commit",
            ),
            (
                "by a bind of .git",
                [&SYSTEM[..], &["--bind", &git, "/g"]].concat(),
                "echo 1 >/g/hooks/post-commit",
            ),
            (
                "by a bind of the directory itself",
                [&SYSTEM[..], &["--bind", &hooks, "/h"]].concat(),
                "echo 1 >/h/post-commit",
            ),
            ("by everything", all.to_vec(), here),
            ("by everything that can be written", vec!["--bind", "/", "/"], here),
            ("by a link", all.to_vec(), "ln -s .git/hooks l; echo 1 >l/post-commit"),
            ("by a rename", all.to_vec(), "echo 1 >new; mv new .git/hooks/post-commit"),
            ("by a hard link", all.to_vec(), "echo 1 >new; ln new .git/hooks/post-commit"),
        ];
        let hook = place.work.join(".git/hooks/post-commit");
        let attempt = |named, arguments: &[&str], line: &str| {
            let run = job::finish(&mut bwrap(&place, named, &[arguments, &["sh", "-c", line]].concat()));
            let made = std::fs::remove_file(&hook).is_ok();
            for left in ["l", "new"] {
                let _not_made = std::fs::remove_file(place.work.join(left));
            }
            (made, run)
        };
        for (name, arguments, line) in &attacks {
            let (made, run) = attempt((Named::Nowhere, ""), arguments, line);
            assert!(made, "{name}, without a policy: {run:?}");
            for named in [Named::Option, Named::Variable] {
                let (made, run) = attempt((named, "default"), arguments, line);
                assert!(!made, "{name}, {named:?}: {run:?}");
                assert_ne!(run.code, 0, "{name}: {run:?}");
                let why = run.err.lines().find(|line| line.contains("palisade: refused: write "));
                let why = why.unwrap_or_else(|| panic!("{name}: {run:?}"));
                assert!(why.contains(".git/hooks"), "{name}: {run:?}");
            }
        }
        for inner in [vec![binary, "bwrap"], vec!["bwrap"], vec!["unshare", "-Ur"]] {
            if inner == ["bwrap"] && !has("bwrap") {
                continue;
            }
            let tree: &[&str] = if inner[0] == "unshare" { &[] } else { &all };
            let nested = [&all[..], &inner, tree].concat();
            let (made, run) = attempt((Named::Nowhere, ""), &nested, here);
            assert!(made, "{inner:?}, without a policy: {run:?}");
            let (made, run) = attempt((Named::Option, "default"), &nested, here);
            assert!(!made && run.code != 0, "{inner:?}: {run:?}");
            assert!(run.err.contains("palisade: refused: syscall "), "{inner:?}: {run:?}");
        }
    }
}

#[test]
fn a_refusal_says_why_and_by_which_rule_and_the_policy_can_permit_it() {
    for place in people() {
        let line = ["--dev-bind", "/", "/", "sh", "-c", "echo 1 >.git/hooks/post-commit"];
        profile(&place, "agent", "");
        let refused = policed(&place, "agent", &line);
        assert!(
            refused.err.contains("is protected: git runs what is in it, built in (broker)"),
            "{refused:?}"
        );
        let hint = "hint: palisade profile edit agent   # [filesystem] allow_names = [\".git/hooks\"]";
        assert!(refused.err.contains(hint), "{refused:?}");
        profile(&place, "agent", "[filesystem]\nallow_names = [\".git/hooks\"]\n");
        assert_eq!(policed(&place, "agent", &line).ok(), "");
        assert_eq!(place.read("work/.git/hooks/post-commit"), "1\n");
    }
}

/// In a user namespace no file of a policy can be trusted, so the internet is root's, and the ordinary user is in it.
#[test]
fn only_hosts_of_the_policy_are_reached() {
    let Some(place) = root().filter(|_| has("internet") && has("userns")) else { return };
    let (bed, user) = (Bed::new(place), ordinary());
    for place in [&bed.place, &user] {
        profile(place, "web", "[network]\nallow = [\"*.allowed.example\"]\n");
        let fetch = |policy: &[&str], options: &[&str], name: &str| {
            let mut command = bed.command("setpriv");
            command.args([format!("--reuid={}", place.uid), format!("--regid={}", place.gid)]);
            command.args(["--clear-groups", "env", &format!("HOME={}", place.home.display())]);
            command.arg(place.binary()).arg("bwrap").args(policy).args(options);
            let curl = ["curl", "-fsS", "--max-time", "8", &format!("http://{name}/page")];
            job::finish(command.args(["--dev-bind", "/", "/"]).args(curl))
        };
        let policy = ["--policy", "web"];
        for options in [&[][..], &["--share-net"], &["--unshare-all", "--share-net"]] {
            let outside = fetch(&[], options, "denied.example");
            assert_eq!(outside.code, 0, "{options:?}, without a policy: {outside:?}");
            bed.reached();
            let denied = fetch(&policy, options, "denied.example");
            assert_ne!(denied.code, 0, "{options:?}: {denied:?}");
            assert!(bed.reached().is_empty(), "{options:?}: {denied:?}");
            let hint = "palisade profile edit web   # [network] allow = [\"denied.example:80\"]";
            assert!(denied.err.contains(hint), "{options:?}: {denied:?}");
            let allowed = fetch(&policy, options, "www.allowed.example");
            assert_eq!(allowed.code, 0, "{options:?}: {allowed:?}");
        }
        // What the caller takes away stays away.
        for options in [&["--unshare-net"][..], &["--unshare-all"]] {
            bed.reached();
            let none = fetch(&policy, options, "www.allowed.example");
            assert_ne!(none.code, 0, "{options:?}: {none:?}");
            assert!(bed.reached().is_empty(), "{options:?}: {none:?}");
        }
    }
}

#[test]
fn what_the_caller_hides_stays_hidden_and_what_the_policy_hides_is_hidden_too() {
    for place in people() {
        for secret in ["one", "two"] {
            place.write(&format!("{secret}/key"), "secret");
        }
        profile(
            &place,
            "secrets",
            "[filesystem]\nread = [\"~/one\"]\nhide = [\"~/two\"]\nwrite = [\"~/one/key\"]\n",
        );
        let home = place.home.to_str().unwrap();
        let (one, two) = (format!("{home}/one"), format!("{home}/two"));
        let covered = ["--dev-bind", "/", "/", "--tmpfs", &one];
        let moved = [&SYSTEM[..], &["--bind", home, "/h", "--bind", &two, "/t"]].concat();
        let shown = ["--dev-bind", "/", "/", "--bind", &two, &two];
        for (arguments, file, without, with) in [
            (&covered[..], format!("{one}/key"), false, false),
            (&covered, format!("{two}/key"), true, false),
            (&SYSTEM, format!("{one}/key"), false, false),
            (&moved, "/h/one/key".to_owned(), true, true),
            (&moved, "/h/two/key".to_owned(), true, false),
            (&moved, "/t/key".to_owned(), true, false),
            (&shown, format!("{two}/key"), true, false),
            // Palisade's own files.
            (&shown, format!("{home}/.config/palisade/profiles/secrets.toml"), true, false),
            (&moved, "/h/.config/palisade/profiles/secrets.toml".to_owned(), true, false),
        ] {
            let read = [arguments, &["cat", &file]].concat();
            assert_eq!(plain(&place, &read).code == 0, without, "{read:?}");
            let found = policed(&place, "secrets", &read);
            assert_eq!(found.code == 0, with, "{read:?}: {found:?}");
        }
    }
}

#[test]
fn what_the_policy_lets_be_read_only_cannot_be_written() {
    for place in people() {
        place.write("data/file", "old");
        profile(&place, "data", "[filesystem]\nexecute = [\"~/data\"]\nwrite = [\"~/data/out\"]\n");
        place.outside("mkdir -p ~/data/out");
        let home = place.home.to_str().unwrap();
        let tree = [&SYSTEM[..], &["--bind", home, "/h"]].concat();
        let write = |policy: Option<&str>, name: &str| {
            let line = format!("echo new >/h/{name}");
            let arguments = [&tree[..], &["sh", "-c", &line]].concat();
            let run = policy
                .map_or_else(|| plain(&place, &arguments), |policy| policed(&place, policy, &arguments));
            run.code == 0
        };
        for (name, allowed) in [("data/file", false), ("data/out/file", true), ("file", true)] {
            assert!(write(None, name), "{name}");
            assert_eq!(write(Some("data"), name), allowed, "{name}");
        }
        let here = ["--dev-bind", "/", "/", "sh", "-c", "echo 1 >here"];
        assert_eq!(plain(&place, &here).code, 0);
        assert_ne!(policed(&place, "read-only", &here).code, 0);
    }
}

#[test]
fn what_a_plan_cannot_express_is_an_error_before_anything_starts() {
    for place in people() {
        profile(&place, "bus", "[dbus]\ntalk = [\"org.example\"]\n");
        profile(&place, "home", "[home]\npolicy = \"private\"\nname = \"x\"\n");
        let host = ["--bind", "/", "/"];
        for (policy, options, said) in [
            ("", &[][..], "the name of the policy is empty"),
            ("no-such", &[], "there is no profile \"no-such\""),
            ("default", &["--policy", "default"], "--policy used multiple times"),
            ("default", &["--info-fd", "2"], "can't keep to a policy with --info-fd: "),
            ("default", &["--seccomp", "0"], "can't keep to a policy with --seccomp: "),
            ("default", &["--size", "4096", "--tmpfs", "/tmp"], "can't keep to a policy with --size: "),
            ("default", &["--tmp-overlay", "/tmp"], "--overlay"),
            ("default", &["--proc", "/mnt"], "can't keep to a policy with --proc \"/mnt\": "),
            ("default", &["--dir", "/a/../b"], "can't keep to a policy with --dir \"/a/../b\": "),
            ("default", &["--ro-bind", "/no/such", "/x"], "can't show \"/no/such\": it doesn't exist"),
            ("bus", &[], "can't do what dbus.session ("),
            ("home", &[], "can't do what home.policy ("),
        ] {
            let overlay = ["--overlay-src", "/usr"];
            let before: &[&str] = if options.contains(&"--tmp-overlay") { &overlay } else { &[] };
            let arguments = [&host[..], before, options, &["touch", "started"]].concat();
            let run = policed(&place, policy, &arguments);
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{options:?}: {run:?}");
            assert!(run.err.contains(said), "{options:?}: {run:?}");
            assert!(!place.work.join("started").exists(), "{options:?}: {run:?}");
        }
        let empty = job::finish(&mut bwrap(&place, (Named::Variable, ""), &["--ro-bind", "/", "/", "true"]));
        assert_eq!(empty.code, 1, "{empty:?}");
    }
}

#[test]
fn the_option_is_ours_only_before_the_command() {
    for place in people() {
        let link = place.work.join("bwrap");
        symlink(place.binary(), &link).unwrap();
        for arguments in [
            &["--dev-bind", "/", "/", "--", "echo", "--policy", "no-such"][..],
            &["--dev-bind", "/", "/", "echo", "--policy", "no-such"],
        ] {
            assert_eq!(plain(&place, arguments).ok(), "--policy no-such");
            assert_eq!(policed(&place, "default", arguments).ok(), "--policy no-such");
        }
        // By the name of bubblewrap.
        let line = ["sh", "-c", "echo 1 >.git/hooks/post-commit"];
        let by_name = |policy: &[&str]| {
            let mut command = place.command(&link);
            job::finish(command.args(policy).args(["--dev-bind", "/", "/"]).args(line)).code
        };
        assert_eq!(by_name(&[]), 0);
        assert_ne!(by_name(&["--policy", "default"]), 0);
        // The option names another policy than the variable.
        let mut command = bwrap(&place, (Named::Option, "default"), &["--dev-bind", "/", "/", "true"]);
        assert_eq!(job::finish(command.env("PALISADE_BWRAP_POLICY", "no-such")).code, 0);
    }
}

/// What agents ask for is there with a policy as without.
#[test]
fn what_the_caller_asks_for_is_the_same() {
    for place in people() {
        place.write("work/closed/key", "secret");
        place.write("content", "made\n");
        let work = place.work.to_str().unwrap();
        let (closed, new) = (format!("{work}/closed"), format!("{work}/new"));
        let (empty, config) = (format!("{work}/empty"), format!("{work}/.mcp.json"));
        // Codex and sandbox-runtime have their trees from such options.
        let codex = [
            &["--as-pid-1", "--new-session", "--die-with-parent", "--tmpfs", "/", "--dev", "/dev"][..],
            &SYSTEM,
            &["--ro-bind", "/etc", "/etc", "--bind", work, work, "--chdir", work],
            &["--perms", "000", "--tmpfs", &closed, "--remount-ro", &closed],
            &["--perms", "555", "--tmpfs", &empty, "--remount-ro", &empty],
            &["--ro-bind", "/dev/null", &config, "--cap-drop", "ALL", "--unshare-net"],
            &[
                "--dir",
                "/d",
                "--dir",
                "/d/e",
                "--symlink",
                "e",
                "/d/l",
                "--tmpfs",
                &new,
                "--file",
                "9",
                "/d/made",
            ],
            &["--ro-bind-data", "8", "/data", "--setenv", "A", "1", "--unsetenv", "LANG", "--argv0", "other"],
        ]
        .concat();
        let bubblewrap = |policy: &[&str], line: &str| {
            let mut command = place.command("sh");
            command
                .args(["-c", "exec \"$@\" 8<~/content 9<~/content", "sh"])
                .arg(place.binary())
                .arg("bwrap");
            job::finish(command.args(policy).args(&codex).args(["sh", "-c", line]))
        };
        for line in [
            "echo hello",
            "exit 3",
            "echo 1 >f && cat f",
            "cat closed/key",
            "ls -A empty; touch empty/x",
            "cat .mcp.json; echo 1 >.mcp.json",
            "touch /d/x /d/e/y && ls /d /d/l/",
            "echo 1 >new/x && ls new",
            "cat /d/made /data; echo 1 >/data",
            "echo 1 >/usr/x",
            "echo $A $LANG $PWD $HOME",
            "tr '\\0' ' ' </proc/self/cmdline",
            "ls /",
            "id -u; id -g",
            "echo 1 >/dev/null && head -c 4 /dev/zero | wc -c",
            "ls ~",
            "grep CapEff /proc/self/status",
        ] {
            let without = bubblewrap(&[], line);
            let with = bubblewrap(&["--policy", "default"], line);
            // Root's command has no rights of root's on the host, so what it can't do may be refused otherwise.
            assert_eq!((without.code, &without.out), (with.code, &with.out), "{line}: {without:?} {with:?}");
            let _next_line_makes_it = std::fs::remove_file(place.work.join("f"));
        }
    }
}

#[test]
fn a_policed_sandbox_dies_with_its_parent() {
    for place in people() {
        let own = ["--ro-bind", "/", "/", "--die-with-parent", "sh", "-c", "echo started; exec sleep 300"];
        let launcher = format!("{} bwrap --policy default \"$@\"; :", place.binary().display());
        let mut shell = place
            .command("sh")
            .args(["-c", &launcher, "sh"])
            .args(own)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
        assert!(eventually(|| job::below(shell.id(), "sleep").is_some()));
        let command = job::below(shell.id(), "sleep").unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(eventually(|| rustix::process::test_kill_process(command).is_err()));
    }
}

/// The path is a profile's file.
#[test]
fn a_policy_may_be_a_file() {
    for place in people() {
        let file: PathBuf =
            place.write("policy.toml", "schema = 1\n[filesystem]\nprotect_names = [\"mine\"]\n");
        let line = ["--dev-bind", "/", "/", "sh", "-c", "echo 1 >mine"];
        assert_eq!(plain(&place, &line).code, 0);
        std::fs::remove_file(place.work.join("mine")).unwrap();
        let refused = policed(&place, file.to_str().unwrap(), &line);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.err.contains("policy.toml:3"), "{refused:?}");
    }
}
