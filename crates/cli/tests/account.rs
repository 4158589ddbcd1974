// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `--account`: a process that escapes the sandbox has only the rights of that account.

use crate::support::{Place, everybody, has, job};
use std::os::unix::fs::PermissionsExt;

/// Root's place and the ordinary user's: the account.
fn people() -> Option<(Place, Place)> {
    let (root, user): (Vec<Place>, Vec<Place>) = everybody().into_iter().partition(Place::is_root);
    // Without root no launch can change its account; `only_root_becomes_somebody_else` tests the refusal even so.
    root.into_iter().zip(user).next()
}

#[test]
fn the_account_is_all_there_is_outside() {
    let Some((root, user)) = people() else { return };
    let account = user.name();
    // What only root may read is granted by name, and can't be read by the account's launcher.
    let secret = root.write("secret", "root's");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(&root.home, std::fs::Permissions::from_mode(0o755)).unwrap();
    let secret = secret.to_str().unwrap();
    let with = |options: &[&str], line: &str| {
        let mut command = root.command(root.binary());
        command.args(["run"]).args(options).args(["--view", "host", "--", "sh", "-c", line]);
        job::finish(command.env("SECRET_OF_ROOT", "x").current_dir("/"))
    };
    assert_eq!(root.outside(&format!("cat {secret}")), "root's");
    let run = with(
        &["--account", account],
        &format!("cat {secret}; id -un; id -G; echo $HOME $USER $SECRET_OF_ROOT"),
    );
    assert!(run.err.contains("Permission denied"), "{run:?}");
    let uid = user.outside("id -u");
    let gid = user.outside("id -g");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.first().copied(), Some(account), "{run:?}");
    // Inside, groups that aren't mapped show as `nogroup`.
    assert_eq!(lines.get(1).copied(), Some(gid.trim()), "{run:?}");
    assert!(lines.get(2).is_some_and(|line| line.ends_with(account) && line.starts_with('/')), "{run:?}");
    // The launcher itself runs as the account, not just the command, and keeps nothing of root's process.
    let script = format!(
        "{} run --account {account} -- sleep 5 & sleep 1; \
         for p in $(pgrep -P $!) $!; do grep -H -e ^Uid -e ^Gid -e ^Groups -e ^CapPrm /proc/$p/status; done; kill $!",
        root.binary().display()
    );
    let seen = root.outside(&script);
    let launcher = seen.lines().rfind(|line| line.contains("Uid:")).unwrap_or_default();
    let all = [uid.trim(); 4].join("\t");
    assert!(launcher.ends_with(&format!("Uid:\t{all}")), "{seen}");
    assert!(
        seen.lines()
            .filter(|line| line.contains("Groups:"))
            .all(|line| line.trim_end().ends_with(&format!("Groups:\t{}", gid.trim()))),
        "{seen}"
    );
    assert!(
        seen.lines()
            .rfind(|line| line.contains("CapPrm:"))
            .is_some_and(|line| line.ends_with("0000000000000000")),
        "{seen}"
    );
}

#[test]
fn profiles_and_options_are_the_accounts() {
    let Some((root, user)) = people() else { return };
    user.write(
        ".config/palisade/profiles/app.toml",
        "schema = 1\nname = \"app\"\n[program]\npath = \"sh\"\narguments = [\"-c\", 'echo \"$*\"', \"x\"]\n[home]\npolicy = \"private\"\n",
    );
    // The account's own home, which its place isn't: the profile is given by its path.
    let profile = user.home.join(".config/palisade/profiles/app.toml");
    let profile = profile.to_str().unwrap();
    let binary = root.binary().to_str().unwrap();
    let run =
        job::finish(root.command(binary).args(["open", "--account", user.name(), profile, "--account", "x"]));
    assert_eq!(run.ok(), "--account x", "{run:?}");
    let run = job::finish(root.command(binary).args([
        "run",
        &format!("--account={}", user.name()),
        "-c",
        "id -un",
    ]));
    assert_eq!(run.ok(), user.name(), "{run:?}");
    for (name, said) in [
        ("no-such-account", "there is no account"),
        ("root", "the account is root's"),
        ("", "there is no account"),
    ] {
        let run = job::finish(root.command(binary).args(["run", "--account", name, "--", "true"]));
        run.refused(125, &[said]);
    }
}

