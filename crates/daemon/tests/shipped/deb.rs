// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debian packages: installed, upgraded, downgraded, removed and purged.

use super::made::{Binaries, VERSION};
use super::{assert_same, assert_works, files, host};
use crate::support::has;

/// The later version.
const LATER: &str = "99.0.0";

#[test]
fn debian_packages_come_and_go_and_leave_nothing() {
    if !["fanotify", "overlay", "apt", "dpkg-deb"].into_iter().all(has) {
        return;
    }
    let bed = host();
    let binaries = Binaries::new();
    binaries.pack("deb", VERSION, &[]).bring(&bed, "/root/one");
    binaries.changed().pack("deb", LATER, &[]).bring(&bed, "/root/two");
    // An empty directory of AppArmor's package, which stays.
    bed.run(
        "mkdir -p /etc/apparmor.d/disable
printf '%s\\n' /etc/apparmor.d /etc/apparmor.d/disable >> /var/lib/dpkg/info/base-files.list",
    )
    .ok();
    let installed = "dpkg-query --show --showformat '${Version} ${db:Status-Abbrev}\\n' palisade palisaded";
    let before = files(&bed);

    let quiet = bed.run("dpkg -i /root/one/*.deb");
    assert!(quiet.worked(), "{quiet:?}");
    // What systemd's and man-db's own scripts say.
    let usual = ["Created symlink /etc/systemd/", "Not building database; man-db"];
    assert!(quiet.err.lines().all(|line| usual.iter().any(|said| line.starts_with(said))), "{quiet:?}");
    assert_works(&bed, VERSION);
    assert_eq!(bed.run("dpkg --verify palisade palisaded").ok(), "");
    let there = bed.run(
        "for file in $(dpkg -L palisade palisaded); do [ -d $file ] || zcat -f $file > /dev/null; done
bash -n /usr/share/bash-completion/completions/palisade
zcat /usr/share/man/man1/palisade-run.1.gz /usr/share/man/man8/palisaded.8.gz | grep -c '^.TH palisade'
palisaded --check 2>&1",
    );
    assert!(there.ok().starts_with("2\npalisaded: "), "{there:?}");
    // Files of the package manager with which nothing else is overwritten.
    assert!(!bed.run("dpkg -L palisade palisaded").ok().contains("bin/bwrap"));

    bed.run("echo '# own' >> /etc/apparmor.d/palisade").ok();
    for (directory, version) in [("two", LATER), ("one", VERSION), ("one", VERSION)] {
        let run = bed.run(&format!("dpkg -i /root/{directory}/*.deb < /dev/null")).ok();
        assert_eq!(bed.run(installed).ok(), format!("{version} ii \n{version} ii \n"), "{run}");
        assert_works(&bed, VERSION);
        assert!(bed.run("tail -n 1 /etc/apparmor.d/palisade").ok().contains("# own"));
    }

    let removed = bed.run("dpkg -r palisaded palisade");
    assert!(removed.worked() && !removed.err.contains("warning"), "{removed:?}");
    assert!(bed.outside("/etc/apparmor.d/palisade").exists());
    assert!(bed.outside("/etc/dpkg/dpkg.cfg.d/palisade").exists());
    let gone = files(&bed);
    // Files of the administrator, and what systemd's own scripts remember.
    let kept = ["f /etc/apparmor.d/", "f /etc/dpkg/", "f /var/lib/systemd/deb-systemd-helper"];
    let stays: Vec<_> = gone
        .difference(&before)
        .filter(|line| line.starts_with('f') && !kept.iter().any(|start| line.starts_with(start)))
        .collect();
    assert!(stays.is_empty(), "{stays:?}");
    // The hook, which stays, finds no palisade.
    let other = bed.run("dpkg --configure -a");
    assert!(other.worked() && other.err.is_empty(), "{other:?}");
    bed.run("dpkg -P palisaded palisade").ok();
    assert_same(&before, &files(&bed));

    // The state of a guard goes, too, and what the administrator has written stays.
    bed.run("dpkg -i /root/one/*.deb").ok();
    bed.write("/etc/palisade/guard.d/50-own.rules", "allow perm=any all : all\n");
    bed.write("/var/lib/palisade/trust.db", "x");
    bed.run("dpkg -P palisaded palisade").ok();
    assert!(bed.outside("/etc/palisade/guard.d/50-own.rules").exists());
    bed.run("rm /etc/palisade/guard.d/50-own.rules").ok();
    assert_same(&before, &files(&bed));
}

#[test]
fn an_older_apparmor_does_not_read_the_profile() {
    if !["fanotify", "overlay", "apt", "dpkg-deb"].into_iter().all(has) {
        return;
    }
    let bed = host();
    Binaries::new().pack("deb", VERSION, &[]).bring(&bed, "/root/one");
    bed.run("rm -rf /etc/apparmor.d; mkdir -p /etc/apparmor.d/abi; touch /etc/apparmor.d/abi/3.0").ok();
    let before = files(&bed);
    let disabled = "readlink /etc/apparmor.d/disable/palisade";
    bed.run("dpkg -i /root/one/palisade_*.deb").ok();
    assert_eq!(bed.run(disabled).ok(), "../palisade\n");
    // A newer AppArmor is installed.
    bed.run(
        "touch /etc/apparmor.d/abi/4.0; dpkg-trigger --no-await /etc/apparmor.d/abi/4.0; dpkg --configure -a",
    )
    .ok();
    assert!(!bed.run(disabled).worked());
    // What the administrator has disabled stays so.
    bed.run(
        "ln -s /etc/apparmor.d/palisade /etc/apparmor.d/disable/palisade; dpkg -i /root/one/palisade_*.deb",
    )
    .ok();
    assert_eq!(bed.run(disabled).ok(), "/etc/apparmor.d/palisade\n");
    bed.run("rm /etc/apparmor.d/abi/4.0; dpkg -P palisade").ok();
    assert_same(&before, &files(&bed));
}
