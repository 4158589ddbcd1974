// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests every rule of the deny list on the running kernel.
//!
//! A filter applies to the thread that loads it. So each test loads its filter in a separate thread and makes the
//! calls in forks of that thread.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use palisade_sys::seccomp::{Probe, install, no_new_privileges, probe_call};
use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Arch, Errno, Rule, Rules, Syscall, Test, compile};
use rustix::io::Errno as Failure;
use std::os::unix::ffi::OsStrExt;

/// Arguments that are invalid for every call: a call that is made by mistake fails or does nothing.
const INVALID: u64 = u64::MAX;
/// Without CLONE_SIGHAND this is invalid for clone and unshare.
const CLONE_THREAD: u64 = 0x1_0000;

fn under<T: Send + 'static>(rules: &Rules, then: impl FnOnce() -> T + Send + 'static) -> T {
    let filter = compile(rules, Arch::NATIVE).unwrap();
    std::thread::spawn(move || {
        no_new_privileges().unwrap();
        install(&filter.program).unwrap();
        then()
    })
    .join()
    .unwrap()
}

fn number(name: &str) -> u32 {
    name.parse::<Syscall>().unwrap().number(Arch::NATIVE).unwrap()
}

fn probe(name: &str, arguments: [u64; 6]) -> Probe {
    probe_call(number(name), arguments).unwrap()
}

fn failed(errno: Errno) -> Probe {
    Probe::Failed(Failure::from_raw_os_error(errno.number().into()))
}

/// Argument lists for which all of a rule's tests hold.
fn matching(rule: &Rule) -> Vec<[u64; 6]> {
    let mut lists = vec![[INVALID; 6]];
    for test in &rule.tests {
        let values: Vec<u64> = match test.question() {
            Question::In(values) => values.clone(),
            // A value beyond all listed ones, and values that could be mistaken for a listed one.
            Question::NotIn(values) => {
                [40, 38, 17, 1 << 31].into_iter().filter(|v| !values.contains(v)).collect()
            }
            Question::Has(mask) => (0..64)
                .map(|bit| 1 << bit)
                .filter(|bit| mask & bit != 0)
                .map(|bit| bit | CLONE_THREAD)
                .collect(),
        };
        lists = lists
            .into_iter()
            .flat_map(|list| {
                values.iter().map(move |&value| {
                    let mut list = list;
                    list[usize::from(test.argument())] = value;
                    list
                })
            })
            .collect();
    }
    lists
}

/// Tests each answer as the list states it. Then tests with answers that the kernel itself never gives. That proves
/// that the rule answered, whatever privileges the tester has.
#[test]
fn every_rule_of_the_deny_list() {
    let mut executed = 0;
    for marked in [false, true] {
        let mut rules = Rules::new(Action::Allow);
        let mut expected = Vec::new();
        let list = Rules::deny_list();
        for (call, of_call) in list.calls().filter(|(call, _)| call.number(Arch::NATIVE).is_some()) {
            for rule in of_call {
                let mut rule = rule.clone();
                if marked {
                    let marker = u16::try_from(2000 + expected.len() % 2000).unwrap();
                    rule.action = Action::Errno(Errno::new(marker).unwrap());
                }
                for arguments in matching(&rule) {
                    expected.push((call, arguments, rule.action));
                }
                rules.add(call, rule);
            }
        }
        executed = expected.len();
        under(&rules, move || {
            for (call, arguments, action) in expected {
                let Action::Errno(errno) = action else { panic!("{call}: {action}") };
                assert_eq!(probe(call.name(), arguments), failed(errno), "{call} {arguments:x?}");
            }
        });
    }
    assert!(executed > 80, "{executed}");
}

#[test]
fn what_programs_need_goes_through() {
    under(&Rules::deny_list(), || {
        let allowed = [
            ("getpid", [0; 6]),
            ("mmap", [0, 4096, 0, 0x22, INVALID, 0]),
            ("unshare", [0x200, 0, 0, 0, 0, 0]),
            ("personality", [0xffff_ffff, 0, 0, 0, 0, 0]),
            ("socket", [1, 1, 0, 0, 0, 0]),
            ("socket", [2, 1, 0, 0, 0, 0]),
            ("socket", [16, 3, 0, 0, 0, 0]),
            ("clone", [17, 0, 0, 0, 0, 0]),
        ];
        for (name, arguments) in allowed {
            assert!(
                matches!(probe(name, arguments), Probe::Returned(_)),
                "{name}: {:?}",
                probe(name, arguments)
            );
        }
        assert_eq!(probe("read", [INVALID; 6]), Probe::Failed(Failure::BADF));
        assert_eq!(probe("openat", [INVALID, 0, 0, 0, 0, 0]), Probe::Failed(Failure::FAULT));
        assert_eq!(probe("ioctl", [INVALID, 0x5401, 0, 0, 0, 0]), Probe::Failed(Failure::BADF));
        assert_eq!(probe("clone", [CLONE_THREAD, 0, 0, 0, 0, 0]), Probe::Failed(Failure::INVAL));

        // Processes and threads, as the standard library makes them.
        assert!(std::process::Command::new("/bin/true").status().unwrap().success());
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
    });
}

