// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the protection of names under each setting of `kernel.yama.ptrace_scope`, which says whose memory a process may read.
//!
//! The setting only grows: the kernel takes none back after 3.

use std::fs;

use crate::apparmor::user;
use crate::archive::PALISADE;
use crate::scenario::{Result, ensure, report};
use crate::scope::Ended;

const SETTING: &str = "/proc/sys/kernel/yama/ptrace_scope";
const WORK: &str = "/home/user/work";
const MADE: &str = "/home/user/work/.vscode";
const CONFIG: &str = "/home/user/work/.git/config";

pub(crate) fn all() {
    report("yama-is-there", || {
        done(&user(None, &["/init", "act", "make", MADE])?)?;
        fs::remove_file(MADE).map_err(|error| format!("{MADE}: {error}"))?;
        for part in ["/home/user/work/.git", CONFIG] {
            let made = if part == CONFIG { fs::write(part, "[core]\n") } else { fs::create_dir(part) };
            made.and_then(|()| std::os::unix::fs::chown(part, Some(1000), Some(1000)))
                .map_err(|error| format!("{part}: {error}"))?;
        }
        set("0")
    });
    for scope in ["0", "1", "2"] {
        report(&format!("yama-{scope}-a-broker-judges-names"), || {
            set(scope)?;
            refused(&run(&[], MADE)?, MADE)?;
            done(&run(&[], "free")?)
        });
    }
    report("yama-2-without-namespaces-names-are-not-protected", || {
        let required = run(&["--namespaces", "none", "--require", "names-protected"], MADE)?;
        let told = required.err.contains("kernel.yama.ptrace_scope is 2");
        ensure(required.code == Some(125) && told, format!("{required:?}"))
    });
    report("yama-3-mounts-protect-what-exists", || {
        set("3")?;
        let made = run(&[], MADE)?;
        done(&made)?;
        ensure(made.err.contains("kernel.yama.ptrace_scope is 3"), format!("{made:?}"))?;
        ensure(fs::metadata(MADE).is_ok(), "not made")?;
        let written = run(&[], CONFIG)?;
        let kept = fs::read_to_string(CONFIG).map_err(|error| error.to_string())?;
        ensure(written.code == Some(1) && kept == "[core]\n", format!("{written:?} {kept:?}"))?;
        let required = run(&["--require", "names-protected"], "free")?;
        ensure(required.code == Some(125), format!("{required:?}"))
    });
}

/// The same as an ordinary user of Ubuntu has it, in a container as well: without namespaces.
pub(crate) fn ancestors() {
    report("yama-1-without-namespaces-a-broker-judges-names", || {
        set("1")?;
        let options = ["--namespaces", "none", "--require", "names-protected"];
        refused(&run(&options, MADE)?, MADE)?;
        done(&run(&options, "free")?)?;
        // A grandchild of the broker's.
        let words = ["--ro", "/init", "--", "/init", "act", "child", "/init", "act", "make", MADE];
        let words = [&[PALISADE, "run"], &options[..], &words].concat();
        let below = user(None, &words)?;
        ensure(fs::metadata(MADE).is_err(), format!("{below:?}"))
    });
}

fn set(scope: &str) -> Result {
    fs::write(SETTING, scope).map_err(|error| format!("{SETTING}: {error}"))
}

/// A command that makes or empties a file in the working directory.
fn run(options: &[&str], path: &str) -> Result<Ended> {
    let words =
        [&[PALISADE, "run", "--ro", "/init"], options, &["--", "/init", "act", "make", path]].concat();
    user(None, &words)
}

fn refused(ended: &Ended, path: &str) -> Result {
    let name = path.strip_prefix(WORK).unwrap_or(path).trim_start_matches('/');
    let told = ended.err.contains(&format!("{name} is protected"));
    ensure(ended.code == Some(1) && told && fs::metadata(path).is_err(), format!("{ended:?}"))
}

fn done(ended: &Ended) -> Result {
    ensure(ended.code == Some(0), format!("{ended:?}"))
}
