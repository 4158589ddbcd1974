// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ways to evade a scope, in pairs: each runs outside of a scope. Inside, it is refused by the security hook, or killed by
//! the daemon after it began, or it runs, and `docs/scopes.md` says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sha2::{Digest, Sha256};

use super::attempt::HURRY;
use super::{detail, done, inside, is_at, outside, status, told};
use crate::scenario::{Result, copy, ensure, report};
use palisade_event::{Event, Mechanism, Verdict};

/// All ways to execute a program.
const EXECS: [&str; 13] = [
    "plain:/work/program",
    "plain:/work/script",
    "descriptor:/work/program",
    "memory:/work/program",
    "loader:/work/program",
    "thread:/work/program",
    "headless:/work/program",
    "spawn:/work/program",
    "orphan:/work/program",
    "sibling:/work/program",
    "plain:/work/hard-link",
    "plain:/work/soft-link",
    "plain:/work/copy",
];

/// A file that is denied by path: the same path, other names of the file, and a copy.
const FILE: [(&str, &str); 12] = [
    ("plain:/work/denied", "refused"),
    ("plain:/work/hard-link", "refused"),
    ("plain:/work/soft-link", "refused"),
    ("descriptor:/work/denied", "refused"),
    ("thread:/work/denied", "refused"),
    ("headless:/work/denied", "refused"),
    ("orphan:/work/denied", "refused"),
    ("spawn:/work/denied", "refused"),
    ("sibling:/work/denied", "refused"),
    ("plain:/work/script-of-denied", "refused"),
    ("plain:/work/denied-script", "refused"),
    ("plain:/work/copy", "ran"),
];

fn made(what: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

fn script(path: &str, interpreter: &str) -> Result {
    let _ = fs::remove_file(path);
    fs::write(path, format!("#!{interpreter} act\n")).map_err(made(path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(made(path))
}

pub(super) fn prepare() -> Result {
    for name in ["denied", "copy", "elsewhere"] {
        copy(name)?;
    }
    // Content that no other file here has.
    let mut content = fs::read("/init").map_err(made("read"))?;
    content.extend(b"of its own");
    fs::create_dir_all("/work/other").map_err(made("make"))?;
    for path in ["/work/content", "/work/content-again"] {
        fs::write(path, &content).map_err(made(path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(made(path))?;
    }
    for (from, link) in [("/work/denied", "/work/hard-link"), ("/work/elsewhere", "/work/other/denied-name")]
    {
        let _ = fs::remove_file(link);
        fs::hard_link(from, link).map_err(made(link))?;
    }
    let _ = fs::remove_file("/work/soft-link");
    std::os::unix::fs::symlink("/work/denied", "/work/soft-link").map_err(made("link"))?;
    script("/work/script", "/work/program")?;
    script("/work/script-of-denied", "/work/denied")?;
    script("/work/denied-script", "/work/program")
}

pub(super) fn settings(profile: &str) -> Result<String> {
    let content = fs::read("/work/content").map_err(made("read"))?;
    let hash: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(
        "[enforcement]\nprofile = \"{profile}\"\n[deny]\nnames = [\"denied-name\"]\n\
         files = [\"/work/denied\", \"/work/denied-script\"]\nsha256 = [\"{hash}\"]\nmemory = true"
    ))
}

/// Outside of a scope, lingering programs end at once.
fn hurried(attempts: &[&str]) -> Result {
    fs::write(HURRY, "").map_err(made("write"))?;
    let result = outside(attempts);
    fs::remove_file(HURRY).map_err(made("remove"))?;
    result
}

fn in_profile(profile: &str, scenario: impl FnOnce() -> Result) -> Result {
    done(&["profile", profile])?;
    let result = scenario();
    done(&["profile", "audit"])?;
    result
}

pub(super) fn all() {
    report("scope-every-way-to-execute-is-refused", || {
        outside(&EXECS)?;
        let before = status()?;
        inside(&["--verdict", "refuse"], &EXECS.map(|attempt| (attempt, "refused")))?;
        let after = status()?;
        let right = after.refused - before.refused == EXECS.len() as u64 && after.killed == before.killed;
        ensure(right, format!("{before:?} {after:?}"))?;
        // Code that is mapped isn't executed.
        inside(&["--verdict", "refuse"], &[("map:/work/program", "ran")])
    });
    report("scope-every-way-to-execute-is-killed", || {
        let before = status()?;
        inside(&["--verdict", "kill"], &EXECS.map(|attempt| (attempt, "killed")))?;
        let after = status()?;
        ensure(after.killed - before.killed == EXECS.len() as u64, format!("{before:?} {after:?}"))
    });
    report("scope-strict-refuses-file-and-name", || {
        outside(&FILE.map(|(attempt, _)| attempt))?;
        outside(&["plain:/work/other/denied-name", "plain:/work/elsewhere", "memory:/work/program"])?;
        in_profile("strict", || {
            inside(&[], &FILE)?;
            let event = told("the file", |event| is_at(event, "/work/hard-link"))?;
            ensure(
                event.why.text == "the file is denied" && event.verdict == Verdict::Refused,
                format!("{event:?}"),
            )?;
            // A denied name applies to names, not to the file.
            inside(
                &[],
                &[
                    ("plain:/work/other/denied-name", "refused"),
                    ("plain:/work/elsewhere", "ran"),
                    ("memory:/work/program", "refused"),
                ],
            )?;
            told("the name", |event| {
                is_at(event, "/work/other/denied-name") && event.why.text == "the name is denied"
            })?;
            told("memory", |event| {
                detail(event).is_ok_and(|detail| detail.memory)
                    && event.why.text == "programs that are only in memory are denied"
            })?;
            // A program that isn't denied continues.
            inside(
                &[],
                &[
                    ("plain:/work/program", "ran"),
                    ("thread:/work/program", "ran"),
                    ("plain:/work/script", "ran"),
                ],
            )
        })
    });
    report("scope-strict-kills-content-then-refuses-it", || {
        hurried(&["linger:/work/content", "linger:/work/content-again"])?;
        in_profile("strict", || {
            inside(&[], &[("linger:/work/content", "killed"), ("linger:/work/content-again", "killed")])?;
            told("the content", |event| is_daemons(event) && event.why.text == "the content is denied")?;
            inside(&[], &[("plain:/work/content", "refused"), ("plain:/work/content-again", "refused")])
        })
    });
    report("scope-session-and-strict-kill-what-arguments-name", || {
        let attempts = ["loader-linger:/work/denied", "shell-linger:/work/denied-script"];
        hurried(&attempts)?;
        let before = status()?;
        in_profile("audit", || {
            inside(&[], &[("plain:/work/denied", "ran"), ("memory:/work/program", "ran")])?;
            for profile in ["session", "strict"] {
                done(&["profile", profile])?;
                inside(&[], &attempts.map(|attempt| (attempt, "killed")))?;
            }
            done(&["profile", "session"])?;
            inside(&[], &[("linger:/work/denied", "killed"), ("linger:/work/other/denied-name", "killed")])?;
            told("the argument", |event| is_daemons(event) && event.why.text.starts_with("an argument"))?;
            let status = status()?;
            let right = status.killed_later - before.killed_later == 6 && status.refused == before.refused;
            ensure(right, format!("{before:?} {status:?}"))
        })
    });
}

/// Whether the daemon ended the process after it learned of the exec.
fn is_daemons(event: &Event) -> bool {
    (event.verdict, event.enforced_by) == (Verdict::Killed, Mechanism::Daemon)
}
