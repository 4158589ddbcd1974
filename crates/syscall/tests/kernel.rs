// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every rule of the deny list, executed on the running kernel.
//!
//! A filter holds for the thread that loads it, so each test loads its own in a thread of its own and probes
//! from forks of that thread.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use palisade_sys::seccomp::{Probe, install, no_new_privileges, probe_call};
use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Arch, Errno, Rule, Rules, Syscall, Test, compile};
use rustix::io::Errno as Failure;

/// Arguments that mean nothing to any call: a call that is made after all fails or does nothing.
const INVALID: u64 = u64::MAX;
/// Without CLONE_SIGHAND invalid for clone and unshare.
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
            // A namespace or family more than any that is listed, and what could pass for a listed one.
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

/// The answers as promised; and again with answers that the kernel itself never gives, which proves that
/// it was the rule that answered, whatever the privileges of the one who tests.
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
        // The kernel throws the upper half of these away, so they'd work if the filter compared it.
        for request in [0x5412, 0x541c, 0x5423] {
            assert_eq!(probe("ioctl", [INVALID, request | 1 << 32, 0, 0, 0, 0]), failed(Errno::EPERM));
        }
        assert_eq!(probe("socket", [40 | 1 << 32, 1, 0, 0, 0, 0]), failed(Errno::EAFNOSUPPORT));
        assert_eq!(probe("socket", [16 | 1 << 32, 3, 12 | 1 << 32, 0, 0, 0]), failed(Errno::EPROTONOSUPPORT));
        assert_eq!(probe("clone", [1 << 63 | CLONE_THREAD | 1 << 28, 0, 0, 0, 0, 0]), failed(Errno::EPERM));
        // The x32 interface, and numbers of the future.
        let x32 = 0x4000_0000;
        for number in [x32 + 39, x32 + 101, x32 + 521, 470, 1000] {
            assert_eq!(probe_call(number, [INVALID; 6]).unwrap(), failed(Errno::ENOSYS), "{number:#x}");
        }
    });
}

/// A positive control beside a denial by the policy, and one beside a permission.
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

/// A foreign architecture's entry can't be made here; that its action ends a process can be.
#[test]
fn killing_ends_the_process() {
    let mut rules = Rules::deny_list();
    rules.add("getppid".parse().unwrap(), Rule::always(Action::KillProcess, "a test"));
    under(&rules, || {
        assert_eq!(probe("getppid", [0; 6]), Probe::Ended(31));
    });
}

/// A program of more than two thousand instructions, with all its far jumps, in the kernel: each call has an
/// answer of its own when its last register holds a mark.
#[test]
fn every_call_in_a_long_program() {
    const MARK: u64 = 0x7061_6c69_7361_6465;
    let mut rules = Rules::new(Action::Allow);
    // The kernel lets its own probes' calls past filters (since 6.14): no program makes them.
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
