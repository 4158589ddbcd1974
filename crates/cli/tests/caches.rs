// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests caches that outlive a launch: they save work, and what one launch puts there reaches no other project, no program
//! of the host, and no launch with more rights.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, eventually, everybody, has, job, ordinary};
use std::os::unix::fs::PermissionsExt;

/// A line of shell inside, in a directory below the home.
fn within(place: &Place, directory: &str, options: &[&str], line: &str) -> Run {
    let mut palisade = place.palisade(options, &["sh", "-c", line]);
    // The programs whose caches are kept are looked for there, too.
    let path = format!("{}:{}", place.home.join("bin").display(), crate::support::PATH);
    job::finish(palisade.current_dir(place.home.join(directory)).env("PATH", path))
}

/// People with a `cargo` in their `PATH`, which is never run, and with `work`, a project that has a cache.
fn people() -> Vec<Place> {
    let places = everybody();
    for place in &places {
        let cargo = place.write("bin/cargo", "#!/bin/sh\n");
        std::fs::set_permissions(cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        within(place, "work", &[], "echo kept >~/.cache/made").ok();
    }
    places
}

const READ: &str = "cat ~/.cache/made";

#[track_caller]
fn has_it(run: &Run) {
    assert_eq!((run.code, run.out.as_str()), (0, "kept\n"), "{run:?}");
}

#[track_caller]
fn lacks_it(run: &Run) {
    assert!(run.code == 1 && run.out.is_empty() && run.err.contains("No such file"), "{run:?}");
}

#[test]
fn caches_outlive_a_launch() {
    for place in people() {
        for options in [&[][..], &["-q"], &["--trace"], &["--stats"], &["--limit", "open_files=500"]] {
            for _cold_and_hot in 0..2 {
                has_it(&within(&place, "work", options, READ));
            }
        }
        // Two launches at once have the same files.
        let line = "echo x >~/.cache/one; until [ -e ~/.cache/two ]; do sleep 0.02; done";
        let mut one = place.palisade(&[], &["timeout", "60", "sh", "-c", line]).spawn().unwrap();
        assert!(eventually(|| within(&place, "work", &[], "cat ~/.cache/one").code == 0));
        within(&place, "work", &[], "echo x >~/.cache/two").ok();
        assert!(one.wait().unwrap().success());
        // Nothing is lost that could be reported, and nothing is left in the home.
        let quiet = within(&place, "work", &[], "mkdir -p ~/.cargo/git/db && echo x >~/.cargo/git/db/y");
        assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "{quiet:?}");
        assert_eq!(within(&place, "work", &[], "cat ~/.cargo/git/db/y").ok(), "x");
        // A row can be a file, which is made at its first use.
        within(&place, "work", &[], "test ! -e ~/.cargo/.global-cache && echo y >~/.cargo/.global-cache")
            .ok();
        assert_eq!(within(&place, "work", &[], "cat ~/.cargo/.global-cache").ok(), "y");
        let go = place.write("bin/go", "#!/bin/sh\n");
        std::fs::set_permissions(go, std::fs::Permissions::from_mode(0o755)).unwrap();
        within(&place, "work", &[], "echo z >~/.config/go/telemetry/weekends").ok();
        assert_eq!(within(&place, "work", &[], "cat ~/.config/go/telemetry/weekends").ok(), "z");
        assert!(!place.home.join(".cache/made").exists() && !place.home.join(".cargo").exists());
        // Where the user has removed them, they begin again.
        place.outside("rm -rf ~/.cache/palisade/projects");
        lacks_it(&within(&place, "work", &[], READ));
        within(&place, "work", &[], "echo kept >~/.cache/made").ok();
        has_it(&within(&place, "work", &[], READ));
        place.assert_all_dead();
    }
}

#[test]
fn they_can_be_turned_off_and_a_kept_home_has_its_own() {
    for place in people() {
        for options in [
            &["--no-caches"][..],
            &["--home", "private", "--home-name", "h"],
            &["--home", "overlay", "--home-name", "h"],
            &["--view", "closure"],
        ] {
            let run = within(&place, "work", options, READ);
            assert_ne!(run.code, 0, "{options:?}: {run:?}");
        }
        place.write(".config/palisade/config.toml", "schema = 1\n[home]\ncaches = false\n");
        assert_ne!(within(&place, "work", &[], READ).code, 0);
        place.outside("rm ~/.config/palisade/config.toml");
        has_it(&within(&place, "work", &[], READ));
        // In the home itself, and above it, the working directory is no project.
        let home = within(&place, "", &[], "cat ~/.cache/made");
        assert_ne!(home.code, 0, "{home:?}");
        assert!(!place.home.join(".cache/made").exists());
        // A path that the policy states is left to it.
        place.write(".cache/shown/file", "of the host\n");
        let shown = within(&place, "work", &["--ro", "~/.cache/shown"], "cat ~/.cache/shown/file");
        assert_eq!(shown.ok(), "of the host");
    }
}

