// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests each option of `palisade run` in pairs: what it permits and what it doesn't.

use crate::support::{Place, eventually, everybody, has, job, root};

/// A home with `data/{in,sub/deep}` and a secret beside it.
fn with_data(test: impl Fn(&Place)) {
    for place in everybody() {
        place.write("data/in", "data");
        place.write("data/sub/deep", "deep");
        place.write("data/tool", "#!/bin/sh\necho tool\n");
        place.outside("chmod +x ~/data/tool");
        place.write("secret", "secret");
        test(&place);
    }
}

#[test]
fn the_home_is_empty_but_for_what_is_shown() {
    with_data(|place| {
        let line = "cat ~/secret ~/data/in; ls -A ~; echo x >~/mine && cat ~/mine";
        assert_eq!(place.sh(&["--no-caches"], line).ok(), "work\nx");
        // Apart from links to caches, and directories with them.
        let line = "cat ~/secret ~/data/in; find ~ -mindepth 1 -maxdepth 1 -type f; ls -d ~/[!.]*; find ~/.* -type f";
        let run = place.sh(&[], line);
        let expected = format!("{}\n", place.work.display());
        assert!(
            run.out == expected || run.out == format!("{}/go\n{expected}", place.home.display()),
            "{run:?}"
        );
        assert!(!place.home.join("mine").exists());
        assert_eq!(place.outside("cat ~/secret ~/data/in"), "secretdata", "it works outside");
    });
}

#[test]
fn ro_shows_and_executes_but_does_not_write() {
    with_data(|place| {
        let run = place.sh(&["--ro", "~/data"], "cat ~/data/in ~/data/sub/deep; ~/data/tool; for f in ~/data/in ~/data/new ~/data/sub/new; do echo x >$f && echo wrote $f; done; rm -f ~/data/in; mv ~/data ~/moved; cat ~/secret");
        assert_eq!(run.out, "datadeeptool\n", "{run:?}");
        assert_eq!(place.read("data/in"), "data");
        let file = place.sh(&["--ro", "~/data/in"], "cat ~/data/in; ls ~/data; echo x >~/data/in");
        assert_eq!((file.out.as_str(), file.code), ("datain\n", 2), "{file:?}");
    });
}

#[test]
fn rw_shows_and_writes() {
    with_data(|place| {
        let run = place.sh(&["--rw", "~/data"], "echo new >~/data/sub/new; echo more >>~/data/in; mkdir ~/data/d; mv ~/data/sub/deep ~/data/d/moved; ~/data/tool; cat ~/secret");
        assert_eq!(run.out, "tool\n", "{run:?}");
        assert_eq!(
            (place.read("data/sub/new"), place.read("data/in"), place.read("data/d/moved")),
            ("new\n".into(), "datamore\n".into(), "deep".into())
        );
        place.sh(&["--rw", "~/secret"], "echo changed >~/secret").ok();
        assert_eq!(place.read("secret"), "changed\n");
    });
}

#[test]
fn a_path_can_be_shown_elsewhere() {
    with_data(|place| {
        let run = place.sh(
            &["--ro", "~/data=/mnt/data", "--rw", "~/data/sub=/mnt/sub"],
            "cat /mnt/data/in /mnt/sub/deep; ls -d ~/data; echo x >/mnt/data/new; echo y >/mnt/sub/new",
        );
        assert_eq!(run.out, "datadeep", "{run:?}");
        assert!(!place.home.join("data/new").exists());
        assert_eq!(place.read("data/sub/new"), "y\n");
    });
}

#[test]
fn paths_nest() {
    with_data(|place| {
        let run =
            place.sh(&["--ro", "~/data", "--rw", "~/data/sub"], "echo x >~/data/sub/new; echo x >~/data/new");
        assert_eq!(run.code, 2, "{run:?}");
        assert!(place.home.join("data/sub/new").exists() && !place.home.join("data/new").exists());
        let run = place.sh(
            &["--rw", "~/data", "--ro", "~/data/sub"],
            "echo x >~/data/new; echo x >~/data/sub/more; mv ~/data/sub ~/data/aside",
        );
        assert_ne!(run.code, 0);
        assert!(
            place.home.join("data/new").exists()
                && !place.home.join("data/sub/more").exists()
                && place.home.join("data/sub").exists()
        );
    });
}

