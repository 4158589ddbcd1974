// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests changing the user inside, where only one exists: the error is the one for every ordinary user, which programs expect. Also
//! tests how the command is scheduled.

use crate::support::{everybody, job};

/// Each call with the numbers of other users, the own number and -1 in turn.
const CALLS: &str = "\
import ctypes, errno, os, subprocess
l = ctypes.CDLL(None, use_errno=True)
own, group, other = os.getuid(), os.getgid(), 54321
def call(f, *a):
    ctypes.set_errno(0)
    return 0 if getattr(l, f)(*a) == 0 else errno.errorcode[ctypes.get_errno()]
for user, me in (('uid', own), ('gid', group)):
    print([call('set' + user, n) for n in (me, other, -1)],
          [call('setre' + user, *n) for n in ((me, -1), (-1, other), (other, -1), (-1, -1))],
          [call('setres' + user, *n) for n in ((me, me, me), (-1, -1, other), (-1, other, -1), (other, -1, -1), (-1, -1, -1))],
          call('sete' + user, other), call('sete' + user, me))
print(call('setgroups', 0, None))
for what in (dict(user=other), dict(group=other), dict(extra_groups=[other])):
    try: print(subprocess.run(['true'], **what).returncode)
    except OSError as e: print(errno.errorcode[e.errno])
";

/// The results for an ordinary user, natively and inside.
const TOLD: &str = "\
[0, 'EPERM', 'EINVAL'] [0, 'EPERM', 'EPERM', 0] [0, 'EPERM', 'EPERM', 'EPERM', 0] EPERM 0
[0, 'EPERM', 'EINVAL'] [0, 'EPERM', 'EPERM', 0] [0, 'EPERM', 'EPERM', 'EPERM', 0] EPERM 0
";

#[test]
fn nobody_becomes_another_user() {
    for place in everybody() {
        let python = ["python3", "-c", CALLS];
        if !place.is_root() {
            let native = job::finish(place.command("python3").args(&python[1..]));
            assert!(native.out.starts_with(TOLD), "{native:?}");
            assert!(native.out.ends_with("EPERM\nEPERM\nEPERM\nEPERM\n"), "{native:?}");
        }
        for options in
            [&[][..], &["--protect", "off"], &["--syscalls", "learn"], &["--uid", "7", "--gid", "8"]]
        {
            let run = place.run(options, &python);
            assert!(run.out.starts_with(TOLD), "{options:?}: {run:?}");
            assert!(run.out.ends_with("EPERM\nEPERM\nEPERM\nEPERM\n"), "{options:?}: {run:?}");
            // These calls fail for every ordinary user, so they aren't reported as refusals.
            assert!(!run.err.contains("refused"), "{options:?}: {run:?}");
        }
    }
}

/// In a namespace of a program's own others are mapped, and the kernel knows which.
#[test]
fn where_users_can_be_mapped_they_can_be_become() {
    for place in everybody() {
        let line = "exec unshare --user --map-root-user python3 -c 'import os; os.setresuid(0, 0, 0); print(os.getuid())'";
        let profile = "schema = 1\nname = \"told\"\n[process]\nnamespaces = true\n";
        place.write(".config/palisade/profiles/told.toml", profile);
        let run = place.run(&["--profile", "told", "--uid", "7"], &["sh", "-c", line]);
        assert_eq!(run.ok(), "0", "{run:?}");
    }
}

/// Init runs as a batch process, and lets the launcher go first where both have one processor.
#[test]
fn the_command_is_scheduled_as_outside() {
    for place in everybody() {
        let policy = "import os; print(os.sched_getscheduler(0), len(os.sched_getaffinity(0)), os.nice(0))";
        for wrapper in ["", "chrt -b 0", "nice -n 5", "taskset -c 0", "taskset -c 0 chrt -b 0"] {
            let words = |launcher: &str| format!("{wrapper} {launcher} python3 -c '{policy}'");
            let launcher = format!("{} run --", place.binary().display());
            let (inside, outside) = (place.outside(&words(&launcher)), place.outside(&words("")));
            assert_eq!(inside, outside, "{wrapper}");
        }
    }
}
