// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filters for palisaded after its start (`data/guard.list`), and for its process that asks libmagic for a file's
//! kind (`data/kinds.list`).

use crate::rules::Errno;
use crate::{Action, Arch, Error, Filter, Rule, Rules, compile, list};

/// What happens to a call that isn't on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// `EPERM`. If palisaded died, every access would be allowed, so it continues.
    Refused,
    /// The process ends, so that a test notices the call.
    Kills,
}

/// The two filters. A call must pass both.
#[derive(Debug, Clone)]
pub struct Confined {
    /// Install this filter first. It answers `ENOSYS` to calls that every C library tries when it starts a thread.
    /// These needn't be logged.
    pub quiet: Filter,
    /// Filters all other calls. Its refusals should be logged.
    pub told: Filter,
}

impl Confined {
    /// Compiles the list.
    ///
    /// # Errors
    /// Errors of the list, which a test parses, and of [`compile()`].
    pub fn new(outside: Outside, arch: Arch) -> Result<Self, Error> {
        let (quiet, told) = rules(outside)?;
        Ok(Self { quiet: compile(&quiet, arch)?, told: compile(&told, arch)? })
    }
}

fn rules(outside: Outside) -> Result<(Rules, Rules), Error> {
    let refusal = match outside {
        Outside::Refused => Action::Errno(Errno::EPERM),
        Outside::Kills => Action::KillProcess,
    };
    let mut quiet = Rules::new(Action::Allow);
    quiet.foreign = Action::Allow;
    let mut told = Rules::new(refusal);
    // The quiet filter answers these numbers.
    told.unknown = Action::Allow;
    told.foreign = refusal;
    for (call, mut rule) in list::parse(include_str!("data/guard.list"))? {
        if rule.action == Action::Errno(Errno::ENOSYS) {
            told.add(call, Rule::always(Action::Allow, &rule.reason));
            quiet.add(call, rule);
            continue;
        }
        if rule.action == Action::Errno(Errno::EPERM) {
            rule.action = refusal;
        }
        told.add(call, rule);
    }
    Ok((quiet, told))
}

/// The filter for the process that asks libmagic. Any call that isn't on the list ends the process.
///
/// # Errors
/// Errors of the list, which a test parses, and of [`compile()`].
pub fn kinds(arch: Arch) -> Result<Filter, Error> {
    let mut rules = Rules::new(Action::KillProcess);
    rules.unknown = Action::KillProcess;
    rules.foreign = Action::KillProcess;
    for (call, rule) in list::parse(include_str!("data/kinds.list"))? {
        rules.add(call, rule);
    }
    compile(&rules, arch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Syscall;
    use crate::rules::Call;

    const REFUSED: Action = Action::Errno(Errno::EPERM);

    fn decide(arch: Arch, name: &str, arguments: [u64; 6]) -> Action {
        let call: Syscall = name.parse().unwrap();
        let call = Call { audit_arch: arch.audit(), number: call.number(arch).unwrap(), arguments };
        let (quiet, told) = rules(Outside::Refused).unwrap();
        match quiet.decide(arch, &call) {
            Action::Allow => told.decide(arch, &call),
            refused => refused,
        }
    }

    #[test]
    fn what_is_never_on_the_list() {
        let never = "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp init_module finit_module \
            delete_module kexec_load kexec_file_load reboot mount umount2 mount_setattr move_mount open_tree fsopen \
            fsconfig fsmount fspick pivot_root chroot swapon swapoff settimeofday clock_settime clock_adjtime adjtimex \
            keyctl add_key request_key userfaultfd io_uring_setup io_uring_enter io_uring_register personality unshare \
            setns acct quotactl syslog sethostname setdomainname execveat mknodat bind listen pkey_mprotect \
            setpriority sched_setaffinity nfsservctl perf_event_open remap_file_pages";
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for name in never.split_whitespace() {
                assert_eq!(decide(arch, name, [0; 6]), REFUSED, "{name}");
            }
        }
        for name in ["iopl", "ioperm", "modify_ldt", "mknod"] {
            assert_eq!(decide(Arch::X86_64, name, [0; 6]), REFUSED, "{name}");
        }
    }

    #[test]
    fn what_depends_on_arguments() {
        let of = |name, arguments| decide(Arch::X86_64, name, arguments);
        let clone3 = of("clone3", [0; 6]);
        assert_eq!(clone3, Action::Errno(Errno::ENOSYS));
        for bit in [17, 25, 26, 27, 28, 29, 30] {
            assert_eq!(of("clone", [1 << bit | 17, 0, 0, 0, 0, 0]), REFUSED, "bit {bit}");
        }
        for flags in [0x0120_0011, 0x003d_0f00, 17] {
            assert_eq!(of("clone", [flags, 0, 0, 0, 0, 0]), Action::Allow);
        }
        for family in 0..64 {
            let expected = if family == 1 { Action::Allow } else { REFUSED };
            assert_eq!(of("socket", [family, 2, 0, 0, 0, 0]), expected, "family {family}");
            assert_eq!(of("socketpair", [family, 2, 0, 0, 0, 0]), expected, "family {family}");
        }
        // TIOCSTI, TIOCLINUX, TIOCSETD: the daemon opens terminals of other users.
        for request in [0x5412, 0x541c, 0x5423] {
            assert_eq!(of("ioctl", [2, request, 0, 0, 0, 0]), REFUSED);
        }
        assert_eq!(of("ioctl", [2, 0x5421, 0, 0, 0, 0]), Action::Allow);
        // A strict filter, one with a listener, one for all threads; and a filter that removes calls from this
        // thread.
        for (operation, flags, expected) in
            [(0, 0, REFUSED), (1, 8, REFUSED), (1, 1, REFUSED), (2, 0, REFUSED), (1, 0, Action::Allow)]
        {
            assert_eq!(of("seccomp", [operation, flags, 0, 0, 0, 0]), expected, "{operation} {flags}");
        }
        // PR_SET_MM.
        assert_eq!(of("prctl", [35, 0, 0, 0, 0, 0]), REFUSED);
        for (name, rights, expected) in [
            ("mmap", 3, Action::Allow),
            ("mmap", 5, Action::Allow),
            ("mmap", 7, REFUSED),
            ("mprotect", 3, Action::Allow),
            ("mprotect", 5, REFUSED),
        ] {
            assert_eq!(of(name, [0, 4096, rights, 0x22, 0, 0]), expected, "{name} {rights}");
        }
    }

    /// The kernel runs a filter with argument tests at each call. A filter without them becomes a bit in the kernel's
    /// map.
    #[test]
    fn the_way_of_a_question_has_no_test() {
        let (_, told) = rules(Outside::Refused).unwrap();
        for name in "read write close fstat pread64 readlinkat openat openat2 ppoll fcntl futex statx fanotify_mark bpf"
            .split_whitespace()
        {
            let rules = told.of(name.parse().unwrap());
            assert!(rules.iter().all(|rule| rule.tests.is_empty() && rule.action == Action::Allow), "{name}");
        }
    }

    #[test]
    fn a_test_may_have_it_end() {
        let (_, told) = rules(Outside::Kills).unwrap();
        let call: Syscall = "ptrace".parse().unwrap();
        let number = call.number(Arch::X86_64).unwrap();
        let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments: [0; 6] };
        assert_eq!(told.decide(Arch::X86_64, &call), Action::KillProcess);
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert!(Confined::new(Outside::Kills, arch).unwrap().told.program.len() < 250);
        }
    }
}
