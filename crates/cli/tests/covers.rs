// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that hidden, denied and mount-protected names stay so when programs of the host replace them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, eventually, everybody, job};
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};

/// Starts a command that writes the file `up` and repeats `line` until the file `stop` exists.
fn living(place: &Place, options: &[&str], line: &str) -> Child {
    for file in ["up", "stop", "seen"] {
        let _gone = std::fs::remove_file(place.work.join(file));
    }
    let line = format!("echo up >up; while ! [ -e stop ]; do {line}; done");
    let mut palisade = place.palisade(options, &["bash", "-c", &line]);
    let child = palisade.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| place.work.join("up").exists()), "it doesn't start");
    child
}

fn stop(place: &Place, child: Child) -> (Option<i32>, String) {
    place.write("work/stop", "");
    let output = child.wait_with_output().unwrap();
    place.assert_all_dead();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Replaces a file as editors do.
fn save(place: &Place, file: &str, content: &str) {
    place.write(&format!("{file}.new"), content);
    std::fs::rename(place.home.join(format!("{file}.new")), place.home.join(file)).unwrap();
}

/// Waits until what is inside has looked at a file a few times more and seen nothing of its content.
fn assert_unseen(place: &Place, secret: &str) {
    // What was open in the window may still be on its way.
    assert!(
        eventually(|| {
            let _old = std::fs::remove_file(place.work.join("seen"));
            if !eventually(|| {
                std::fs::read_to_string(place.work.join("seen")).is_ok_and(|seen| seen.lines().count() > 5)
            }) {
                return false;
            }
            !place.read("work/seen").contains(secret)
        }),
        "{secret} is seen: {}",
        place.read("work/seen")
    );
}

const LOOK: &str = "echo \"looked $(cat .env sub/.env 2>&1)\" >>seen";

#[test]
fn what_the_host_saves_anew_is_hidden_again() {
    for place in everybody() {
        for option in ["--hide", "--deny"] {
            for keeper in ["broker", "off"] {
                place.write("work/.env", "first");
                place.write("work/sub/.env", "first");
                let options = [option, ".env", option, "sub/.env", "--protect", keeper];
                let child = living(&place, &options, LOOK);
                assert_unseen(&place, "first");
                for round in 0..5 {
                    save(&place, "work/.env", &format!("saved-{round}"));
                    save(&place, "work/sub/.env", &format!("saved-{round}"));
                    assert_unseen(&place, "saved");
                }
                // Removed, and made again.
                std::fs::remove_file(place.work.join(".env")).unwrap();
                place.write("work/.env", "made again");
                assert_unseen(&place, "again");
                // The directory moved, and its file saved where it is then.
                std::fs::rename(place.work.join("sub"), place.work.join("moved")).unwrap();
                save(&place, "work/moved/.env", "elsewhere");
                symlink("moved", place.work.join("sub")).unwrap();
                assert_unseen(&place, "elsewhere");
                // A directory in its place.
                std::fs::remove_file(place.work.join(".env")).unwrap();
                place.write("work/.env/file", "in a directory");
                std::fs::remove_file(place.work.join("sub")).unwrap();
                symlink(".env/file", place.work.join("sub")).unwrap();
                assert_eq!(stop(&place, child).0, Some(0), "{option} {keeper}");
                place.outside("rm -rf .env sub moved");
            }
        }
    }
}

#[test]
fn names_that_exist_stay_read_only_under_mounts() {
    for place in everybody() {
        place.outside("git init -q .");
        place.write("work/.git/config", "[user]\nname = before\n");
        let line = "{ echo inside >>.git/config; } 2>/dev/null && echo wrote >>seen || echo refused >>seen";
        let child = living(&place, &["--protect", "mounts"], line);
        for round in 0..5 {
            let saved = format!("[user]\nname = round-{round}\n");
            // The command may write before the mask is renewed, but not afterwards.
            assert!(eventually(|| {
                save(&place, "work/.git/config", &saved);
                let _old = std::fs::remove_file(place.work.join("seen"));
                eventually(|| {
                    std::fs::read_to_string(place.work.join("seen"))
                        .is_ok_and(|seen| seen.lines().count() > 5)
                }) && place.read("work/.git/config") == saved
            }));
        }
        assert_eq!(stop(&place, child).0, Some(0));
    }
}

#[test]
fn what_cannot_be_covered_ends_the_sandbox() {
    for place in everybody() {
        place.write("work/.env", "first");
        place.write("work/secret", "behind a link");
        let child = living(&place, &["--hide", ".env"], LOOK);
        symlink("secret", place.work.join("link")).unwrap();
        std::fs::rename(place.work.join("link"), place.work.join(".env")).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(137), "{said}");
        assert!(said.contains("it is a symbolic link now; every process inside was ended"), "{said}");
        assert!(said.contains("hint: palisade run --hide DIRECTORY"), "{said}");
        let watched = job::finish(place.command(place.binary()).args(["watch", "--all", "--no-follow"]));
        assert!(watched.ok().contains("can't be masked again"), "an event of it: {watched:?}");
        place.assert_all_dead();
        std::fs::remove_file(place.work.join(".env")).unwrap();
    }
}

#[test]
fn without_the_warden_nothing_goes_on() {
    for place in everybody() {
        place.write("work/.env", "first");
        let child = living(&place, &["--hide", ".env"], "sleep 0.05");
        let warden = place.outside(&format!(
            "for p in $(cat /proc/{0}/task/{0}/children); do grep -q palisade-masks /proc/$p/comm && echo $p; done; true",
            child.id()
        ));
        job::finish(place.command("kill").args(["-9", warden.trim()])).ok();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(137), "{output:?}");
        place.assert_all_dead();
    }
}

#[test]
fn nothing_of_a_warden_is_seen_inside_or_left_behind() {
    for place in everybody() {
        place.write("work/.env", "first");
        for keeper in ["broker", "off"] {
            let options = ["--hide", ".env", "--protect", keeper];
            let run = place.sh(&options, "cat /proc/[0-9]*/comm");
            let seen = run.ok();
            assert!(!seen.contains("warden"), "{seen}");
            let run = place.sh(&options, "kill -9 -1; sleep 0.1; cat .env");
            assert!(!run.out.contains("first"), "{run:?}");
        }
        place.assert_all_dead();
        // No directory changes: no warden.
        assert_eq!(place.sh(&[], "true").code, 0);
    }
}
