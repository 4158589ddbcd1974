// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests unusual environments: closed descriptors, full disks, no home, a working directory that was removed.
//! Each launch either works or reports what is wrong.

use crate::support::{self, Place, everybody, job, root};
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Runs a line of shell outside, in which `$P` is palisade's binary.
fn outside(place: &Place, line: &str) -> support::Run {
    job::finish(place.command("/bin/bash").args(["-c", line]).env("P", place.binary()))
}

#[test]
fn closed_standard_streams() {
    for place in everybody() {
        for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-", "0<&- 2>&-", "1>&- 2>&-"] {
            let line = format!("$P run -- sh -c 'echo data >file; exit 7' {closed}");
            assert_eq!(outside(&place, &line).code, 7, "{closed}");
            assert_eq!(place.read("work/file"), "data\n", "{closed}");
            std::fs::remove_file(place.work.join("file")).unwrap();
            // No descriptor of the launch took their numbers.
            let line = format!(
                "$P run -- sh -c 'for n in 0 1 2; do readlink /proc/self/fd/$n; done >file' {closed}"
            );
            outside(&place, &line);
            let streams = place.read("work/file");
            for strange in ["socket:", "mnt", "landlock", "ns/"] {
                assert!(!streams.contains(strange), "{closed}: {streams}");
            }
        }
    }
}

#[test]
fn a_directory_as_a_stream() {
    for place in everybody() {
        for stream in ["0</", "1</", "2</", "0<.", "1<."] {
            let run = outside(&place, &format!("$P run -- touch started {stream}"));
            assert_eq!(run.code, 125, "{stream}: {run:?}");
            if !stream.starts_with('2') {
                run.refused(125, &["standard", "directory"]).with_hint();
            }
            assert!(!place.work.join("started").exists());
        }
    }
}

#[test]
fn inherited_descriptors_are_closed() {
    for place in everybody() {
        let run = outside(&place, "exec 5</ 9<$HOME 77</etc/passwd; $P run -- sh -c 'ls /proc/$$/fd'");
        assert_eq!(run.ok(), "0\n1\n2");
        let run = outside(&place, "exec 5</; $P run --namespaces none -- sh -c 'ls /proc/$$/fd'");
        assert_eq!(run.ok(), "0\n1\n2", "{run:?}");
    }
}

#[test]
fn few_descriptors() {
    for place in everybody() {
        // A hot launch and a cold one.
        for _ in 0..2 {
            let run = outside(&place, "ulimit -n 24; $P run -- sh -c 'ulimit -n; echo >file'");
            assert_eq!(run.ok(), "24");
        }
        for limit in [3, 4, 5, 6, 7, 8] {
            let run = outside(&place, &format!("ulimit -n {limit}; $P run -- touch started"));
            assert!(run.code == 0 || run.code == 125, "{limit}: {run:?}");
            if run.code == 125 {
                run.refused(125, &["can't "]);
                assert!(!place.work.join("started").exists());
            }
            let _removed = std::fs::remove_file(place.work.join("started"));
        }
        place.assert_all_dead();
    }
}

#[test]
fn few_processes() {
    for place in everybody().into_iter().filter(|place| !place.is_root()) {
        // The test's own threads don't count: another user's.
        let run = outside(&place, "ulimit -u 1; exec $P run -- touch started");
        run.refused(125, &["can't "]);
        assert!(!place.work.join("started").exists());
        place.assert_all_dead();
    }
}

