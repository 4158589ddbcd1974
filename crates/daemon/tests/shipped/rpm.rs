// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RPM packages: installed, upgraded, downgraded and removed, with a database of their own.

use super::made::{Binaries, VERSION};
use super::{assert_same, assert_works, files, host};
use crate::support::has;

const LATER: &str = "99.0.0";
/// The database has none of this host's packages, which other rules check: the packages' requirements.
const RPM: &str = "rpm --force-debian --nodeps";

#[test]
fn rpm_packages_come_and_go_and_leave_nothing() {
    if !["fanotify", "overlay", "rpm"].into_iter().all(has) {
        return;
    }
    let bed = host();
    let binaries = Binaries::new();
    binaries.pack("rpm", VERSION, &[]).bring(&bed, "/root/one");
    binaries.changed().pack("rpm", LATER, &[]).bring(&bed, "/root/two");
    bed.run("rm -rf /var/lib/rpm; mkdir /var/lib/rpm; rpm --initdb").ok();
    let before = files(&bed);

    // A static program requires nothing but the shell of the scripts; the daemon requires its libraries.
    let requires =
        |package: &str| bed.run(&format!("rpm -qp --requires /root/one/{package}-{VERSION}-1.*.rpm")).ok();
    if binaries.are_static() {
        assert!(!requires("palisade").contains(".so"), "{}", requires("palisade"));
    }
    let needed = requires("palisaded");
    for library in ["libmagic.so.1", "libelf.so.1", "libc.so.6", &format!("palisade = {VERSION}-1\n")] {
        assert!(needed.contains(library), "{library}: {needed}");
    }

    let quiet = bed.run(&format!("{RPM} -i /root/one/*.rpm"));
    assert!(quiet.worked() && quiet.err.is_empty(), "{quiet:?}");
    assert_works(&bed, VERSION);
    assert_eq!(bed.run("rpm --verify --nodeps palisade palisaded").ok(), "");
    bed.run("echo '# own' >> /etc/apparmor.d/palisade").ok();
    let installed = "rpm -q --queryformat '%{NAME} %{VERSION}\\n' palisade palisaded";
    for (options, directory, version) in
        [("-U", "two", LATER), ("-U --oldpackage", "one", VERSION), ("-U --replacepkgs", "one", VERSION)]
    {
        bed.run(&format!("{RPM} {options} /root/{directory}/*.rpm")).ok();
        assert_eq!(bed.run(installed).ok(), format!("palisade {version}\npalisaded {version}\n"));
        assert_works(&bed, VERSION);
        assert!(bed.run("tail -n 1 /etc/apparmor.d/palisade").ok().contains("# own"));
    }
    // dpkg has empty directories of the same names, which rpm doesn't know of.
    bed.write("/usr/share/fish/vendor_completions.d/other", "");
    bed.write("/var/lib/palisade/trust.db", "x");
    // A file that the administrator has changed is kept under another name.
    bed.run("rpm --force-debian -e palisaded palisade && rm /etc/apparmor.d/palisade.rpmsave && rm /usr/share/fish/vendor_completions.d/other; rmdir /etc/apparmor.d; true").ok();
    assert_same(&before, &files(&bed));
}
