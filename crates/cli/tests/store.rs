// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the system store: files that a user's programs write no longer count as policies or plans.
//!
//! Each test has its own `/var/lib` and `/etc/palisade` in a mount namespace, so other launches on the host aren't affected.

use crate::support::{Place, Run, everybody, has, job};

/// Root's place and the ordinary user's.
fn people() -> Option<(Place, Place)> {
    let (root, user): (Vec<Place>, Vec<Place>) = everybody().into_iter().partition(Place::is_root);
    root.into_iter().zip(user).next()
}

const SYSTEM: &str = "schema = 1\nname = \"app\"\n[program]\npath = \"/bin/sh\"\narguments = [\"-c\", 'echo system $(ls -d /opt 2>&1)', \"x\"]\n";
const USERS: &str = "schema = 1\nname = \"app\"\ninherits = []\n[program]\npath = \"/bin/sh\"\narguments = [\"-c\", 'echo users $(ls -d /opt 2>&1)', \"x\"]\n";

/// Runs a script as root, in a mount namespace with its own system directories. `$P` is palisade, `as` runs a line as the user.
fn script(root: &Place, user: &Place, lines: &str) -> Run {
    let name = user.name();
    let home = user.home.display();
    let prologue = format!(
        r#"set -u
mount -t tmpfs none /var/lib; mkdir -p /etc/palisade; mount -t tmpfs none /etc/palisade
mkdir -p /etc/palisade/profiles; umask 022
cat >/etc/palisade/profiles/app.toml <<'END'
{SYSTEM}END
P={binary}; U={uid}; H={home}
as() {{ cd "$H"; setpriv --reuid {uid} --regid {gid} --init-groups env -i HOME="$H" USER={name} PATH=/usr/bin:/bin P="$P" sh -c "$1"; cd /; }}
"#,
        binary = root.binary().display(),
        uid = user.outside("id -u").trim(),
        gid = user.outside("id -g").trim(),
    );
    job::finish(
        root.command("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg(format!("{prologue}{lines}"))
            .current_dir("/"),
    )
}

#[test]
fn only_the_systems_policy_counts() {
    let Some((root, user)) = people() else { return };
    user.write(".config/palisade/profiles/app.toml", USERS);
    user.write(".config/palisade/profiles/own.toml", USERS.replace("\"app\"", "\"own\""));
    user.write(".config/palisade/config.toml", "schema = 1\n[network]\nmode = \"host\"\n");
    let run = script(
        &root,
        &user,
        r#"
as '$P open app'
as '$P open own'
$P store status; echo "status $?"
$P store enable 2>/dev/null; echo "enabled $?"
as '$P open app'
as '$P open own' 2>&1 | head -n 1
as '$P open ~/.config/palisade/profiles/app.toml' 2>&1 | head -n 1
as '$P run -- sh -c "ls /sys/class/net"'
as '$P store enable' 2>&1 | head -n 1
as 'rm -r /var/lib/palisade/plans' 2>/dev/null; $P store status
$P store disable; echo "disabled $?"
as '$P open app'
"#,
    );
    let lines: Vec<&str> = run.out.lines().collect();
    let expected = [
        "users /opt",
        "users /opt",
        "/var/lib/palisade/plans: not there",
        "status 1",
        "enabled 0",
        "system ls: ",
        "palisade: error: there is no profile \"own\"",
        "isn't the system's, and this host allows only the system's policy",
        "palisade: error: only root can change the system's store",
        "/var/lib/palisade/plans: only the system's policy counts",
        "disabled 0",
        "users /opt",
    ];
    let mut said = lines.iter();
    for wanted in expected {
        assert!(said.any(|line| line.contains(wanted)), "{wanted}: {run:?}");
    }
}

/// A plan that was printed while the user's own policy counted.
#[test]
fn a_plan_in_a_file_brings_no_policy_back() {
    let Some((root, user)) = people() else { return };
    user.write("data/file", "secret");
    user.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nread = [\"~/data\"]\n");
    let run = script(
        &root,
        &user,
        r#"
as 'cd work; $P run --dry-run --json -- true >../plan.json; $P run --plan ../plan.json -- cat ../data/file; echo " before $?"'
$P store enable 2>/dev/null
as 'cd work; $P run --plan ../plan.json -- cat ../data/file; echo "enabled $?"' 2>&1
as 'cd work; $P run --ro ../data --dry-run --json -- true >../plan.json; $P run --ro ../data --plan ../plan.json -- cat ../data/file; echo " option $?"'
$P store disable
"#,
    );
    let said = |wanted: &str| run.out.contains(wanted);
    assert!(said("secret before 0\n"), "{run:?}");
    assert!(
        said("differs from the plan that the policy and these options make") && said("\nenabled 125\n"),
        "{run:?}"
    );
    assert_eq!(run.out.matches("secret").count(), 2, "{run:?}");
    assert!(said("secret option 0\n"), "an option counts, as long as nothing is locked: {run:?}");
}

#[test]
fn plans_come_from_the_store_and_from_nowhere_else() {
    let Some((root, user)) = people().filter(|_| has("strace")) else { return };
    let run = script(
        &root,
        &user,
        r#"
$P profile refresh app --user nobody-at-all 2>&1 | head -n 1
$P store enable 2>/dev/null
as '$P open app; $P open app' >/dev/null
echo "own plans: $(ls "$H/.cache/palisade/plans" 2>/dev/null | wc -l), kept: $(ls /var/lib/palisade/plans/$U 2>/dev/null | wc -l)"
as 'exec env -i HOME="$HOME" USER="$USER" PATH=/usr/bin:/bin sleep 31' >/dev/null 2>&1 &
tries=0; until L=$(pgrep -u $U -f '^sleep 31' | tail -n 1) && [ -n "$L" ] || [ $tries -gt 1000 ]; do sleep 0.02; tries=$((tries + 1)); done
$P profile refresh app --user NAME --like $L 2>/dev/null; echo "unknown user $?"
$P profile refresh app --user "$(id -un $U)" --like $L; echo "refreshed $?"
$P store status
stat -c '%u %a' /var/lib/palisade/plans/$U /var/lib/palisade/plans/$U/*.plan
as 'strace -o trace $P open app; grep -c getdents trace; grep -c "[.]plan\"" trace'
as 'echo x >/var/lib/palisade/plans/$(id -u)/x' 2>&1 | grep -c denied
printf '# newer\n' >>/etc/palisade/profiles/app.toml
as '$P open app'
kill $L
"#,
    );
    let says = |wanted: &str| assert!(run.out.lines().any(|line| line.contains(wanted)), "{wanted}: {run:?}");
    says("the system store isn't enabled");
    says("own plans: 0, kept: 0");
    says("unknown user 2");
    says("refreshed 0");
    says(": 1 plans");
    says("0 755");
    says("0 644");
    // Once from the plan, in which no directory is listed, and once after the profile has changed.
    assert_eq!(run.out.lines().filter(|line| line.starts_with("system ls: ")).count(), 2, "{run:?}");
    let traced: Vec<&str> =
        run.out.lines().skip_while(|line| !line.starts_with("system")).skip(1).take(2).collect();
    assert_eq!(traced, ["0", "1"], "no directory is listed, one plan is read: {run:?}");
    says("1");
}

/// What makes a user's plan can't be steered by the user's other processes.
#[test]
fn who_plans_cannot_be_traced() {
    let Some((root, user)) = people() else { return };
    let run = script(
        &root,
        &user,
        r#"
# A profile of every program there is: its plan is in the making for long enough to be seen.
{ printf '[closure]\nprograms = ['; for name in $(ls /usr/bin); do [ -f "/usr/bin/$name" ] && printf '"%s", ' "$name"; done; echo ']'; } >>/etc/palisade/profiles/app.toml
$P store enable 2>/dev/null
(i=0; while [ $i -lt 100 ] && [ ! -e "$H/enough" ]; do i=$((i + 1)); $P profile refresh app --hard --user "$(id -un $U)" >/dev/null 2>&1; done; touch /var/lib/done) &
as 'n=0; while [ ! -e /var/lib/done ]; do for p in $(pgrep -u $(id -u) -f "profile [r]efresh"); do [ -n "$(2>/dev/null tr -d "\0" </proc/$p/environ)" ] && echo readable; [ -e /proc/$p ] && echo seen && n=$((n + 1)); done; [ $n -ge 10 ] && touch enough; done' | sort | uniq -c
wait
"#,
    );
    assert!(run.out.contains("seen"), "{run:?}");
    assert!(!run.out.contains("readable"), "{run:?}");
}
