// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that grants, hiding and locks apply to what a path leads to, not to its spelling. (Attacks: the acceptance suite's
//! `grants.toml`.)

use crate::support::{Place, everybody, job, root};

const CONFIG: &str = ".config/palisade/config.toml";

/// A directory with a secret that nothing grants, and one to work with.
fn secret(place: &Place) {
    place.write("keys/id", "secret");
    place.outside("mkdir -p ~/work/a/out ~/elsewhere/x");
}

#[test]
fn a_policy_grants_no_link_that_a_command_may_have_made() {
    for place in everybody() {
        secret(&place);
        place.outside("ln -s ../keys ~/work/out");
        for (file, text) in [
            (CONFIG, "[filesystem]\nwrite = [\"./out\"]\n"),
            (CONFIG, "[filesystem]\nread = [\"./out\"]\n"),
            (CONFIG, "[filesystem]\nexecute = [\"./out\"]\n"),
            (CONFIG, "[filesystem]\nread = [\"./out/id\"]\n"),
            (CONFIG, "[filesystem]\nread = [\"./o*\"]\n"),
            ("work/.palisade.toml", "[filesystem]\nwrite = [\"./out\"]\n"),
        ] {
            place.write(file, format!("schema = 1\n{text}"));
            if file != CONFIG {
                job::finish(place.command(place.binary()).args(["project", "allow", "--yes"])).ok();
            }
            let run = place.sh(&[], "cat out/id");
            run.refused(125, &["/work/out leads to", "/keys", "a sandboxed command may have made it"])
                .with_hint();
            std::fs::remove_file(place.home.join(file)).unwrap();
        }
        assert_eq!(place.sh(&[], "cat out/id").out, "", "nothing grants it");
        // The command of the hint works.
        let keys = place.home.join("keys");
        let run = place.sh(&["--ro", "out", "--ro", keys.to_str().unwrap()], "cat out/id");
        assert_eq!(run.ok(), "secret");
    }
}

#[test]
fn a_kept_plan_follows_no_link_that_came_later() {
    for place in everybody() {
        secret(&place);
        let options = ["--rw", "a/out"];
        let line = "cat a/out/id; echo x >a/out/new";
        assert_eq!(place.sh(&options, line).out, "");
        assert_eq!(place.sh(&options, "cat a/out/new").ok(), "x", "by a kept plan");
        place.outside("cd ~/work && mv a z && mkdir a && ln -s ../../keys a/out");
        let run = place.sh(&options, line);
        run.refused(125, &["a/out leads to", "a sandboxed command may have made it"]).with_hint();
        assert!(!place.home.join("keys/new").exists());
        // A link that was there before, and leads elsewhere now.
        place.outside("cd ~/elsewhere && echo one >x/id && ln -s x l");
        let link = place.home.join("elsewhere/l");
        let options = ["--ro", link.to_str().unwrap()];
        let line = format!("cat {}/id", link.display());
        assert_eq!(place.sh(&options, &line).ok(), "one");
        place.outside("cd ~/elsewhere && mkdir y && echo two >y/id && ln -sfn y l");
        assert_eq!(place.sh(&options, &line).ok(), "two");
    }
}