/// Options that give more rights than none. What a launch without them has put into its caches is not there with them.
const MORE: [&[&str]; 10] = [
    &["--allow", "example.com"],
    &["--net", "host"],
    &["--feature", "registry-crates"],
    &["--keep-env", "TOKEN"],
    &["--ro", "../other"],
    &["--rw", "../other"],
    &["--protect", "off"],
    &["--allow-datagrams"],
    &["--feature", "debugger"],
    &["--allow-name", ".vscode"],
];

#[test]
fn what_a_launch_has_made_reaches_no_other_project_and_no_launch_with_more_rights() {
    for place in people() {
        place.outside("mkdir -p ~/other ~/work/below");
        lacks_it(&within(&place, "other", &[], READ));
        lacks_it(&within(&place, "work/below", &[], READ));
        for more in MORE {
            for _cold_and_hot in 0..2 {
                lacks_it(&within(&place, "work", more, READ));
            }
            // The other way around: two launches of different rights don't share either.
            within(&place, "work", more, "echo more >~/.cache/made").ok();
            has_it(&within(&place, "work", &[], READ));
        }
        let host = job::finish(place.command("/bin/sh").args(["-c", READ]));
        assert_ne!(host.code, 0, "{host:?}");
    }
}

#[test]
fn what_a_variable_leads_to_is_a_right() {
    for place in people() {
        place.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nread = [\"${DATA}\"]\n");
        place.outside("mkdir ~/one ~/two");
        let with = |name: &str, line: &str| {
            let mut palisade = place.palisade(&[], &["sh", "-c", line]);
            job::finish(palisade.env("DATA", place.home.join(name)))
        };
        with("one", "echo kept >~/.cache/made").ok();
        has_it(&with("one", READ));
        lacks_it(&with("two", READ));
        has_it(&with("one", READ));
    }
}

#[test]
fn a_cache_is_where_a_variable_says() {
    for place in people() {
        let with = |value: &str, line: &str| {
            let path = format!("{}:{}", place.home.join("bin").display(), crate::support::PATH);
            let mut palisade = place.palisade(&[], &["sh", "-c", line]);
            job::finish(palisade.env("PATH", path).env("CARGO_HOME", place.home.join(value)))
        };
        with("rust", "echo kept >$CARGO_HOME/git/made").ok();
        has_it(&with("rust", "cat $CARGO_HOME/git/made"));
        // Not what leads elsewhere: nothing is made there.
        for elsewhere in ["/usr/rust", "/rust", "rust/../../rust", ".."] {
            with(elsewhere, "! test -e $CARGO_HOME/git/made").ok();
        }
        assert!(!place.home.join("rust").exists());
    }
}

/// Some users have it on another disk.
#[test]
fn the_cache_directory_may_be_a_link() {
    for place in people() {
        place.outside("mv ~/.cache ~/disk; ln -s ~/disk ~/.cache");
        for _cold_and_hot in 0..3 {
            has_it(&within(&place, "work", &[], READ));
        }
        // It leads to another place, and then there is nothing.
        place.outside("mkdir ~/new; ln -sfn ~/new ~/.cache");
        lacks_it(&within(&place, "work", &[], READ));
        within(&place, "work", &[], "echo kept >~/.cache/made").ok();
        has_it(&within(&place, "work", &[], READ));
        place.outside("mkdir -p ~/share; mkdir -p ~/.local; ln -s ~/share ~/.local/share");
        for _cold_and_hot in 0..2 {
            let home = ["--home", "private", "--home-name", "h"];
            within(&place, "work", &home, "echo x >>~/made && test -s ~/made").ok();
        }
        assert_eq!(place.read("share/palisade/homes/h/made"), "x\nx\n");
    }
}

#[test]
fn a_project_at_the_path_of_another_one_gets_caches_of_its_own() {
    for place in people() {
        for _again in 0..3 {
            place.outside("mkdir ~/project");
            lacks_it(&within(&place, "project", &[], READ));
            within(&place, "project", &[], "echo kept >~/.cache/made").ok();
            has_it(&within(&place, "project", &[], READ));
            // The inode number may be the same one. The time of birth isn't.
            place.outside("rm -r ~/project");
        }
        // A project that is moved keeps nothing, and its old path neither.
        place.outside("mv ~/work ~/moved; mkdir ~/work");
        lacks_it(&within(&place, "moved", &[], READ));
        lacks_it(&within(&place, "work", &[], READ));
        place.outside("rmdir ~/work; mv ~/moved ~/work");
        has_it(&within(&place, "work", &[], READ));
    }
}