#[test]
fn links_are_followed_when_given_and_lead_nowhere_else() {
    with_data(|place| {
        place.outside("ln -s data ~/link; ln -s ../secret ~/data/out; ln -s ~/secret ~/work/out");
        let run = place.sh(&["--ro", "~/link"], "cat ~/link/in; cat ~/link/out out");
        assert_eq!(run.out, "data", "{run:?}");
        let run = place.sh(&["--ro", "~/.//data/./sub/"], "cat ~/data/sub/deep");
        assert_eq!(run.ok(), "deep");
        place.sh(&["--ro", "../link/../secret"], "true").refused(125, &[".."]).with_hint();
    });
}

#[test]
fn hide_makes_absent_or_empty_and_deny_refuses() {
    with_data(|place| {
        place.outside(
            "mkdir private; echo p >private/p; echo e >.env; mkdir -p a/b; echo e >a/b/.env; echo keep >keep",
        );
        let run = place.sh(
            &["--hide", "./private", "--hide", "**/.env"],
            "cat private/p .env a/b/.env; ls -A private; cat keep",
        );
        assert_eq!(run.out, "keep\n", "{run:?}");
        let run = place.sh(
            &["--deny", "./private", "--deny", "**/.env"],
            "cat private/p .env a/b/.env; ls private; cat keep",
        );
        assert_eq!(run.out, "keep\n", "{run:?}");
        assert!(run.err.matches("ermission denied").count() >= 4, "{run:?}");
        // And they can't be moved aside, written or removed.
        let run = place.sh(
            &["--hide", "./private", "--deny", "./.env"],
            "mv private elsewhere; mv .env elsewhere; echo x >.env; rm -f .env; rmdir private; true",
        );
        assert_eq!(run.code, 0);
        assert_eq!(place.outside("cat private/p .env a/b/.env"), "p\ne\ne\n");
        // Within something shown, under either name.
        let run = place.sh(
            &["--ro", "~/data", "--hide", "~/data/sub", "--deny", "~/data/in"],
            "ls -A ~/data/sub; cat ~/data/in; ~/data/tool",
        );
        assert_eq!(run.out, "tool\n", "{run:?}");
        // A system file too.
        assert_eq!(place.sh(&["--hide", "/etc/passwd"], "wc -c </etc/passwd").ok(), "0");
    });
}

#[test]
fn tmpfs_is_private_and_empty() {
    with_data(|place| {
        place.outside("mkdir scratch; echo host >scratch/file");
        let run = place.sh(&["--tmpfs", "./scratch", "--tmpfs", "~/fresh/nested"], "ls -A scratch ~/fresh/nested; echo x >scratch/file; echo y >~/fresh/nested/y; cat scratch/file ~/fresh/nested/y");
        assert!(run.ok().ends_with("x\ny"), "{run:?}");
        assert_eq!(place.read("work/scratch/file"), "host\n");
        assert!(!place.home.join("fresh").exists());
    });
}

#[test]
fn variables_are_filtered_set_and_kept() {
    for place in everybody() {
        let env = |options: &[&str]| {
            let mut palisade = place.palisade(options, &["env"]);
            for (name, value) in [
                ("GITHUB_TOKEN", "t"),
                ("AWS_SECRET_ACCESS_KEY", "k"),
                ("DB_PASSWORD", "p"),
                ("SSH_AUTH_SOCK", "/s"),
                ("LD_PRELOAD", ""),
                ("ORDINARY", "o"),
                ("AWS_REGION", "r"),
            ] {
                palisade.env(name, value);
            }
            job::finish(&mut palisade).ok().to_owned()
        };
        let plain = env(&[]);
        for secret in ["GITHUB_TOKEN", "AWS_SECRET", "DB_PASSWORD", "SSH_AUTH_SOCK", "LD_PRELOAD"] {
            assert!(!plain.contains(secret), "{plain}");
        }
        assert!(plain.contains("ORDINARY=o") && plain.contains("AWS_REGION=r"), "{plain}");
        assert!(env(&["--keep-env", "GITHUB_*"]).contains("GITHUB_TOKEN=t"));
        let set = env(&["--env", "NEW=a=b c", "--env", "ORDINARY=changed"]);
        assert!(
            set.contains("NEW=a=b c") && set.contains("ORDINARY=changed") && !set.contains("ORDINARY=o"),
            "{set}"
        );
        // The given values are not stored on disk.
        let kept = place.outside("grep -rl 'a=b c' ~/.cache 2>/dev/null; true");
        assert_eq!(kept, "");
    }
}