#[test]
fn what_is_denied_by_a_policy_is_denied_wherever_a_link_leads() {
    for place in everybody() {
        secret(&place);
        place.outside("mkdir -p ~/elsewhere/b/c; ln -s ../../../keys ~/elsewhere/b/c/l; ln -s keys ~/other");
        let link = place.home.join("elsewhere/b/c/l");
        let link = link.to_str().unwrap();
        let line = format!("cat {link}/id ~/keys/id");
        for (statement, spelled) in [("deny", "~/keys"), ("hide", "~/keys"), ("deny", "~/other")] {
            place.write(CONFIG, format!("schema = 1\n[filesystem]\n{statement} = [\"{spelled}\"]\n"));
            for option in ["--rw", "--ro"] {
                let run = place.sh(&[option, link], &line);
                run.refused(125, &["leads to", spelled, "refuses that"]).with_hint();
            }
            place.write(
                CONFIG,
                format!(
                    "schema = 1\n[filesystem]\nread = [\"~/elsewhere/b/c/l\"]\n{statement} = [\"{spelled}\"]\n"
                ),
            );
            place.sh(&[], &line).refused(125, &["leads to", "refuses that"]).with_hint();
        }
        let both = ["--deny", "~/keys", "--ro", link];
        place.sh(&both, &line).refused(125, &["refuses that", "leave out one of the two options"]);
        // The path without the link states the intention, as in the hint.
        place.write(CONFIG, "schema = 1\n[filesystem]\ndeny = [\"~/keys\"]\n");
        let run = place.sh(&["--ro", link], &line);
        let hint = run.err.lines().find_map(|line| line.strip_prefix("hint: palisade run ")).unwrap();
        let hint: Vec<&str> = hint.split_whitespace().take(2).collect();
        assert_eq!(place.sh(&hint, "cat ~/keys/id").ok(), "secret", "{hint:?}");
        place.write(CONFIG, "schema = 1\n[filesystem]\ndeny = [\"~/keys\"]\n");
        let keys = place.home.join("keys");
        assert_eq!(place.sh(&["--ro", keys.to_str().unwrap()], "cat ~/keys/id").ok(), "secret");
    }
}

/// A command may move the link, and the next launch would grant what the link refused.
#[test]
fn what_only_a_link_in_a_writable_tree_refuses_stops_the_launch() {
    for place in everybody() {
        secret(&place);
        place.outside(
            "mkdir ~/keys/sub; echo secret >~/keys/sub/id; ln -s ../keys ~/work/out; ln -s keys ~/other",
        );
        let out = place.work.join("out");
        let keys = place.home.join("keys");
        let [out, keys] = [&out, &keys].map(|path| path.to_str().unwrap());
        let line = "cat ~/keys/id ~/keys/sub/id ~/other/id";
        // A part of the link's target is granted: by its own name, by patterns, or by a link that the command can't move.
        for granted in ["~/keys/id", "~/keys/**/id", "~/keys/s*", "~/other/id", "~/other/*"] {
            place.write(CONFIG, format!("schema = 1\n[filesystem]\nread = [\"{granted}\"]\n"));
            assert!(place.sh(&[], line).out.contains("secret"), "{granted}");
            for option in ["--deny", "--hide", "--tmpfs"] {
                let run = place.sh(&[option, out], line);
                run.refused(125, &["can't enforce", "may move the link"]).with_hint();
                let hint = run.err.lines().find_map(|line| line.strip_prefix("hint: palisade run ")).unwrap();
                assert!(hint.starts_with(&format!("{option} {keys} ")), "{hint}");
                assert!(!place.sh(&[option, keys], line).out.contains("secret"), "{granted}");
            }
        }
        // If nothing of it is granted, no conflict is possible, and a later layer's rule applies.
        place.write(CONFIG, "schema = 1\n");
        assert!(!place.sh(&["--deny", out], line).out.contains("secret"));
        place.write(CONFIG, "schema = 1\n[filesystem]\ndeny = [\"./out\"]\n");
        let id = place.home.join("keys/id");
        assert_eq!(place.sh(&["--ro", id.to_str().unwrap()], "cat ~/keys/id").ok(), "secret");
    }
}

