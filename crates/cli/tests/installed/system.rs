// SPDX-License-Identifier: Apache-2.0 OR MIT
//! dpkg and rpm: each installs a package with the program, in a mount namespace in which its database is an empty one.

use super::{CURRENT, NEWER, commands, shell};
use crate::support::{Place, Run, has, job, ordinary, root};
use serde_json::Value;

/// Where the package's program is. The namespace has an empty `/opt`.
const PROGRAM: &str = "/opt/palisade/bin/palisade";

/// A line of shell as root, where the directories of the package managers are the place's.
fn apart(place: &Place, line: &str) -> Run {
    let prepare = "mkdir -p ~/opt ~/dpkg/info ~/dpkg/updates ~/dpkg/triggers ~/rpm && touch ~/dpkg/status ~/dpkg/available && \
                   mount --bind ~/opt /opt && mount --bind ~/dpkg /var/lib/dpkg && mount -t tmpfs none /var/log && \
                   for directory in /var/cache/apt /var/lib/apt; do [ ! -d $directory ] || mount -t tmpfs none $directory; done && \
                   mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial && \
                   { [ ! -d /var/lib/rpm ] || mount --bind ~/rpm /var/lib/rpm; }";
    let mut unshare = place.command("unshare");
    unshare.args(["--mount", "sh", "-c", &format!("{prepare} && {line}")]);
    job::finish(unshare.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// What the installed program says to root, and to an ordinary user.
fn described(place: &Place, user: &Place) -> [Value; 2] {
    [place, user].map(|person| {
        let command = format!(
            "setpriv --reuid {0} --regid {1} --clear-groups {PROGRAM} self --json",
            person.uid, person.gid
        );
        serde_json::from_str(apart(place, &command).ok()).unwrap()
    })
}

/// Updated and removed by the commands that root is told. `package` makes a package of a version and returns its file.
fn lives(by: &str, install: &str, version: &str, package: impl Fn(&Place, &str) -> String) {
    let Some(place) = root() else { return };
    let user = ordinary();
    let file = package(&place, CURRENT);
    apart(&place, &format!("{install} {file}")).ok();
    let [answer, users] = described(&place, &user);
    assert_eq!((&answer["installed_by"], &answer["path"]), (&by.into(), &PROGRAM.into()), "{answer}");
    for what in ["update", "remove"] {
        let sudo: Vec<String> =
            commands(&answer, what).iter().map(|command| format!("sudo {command}")).collect();
        assert_eq!(commands(&users, what), sudo);
    }
    let newer = package(&place, NEWER);
    for command in commands(&answer, "update") {
        let (directory, name) = newer.rsplit_once('/').unwrap();
        apart(&place, &format!("cd {directory} && yes | {}", command.replace("FILE", name))).ok();
    }
    assert!(apart(&place, version).ok().contains(NEWER));
    assert_eq!(described(&place, &user)[0]["installed_by"], by);
    for command in commands(&answer, "remove") {
        apart(&place, &format!("yes | {command}")).ok();
    }
    assert!(!place.home.join(PROGRAM.trim_start_matches('/')).exists());
}

#[test]
fn dpkg_lists_it() {
    if !has("dpkg-deb") || !has("apt") {
        return;
    }
    lives("dpkg", "dpkg --install", "dpkg-query --show palisade", |place, version| {
        let top = format!("deb-{version}");
        let program = place.write(&format!("{top}{PROGRAM}"), std::fs::read(place.binary()).unwrap());
        let control = format!(
            "Package: palisade\nVersion: {version}\nArchitecture: all\nMaintainer: A <a@example.com>\nDescription: test\n"
        );
        place.write(&format!("{top}/DEBIAN/control"), control);
        let line = format!(
            "chmod 755 '{}' && dpkg-deb --build --root-owner-group ~/{top} >/dev/null && echo ~/{top}.deb",
            program.display()
        );
        shell(place, &line).ok().to_owned()
    });
}

#[test]
fn rpm_lists_it() {
    if !has("rpm") {
        return;
    }
    lives("rpm", "rpm --install --nodeps --ignorearch", "rpm --query palisade", |place, version| {
        let spec = format!(
            "Name: palisade\nVersion: {version}\nRelease: 1\nSummary: test\nLicense: MIT\nAutoReqProv: no\n%description\ntest\n\
             %install\ninstall -D -m 755 {} %{{buildroot}}{PROGRAM}\n%files\n{PROGRAM}\n",
            place.binary().display()
        );
        place.write("palisade.spec", spec);
        // Debian's rpm has each user's database in the home.
        place.write(".rpmmacros", "%_dbpath /var/lib/rpm\n");
        let line = "cd ~ && rpmbuild -bb --quiet --define \"_topdir $HOME/rpmbuild\" --define '__strip /bin/true' palisade.spec >/dev/null 2>&1; \
                    find ~/rpmbuild/RPMS -name '*.rpm' | sort -V | tail -n 1";
        shell(place, line).ok().to_owned()
    });
}