#[test]
fn resource_limits_hold() {
    for place in everybody() {
        for (limit, shown, value) in [
            ("open_files=64", "-n", "64"),
            ("core_size=0", "-c", "0"),
            ("stack=1M", "-s", "1024"),
            ("cpu_time=7", "-t", "7"),
            ("file_size=1M", "-f", "1024"),
            ("address_space=1G", "-v", "1048576"),
            ("locked_memory=64K", "-l", "64"),
        ] {
            let run = place.run(&["--limit", limit], &["bash", "-c", &format!("ulimit {shown}")]);
            assert_eq!(run.ok(), value, "{limit}");
        }
        let run = place.sh(&["--limit", "file_size=4K"], "head -c 100000 /dev/zero >large; wc -c <large");
        assert_eq!(run.out.trim(), "4096", "{run:?}");
    }
}

/// What the broker remembers counts as the command's memory. The group is removed at the end.
#[expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]
fn the_broker_is_in_the_commands_group(place: &Place) {
    let mut palisade = place.palisade(&["--limit", "memory=800M"], &["sh", "-c", "mkdir made; sleep 60"]);
    let mut child = palisade.spawn().unwrap();
    assert!(eventually(|| ["sleep", "palisade-broker"]
        .iter()
        .all(|name| job::below(child.id(), name).is_some())));
    let group_of = |name: &str| {
        let process = job::below(child.id(), name).unwrap().as_raw_pid();
        let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
        let end = format!("/palisade-{}", child.id());
        groups.lines().find_map(|line| line.ends_with(&end).then(|| line.to_owned()))
    };
    let group = group_of("sleep").unwrap();
    assert_eq!(group_of("palisade-broker"), Some(group.clone()));
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    child.wait().unwrap();
    let path = group.rsplit(':').next().unwrap();
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"] {
        assert!(!std::path::Path::new(&format!("{root}{path}")).exists(), "{root}{path}");
    }
}

#[test]
fn group_limits_hold_or_say_that_they_cannot() {
    if let Some(place) = root().filter(|_place| has("cgroup-limits")) {
        let hungry = "import sys; x = bytearray(400 << 20); print('got it')";
        let run = place.run(&["--limit", "memory=100M"], &["/usr/bin/python3", "-c", hungry]);
        assert_eq!((run.code, run.out.as_str()), (137, ""), "{run:?}");
        assert_eq!(
            place.run(&["--limit", "memory=800M"], &["/usr/bin/python3", "-c", hungry]).ok(),
            "got it"
        );
        the_broker_is_in_the_commands_group(&place);
        let many = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; wait; echo all";
        let run = place.sh(&["--limit", "processes=5"], many);
        assert!(!run.out.contains("all"), "{run:?}");
        assert_eq!(place.sh(&["--limit", "processes=50"], many).ok(), "all");
        // More than there can be.
        assert_eq!(place.sh(&["--limit", "processes=5000000"], many).ok(), "all");
    }
    for place in everybody().into_iter().filter(|place| !place.is_root()) {
        place.run(&["--limit", "memory=100M"], &["true"]).refused(125, &["memory"]).with_hint();
        let run = place.run(&["--limit", "memory=100M", "--best-effort"], &["echo", "runs"]);
        assert_eq!(run.ok(), "runs");
        assert!(run.err.contains("memory"), "{run:?}");
    }
}

#[test]
fn the_network_is_none_or_the_hosts() {
    for place in everybody() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let program = format!(
            "import socket; socket.create_connection(('127.0.0.1', {}), 5); print('connected')",
            server.local_addr().unwrap().port()
        );
        let run = place.run(&[], &["/usr/bin/python3", "-c", &program]);
        assert!(run.code == 1 && run.err.contains("refused"), "{run:?}");
        assert_eq!(place.run(&["--net", "host"], &["/usr/bin/python3", "-c", &program]).ok(), "connected");
        assert_eq!(place.sh(&[], "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '").ok(), "lo");
    }
}

#[test]
fn names_and_numbers_can_be_chosen() {
    for place in everybody() {
        let run = place.sh(
            &["--hostname", "box", "--uid", "1234", "--gid", "4321"],
            "uname -n; id -u; id -g; echo x >made",
        );
        assert_eq!(run.out, "box\n1234\n4321\n", "{run:?}");
        if place.is_root() {
            // Owners are mapped to 0 inside, which the command isn't: it can only read.
            assert!(!place.work.join("made").exists());
            continue;
        }
        let owner = place.outside("stat -c %u:%g made");
        assert_eq!(owner.trim(), format!("{}:{}", place.uid, place.gid));
    }
}