/// A service manager can give a service these two capabilities (`AmbientCapabilities=`). The launch keeps neither.
#[test]
fn a_service_with_two_capabilities_becomes_somebody_else() {
    let Some((root, user)) = people() else { return };
    let given = |capabilities: &str, line: &str| {
        let mut command = root.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args([format!("--inh-caps={capabilities}"), format!("--ambient-caps={capabilities}")]);
        command.arg(root.binary()).args(["run", "--account", user.name(), "--view", "host", "-c", line]);
        job::finish(command.current_dir("/"))
    };
    let both = "-all,+setuid,+setgid";
    let run = given(both, "id -un; grep -h -e ^Cap[IPEA] /proc/self/status | sort -u | cut -f2 | sort -u");
    assert_eq!(run.ok(), format!("{}\n0000000000000000", user.name()), "{run:?}");
    // The launcher itself, not just the command: it is the same process through all changes of program.
    let script = format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps={both} --ambient-caps={both} \
         {} run --account {} --view host -- sleep 5 & \
         for _ in $(seq 100); do pgrep -P $! sleep >/dev/null && break; sleep 0.05; done; \
         grep -e ^Uid -e ^Cap[IPEA] /proc/$!/status | cut -f2 | sort -u; kill $!",
        root.binary().display(),
        user.name()
    );
    assert_eq!(root.outside(&script), format!("0000000000000000\n{}\n", user.uid));
    for one in ["-all,+setuid", "-all,+setgid", "-all"] {
        given(one, "true").refused(125, &["CAP_SETUID and CAP_SETGID"]).with_hint();
    }
    // Capabilities of the file are every user's.
    let copy = root.home.join("palisade");
    std::fs::copy(root.binary(), &copy).unwrap();
    std::fs::set_permissions(&root.home, std::fs::Permissions::from_mode(0o755)).unwrap();
    if !has("python3") {
        return;
    }
    // As `setcap cap_setuid,cap_setgid+ep`.
    root.outside(&format!(
        "python3 -c \"import os, struct; os.setxattr('{}', 'security.capability', \
         struct.pack('<5I', 0x02000001, 0xc0, 0, 0, 0))\"",
        copy.display()
    ));
    let mut command = root.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    command.args(["run", "--account", user.name(), "true"]);
    job::finish(command.current_dir("/")).refused(125, &["CAP_SETUID and CAP_SETGID"]);
}

/// Every verb uses the plan of the launch.
#[test]
fn the_account_is_every_verbs() {
    let Some((root, user)) = people() else { return };
    let ask = |verb: &str, account: &str, words: &[&str]| {
        let mut command = root.command(root.binary());
        job::finish(command.args([verb, "--account", account]).args(words))
    };
    let plan =
        |verb: &str| ask(verb, user.name(), &["--dry-run", "--json", "--", "/bin/true"]).ok().to_owned();
    // The first launch makes directories for caches, on which later plans depend.
    plan("run");
    let launched = plan("run");
    assert!(launched.contains(&format!("\"host_uid\": {}", user.uid)));
    for verb in ["explain", "check", "doctor"] {
        assert!(plan(verb) == launched, "{verb}");
        ask(verb, "no-such-account", &["--dry-run"]).refused(2, &["there is no account"]).with_hint();
    }
    let learned = ask("learn", user.name(), &["--quiet", "--output", "-", "-c", "id -un"]);
    assert!(learned.ok().starts_with(user.name()), "{learned:?}");
    ask("learn", "no-such-account", &["-c", "id"]).refused(125, &["there is no account"]).with_hint();
}

#[test]
fn only_root_becomes_somebody_else() {
    for place in everybody().into_iter().filter(|place| !place.is_root()) {
        let run = place.run(&["--account", "daemon"], &["true"]);
        run.refused(125, &["only root", "can launch as daemon"]).with_hint();
        // Naming the account that the caller already has is allowed.
        let name = place.outside("id -un");
        assert_eq!(place.run(&["--account", name.trim()], &["echo", "same"]).ok(), "same");
    }
}