#[test]
fn downloads_are_seen_without_a_network_and_stay_as_they_are() {
    for place in people() {
        let online: &[&str] = &["--feature", "registry-crates"];
        within(&place, "work", online, "echo crate >~/.cargo/registry/c; echo x >~/.cache/online").ok();
        for _cold_and_hot in 0..2 {
            let seen = within(&place, "work", &[], "cat ~/.cargo/registry/c; cat ~/.cache/online");
            assert_eq!((seen.out.as_str(), seen.code), ("crate\n", 1), "{seen:?}");
            // Other caches aren't shared, and these can't be changed.
            let change = "echo x >~/.cargo/registry/c || rm -rf ~/.cargo/registry/c || \
                          echo x >/var/cache/palisade-downloads/0/cargo-registry/c";
            assert_ne!(within(&place, "work", &[], change).code, 0);
        }
        assert_eq!(within(&place, "work", online, "cat ~/.cargo/registry/c").ok(), "crate");
        // With another right in addition, or in another project, they aren't seen.
        place.outside("mkdir ~/other");
        for (directory, options) in [
            ("work", &["--keep-env", "TOKEN"][..]),
            ("work", &["--ro", "../other"]),
            ("work", &["--allow", "example.com"]),
            ("other", &[]),
        ] {
            let run = within(&place, directory, options, "cat ~/.cargo/registry/c");
            assert_ne!(run.code, 0, "{options:?}: {run:?}");
        }
        // A launch that can't write to the project has fewer rights than one that can: nothing of it is used.
        let read_only: &[&str] = &["--feature", "registry-crates", "--ro", "."];
        within(&place, "work", read_only, "echo worse >~/.cargo/registry/c").ok();
        assert_eq!(within(&place, "work", &[], "cat ~/.cargo/registry/c").ok(), "crate");
    }
}

#[test]
fn the_homes_own_downloads_are_used_without_a_network_and_never_written() {
    for place in people() {
        place.write(".cargo/registry/c", "of the host\n");
        let read = "cat ~/.cargo/registry/c";
        assert_eq!(within(&place, "work", &[], read).ok(), "of the host");
        // With a network new ones can be fetched.
        let online: &[&str] = &["--allow", "static.crates.io"];
        within(&place, "work", online, "echo fetched >~/.cargo/registry/c").ok();
        assert_eq!(within(&place, "work", online, read).ok(), "fetched");
        assert_eq!(within(&place, "work", &[], read).ok(), "fetched");
        assert_eq!(place.read(".cargo/registry/c"), "of the host\n");
    }
}

/// Programs inside own the names in a cache. They lead nothing outside of it.
#[test]
fn links_in_a_cache_lead_nowhere_on_the_host() {
    for place in people() {
        place.write(".ssh/id", "secret\n");
        place.write("victim/file", "kept\n");
        let home = place.home.display();
        let attack = |directory: &str| {
            format!(
                "cd {directory} && mv cache aside; mv cargo-registry away; ln -s {home}/.ssh cache; \
                 ln -s {home}/victim cargo-registry; ln -s {home}/.ssh maven; rm -rf npm; ln -s {home}/victim npm; true"
            )
        };
        for options in [&[][..], &["--feature", "registry-crates"]] {
            within(&place, "work", options, &attack("/var/cache/palisade")).ok();
        }
        let reads =
            "cat ~/.cache/id ~/.cargo/registry/file ~/.cargo/registry/id ~/.m2/repository/id ~/.npm/file";
        let writes = "for d in .cache .cargo/registry .npm; do echo changed >~/$d/file; done; true";
        for options in [&[][..], &["--feature", "registry-crates"], &["--ro", "../bin"]] {
            for _cold_and_hot in 0..2 {
                let run = within(&place, "work", options, &format!("{reads}; {writes}"));
                assert!(!run.out.contains("secret") && !run.out.contains("kept"), "{options:?}: {run:?}");
            }
        }
        assert_eq!(place.read("victim/file"), "kept\n");
        assert_eq!(
            place.outside("ls ~/victim ~/.ssh"),
            format!("{home}/.ssh:\nid\n\n{home}/victim:\nfile\n")
        );
        // A profile's file that is made in a cache follows no such link either.
        place.write(
            ".config/palisade/profiles/made.toml",
            "schema = 1\nname = \"made\"\n[files.write]\n\"~/.npm/new/file\" = \"x\"\n",
        );
        within(
            &place,
            "work",
            &["--profile", "made"],
            "rm -rf /var/cache/palisade/npm; ln -s ~/x /var/cache/palisade/npm",
        );
        within(&place, "work", &["--profile", "made"], "true");
        assert_eq!(place.outside("ls ~/victim"), "file\n");
    }
}

