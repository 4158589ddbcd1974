// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the seccomp filter that the daemon installs on itself. All other tests run with a filter that ends the guard at a
//! call that isn't on the list.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Bed, Settings, has};
use palisade_protocol::guard::Request;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

const RULES: &str = "allow perm=any all : trust=1\ndeny_audit perm=any all : all\n";

fn bed(other_calls: &'static str) -> Bed {
    let mut bed = Bed::new();
    for name in ["a", "refused"] {
        bed.copy("/bin/true", bed.at(name));
    }
    let own = bed.at("a");
    bed.trust("10-own", &[&own]);
    bed.settings(&Settings::enforce());
    bed.rules(RULES);
    bed.options.extend(["--other-calls", other_calls]);
    bed
}

/// A field of each thread's status.
pub(crate) fn of_threads(pid: u32, key: &str) -> BTreeMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.unwrap().path().join("status")).ok()?;
            let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
            Some((field("Name:")?.trim().to_owned(), field(key)?.trim().to_owned()))
        })
        .collect()
}

#[test]
fn every_thread_has_the_filter_and_none_without() {
    if !has("fanotify") {
        return;
    }
    for (other_calls, mode, rights) in [("refuse", "2", "1"), ("allow", "0", "0")] {
        let mut bed = bed(other_calls);
        bed.start();
        bed.run("./a").ok();
        bed.run("./refused").refused();
        bed.run_as_user("./a").ok();
        bed.run_as_user("./refused").refused();
        let modes = of_threads(bed.pid(), "Seccomp:");
        for name in
            ["palisaded", "log", "answer-0", "watchdog", "trust", "changes", "control", "scope-control"]
        {
            assert!(modes.contains_key(name), "{name}: {modes:?}");
        }
        assert!(modes.values().all(|found| found == mode), "{other_calls}: {modes:?}");
        let rights_kept = of_threads(bed.pid(), "NoNewPrivs:");
        assert!(rights_kept.values().all(|found| found == rights), "{other_calls}: {rights_kept:?}");
        let mut standby = None;
        bed.wait("the standby is there", |bed| {
            standby = child(bed.pid(), "--stand-by")
                .filter(|child| of_threads(*child, "Name:").contains_key("standby"));
            standby.is_some()
        });
        let modes = of_threads(standby.unwrap(), "Seccomp:");
        assert!(!modes.is_empty() && modes.values().all(|found| found == mode), "{other_calls}: {modes:?}");
        assert!(!bed.log().contains("alarm: the kernel refuses the seccomp filter"), "{}", bed.log());
        bed.stop();
    }
}

/// The guard's child process that was started with this option.
pub(crate) fn child(pid: u32, option: &str) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of =
        |thread: std::io::Result<fs::DirEntry>| fs::read_to_string(thread.ok()?.path().join("children")).ok();
    let children: String = threads.filter_map(of).collect();
    let found = children.split_whitespace().find(|child| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == option)
    });
    found?.parse().ok()
}

/// The running daemon starts this process as another user.
#[test]
fn the_reader_of_packages_has_the_filter() {
    if !has("fanotify") {
        return;
    }
    let mut bed = bed("refuse");
    let apart = bed.base.join("apart");
    fs::create_dir(&apart).unwrap();
    for number in 0..8 {
        let file = apart.join(format!("large-{number}"));
        fs::write(&file, b"\x7fELF").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_len(64 << 20).unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let settings = Settings::enforce();
    bed.settings(&settings.trust(&format!("directories = [\"{}\"]", apart.display())));
    bed.launch();
    bed.wait("the guard begins", |bed| bed.try_ask(&Request::Status).is_some());
    let mut found = None;
    bed.wait("the reader is seen", |bed| {
        found = child(bed.pid(), "--load-trust").and_then(|child| {
            let users = of_threads(child, "Uid:");
            let reads = !users.is_empty() && users.values().all(|uid| uid.starts_with("65533"));
            reads.then(|| of_threads(child, "Seccomp:"))
        });
        found.as_ref().is_some_and(|modes| !modes.is_empty())
    });
    assert!(found.as_ref().unwrap().values().all(|mode| mode == "2"), "{found:?}");
    // The result of its import is in force.
    bed.wait("the import ends", |bed| bed.log().contains("files are trusted"));
    let said = bed.log();
    assert!(said.contains("9 files are trusted") && !said.contains("isn't up to date"), "{said}");
    bed.ask(&Request::Status);
}

fn proof(other_calls: &str) -> (u32, Vec<(String, String)>) {
    let program = env!("CARGO_BIN_EXE_palisaded");
    let child = Command::new(program)
        .args(["--prove-calls", "--other-calls", other_calls])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.split_once(": ").unwrap());
    (pid, lines.map(|(name, became)| (name.to_owned(), became.to_owned())).collect())
}

/// As root, the same calls have an effect, or fail because of their arguments.
#[test]
fn what_isnt_on_the_list_is_refused_and_without_the_filter_it_isnt() {
    let (_, refused) = proof("refuse");
    assert!(refused.len() > 20, "{refused:?}");
    for (name, became) in &refused {
        // ENOSYS: C libraries fall back to clone.
        let expected = if name == "clone3" { "errno 38" } else { "errno 1" };
        assert_eq!(became, expected, "{name}");
    }
    let (_, killed) = proof("kill");
    for (name, became) in &killed {
        let expected = if name == "clone3" { "errno 38" } else { "signal 31" };
        assert_eq!(became, expected, "{name}");
    }
    if !rustix::process::geteuid().is_root() || !has("fanotify") {
        return;
    }
    let (_, made) = proof("allow");
    assert_eq!(made.len(), refused.len());
    for (name, became) in &made {
        // ENOSYS: this kernel has no modules.
        let lacks = became == "errno 38"
            && ["init_module", "kexec_load", "userfaultfd", "swapon"].contains(&&name[..]);
        assert!(lacks || !["errno 1", "errno 38", "signal 31"].contains(&&became[..]), "{name}: {became}");
    }
}

/// If the kernel logs a process that the filter ended, it also logs a call that the filter refused.
#[test]
fn what_is_refused_is_logged() {
    let logged = |pid: u32, exactly: &str| {
        let text = Command::new("dmesg").output().map(|output| output.stdout).unwrap_or_default();
        // The children that make the calls have larger process numbers.
        let is_of = |line: &str| {
            let of = line.split("pid=").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
            of.is_some_and(|of| of > pid && of < pid + 500)
        };
        String::from_utf8_lossy(&text)
            .lines()
            .any(|line| line.contains("type=1326") && line.contains(exactly) && is_of(line))
    };
    // The kernel logs at most ten such lines in five seconds, and other tests use some of them.
    let comes = |other_calls: &str, exactly: &str| {
        (0..24).any(|_| {
            let (pid, _) = proof(other_calls);
            let came = logged(pid, exactly);
            if !came {
                std::thread::sleep(Duration::from_millis(500));
            }
            came
        })
    };
    assert!(comes("refuse", "sig=0") || !comes("kill", "sig=31"), "a refusal isn't logged, an end is");
}