/// A rule is about what its path leads to, by whichever name that is used.
#[test]
fn what_is_restricted_by_a_link_is_restricted_by_every_name() {
    for place in everybody() {
        place.outside(
            "mkdir -p ~/work/sub/c ~/elsewhere; echo secret >~/work/sub/id; ln -s ../work/sub ~/elsewhere/l; ln -s work/sub ~/other",
        );
        let with = |rules: &str, options: &[&str], line: &str| {
            place.write(CONFIG, format!("schema = 1\n[filesystem]\n{rules}\n"));
            place.sh(options, line)
        };
        // Another rule of a later layer is about the link's own place.
        let run = with("deny = [\"~/elsewhere/l\"]", &["--deny", "~/elsewhere"], "cat sub/id");
        assert_eq!(run.out, "", "{run:?}");
        assert_eq!(with("", &["--deny", "~/elsewhere"], "cat sub/id").ok(), "secret");
        // It is writable by its own name but for the rule, also in what has a rule of an earlier layer.
        let other = place.home.join("other");
        let other = other.to_str().unwrap();
        let line = "touch sub/new sub/c/new; ls sub sub/c";
        for (rules, options) in
            [("read = [\"~/other\"]", &[][..]), ("write = [\"./sub/c\"]", &["--ro", other][..])]
        {
            let run = with(rules, options, line);
            assert!(run.err.contains("touch") && !run.out.contains("new"), "{rules}: {run:?}");
        }
        // A later layer's rule about the target goes before it.
        let sub = place.work.join("sub");
        let run = with("deny = [\"~/other\"]", &["--rw", sub.to_str().unwrap()], line);
        assert!(run.ok().contains("new"), "{run:?}");
    }
}

/// An administrator's configuration, in a view of `/etc` that only this run has.
#[test]
fn a_lock_holds_wherever_a_link_leads() {
    let Some(place) = root() else { return };
    secret(&place);
    place.outside("mkdir -p ~/elsewhere/b/c; ln -s ../../../keys ~/elsewhere/b/c/l; ln -s keys ~/other");
    let with = |config: &str, options: &[&str], line: &str| {
        let mut palisade = place.administered(config);
        job::finish(palisade.arg("run").args(options).args(["--", "sh", "-c", line]))
    };
    let link = place.home.join("elsewhere/b/c/l");
    let link = link.to_str().unwrap();
    let read = format!("cat {link}/id ~/keys/id");
    assert_eq!(with("", &["--rw", link], &format!("cat {link}/id")).ok(), "secret");
    for lock in
        ["deny = [\"~/keys\"]", "hide = [\"~/keys\"]", "deny = [\"~/other\"]", "deny = [\"~/keys/id\"]"]
    {
        let run = with(&format!("[locked.filesystem]\n{lock}\n"), &["--rw", link], &read);
        assert!(!run.out.contains("secret"), "{lock}: {run:?}");
    }
    // The lock names a link: what it leads to has the name that it has.
    let keys = place.home.join("keys");
    let keys = keys.to_str().unwrap();
    let (file, moved) = (format!("{keys}/id"), format!("{keys}=/mnt/keys"));
    let read = format!("cat {keys}/id /mnt/keys/id");
    for lock in ["deny = [\"~/other\"]", "hide = [\"~/other\"]", "read = [\"~/other\"]"] {
        let lock = format!("[locked.filesystem]\n{lock}\n");
        for option in [keys, &file, &moved] {
            let run = with(&lock, &["--rw", option], &read);
            assert!(!run.out.contains("secret"), "{lock} {option}: {run:?}");
            run.refused(125, &["other leads to", "locked", "refuses that"]).with_hint();
        }
    }
    let run =
        with("[locked.filesystem]\nread = [\"~/other\"]\nexecute = [\"~/other\"]\n", &["--ro", &file], &read);
    assert!(run.out.contains("secret"), "as the lock has it: {run:?}");
    // What is locked to be read only isn't written by a link.
    let lock = "[locked.filesystem]\nread = [\"~/keys\"]\n";
    let run = with(lock, &["--rw", link], &format!("echo x >{link}/new"));
    assert!(!place.home.join("keys/new").exists(), "{run:?}");
    run.refused(125, &["leads to", "refuses that"]).with_hint();
    assert_eq!(with(lock, &["--ro", link], "cat ~/keys/id").code, 125, "it may be executed by --ro");
    // What a lock grants may be tightened, by a link, too.
    let lock = "[locked.filesystem]\nread = [\"~/k*/id\"]\n";
    let other = place.home.join("other");
    assert!(with(lock, &[], "cat ~/keys/id").out.contains("secret"));
    let run = with(lock, &["--deny", other.to_str().unwrap()], "cat ~/keys/id");
    assert!(!run.out.contains("secret"), "{run:?}");
}

