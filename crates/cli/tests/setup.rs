// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade setup` where this kernel needs no profile, and where it only seems to need one. The guest's boot `apparmor`
//! has a kernel that does.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::terminal::Terminal;
use crate::support::{self, Place, Run, everybody, has, job};
use std::os::unix::fs::PermissionsExt;

/// What setup could change.
fn host() -> Vec<String> {
    let mut found = Vec::new();
    for directory in ["/etc/apparmor.d", "/usr/local/bin"] {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            found.push(entry.path().display().to_string());
        }
    }
    found.sort();
    found
}

fn setup(place: &Place, options: &[&str]) -> Run {
    job::finish(place.command(place.binary()).arg("setup").args(options))
}

#[test]
fn a_host_that_refuses_nothing_is_left_as_it_is() {
    if !has("userns") {
        return;
    }
    let before = host();
    for place in everybody() {
        for options in [&[][..], &["--yes"], &["--dry-run"], &["--check"]] {
            let run = setup(&place, options);
            assert_eq!(run.code, 0, "{options:?}: {run:?}");
            assert!(run.out.contains("nothing is needed"), "{options:?}: {run:?}");
        }
        let undo = setup(&place, &["--undo", "--yes"]);
        assert_eq!(undo.code, 1, "{undo:?}");
        assert!(undo.out.contains("nothing that palisade setup has installed"), "{undo:?}");
    }
    assert_eq!(host(), before);
}

#[test]
fn what_a_profile_does_not_help_against_is_named_and_nothing_is_changed() {
    if !has("userns") {
        return;
    }
    let before = host();
    for place in everybody() {
        let script = "echo 0 >/proc/sys/user/max_user_namespaces || exit 99; $P setup --yes; echo code $?";
        let binary = place.binary().to_str().unwrap();
        let said = place.outside(&format!("P={binary} unshare -Ur sh -c '{script}' 2>&1"));
        assert!(
            said.contains("a profile for AppArmor doesn't help: user.max_user_namespaces is 0"),
            "{said}"
        );
        assert!(said.contains("code 2"), "{said}");
    }
    assert_eq!(host(), before);
}

/// A filter is told from a security module: both answer EPERM or "no such call".
#[test]
fn a_filter_is_named_inside_another_sandbox() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        let binary = place.binary().to_str().unwrap();
        let check = place.run(&["--ro", binary], &[binary, "setup", "--check"]);
        assert_eq!(check.code, 2, "{check:?}");
        assert!(check.err.contains("a seccomp filter refuses user namespaces"), "{check:?}");
        let launch = place.run(&["--ro", binary], &[binary, "run", "--", "true"]);
        assert_eq!(launch.code, 125, "{launch:?}");
        assert!(launch.err.contains("a seccomp filter refuses user namespaces"), "{launch:?}");
        assert!(launch.err.contains("hint: palisade run --best-effort …"), "{launch:?}");
    }
}

/// Runs lines of shell as root where AppArmor seems to refuse user namespaces, as in the tests of hints. `$P` is palisade.
fn refusing(place: &Place, lines: &str) -> Run {
    let mut command = place.command("refusing");
    job::finish(command.arg(lines).env("PATH", shims(place)).env("P", place.binary()))
}