#[test]
fn the_host_view_is_read_only() {
    with_data(|place| {
        let run =
            place.sh(&["--view", "host"], "cat ~/secret; touch ~/new /new; echo w >written; ls /tmp | wc -l");
        assert_eq!(run.out, "secret0\n", "{run:?}");
        assert!(!place.home.join("new").exists());
        assert_eq!(place.read("work/written"), "w\n");
    });
}

#[test]
fn without_namespaces_landlock_and_seccomp_hold() {
    with_data(|place| {
        let run = place.sh(
            &["--namespaces", "none"],
            "echo w >written; cat ~/secret; echo x >~/new; echo x >/tmp/palisade-new; cat ~/data/in",
        );
        assert_eq!(run.out, "", "{run:?}");
        assert_eq!(place.read("work/written"), "w\n");
        assert!(!place.home.join("new").exists());
        let run = place.run(
            &["--namespaces", "none", "--ro", "~/data"],
            &["cat", place.home.join("data/in").to_str().unwrap()],
        );
        assert_eq!(run.ok(), "data");
        let run = place
            .run(&["--namespaces", "none"], &["/usr/bin/python3", "-c", "import socket; socket.socket()"]);
        assert_ne!(run.code, 0, "{run:?}");
        let run = place.run(&["--namespaces", "none"], &["unshare", "-U", "true"]);
        assert_ne!(run.code, 0, "{run:?}");
    });
}

#[test]
fn credentials_of_tools_are_absent_even_beside_what_is_shown() {
    for place in everybody() {
        for file in [
            ".cargo/credentials.toml",
            ".cargo/credentials",
            ".npmrc",
            ".ssh/id_rsa",
            ".aws/credentials",
            ".netrc",
            ".git-credentials",
            ".config/gh/hosts.yml",
            ".pypirc",
            ".docker/config.json",
            ".gnupg/x",
        ] {
            place.write(file, "secret-of-tool");
        }
        place.write(".cargo/bin/tool", "#!/bin/sh\necho tool\n");
        place.outside("chmod +x ~/.cargo/bin/tool");
        let run = place.sh(&[], "cat ~/.cargo/credentials* ~/.npmrc ~/.ssh/* ~/.aws/* ~/.netrc ~/.git-credentials ~/.config/gh/* ~/.pypirc ~/.docker/* ~/.gnupg/*; grep -r secret-of-tool ~ /proc/self/environ; true");
        assert_eq!(run.ok(), "", "{run:?}");
    }
}

#[test]
fn palisades_own_places_cannot_be_changed_from_inside() {
    for place in everybody() {
        let own = [".config/palisade", ".cache/palisade", ".local/state/palisade", ".local/share/palisade"];
        for directory in own {
            place.write(&format!("{directory}/there"), "own");
        }
        let attack = "for d in .config .cache .local/state .local/share; do
echo evil >~/$d/palisade/there; echo evil >~/$d/palisade/new; mkdir ~/$d/palisade/plans
mv ~/$d ~/aside && mkdir -p ~/$d/palisade && echo evil >~/$d/palisade/config.toml
mv ~/$d/palisade ~/$d/aside; ln -s /tmp ~/$d/palisade; rm -rf ~/$d/palisade; done; mv ~/.local ~/local-aside; echo works >~/written; true";
        let run = place.sh(&["--rw", "~"], attack);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(place.read("written"), "works\n");
        for directory in own {
            assert_eq!(place.read(&format!("{directory}/there")), "own", "{directory}");
            assert!(!place.home.join(directory).join("new").exists(), "{directory}");
            assert!(!place.home.join(directory).join("config.toml").exists(), "{directory}");
        }
        // Where they aren't there yet, too.
        place.outside("rm -rf ~/.config ~/.cache ~/.local");
        place
            .sh(
                &["--rw", "~"],
                "mkdir -p ~/.config/palisade; echo 'schema = 1' >~/.config/palisade/config.toml; true",
            )
            .ok();
        assert!(!place.home.join(".config/palisade/config.toml").exists());
        // Naming one directly doesn't permit it either.
        place.run(&["--rw", "~/.config/palisade"], &["true"]).refused(125, &["palisade"]).with_hint();
    }
}