#[test]
fn what_cant_be_kept_is_said_and_the_launch_goes_on() {
    for place in everybody() {
        place.write(".cache", "a file\n");
        let run =
            within(&place, "work", &[], "mkdir -p ~/.cache && echo x >~/.cache/made && cat ~/.cache/made");
        assert!(run.code == 0 && run.out == "x\n", "{run:?}");
        assert!(run.err.contains("caches aren't kept: ") && run.err.contains(".cache/palisade"), "{run:?}");
    }
    for place in people() {
        // Others could have put something there.
        let projects = place.home.join(".cache/palisade/projects");
        let project = std::fs::read_dir(&projects).unwrap().next().unwrap().unwrap().path();
        std::fs::set_permissions(&project, std::fs::Permissions::from_mode(0o777)).unwrap();
        let run = within(&place, "work", &["--limit", "open_files=400"], READ);
        assert!(run.code != 0 && run.err.contains("others may write to it"), "{run:?}");
        std::fs::set_permissions(&project, std::fs::Permissions::from_mode(0o700)).unwrap();
        has_it(&within(&place, "work", &["--limit", "open_files=401"], READ));
    }
}

#[test]
fn caches_are_listed_and_removed() {
    for place in people() {
        within(&place, "work", &[], "mkdir -p ~/go/pkg/mod/m && echo x >~/.cache/f && chmod -R a-w ~/.cache")
            .ok();
        place.outside("mkdir ~/gone");
        within(&place, "gone", &[], "head -c 3000000 /dev/zero >~/.cache/big").ok();
        place.outside("rmdir ~/gone");
        let caches =
            |arguments: &[&str]| job::finish(place.command(place.binary()).arg("caches").args(arguments));
        let work = place.work.display().to_string();
        let listed = caches(&["list"]);
        let lines: Vec<&str> = listed.ok().lines().collect();
        assert!(
            lines.len() == 2 && lines[0].contains("2.9 MiB") && lines[0].contains("is gone"),
            "{listed:?}"
        );
        assert!(lines[1].ends_with(&work), "{listed:?}");
        let json: serde_json::Value = serde_json::from_str(caches(&["list", "--json"]).ok()).unwrap();
        assert_eq!(
            (&json["projects"][0]["gone"], &json["projects"][1]["path"]),
            (&true.into(), &work.into())
        );
        // Without an operand, those that no launch can use any more.
        assert!(caches(&["remove"]).ok().starts_with("removed the caches of 1 projects: 2.9 MiB"));
        assert_eq!(caches(&["remove"]).code, 1);
        has_it(&within(&place, "work", &[], READ));
        assert_eq!(caches(&["remove", "."]).code, 0);
        lacks_it(&within(&place, "work", &[], READ));
        assert_eq!(caches(&["remove", "--all"]).code, 0);
        assert_eq!(caches(&["list"]).code, 1);
        assert_eq!(place.outside("ls ~/.cache/palisade/projects"), "");
    }
}

#[test]
fn a_secret_of_the_policy_is_not_stored() {
    for place in people() {
        within(&place, "work", &["--env", "PASSWORD=s3cret", "--allow", "example.com"], "true").ok();
        assert_eq!(place.outside("grep -rl s3cret ~/.cache || true"), "");
    }
}

/// Real tools: what was fetched or compiled once isn't again.
#[test]
fn a_second_go_build_compiles_nothing() {
    if has("go") {
        let place = ordinary();
        let path = format!("{}:/usr/local/go/bin", crate::support::PATH);
        place.write("work/go.mod", "module x\ngo 1.20\n");
        place.write("work/main.go", "package main\nfunc main() { println(1) }\n");
        let build = || {
            let mut palisade = place.palisade(&[], &["go", "build", "-x", "-o", "x", "."]);
            job::finish(palisade.env("PATH", &path))
        };
        let first = build();
        assert!(first.code == 0 && first.err.contains("/compile"), "{first:?}");
        std::fs::remove_file(place.work.join("x")).unwrap();
        let second = build();
        assert!(second.code == 0 && !second.err.contains("/compile"), "{second:?}");
        assert!(!place.home.join(".cache/go-build").exists() && place.work.join("x").exists());
    }
}