#[test]
fn ways_around() {
    under(&Rules::deny_list(), || {
        // The kernel ignores the upper half of these arguments, so the calls would work if the filter compared it.
        for request in [0x5412, 0x541c, 0x5423] {
            assert_eq!(probe("ioctl", [INVALID, request | 1 << 32, 0, 0, 0, 0]), failed(Errno::EPERM));
        }
        assert_eq!(probe("socket", [40 | 1 << 32, 1, 0, 0, 0, 0]), failed(Errno::EAFNOSUPPORT));
        assert_eq!(probe("socket", [16 | 1 << 32, 3, 12 | 1 << 32, 0, 0, 0]), failed(Errno::EPROTONOSUPPORT));
        assert_eq!(probe("clone", [1 << 63 | CLONE_THREAD | 1 << 28, 0, 0, 0, 0, 0]), failed(Errno::EPERM));
        // The x32 interface, and numbers of future calls.
        let x32 = 0x4000_0000;
        for number in [x32 + 39, x32 + 101, x32 + 521, 470, 1000] {
            assert_eq!(probe_call(number, [INVALID; 6]).unwrap(), failed(Errno::ENOSYS), "{number:#x}");
        }
    });
}

/// A positive control for a denial by the policy and for a permission.
#[test]
fn names_in_a_policy() {
    let pair = [1, 1, 0, INVALID, 0, 0];
    assert_eq!(probe("socketpair", pair), Probe::Failed(Failure::FAULT));
    under(&Rules::deny_list().with(&[], &["socketpair"]).unwrap(), move || {
        assert_eq!(probe("socketpair", pair), failed(Errno::EPERM));
    });
    under(&Rules::deny_list().with(&["ptrace"], &[]).unwrap(), || {
        // PTRACE_TRACEME
        assert_eq!(probe("ptrace", [0; 6]), Probe::Returned(0));
    });
}

/// The test can't call through a foreign architecture's entry, but it can test that the action ends a process.
#[test]
fn killing_ends_the_process() {
    let mut rules = Rules::deny_list();
    rules.add("getppid".parse().unwrap(), Rule::always(Action::KillProcess, "a test"));
    under(&rules, || {
        assert_eq!(probe("getppid", [0; 6]), Probe::Ended(31));
    });
}

/// Loads a program of more than two thousand instructions, with all its far jumps, into the kernel. Each call has its
/// own answer if its last register holds a mark.
#[test]
fn every_call_in_a_long_program() {
    const MARK: u64 = 0x7061_6c69_7361_6465;
    let mut rules = Rules::new(Action::Allow);
    // The kernel lets the calls of its own probes through filters (since 6.14). Programs never make these calls.
    let calls: Vec<Syscall> = Syscall::all()
        .filter(|call| call.number(Arch::NATIVE).is_some())
        .filter(|call| !["uprobe", "uretprobe"].contains(&call.name()))
        .collect();
    let answer = |index: usize| Errno::new(u16::try_from(2000 + index).unwrap()).unwrap();
    for (index, &call) in calls.iter().enumerate() {
        let mut rule = Rule::always(Action::Errno(answer(index)), "a test");
        rule.tests = vec![Test::new(5, Width::Full, Question::In(vec![MARK])).unwrap()];
        rules.add(call, rule);
    }
    assert!(compile(&rules, Arch::NATIVE).unwrap().program.len() > 2000);
    under(&rules, move || {
        for (index, call) in calls.iter().enumerate() {
            assert_eq!(probe(call.name(), [0, 0, 0, 0, 0, MARK]), failed(answer(index)), "{call}");
        }
    });
}

/// A call that gives a file a mode: its arguments without the mode, the index of the mode, and the file.
struct Moded {
    name: &'static str,
    arguments: [u64; 6],
    mode: usize,
    path: &'static std::ffi::CStr,
    /// Whether the made or existing file is a directory.
    is_directory: bool,
}

