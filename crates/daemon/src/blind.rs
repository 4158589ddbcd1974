// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of what fanotify can't see, and how to close each gap. `palisade guard status` shows it, so that administrators
//! don't rely on what isn't covered.

use std::fs;
use std::os::unix::fs::PermissionsExt;

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// One sentence for each gap, with a command. Gaps that are closed on this host are left out.
///
/// `lsm`: BPF LSM is in force, and refuses what fanotify didn't ask about.
pub(crate) fn spots(lsm: bool) -> Vec<String> {
    let mut spots = Vec::new();
    // 0: everything, 1: not executable unless asked for, 2: never executable.
    if !lsm && number("/proc/sys/vm/memfd_noexec").is_none_or(|value| value < 2) {
        spots.push("programs in memory (memfd_create) can be executed: sysctl vm.memfd_noexec=2".into());
    }
    let allowed = number("/proc/sys/user/max_user_namespaces").is_none_or(|most| most > 0)
        && number("/proc/sys/kernel/unprivileged_userns_clone").is_none_or(|allowed| allowed > 0)
        && number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
            .is_none_or(|restricted| restricted == 0);
    if allowed && !lsm {
        spots.push(
            "a tmpfs that a user mounts in a user namespace isn't watched: sysctl user.max_user_namespaces=0 \
             (sandboxes of ordinary users need user namespaces)"
                .into(),
        );
    }
    let everybodys = fs::metadata("/dev/fuse").is_ok_and(|fuse| fuse.permissions().mode() & 0o006 == 0o006);
    if everybodys && !lsm {
        spots.push(
            "file systems that a process serves aren't watched unless they are named: chmod 600 /dev/fuse"
                .into(),
        );
    }
    if number("/proc/sys/fs/protected_hardlinks").is_none_or(|value| value == 0) {
        spots
            .push("any user may link a trusted file to another name: sysctl fs.protected_hardlinks=1".into());
    }
    spots.push(
        "text files without a mark of a program (no #!, no type that libmagic knows), given to an interpreter; shell \
         scripts, unless rules = \"restrictive\""
            .into(),
    );
    spots.push(
        if lsm {
            "files that were mapped before the guard began, code that programs write to their own memory, and code on a \
             trusted interpreter's command line"
        } else {
            "files that were open or mapped before the guard began, files that change between open and use, and code on a \
             trusted interpreter's command line"
        }
        .into(),
    );
    spots
}