/// Rules of three layers that together say less than each of them.
#[test]
fn a_lock_by_a_link_holds_among_other_rules() {
    let Some(place) = root() else { return };
    secret(&place);
    place.outside("ln -s keys ~/other; ln -s keys/id ~/name");
    let with = |lock: &str, user: &str, options: &[&str], line: &str| {
        let text = format!("schema = 1\n[filesystem]\n{user}\n");
        place.write(".config/palisade/config.toml", text);
        let mut palisade = place.administered(&format!("[locked.filesystem]\n{lock}\n"));
        job::finish(palisade.arg("run").args(options).args(["--", "sh", "-c", line]))
    };
    // The same pattern once more, for another place, makes nothing more specific.
    let user = "write = [\"~/keys/id=/mnt/2\"]";
    let read = "cat ~/keys/id /mnt/2";
    assert!(with("read = [\"~/keys/i*\"]", user, &[], read).out.contains("secret"));
    let run = with("read = [\"~/keys/i*\"]\ndeny = [\"~/other/i*\"]", user, &[], read);
    assert!(!run.out.contains("secret"), "{run:?}");
    let keys = place.home.join("keys");
    let keys = keys.to_str().unwrap();
    let write = "echo new >~/keys/new; echo more >>~/keys/id";
    for (lock, user) in [("~/name", "~/name"), ("~/other/id", "~/other"), ("~/other/i*", "~/other")] {
        let user = format!("deny = [\"{user}\"]");
        // The command line loosens what the user has stated, but not what the administrator has locked.
        with("", &user, &["--rw", keys], write).ok();
        assert_eq!(place.read("keys/id"), "secretmore\n");
        secret(&place);
        let run = with(&format!("read = [\"{lock}\"]"), &user, &["--rw", keys], write);
        assert!(run.err.contains("Read-only file system"), "{lock}: {run:?}");
        assert_eq!((place.read("keys/id").as_str(), place.read("keys/new").as_str()), ("secret", "new\n"));
    }
}

/// `explain` follows the paths of rules like a launch does, and says no where no launch is possible.
#[test]
fn explain_says_what_the_launch_does() {
    let keys = "~/keys/id";
    for place in everybody() {
        secret(&place);
        place.outside(
            "mkdir -p ~/elsewhere/b/c ~/work/there; echo secret >~/work/there/id; ln -s ../../../keys ~/elsewhere/b/c/l; \
             ln -s keys ~/other; ln -s keys/id ~/name; ln -s ../keys ~/work/out; ln -s there ~/work/beside",
        );
        let deep = "~/elsewhere/b/c/l";
        for (rules, path, why) in [
            // Nothing is launched.
            ("write = [\"./out\"]".to_owned(), "out/id", "a sandboxed command may have made it"),
            ("read = [\"./out/id\"]".into(), keys, "a sandboxed command may have made it"),
            ("read = [\"./o*\"]".into(), keys, "a sandboxed command may have made it"),
            (format!("read = [\"{deep}\"]\ndeny = [\"~/keys\"]"), keys, "refuses that"),
            (format!("write = [\"{deep}\"]\nhide = [\"~/other\"]"), keys, "refuses that"),
            ("deny = [\"./beside\"]".into(), "there/id", "a sandboxed command may move the link"),
            // Not with what another rule grants, either.
            ("write = [\"./out\"]".into(), "there/id", "no plan can be made, so nothing is launched"),
            // Masks by other names.
            ("read = [\"~/keys\"]\ndeny = [\"~/other\"]".into(), keys, "because    deny = \"~/other\""),
            ("read = [\"~/keys\"]\nhide = [\"~/name\"]".into(), keys, "because    hide = \"~/name\""),
            (format!("read = [\"~/keys\"]\ndeny = [\"{deep}/id\"]"), keys, "because    deny"),
            ("read = [\"~/keys\"]\ndeny = [\"~/other/*\"]".into(), keys, "because    deny"),
            // These work.
            ("read = [\"~/keys\"]".into(), keys, "yes"),
            ("read = [\"~/other\"]".into(), "~/other/id", "yes"),
            (format!("read = [\"{deep}\"]"), "~/elsewhere/b/c/l/id", "yes"),
            ("write = [\"./beside\"]\nexecute = [\"./beside\"]".into(), "beside/id", "yes"),
            ("read = [\"./out\", \"~/keys\"]".into(), "out/id", "yes"),
        ] {
            place.write(CONFIG, format!("schema = 1\n[filesystem]\n{rules}\n"));
            let run = place.sh(&[], &format!("cat {path}"));
            let explained = job::finish(place.command(place.binary()).args(["explain", "--path", path]));
            assert_eq!(run.out.contains("secret"), why == "yes", "{rules}: {run:?}");
            assert_eq!(explained.code, i32::from(why != "yes"), "{rules}: {explained:?}");
            assert!(explained.out.contains(why), "{rules}: {explained:?}");
            let json = job::finish(place.command(place.binary()).args(["explain", "--json", "--path", path]));
            assert!(json.out.contains(&format!("\"allowed\": {}", why == "yes")), "{rules}: {json:?}");
        }
    }
}