/// All such calls, on files in `directory` that exist (`f` and `d`) or don't (`n`).
fn moded(directory: &std::path::Path) -> Vec<Moded> {
    const CWD: u64 = (-100_i64).cast_unsigned();
    const MAKE: u64 = 0o101;
    const TMPFILE: u64 = 0o20_200_002;
    let path = |name: &str| -> &'static std::ffi::CStr {
        let path = directory.join(name).into_os_string().into_encoded_bytes();
        Box::leak(std::ffi::CString::new(path).unwrap().into_boxed_c_str())
    };
    let (file, folder, new) = (path("f"), path("d"), path("n"));
    let call = |name, path: &'static std::ffi::CStr, mode, arguments: [u64; 6], is_directory| Moded {
        name,
        arguments,
        mode,
        path,
        is_directory,
    };
    let at = |path: &std::ffi::CStr| path.as_ptr().expose_provenance() as u64;
    vec![
        call("open", new, 2, [at(new), MAKE, 0, 0, 0, 0], false),
        call("openat", new, 3, [CWD, at(new), MAKE, 0, 0, 0], false),
        call("openat", folder, 3, [CWD, at(folder), TMPFILE, 0, 0, 0], false),
        call("creat", new, 1, [at(new), 0, 0, 0, 0, 0], false),
        call("mknod", new, 1, [at(new), 0, 0, 0, 0, 0], false),
        call("mknodat", new, 2, [CWD, at(new), 0, 0, 0, 0], false),
        call("mkdir", new, 1, [at(new), 0, 0, 0, 0, 0], true),
        call("mkdirat", new, 2, [CWD, at(new), 0, 0, 0, 0], true),
        call("chmod", file, 1, [at(file), 0, 0, 0, 0, 0], false),
        call("chmod", folder, 1, [at(folder), 0, 0, 0, 0, 0], true),
        call("fchmodat", file, 2, [CWD, at(file), 0, 0, 0, 0], false),
        call("fchmodat", folder, 2, [CWD, at(folder), 0, 0, 0, 0], true),
        call("fchmodat2", file, 2, [CWD, at(file), 0, 0, 0, 0], false),
        call("fchmodat2", folder, 2, [CWD, at(folder), 0, 0, 0, 0], true),
    ]
    .into_iter()
    .filter(|call| call.name.parse::<Syscall>().unwrap().number(Arch::NATIVE).is_some())
    .collect()
}

impl Moded {
    /// The result of the call with this mode, and the dangerous bits that the file has afterwards.
    fn make(&self, mode: u64) -> (Probe, u32) {
        use std::os::unix::fs::PermissionsExt;
        let mut arguments = self.arguments;
        arguments[self.mode] |= mode;
        let result = probe(self.name, arguments);
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(self.path.to_bytes()));
        let bits = path.symlink_metadata().map_or(0, |found| found.permissions().mode() & 0o6000);
        if path.ends_with("n") {
            let _absent = std::fs::remove_file(path).or_else(|_directory| std::fs::remove_dir(path));
        } else {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        (result, bits)
    }
}

/// Without the filter the calls set the bits (except when making a directory: the kernel drops them). With the filter
/// they fail and leave nothing behind, and they succeed with any other mode.
#[test]
fn modes_that_give_away_rights() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("f"), "").unwrap();
    std::fs::create_dir(place.path().join("d")).unwrap();
    let calls = moded(place.path());
    let makes_directory = |call: &Moded| call.name.starts_with("mkdir");
    // Not every file system supports files without a name.
    let made = |call: &Moded, result| match result {
        Probe::Returned(_) => true,
        Probe::Failed(Failure::OPNOTSUPP) => call.arguments[2] & 0o20_000_000 != 0,
        _ => false,
    };
    let mut moded = 0;
    for call in &calls {
        for bit in [0o4000, 0o2000] {
            let (result, bits) = call.make(bit | 0o755);
            assert!(made(call, result), "{} {bit:o}: {result:?}", call.name);
            moded += u32::from(u64::from(bits) == bit);
        }
    }
    // All calls except those that make a directory or a file without a name.
    let expected =
        calls.iter().filter(|call| !makes_directory(call) && call.arguments[2] & 0o20_000_000 == 0).count();
    assert_eq!(moded, u32::try_from(2 * expected).unwrap());
    for (rules, judged) in [
        (Rules::deny_list().keeping_modes(false), false),
        // Calls that a broker would judge aren't passed on here: the test has no listener.
        (Rules::deny_list().keeping_modes(true), true),
    ] {
        let calls = self::moded(place.path());
        under(&rules, move || {
            for call in calls {
                let name = call.name;
                let refused = (failed(Errno::EPERM), 0);
                assert_eq!(call.make(0o4755), refused, "{name}");
                assert_eq!(call.make(0o6755), refused, "{name}");
                // The kernel ignores the upper part.
                assert_eq!(call.make(0o4755 | 1 << 32), refused, "{name}");
                let is_judged = judged && name.contains("chmod");
                if !makes_directory(&call) && !is_judged {
                    assert_eq!(call.make(0o2755), refused, "{name} {}", call.is_directory);
                }
                let (plain, bits) = call.make(0o1755);
                assert!(made(&call, plain), "{name}: {plain:?}");
                assert_eq!(bits, 0, "{name}");
            }
            assert_eq!(probe("fchmod", [INVALID, 0o4755, 0, 0, 0, 0]), failed(Errno::EPERM));
            assert_eq!(probe("fchmod", [INVALID, 0o755, 0, 0, 0, 0]), Probe::Failed(Failure::BADF));
            // An open of an existing file: the register of the mode can hold anything.
            let root = c"/".as_ptr().expose_provenance() as u64;
            assert!(matches!(probe("openat", [INVALID, root, 0, INVALID, 0, 0]), Probe::Returned(_)));
            let expected = if judged { Probe::Failed(Failure::INVAL) } else { failed(Errno::ENOSYS) };
            assert_eq!(probe("openat2", [INVALID, root, root, 0, 0, 0]), expected);
        });
    }
}
