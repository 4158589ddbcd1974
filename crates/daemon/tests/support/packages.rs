// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages made for a test, and a process that works on while they are installed and removed.

use super::{Bed, ORDINARY, compile};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A unique program that prints its version.
pub fn program(says: &str) -> Vec<u8> {
    compile(&format!("#include <stdio.h>\nint main() {{ puts(\"{says}\"); return 0; }}"), &[])
}

/// The command line tool that was built beside the daemon, or is built now.
pub fn palisade() -> PathBuf {
    palisade_acceptance::programs::palisade(Path::new(env!("CARGO_BIN_EXE_palisaded")))
}

/// Builds `/root/NAME_VERSION.deb`. Its scripts execute the package's program and, before that is unpacked, the package's
/// helper.
pub fn package(bed: &Bed, name: &str, version: u32, more: &str) {
    let at = format!("/root/build/{name}-{version}");
    bed.program(format!("{at}/usr/bin/{name}"), program(&format!("{name} {version}")));
    bed.program(
        format!("{at}/usr/lib/x86_64-linux-gnu/{name}/helper.so"),
        program(&format!("helper {version}")),
    );
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: a <a@example.org>\n{more}Description: a\n"
    );
    bed.write(format!("{at}/DEBIAN/control"), control);
    let script = format!("#!/bin/sh\nset -e\n[ \"$(/usr/bin/{name})\" = '{name} {version}' ]\n");
    bed.program(format!("{at}/DEBIAN/postinst"), script);
    bed.run(&format!(
        "cd {at} && find usr -type f -printf '%P\\0' | sed -z 's,^,usr/,' | xargs -0 md5sum > DEBIAN/md5sums &&
dpkg-deb --root-owner-group -b . /root/{name}_{version}.deb > /dev/null && rm -rf {at}"
    ))
    .ok();
}

/// The refused files that belong to a package that was installed all the time.
pub fn false_refusals(bed: &Bed) -> Vec<String> {
    let ours = |path: &str| {
        let is_made = path.contains("__pycache__") || path.starts_with("/etc/");
        !is_made && (path.starts_with("/usr/bin/") || path.starts_with("/usr/sbin/") || path.contains(".so"))
    };
    let path = |line: &str| {
        line.split(" path=").nth(1).and_then(|rest| rest.split(" ftype=").next()).map(str::to_owned)
    };
    bed.log()
        .lines()
        .filter(|line| line.contains("dec=deny") && path(line).is_some_and(|path| ours(&path)))
        .map(str::to_owned)
        .collect()
}

/// A process that goes on executing other programs meanwhile; it prints those that failed.
pub fn others(bed: &Bed) -> Child {
    let script = "while :; do for p in 'ls /' 'cat /etc/hostname' 'sed -n 1p /etc/passwd' 'sort /etc/group' 'id' 'date'; do
$p > /dev/null 2>&1 || echo \"$p\"; done; done";
    bed.command(ORDINARY, "200", &["/bin/sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap()
}

pub fn end(child: Child) -> String {
    let _gone = std::process::Command::new("kill").arg(child.id().to_string()).status();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}