#[test]
fn explain_says_what_a_lock_does_wherever_a_link_leads() {
    let Some(place) = root() else { return };
    secret(&place);
    place.outside("ln -s keys ~/other");
    let own = "schema = 1\n[filesystem]\nread = [\"~/keys\"]\n";
    place.write(CONFIG, own);
    for (lock, allowed) in [("", true), ("deny = [\"~/other\"]", false), ("hide = [\"~/keys/id\"]", false)] {
        let config = format!("[locked.filesystem]\n{lock}\n");
        let run = job::finish(
            place.administered(&config).args(["run", "--", "cat"]).arg(place.home.join("keys/id")),
        );
        assert_eq!(run.out.contains("secret"), allowed, "{lock}: {run:?}");
        let explained = job::finish(place.administered(&config).args(["explain", "~/keys/id"]));
        assert_eq!(explained.code, i32::from(!allowed), "{lock}: {explained:?}");
        assert_eq!(
            explained.out.contains(", locked (/etc/palisade/config.toml"),
            !allowed,
            "{lock}: {explained:?}"
        );
        assert!(!explained.out.contains("to permit"), "{lock}: {explained:?}");
    }
}

/// Directories above what is hidden keep their names; what lies in them doesn't.
#[test]
fn directories_above_what_is_hidden_keep_their_names() {
    for place in everybody() {
        place.outside(
            "mkdir -p ~/work/a/conf ~/work/b; echo x >~/work/a/conf/key; echo y >~/work/a/conf/file",
        );
        for protect in ["broker", "mounts", "off"] {
            let options = ["--protect", protect, "--hide", "a/conf/key"];
            let run = place.sh(&options, "mv a moved; mv a/conf a/moved");
            assert!(
                run.err.matches("busy").count() == 2 && place.work.join("a/conf/key").exists(),
                "{run:?}"
            );
            let run = place.sh(
                &options,
                "mv a/conf/file a/conf/named && mv b a/conf/ && mv a/conf/b . && mv a/conf/named a/conf/file && ls a/conf",
            );
            assert!(run.ok().contains("file"), "{run:?}");
            // By a pattern it is hidden wherever it is.
            let options = ["--protect", protect, "--hide", "**/key"];
            let run = place.sh(&options, "mv a/conf a/other && cat a/other/key && mv a/other a/conf");
            assert_eq!(run.ok(), "");
        }
        assert_eq!(place.read("work/a/conf/key"), "x\n");
    }
}
