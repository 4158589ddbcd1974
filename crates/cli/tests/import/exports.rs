// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade profile export` in the languages of other sandboxes: bubblewrap itself runs the exported arguments, and
//! a command finds there what it finds in Palisade's own launch.

use super::agents::{script, succeeded};
use crate::support::{everybody, has, job};
use serde_json::Value;
use std::os::unix::fs::chown;

const FILES: &str = "mkdir -p ~/.config/palisade/profiles ~/notes ~/.ssh dist sub scratch && echo n >~/notes/n && \
     echo k >~/.ssh/id && echo e >.env && echo e >sub/.env && echo o >~/other && echo d >dist/d && echo s >scratch/s";

const LINES: [&str; 16] = [
    "cat ~/notes/n",
    "echo x >>~/notes/n",
    "cat ~/.ssh/id",
    "test -s .env",
    "test -s sub/.env",
    "cat dist/d",
    "echo x >>dist/f",
    "echo x >>f",
    "cat ~/other",
    "echo x >>~/other",
    "test -s scratch/s",
    "echo x >>scratch/t",
    "echo x >>/usr/f",
    "echo x >/tmp/f",
    "test \"$MARK\" = here",
    "test -n \"$SECRET_TOKEN\"",
];

fn profile(view: &str) -> String {
    format!(
        "schema = 1\nname = \"work\"\n[filesystem]\nview = {view:?}\nwrite = [\".\"]\nread = [\"~/notes\"]\nexecute = [\".\"]\n\
         hide = [\"~/.ssh\", \"./**/.env\"]\ntmpfs = [\"./scratch\"]\nprotect_paths = [\"./dist\"]\n\
         [environment.set]\nMARK = \"here\"\n[limits]\nopen_files = 256\n"
    )
}

#[test]
fn bubblewrap_itself_runs_what_is_exported() {
    if !["userns", "bwrap"].into_iter().all(has) {
        return;
    }
    for place in everybody() {
        place.outside(FILES);
        let file = place.home.join(".config/palisade/profiles/work.toml");
        for view in ["system", "host"] {
            std::fs::write(&file, profile(view)).unwrap();
            chown(&file, Some(place.uid), Some(place.gid)).unwrap();
            let line = script(&LINES);
            let own = job::finish(
                place.palisade(&["--profile", "work"], &["sh", "-c", &line]).env("SECRET_TOKEN", "x"),
            );
            let exported = job::finish(
                place
                    .command(place.binary())
                    .args(["profile", "export", "work", "--bwrap"])
                    .env("SECRET_TOKEN", "x"),
            );
            let start = exported.ok().trim_end();
            let there = job::finish(
                place
                    .command("/bin/sh")
                    .args(["-c", "eval \"$EXPORTED \\\"\\$@\\\"\"", "sh", "sh", "-c", &line])
                    .env("EXPORTED", start)
                    .env("SECRET_TOKEN", "x"),
            );
            let (own, other) = (succeeded(&own, &LINES), succeeded(&there, &LINES));
            assert_eq!(own, other, "{view}: {there:?}\n{start}");
            assert!(own.contains(&"cat ~/notes/n") && !own.contains(&"cat ~/.ssh/id"), "{own:?}");
            assert!(!own.contains(&"test -s .env") && !own.contains(&"echo x >>dist/f"), "{own:?}");
            for part in
                ["names-protected", "calls-refused", "limits.open_files = 256", "files there can be executed"]
            {
                assert!(exported.err.contains(part), "{part}: {exported:?}");
            }
            place.outside("rm -f f");
        }
    }
}

#[test]
fn other_languages_are_written_with_what_they_lack() {
    for place in everybody() {
        place.outside(FILES);
        let file = place.home.join(".config/palisade/profiles/work.toml");
        std::fs::write(&file, profile("host") + "[network]\nallow = [\"example.com\", \"*\"]\n").unwrap();
        chown(&file, Some(place.uid), Some(place.gid)).unwrap();
        let export = |more: &[&str]| {
            job::finish(place.command(place.binary()).args(["profile", "export", "work"]).args(more))
        };
        let settings = export(&["--srt"]);
        let text: Value = serde_json::from_str(settings.ok()).unwrap();
        assert_eq!(text["network"]["allowedDomains"], serde_json::json!(["example.com"]));
        assert!(settings.err.contains("not exported: network.allow = \"*\": "), "{settings:?}");
        let seatbelt = export(&["--seatbelt"]);
        assert!(seatbelt.ok().starts_with("(version 1)\n"), "{seatbelt:?}");
        assert!(seatbelt.err.contains("not exported: limits.open_files = 256: "), "{seatbelt:?}");
        let output = place.home.join("settings.json");
        let written = export(&["--srt", "--output", output.to_str().unwrap()]);
        assert_eq!(written.ok(), "");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), settings.out);
        // Its own language needs no report.
        let own = export(&[]);
        assert!(own.ok().contains("schema = 1") && own.err.is_empty(), "{own:?}");
        export(&["--srt", "--bwrap"]).refused(2, &["cannot be used with"]);
        job::finish(place.command(place.binary()).args(["profile", "export", "none", "--srt"]))
            .refused(2, &["none"]);
    }
}