#[test]
fn a_full_disk_does_not_matter_to_the_cache() {
    let Some(place) = root() else { return };
    let script = "
mount -t tmpfs -o size=64k,mode=700 none $HOME || exit 99
mkdir $HOME/work; cd $HOME/work
head -c 1000000 /dev/zero >../filler 2>/dev/null
for i in 1 2; do $P run -- sh -c 'echo works; echo x >/tmp/file && cat /tmp/file' || exit 1; done
ls $HOME/.cache/palisade/plans/*.plan 2>/dev/null
$P run -- sh -c 'head -c 100000 /dev/zero >full'; echo \"code $?\"";
    let mut unshare = place.command("unshare");
    let run = job::finish(
        unshare.args(["-m", "--propagation", "private", "/bin/sh", "-c", script]).env("P", place.binary()),
    );
    assert_eq!(run.ok(), "works\nx\nworks\nx\ncode 1", "{run:?}");
    assert!(run.err.contains("No space left"), "{run:?}");
}

#[test]
fn a_read_only_home_does_not_matter_to_the_cache() {
    let Some(place) = root() else { return };
    let script = "mount --bind $HOME $HOME && mount -o remount,bind,ro $HOME || exit 99
cd $HOME/work; for i in 1 2; do $P run -- sh -c 'echo works'; done";
    let mut unshare = place.command("unshare");
    let run = job::finish(
        unshare.args(["-m", "--propagation", "private", "/bin/sh", "-c", script]).env("P", place.binary()),
    );
    assert_eq!(run.ok(), "works\nworks", "{run:?}");
}

#[test]
fn a_full_standard_output_is_the_commands_matter() {
    for place in everybody() {
        let run = outside(&place, "$P run -- sh -c 'echo x; exit $?' >/dev/full");
        assert_eq!(run.code, 1, "{run:?}");
        let run = outside(&place, "$P run --dry-run -- true >/dev/full; $P run --dry-run -- true | head -1");
        assert!(run.out.starts_with("namespaces"), "{run:?}");
        assert!(!run.err.contains("panicked"), "{run:?}");
    }
}

#[test]
fn a_group_signalled_inside_is_inside() {
    for place in everybody() {
        let run = outside(&place, "$P run -- sh -c 'kill 0; sleep 5'; echo \"code $?\"");
        assert_eq!(run.ok(), "code 143", "{run:?}");
        let run =
            outside(&place, "$P run -- sh -c 'trap : TERM; kill -TERM -1; echo alive'; echo \"code $?\"");
        assert_eq!(run.ok(), "alive\ncode 0", "{run:?}");
        let run = outside(&place, "$P run --namespaces none -- sh -c 'kill 0; sleep 5'; echo \"code $?\"");
        assert_eq!(run.ok(), "code 143", "{run:?}");
    }
}

#[test]
fn a_deleted_working_directory() {
    for place in everybody() {
        let run = outside(&place, "mkdir gone; cd gone; rmdir ../gone; $P run -- touch ../started");
        run.refused(125, &["working directory"]).with_hint();
        assert!(!place.work.join("started").exists());
    }
}

#[test]
fn a_working_directory_that_has_no_permissions() {
    for place in everybody().into_iter().filter(|place| !place.is_root()) {
        let run = outside(
            &place,
            "mkdir shut; cd shut; chmod 0 .; $P run -- sh -c 'touch x'; echo \"code $?\"; chmod 700 $OLDPWD/shut",
        );
        let code = run.out.trim_end();
        assert!(code == "code 125" || code == "code 1", "{run:?}");
        assert!(run.err.contains("ermission denied"), "{run:?}");
        // Readable, not writable.
        let run = outside(
            &place,
            "mkdir ro; echo there >ro/in; chmod 555 ro; cd ro; $P run -- sh -c 'cat in; touch x'; echo \"code $?\"",
        );
        assert_eq!(run.out, "there\ncode 1\n", "{run:?}");
        std::fs::set_permissions(place.work.join("ro"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_home_as_working_directory_is_private() {
    for place in everybody() {
        place.write("secret", "secret");
        let mut palisade = place.palisade(&[], &["sh", "-c", "pwd; ls -A; touch made"]);
        let run = job::finish(palisade.current_dir(&place.home));
        assert_eq!(run.ok(), place.home.to_str().unwrap(), "{run:?}");
        assert!(run.err.contains("is your home"), "{run:?}");
        assert!(!place.home.join("made").exists());
    }
}

#[test]
fn the_root_as_working_directory_is_read_only() {
    for place in everybody() {
        for directory in ["/", "/usr", "/etc", "/proc", "/dev", "/home"] {
            let mut palisade =
                place.palisade(&[], &["sh", "-c", "echo works; touch palisade-made 2>/dev/null"]);
            let run = job::finish(palisade.current_dir(directory));
            assert_eq!(run.out, "works\n", "{directory}: {run:?}");
            assert!(run.err.contains("note: "), "{directory}: {run:?}");
            assert!(!std::path::Path::new(directory).join("palisade-made").exists());
        }
    }
}

#[test]
fn a_working_directory_below_tmp() {
    for place in everybody() {
        let directory = format!("/tmp/{}", place.mark);
        std::fs::create_dir(&directory).unwrap();
        support::give(&place, directory.as_ref());
        let mut palisade =
            place.palisade(&[], &["sh", "-c", "pwd; ls /tmp; echo made >made; echo x >/tmp/private"]);
        let run = job::finish(palisade.current_dir(&directory));
        let made = std::fs::read_to_string(format!("{directory}/made"));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(run.ok(), format!("{directory}\n{}", place.mark));
        assert_eq!(made.unwrap(), "made\n");
        assert!(!std::path::Path::new("/tmp/private").exists());
    }
}

#[test]
fn variables_that_are_not_set() {
    for place in everybody() {
        let mut palisade = place.palisade(&[], &["sh", "-c", "echo works"]);
        assert_eq!(job::finish(palisade.env_remove("HOME")).ok(), "works");
        let mut palisade = place.palisade(&[], &["sh", "-c", "echo works"]);
        assert_eq!(job::finish(palisade.env_remove("PATH")).ok(), "works");
        let mut palisade = place.palisade(&[], &["sh", "-c", "echo works"]);
        assert_eq!(job::finish(palisade.env_clear()).ok(), "works");
        for home in ["", "relative", "/no/such/home", "/", "/etc/passwd"] {
            let mut palisade = place.palisade(&[], &["sh", "-c", "echo works"]);
            let run = job::finish(palisade.env("HOME", home));
            assert!(
                run.code == 0 && run.out == "works\n" || run.code == 125 && run.err.contains("error: "),
                "{home:?}: {run:?}"
            );
        }
        // An empty entry of PATH isn't the working directory.
        let script = place.write("work/evil", "#!/bin/sh\necho evil\n");
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut palisade = place.palisade(&[], &["evil"]);
        assert_eq!(job::finish(palisade.env("PATH", ":/usr/bin:")).code, 127);
    }
}

#[test]
fn blocked_and_ignored_signals_are_the_callers() {
    for place in everybody() {
        // nohup's effect reaches the command.
        let run = outside(&place, "trap '' HUP; $P run -- sh -c 'kill -HUP $$; echo alive'");
        assert_eq!(run.ok(), "alive");
        // A pipe that breaks ends the command as it would outside.
        let run = outside(&place, "$P run -- yes | head -1; echo \"${PIPESTATUS[0]}\"");
        assert_eq!(run.ok(), "y\n141");
    }
}

#[test]
fn a_umask_is_the_callers() {
    for place in everybody() {
        outside(&place, "umask 077; $P run -- sh -c 'umask; mkdir d; echo >f'").ok();
        assert_eq!(place.outside("stat -c %a d f"), "700\n600\n");
    }
}

#[test]
fn palisade_inside_palisade_says_so() {
    for place in everybody() {
        let run = place.run(
            &["--ro", place.binary().to_str().unwrap()],
            &[place.binary().to_str().unwrap(), "run", "--", "true"],
        );
        run.refused(125, &["can't "]);
    }
}

/// A command line that makes a PID namespace whose first process has its group and session outside of it.
fn into_a_namespace(place: &Place) -> &'static str {
    if place.is_root() { "unshare --pid --fork" } else { "unshare -U --map-current-user --pid --fork" }
}

#[test]
fn a_session_and_group_of_another_pid_namespace() {
    for place in everybody() {
        place.write("work/.git/config", "");
        let into = into_a_namespace(&place);
        // Both operations go through the broker, which looks up the calling process.
        let inside = "echo made >file && : >.git/config";
        let run = outside(&place, &format!("{into} --mount-proc $P run -- sh -c '{inside}'"));
        assert_ne!(run.code, 0, "{run:?}");
        assert!(run.err.contains(".git/config"), "{run:?}");
        assert_eq!(place.read("work/file"), "made\n", "{run:?}");
    }
}

#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    for place in everybody() {
        let run = outside(&place, &format!("{} $P run -- touch started", into_a_namespace(&place)));
        run.refused(125, &["/proc", "another PID namespace"]).with_hint();
        assert!(!place.work.join("started").exists());
    }
}

/// As `useradd` replaces `/etc/passwd`: what was opened has no name any more, and can't be mounted.
#[test]
fn a_file_that_is_replaced_again_and_again_is_shown() {
    for place in everybody() {
        let file = place.write("shown/file", "x");
        let shown = ["--ro", file.to_str().unwrap()];
        let launch = || place.sh(&shown, "cat ~/shown/file");
        launch().ok();
        let begun = Instant::now();
        launch().ok();
        // Often enough to disturb some launches, but not every attempt of one.
        let pause = begun.elapsed() / 4;
        let (new, over) = (place.home.join("new"), AtomicBool::new(false));
        let runs = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::fs::write(&new, "x").unwrap();
                    chown(&new, Some(place.uid), Some(place.gid)).unwrap();
                    std::fs::rename(&new, &file).unwrap();
                    std::thread::sleep(pause);
                }
            });
            let runs: Vec<_> = (0..100).map(|_| launch()).collect();
            over.store(true, Ordering::Relaxed);
            runs
        });
        runs.iter().for_each(|run| assert_eq!(run.ok(), "x"));
    }
}

/// A `/dev` in which the null device isn't there, or can't be written to. The broker needs none.
#[test]
fn a_program_is_learned_without_a_null_device() {
    const DEVICES: &str = "mount -t tmpfs none /mnt && mkdir /mnt/dev /mnt/dev/pts /mnt/dev/shm && \
         for device in zero full random urandom tty; do \
         touch /mnt/dev/$device && mount --bind /dev/$device /mnt/dev/$device || exit 9; done; \
         if [ $1 = read-only ]; then touch /mnt/dev/null && chmod 444 /mnt/dev/null || exit 9; fi; \
         mount --rbind /mnt/dev /dev || exit 9; shift; exec \"$@\"";
    for place in everybody() {
        for how in ["missing", "read-only"] {
            let mut command = place.command("timeout");
            command.args([
                "-s",
                "KILL",
                "30",
                "unshare",
                "-Urm",
                "--kill-child",
                "sh",
                "-c",
                DEVICES,
                "sh",
                how,
            ]);
            command.arg(place.binary()).args(["run", "--syscalls", "learn", "--", "/bin/true"]);
            let run = job::finish(&mut command);
            assert_eq!(run.code, 0, "{how}: {run:?}");
            assert!(run.err.contains("new system calls were learned"), "{how}: {run:?}");
        }
    }
}
