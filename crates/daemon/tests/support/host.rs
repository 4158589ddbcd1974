// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host on which a guard enforces, with the default policy and the machine's own package database.

use super::{Bed, Settings};

/// The files that these tests execute: fewer files are hashed faster.
const FILTER: &str = "- /
 + usr/bin/
 + usr/sbin/
 + usr/games/
 + bin/
 + sbin/
 + usr/lib/systemd/systemd
 + usr/lib/systemd/systemd-*
 + usr/lib/openssh/
 + usr/lib/sudo/
 + usr/libexec/sudo/
 + usr/lib/apt/
 + usr/lib/dpkg/
 + usr/lib/man-db/
 + usr/lib/locale/
 + usr/lib/x86_64-linux-gnu/*.so*
 + usr/lib/x86_64-linux-gnu/perl-base/
 + usr/lib/x86_64-linux-gnu/perl/
 + usr/share/perl5/Debconf/
 + usr/share/perl5/Debian/
 + usr/share/perl/
 + usr/share/debconf/
 + usr/share/cowsay/
";

/// The files that Python programs need.
pub const PYTHON: &str = " + usr/lib/python3*/*.py*\n";

/// A host without a guard yet. Files of packages that `more` names are included, too.
pub fn unguarded(more: &str) -> Bed {
    let bed = Bed::host();
    bed.write(bed.config("guard-filter.conf"), format!("{FILTER}{more}"));
    bed.settings(&Settings { guard: "mode = \"enforce\"".into(), ..Settings::default() });
    bed.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n");
    bed.run("chmod 755 /usr/sbin/policy-rc.d; install -d -m 777 /home/stranger; rm -f /etc/ld.so.preload")
        .ok();
    bed
}
