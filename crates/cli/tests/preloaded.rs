// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the feature `hardened_malloc` with a substitute library of that name, because Debian doesn't package the real one.

use crate::support::{self, everybody, has, job};

#[test]
fn another_allocator_is_loaded_into_all_that_is_started() {
    if !has("gcc") {
        return;
    }
    // Only root can put a library among the system's, in a mount namespace.
    for place in everybody().into_iter().filter(support::Place::is_root) {
        let source = place.write("malloc.c", "int hardened = 1;\n");
        let lines = format!(
            r#"
set -eu
W=$(mktemp -d); trap 'rm -r "$W"' EXIT
mount -t tmpfs none /usr/local/lib
gcc -shared -fPIC -o /usr/local/lib/libhardened_malloc.so {source}
ldconfig -C "$W/cache"; mount --bind "$W/cache" /etc/ld.so.cache
for feature in "--feature hardened_malloc" ""; do
    {binary} open --quiet $feature sh -c 'grep -c libhardened /proc/self/maps; cat /proc/self/maps | grep -c libhardened; exit 0'
done
umount /etc/ld.so.cache
"#,
            source = source.display(),
            binary = place.binary().display(),
        );
        let run = job::finish(place.command("unshare").args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &lines,
        ]));
        let counts: Vec<u32> = run.out.lines().map(|line| line.parse().unwrap()).collect();
        let [with, below, without, nor] = counts[..] else { panic!("{run:?}") };
        assert!(with > 0 && below > 0 && without == 0 && nor == 0, "{run:?}");
    }
}