/// The path with the programs of the tests of hints.
fn shims(place: &Place) -> String {
    let programs = place.home.join("shims");
    std::fs::create_dir_all(&programs).unwrap();
    for (name, text) in
        [("apart", include_str!("hints/apart.sh")), ("refusing", include_str!("hints/refusing.sh"))]
    {
        std::fs::write(programs.join(name), text).unwrap();
        std::fs::set_permissions(programs.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", programs.display(), support::PATH)
}

/// The place of root, where the host's directories can be copied.
fn root() -> Option<Place> {
    support::root().filter(|_| has("userns") && has("overlay"))
}

/// The trial at the end fails here, because no profile changes what this kernel refuses.
#[test]
fn a_profile_that_does_not_help_is_taken_back() {
    let Some(place) = root() else { return };
    let before = host();
    let lines = "
        list() { ls -lA --time-style=full-iso /etc/apparmor.d /usr/local/bin; }
        list >before
        $P setup --yes; echo code $?
        list >after; cmp before after && echo as before
        mkdir -m 777 open; cp $P open/palisade; open/palisade setup --yes; echo code $?
        list >after; cmp before after && echo as before, too
        [ -e /usr/sbin/apparmor_parser ] && rm /usr/sbin/apparmor_parser; $P setup --yes; echo code $?";
    let run = refusing(&place, lines);
    assert!(
        run.err.contains("nothing is changed: with the profile, a launch by user 65534 still fails"),
        "{run:?}"
    );
    assert!(run.out.contains("code 2\nas before\n"), "{run:?}");
    assert!(run.out.contains("code 2\nas before, too\n"), "{run:?}");
    assert!(run.err.contains("there is no apparmor_parser on this host"), "{run:?}");
    assert_eq!(host(), before);
}

#[test]
fn each_change_is_shown_before_it_is_made() {
    let Some(place) = root() else { return };
    let run = refusing(&place, "$P setup --check; echo code $?; $P setup --dry-run");
    let why = "AppArmor refuses user namespaces to programs without a profile";
    assert!(run.out.starts_with(why) && run.out.contains("code 1\n"), "{run:?}");
    let name = run.out.lines().find_map(|line| line.strip_prefix("  write /etc/apparmor.d/")).unwrap();
    let name = name.split(' ').next().unwrap();
    let shown =
        format!("    | profile {name} {} flags=(unconfined) {{\n    |   userns,\n", place.binary().display());
    assert!(run.out.contains(&shown), "{run:?}");
    // A program that others can write, or that a profile can't name, gets a copy.
    let lines = "
        mkdir -m 777 open; cp $P open/palisade; open/palisade setup --dry-run
        mkdir 'a b'; cp $P 'a b'/palisade; chmod 711 ~ .; 'a b'/palisade setup --dry-run";
    let run = refusing(&place, lines);
    assert_eq!(
        run.out.matches("install a copy of this program as /usr/local/bin/palisade").count(),
        2,
        "{run:?}"
    );
    assert!(
        run.out.contains("others than root can write to")
            && run.out.contains("a profile can't have the path")
    );
    assert!(!run.out.contains("| profile palisade /usr/bin/palisade "), "{run:?}");
}

/// What is there and isn't setup's own stays: it is neither replaced nor removed.
#[test]
fn what_others_have_installed_stays() {
    let Some(place) = root() else { return };
    let lines = "
        mkdir -m 777 open; cp $P open/palisade
        echo another >/usr/local/bin/palisade; open/palisade setup --yes; echo code $?; cat /usr/local/bin/palisade
        rm /usr/local/bin/palisade; ln -s /usr/bin/true /usr/local/bin/palisade; open/palisade setup --yes; echo code $?
        readlink /usr/local/bin/palisade; rm /usr/local/bin/palisade
        echo '# mine' >/etc/apparmor.d/palisade-mine; $P setup --undo --yes; echo code $?; cat /etc/apparmor.d/palisade-mine
        head=$($P setup --dry-run | sed -n 's/^    | \\(# Written by\\)/\\1/p')
        printf '%s\\n# Installed with it: /usr/local/bin/palisade 1 1\\n' \"$head\" >/etc/apparmor.d/palisade-old
        echo another >/usr/local/bin/palisade; $P setup --undo --yes; echo code $?
        cat /usr/local/bin/palisade; ls /etc/apparmor.d";
    let run = refusing(&place, lines);
    let why = "AppArmor refuses user namespaces to programs without a profile (kernel.apparmor_restrict_unprivileged_userns)";
    let expected = format!(
        "{why}\n\ncode 2\nanother\n{why}\n\ncode 2\n/usr/bin/true\n\
         there is nothing that palisade setup has installed\ncode 1\n# mine\n\
         As root:\n  unload and remove /etc/apparmor.d/palisade-old\n  keep the changed /usr/local/bin/palisade\n\
         removed /etc/apparmor.d/palisade-old\ncode 0\nanother\n"
    );
    assert!(run.out.starts_with(&expected) && !run.out[expected.len()..].contains("palisade-old"), "{run:?}");
}

/// On a terminal the user is asked. Only "yes" changes something.
#[test]
fn the_user_is_asked_once() {
    let Some(place) = root().filter(|_| has("tmux")) else { return };
    let (path, binary) = (shims(&place), place.binary().display());
    let terminal = Terminal::open(&place);
    terminal.resize(200, 60);
    let line =
        format!("PATH={path} P={binary} refusing '$P setup; echo code $?; ls -A /etc/apparmor.d >list'");
    terminal.line(&line);
    terminal.wait_for("Change this? [y/N]");
    terminal.line("n");
    terminal.wait_for_line("code 1");
    assert!(terminal.screen().contains("palisade: note: nothing is changed"), "{}", terminal.screen());
    assert!(!place.outside("cat list").contains("palisade"));
    terminal.line("clear");
    terminal.line(&line);
    terminal.wait_for("Change this? [y/N]");
    terminal.line("y");
    terminal.wait_for_line("code 2");
    let screen = terminal.screen();
    assert!(screen.contains("still fails") && screen.matches("Change this?").count() == 1, "{screen}");
}
